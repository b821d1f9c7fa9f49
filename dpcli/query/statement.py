"""Statements ``SELECT … FROM … WHERE … GROUP BY … ORDER BY … LIMIT …`` about a cube; parsed with sqlglot.

Only totals can be selected, and the attributes that they are grouped by: a release holds no rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from sqlglot import exp

from dpcli.data.domain import Domain
from dpcli.errors import QueryError, did_you_mean, listed
from dpcli.query.parse import EVERYTHING, read_condition
from dpcli.query.product import Query
from dpcli.query.refusals import checked_select, refused_column, single_statement
from dpcli.query.sql import Node, about, attribute_name, check_text, guarded, unnested, written

Function = Literal["count", "sum", "avg"]


@dataclass(frozen=True)
class Aggregate:
    """A total: COUNT(*), COUNT(a) of the rows where a is not missing, SUM(a) or AVG(a)."""

    text: str
    function: Function
    attribute: str | None


@dataclass(frozen=True)
class Ordering:
    """One key of ORDER BY: a grouping attribute by its name, or an aggregate by its place."""

    key: str | int
    descending: bool


@dataclass(frozen=True)
class Statement:
    """What a SELECT asks for; ``order`` has missing values after all others, before them if descending."""

    text: str
    aggregates: tuple[Aggregate, ...]
    where: Query
    by: tuple[str, ...]
    order: tuple[Ordering, ...]
    limit: int | None
    offset: int


def parse_statement(
    text: str, domain: Domain, tables: Collection[str], *, interpolate: bool = False
) -> Statement:
    """Read a SELECT about the release, which FROM may call by any of the names ``tables``."""
    check_text("statement", text)
    return guarded("statement", lambda: _Statement(text, domain, tables).read(interpolate))


class _Statement:
    """The parts of one parsed SELECT."""

    def __init__(self, text: str, domain: Domain, tables: Collection[str]) -> None:
        self.text = text
        self.domain = domain
        select = single_statement(text)
        self.parts = checked_select(select)
        if "from" in self.parts:
            self._table(select, tables)
        self.columns = [self._column(node) for node in self.parts.get("expressions", [])]
        self.aggregates = [column for column in self.columns if isinstance(column, Aggregate)]

    def read(self, interpolate: bool) -> Statement:
        """Return what the statement asks for."""
        by = self._grouping()
        self._check_columns(by)
        return Statement(
            self.text,
            tuple(self.aggregates),
            self._where(interpolate),
            by,
            self._ordering(by),
            self._number("limit"),
            self._number("offset") or 0,
        )

    def _table(self, select: Node, tables: Collection[str]) -> None:
        """Check the table's name, and let columns do without it."""
        table = self.parts["from"].this
        name = ".".join(part.name for part in table.parts)
        if name.casefold() not in {known.casefold() for known in tables}:
            raise QueryError(
                f"There is no table '{name}'.{did_you_mean(name, tables)} There is: {listed(tables)}."
            )
        prefix = (table.alias or name).casefold()
        for column in select.find_all(exp.Column):
            qualifier = ".".join(part.name for part in column.parts[:-1])
            if qualifier.casefold() == prefix and f"{qualifier}.{column.name}" not in self.domain.names:
                for key in ("table", "db", "catalog"):
                    column.set(key, None)

    def _where(self, interpolate: bool) -> Query:
        if "where" not in self.parts:
            return Query(EVERYTHING, ({},))
        node = self.parts["where"].this
        return read_condition(node, written(node), self.domain, interpolate=interpolate)

    # --- SELECT -----------------------------------------------------------------------------------
    def _column(self, node: Node) -> Aggregate | str:
        """Return one selected column: a total, or the name of an attribute."""
        alias = node.alias if isinstance(node, exp.Alias) else ""
        inner = unnested(node.this if isinstance(node, exp.Alias) else node)
        if isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star):
            name = attribute_name(inner, self.domain)
            if alias not in ("", name):
                raise QueryError(f"Attribute '{name}' can't be renamed to '{alias}'; AS is for totals only.")
            return name
        return self._aggregate(inner, alias)

    def _aggregate(self, node: Node, alias: str = "") -> Aggregate:
        """Return a total; anything else is refused."""
        function = next((name for name in get_args(Function) if node.key == name), None)
        if function is None or node.args.get("expressions"):
            raise refused_column(node)
        inner = unnested(node.this)
        if function == "count" and isinstance(inner, exp.Star) and not any(inner.args.values()):
            return Aggregate(alias or "COUNT(*)", "count", None)
        if not isinstance(inner, exp.Column) or isinstance(inner.this, exp.Star):
            raise refused_column(node)
        name = attribute_name(inner, self.domain)
        if function != "count":
            with about(name):
                self.domain[name].numbers()
        return Aggregate(alias or f"{function.upper()}({exp.to_identifier(name).sql()})", function, name)

    def _check_columns(self, by: tuple[str, ...]) -> None:
        if not self.aggregates:
            raise QueryError(
                "The statement selects no total, and a release holds no rows; select COUNT(*), COUNT(…),"
                " SUM(…) or AVG(…)."
            )
        for column in self.columns:
            if isinstance(column, str) and column not in by:
                raise QueryError(f"Attribute '{column}' is selected but not grouped by; add it to GROUP BY.")
        names = [*by, *(aggregate.text for aggregate in self.aggregates)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(f"Two columns are called '{twice}'; give each total a name of its own with AS.")

    # --- GROUP BY, ORDER BY, LIMIT ----------------------------------------------------------------
    def _grouping(self) -> tuple[str, ...]:
        """Return the names that GROUP BY lists, by name or as places in SELECT; each once."""
        found: list[str] = []
        for node in map(unnested, self.parts["group"].expressions if "group" in self.parts else ()):
            column: Aggregate | str
            if isinstance(node, exp.Literal):
                column = self._at_place(node, "GROUP BY")
            elif isinstance(node, exp.Column):
                column = attribute_name(node, self.domain)
            else:
                raise QueryError(
                    f"Cannot group by {written(node)}: GROUP BY takes the names of attributes, or their"
                    " places in SELECT."
                )
            if isinstance(column, Aggregate):
                raise QueryError(f"Cannot group by {column.text}, which is a total; group by attributes.")
            found.append(column)
        return tuple(dict.fromkeys(found))

    def _ordering(self, by: tuple[str, ...]) -> tuple[Ordering, ...]:
        found = []
        for node in self.parts["order"].expressions if "order" in self.parts else ():
            descending = bool(node.args.get("desc"))
            if bool(node.args.get("nulls_first")) is not descending:
                raise QueryError(
                    "Cannot answer NULLS FIRST or NULLS LAST: missing values come last, and first with DESC."
                )
            found.append(Ordering(self._key(unnested(node.this), by), descending))
        return tuple(found)

    def _key(self, node: Node, by: tuple[str, ...]) -> str | int:
        """Return what ORDER BY names: an attribute, a total's name, a place in SELECT, or a total."""
        column: Aggregate | str
        if isinstance(node, exp.Literal):
            column = self._at_place(node, "ORDER BY")
            return self.aggregates.index(column) if isinstance(column, Aggregate) else column
        if isinstance(node, exp.Column):
            names = [aggregate.text for aggregate in self.aggregates]
            if node.name in names and not node.table:
                return names.index(node.name)
            choices = [*by, *names]
            name = ".".join(part.name for part in node.parts)
            if name not in by:
                raise QueryError(
                    f"Cannot order by '{name}', which is neither grouped by nor a total's name."
                    f"{did_you_mean(name, choices)} There is: {listed(choices)}."
                )
            return name
        wanted = self._aggregate(node)
        for place, aggregate in enumerate(self.aggregates):
            if (aggregate.function, aggregate.attribute) == (wanted.function, wanted.attribute):
                return place
        raise QueryError(f"Cannot order by {wanted.text}, which is not selected; add it to SELECT.")

    def _at_place(self, node: Node, clause: str) -> Aggregate | str:
        """Return the selected column that a whole number stands for, counted from 1."""
        place = _whole(node)
        if place is None or not 1 <= place <= len(self.columns):
            raise QueryError(
                f"Cannot answer {clause} {written(node)}: a number stands for a column of SELECT, from 1 to"
                f" {len(self.columns)}."
            )
        return self.columns[place - 1]

    def _number(self, clause: str) -> int | None:
        """Return the number of LIMIT or OFFSET, where there is one."""
        if clause not in self.parts:
            return None
        node = self.parts[clause].expression
        number = _whole(node)
        if number is None:
            raise QueryError(f"{clause.upper()} takes a whole number such as 10, not {written(node)}.")
        return number


def _whole(node: Node) -> int | None:
    """Return the whole number that a literal writes, or ``None``."""
    text = str(node.this)
    plain = isinstance(node, exp.Literal) and not node.is_string and text.isascii() and text.isdecimal()
    return int(text) if plain and len(text) <= 18 else None
