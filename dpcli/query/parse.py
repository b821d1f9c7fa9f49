"""Conditions as in a SQL WHERE clause, over the attributes' real labels; parsed with sqlglot.

A missing value makes a comparison neither true nor false, as in SQL: it is counted only by ``is null`` and
where its attribute is not mentioned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sqlglot
from sqlglot import exp

from dpcli.data.attributes import OTHER, Attribute, Boolean, Nominal, Span
from dpcli.data.domain import Domain
from dpcli.errors import QueryError, did_you_mean, listed
from dpcli.query.product import Mask, Query, Term, complement, conjunction, disjunction

EVERYTHING = "true"
Node = Any  # sqlglot's expression classes; their common base has had several names
_FLIPPED: dict[Node, Node] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


def parse_condition(text: str, domain: Domain) -> Query:
    """Read a condition such as ``age between 30 and 39 and sex = 'F'``; ``true`` counts every cell."""
    if not text.strip():
        raise QueryError("The condition is empty; write one such as \"age >= 65\", or 'true' for everything.")
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        parsed = sqlglot.condition(text)
    except RecursionError:
        raise QueryError("The condition is nested too deeply; ask it as several questions.") from None
    except sqlglot.errors.SqlglotError:
        raise QueryError(
            f"Cannot read the condition {text!r}. Write it as in a SQL WHERE clause: age between 30 and 39"
            " and sex = 'F'. Put names with blanks in double quotes, text in single ones."
        ) from None
    reader = _Reader(domain)
    try:
        terms = reader.read(parsed, negated=False)
    except RecursionError:
        raise QueryError("The condition is nested too deeply; ask it as several questions.") from None
    return Query(text, tuple(terms), tuple(dict.fromkeys(reader.warnings)))


class _Reader:
    """Turns a parsed condition into disjoint terms, pushing ``not`` down to the comparisons."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.warnings: list[str] = []

    def read(self, node: Node, *, negated: bool) -> list[Term]:
        """Return the terms of the cells for which ``node`` is true (false if negated)."""
        match node:
            case exp.Paren():
                return self.read(node.this, negated=negated)
            case exp.Not():
                return self.read(node.this, negated=not negated)
            case exp.And() | exp.Or():
                join = conjunction if isinstance(node, exp.And) is not negated else disjunction
                return join(self.read(node.left, negated=negated), self.read(node.right, negated=negated))
            case exp.Boolean():
                return [{}] if bool(node.this) is not negated else []
            case exp.Column():
                name, attribute = self._attribute(node)
                if not isinstance(attribute, Boolean):
                    raise QueryError(f"'{name}' by itself is not a condition; compare it with something.")
                return self._atom(node, name, {attribute.find("true")}, negated)
            case exp.Is():
                return self._null(node, negated)
            case exp.In():
                return self._membership(node, negated)
            case exp.Between():
                return self._between(node, negated)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(node, negated)
        raise QueryError(
            f"Cannot answer {node.sql()!r}: conditions are made of =, <>, <, <=, >, >=, between, in (…),"
            " is null, and, or, not."
        )

    def _comparison(self, node: Node, negated: bool) -> list[Term]:
        column, value, operator = node.this, node.expression, type(node)
        if not isinstance(column, exp.Column) and isinstance(value, exp.Column):
            column, value, operator = value, column, _FLIPPED[operator]
        name, attribute = self._attribute(column)
        with _about(name):
            if operator in (exp.EQ, exp.NEQ):
                spans = {self._find(attribute, value)}
                return self._atom(node, name, spans, negated is not (operator is exp.NEQ))
            below = attribute.below(self._literal(value), inclusive=operator in (exp.LTE, exp.GT))
        span = (0, below) if operator in (exp.LT, exp.LTE) else (below, attribute.regular)
        return self._atom(node, name, {span}, negated, ranged=True)

    def _between(self, node: Node, negated: bool) -> list[Term]:
        name, attribute = self._attribute(node.this)
        if node.args.get("symmetric"):
            raise QueryError("Cannot answer 'between symmetric'; write the lower value first.")
        with _about(name):
            start = attribute.below(self._literal(node.args["low"]), inclusive=False)
            stop = attribute.below(self._literal(node.args["high"]), inclusive=True)
        return self._atom(node, name, {(start, stop)}, negated, ranged=True)

    def _membership(self, node: Node, negated: bool) -> list[Term]:
        name, attribute = self._attribute(node.this)
        field = node.args.get("field")
        members = [field] if field is not None else node.expressions
        if not members:
            raise QueryError(f"{node.sql()!r} needs a list of labels: {name} in ('a', 'b').")
        with _about(name):
            spans = {self._find(attribute, member) for member in members}
        return self._atom(node, name, spans, negated)

    def _null(self, node: Node, negated: bool) -> list[Term]:
        if isinstance(
            node.expression, exp.Boolean
        ):  # never unknown: a missing value is not true and not false
            terms = self.read(exp.EQ(this=node.this, expression=node.expression), negated=False)
            return complement(terms) if negated else terms
        name, attribute = self._attribute(node.this)
        if not isinstance(node.expression, exp.Null):
            raise QueryError(
                f"Cannot answer {node.sql()!r}: 'is' goes with null, true or false; use = for values."
            )
        if attribute.missing_code is None:
            raise QueryError(
                f"Attribute '{name}' has no category for missing values; that needs 'missing: own-category'"
                " in the plan."
            )
        mask = np.zeros(attribute.size, np.bool_)
        mask[attribute.missing_code] = True
        return [{self.domain.names.index(name): ~mask if negated else mask}]

    def _atom(
        self, node: Node, name: str, spans: set[Span], negated: bool, *, ranged: bool = False
    ) -> list[Term]:
        """Return the term of some categories of one attribute, or of all but these.

        Values outside the domain, counted as other, may lie on either side of a range: like missing values
        they fulfil neither it nor its negation.
        """
        axis = self.domain.names.index(name)
        attribute = self.domain.attributes[axis]
        mask: Mask = np.zeros(attribute.size, np.bool_)
        for start, stop in spans:
            mask[start:stop] = True
        if not mask.any():
            where = {"clamp": "in its first or last category", "other": f"as '{OTHER}'"}.get(
                attribute.outside
            )
            self.warnings.append(
                f"No category of '{name}' fulfils {node.sql()}."
                + (f" Values outside its domain are counted {where}." if where else "")
            )
        if negated:
            mask = ~mask
            for code in (attribute.missing_code, attribute.other_code if ranged else None):
                if code is not None:
                    mask[code] = False
        return [{axis: mask}] if mask.any() else []

    def _attribute(self, node: Node) -> tuple[str, Attribute]:
        if not isinstance(node, exp.Column):
            raise QueryError(f"{node.sql()!r} stands where an attribute should: {listed(self.domain.names)}.")
        name = node.name if not node.table else f"{node.table}.{node.name}"
        if name not in self.domain.names:
            raise QueryError(
                f"The release has no attribute '{name}'.{did_you_mean(name, self.domain.names)}"
                f" It has: {listed(self.domain.names)}."
            )
        return name, self.domain[name]

    def _find(self, attribute: Attribute, value: Node) -> Span:
        """Return the categories that a label, or ``node('…')``, names."""
        if (
            isinstance(value, exp.Anonymous)
            and str(value.this).lower() == "node"
            and len(value.expressions) == 1
        ):
            if not isinstance(attribute, Nominal) or attribute.hierarchy is None:
                raise QueryError("it has no hierarchy, so node('…') has no meaning for it")
            return attribute.find_node(self._literal(value.expressions[0]))
        text = self._literal(value)
        if text == OTHER and attribute.other_code is not None:
            return attribute.other_code, attribute.other_code + 1
        return attribute.find(text)

    def _literal(self, node: Node) -> str:
        """Return a literal's text as it was written."""
        match node:
            case exp.Literal():
                return str(node.this)
            case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return f"-{node.this.this}"
            case exp.Boolean():
                return "true" if node.this else "false"
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.this == exp.DataType.Type.DATE:
                return str(node.this.this)
            case exp.Column() if node.name in self.domain.names:
                raise QueryError(
                    f"it can be compared with values, not with another attribute ('{node.name}')"
                )
            case exp.Column():
                quoted = node.name.replace("'", "''")
                raise QueryError(f"write text in single quotes, as in '{quoted}'")
            case exp.Null():
                raise QueryError("use 'is null' for missing values")
        raise QueryError(f"{node.sql()!r} is not a plain value; put dates and text in single quotes")


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Let an attribute's own complaint say which attribute it is about."""
    try:
        yield
    except QueryError as error:
        raise QueryError(f"Attribute '{name}': {error}.".replace("..", ".").replace("?.", "?")) from None
