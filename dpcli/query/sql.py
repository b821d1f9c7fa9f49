"""SQL as sqlglot reads it: one condition or one statement, and a plain sentence for what is neither."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlglot
from sqlglot import exp

from dpcli.data.domain import Domain
from dpcli.errors import QueryError, did_you_mean, listed

Node = Any  # sqlglot's expression classes; their common base has had several names
Result = TypeVar("Result")
DEPTH = 12_000  # calls within calls, about 25 for each pair of parentheses
STACK = 1 << 27  # bytes, of which only those used take memory
_ROOM = threading.Lock()


class _Plain(sqlglot.Dialect):
    """Plain SQL where missing values come after all others, as their category does."""

    NULL_ORDERING = "nulls_are_large"


def written(node: Node) -> str:
    """Return a parsed part as SQL, in sqlglot's spelling and without comments."""
    return str(node.sql(dialect=_Plain, comments=False))


def unnested(node: Node) -> Node:
    """Return a parsed part without the parentheses around it."""
    return node.unnest() if isinstance(node, exp.Paren) else node


def guarded(what: str, work: Callable[[], Result]) -> Result:
    """Do work on a parsed text; if its nesting is too deep even with a lot of room, that is its fault."""
    try:
        return work()
    except RecursionError:
        pass
    try:
        return _with_room(work)
    except RecursionError:
        raise QueryError(f"The {what} is nested too deeply; ask it as several questions.") from None


def _with_room(work: Callable[[], Result]) -> Result:
    """Do work in a thread of its own with a large stack, so that it may go deeper than usual."""
    with _ROOM:
        depth, stack = sys.getrecursionlimit(), threading.stack_size(STACK)
        sys.setrecursionlimit(max(depth, DEPTH))
        try:
            with ThreadPoolExecutor(1) as alone:
                try:
                    done = alone.submit(work)
                except RuntimeError:  # there is no memory for a thread with that much room
                    raise RecursionError from None
                return done.result()
        finally:
            sys.setrecursionlimit(depth)
            threading.stack_size(stack)


def check_text(what: str, text: str) -> None:
    """Refuse a text with half characters, which no file can hold; bytes that are no UTF-8 come as such."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QueryError(
            f"The {what} holds something at character {error.start + 1} that is not UTF-8 text;"
            " write it as UTF-8."
        ) from None


def parse_statements(text: str) -> list[Node] | None:
    """Return the statements of a text, or ``None`` if it is no SQL."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        found: list[Node] = list(sqlglot.parse(text, dialect=_Plain))
    except sqlglot.errors.SqlglotError:
        return None
    return [node for node in found if node is not None and not isinstance(node, exp.Semicolon)]


def parsed_condition(text: str) -> Node:
    """Parse a condition; say what the text is if it is another kind of SQL."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        node: Node = sqlglot.condition(text, dialect=_Plain)
        if isinstance(node, exp.Condition | exp.Star):  # several in a row come as another kind of node
            return node
    except sqlglot.errors.SqlglotError:
        pass
    statements = parse_statements(text) or []
    if len(statements) > 1:
        raise QueryError("Give one condition at a time; ';' and what comes after it can't be read.")
    for node in statements:
        if isinstance(node, exp.Query):
            raise QueryError("A whole SELECT is not a condition; give it with --sql.")
        if not isinstance(node, exp.Condition | exp.Alias):
            raise not_a_question(node)
    raise QueryError(
        f"Cannot read the condition {text!r}. Write it as in a SQL WHERE clause: age between 30 and 39"
        " and sex = 'F'. Put names with blanks in double quotes, text in single ones."
    )


def not_a_question(node: Node) -> QueryError:
    """Return the error for a statement that would change something, or otherwise asks for no answer."""
    return QueryError(
        f"Cannot do {written(node).split()[0].upper()}: a release is only read, never changed."
        " Ask a condition, or a SELECT with --sql."
    )


def check_condition(node: Node) -> None:
    """Refuse subqueries and functions anywhere in a condition; ``node('…')`` and dates are no functions."""
    if node.find(exp.Query) is not None:
        raise QueryError(
            "A condition can't hold a SELECT of its own (a subquery); ask that first, and write its answer"
            " into the condition."
        )
    for part in node.walk():
        if isinstance(part, exp.AggFunc | exp.Window):
            raise QueryError(
                f"{written(part)} is a total over rows, and a condition chooses rows one by one;"
                " compare attributes with values."
            )
        if isinstance(part, exp.Func) and not isinstance(part, exp.Connector):
            named = isinstance(part, exp.Anonymous)
            name = str(part.this if named else part.sql_name()).upper()
            if not (named and name == "NODE") and not is_date(part):
                raise QueryError(
                    f"Conditions have no functions, such as {name} in {written(part)};"
                    " compare an attribute itself with a value."
                )


def is_date(node: Node) -> bool:
    """Tell whether a parsed part is a day as in ``date '2026-01-31'``."""
    return (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.to.this == exp.DataType.Type.DATE
    )


def attribute_name(node: Node, domain: Domain) -> str:
    """Return the name of the attribute that stands somewhere."""
    node = unnested(node)
    if not isinstance(node, exp.Column):
        raise QueryError(f"{written(node)!r} stands where an attribute should: {listed(domain.names)}.")
    name = ".".join(part.name for part in node.parts)
    if name not in domain.names:
        raise QueryError(
            f"The release has no attribute '{name}'.{did_you_mean(name, domain.names)}"
            f" It has: {listed(domain.names)}."
        )
    return name


def literal(node: Node, domain: Domain) -> str:
    """Return a literal's text as it was written."""
    node = unnested(node)
    match node:
        case exp.Literal():
            return str(node.this)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return f"-{node.this.this}"
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Cast() if is_date(node):
            return str(node.this.this)
        case exp.Column() if node.name in domain.names:
            raise QueryError(f"it can be compared with values, not with another attribute ('{node.name}')")
        case exp.Column():
            quoted = node.name.replace("'", "''")
            raise QueryError(f"write text in single quotes, as in '{quoted}'")
        case exp.Null():
            raise QueryError("use 'is null' for missing values")
    raise QueryError(f"{written(node)!r} is not a plain value; put dates and text in single quotes")


@contextmanager
def about(name: str) -> Iterator[None]:
    """Let an attribute's own complaint say which attribute it is about."""
    try:
        yield
    except QueryError as error:
        raise QueryError(f"Attribute '{name}': {error}.".replace("..", ".").replace("?.", "?")) from None
