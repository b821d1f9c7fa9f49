"""Conditions as in a SQL WHERE clause, over the attributes' real labels; parsed with sqlglot.

A missing value makes a comparison neither true nor false, as in SQL: it is counted only by ``is null`` and
where its attribute is not mentioned.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import floor

from sqlglot import exp

from dpcli.data.attributes import OTHER, Attribute, Boolean, Dates, Nominal, Span
from dpcli.data.domain import Domain
from dpcli.errors import QueryError
from dpcli.query.pieces import Choice, Joined, Place, Tree, terms_of
from dpcli.query.product import Query
from dpcli.query.sql import (
    Node,
    about,
    attribute_name,
    check_condition,
    check_text,
    guarded,
    literal,
    parsed_condition,
    unnested,
    written,
)

EVERYTHING = "true"
_FLIPPED: dict[Node, Node] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_COUNTED = {"clamp": "in its first or last category", "other": f"as '{OTHER}'"}


def parse_condition(text: str, domain: Domain, *, interpolate: bool = False) -> Query:
    """Read a condition such as ``age between 30 and 39 and sex = 'F'``; ``true`` counts every cell.

    With ``interpolate`` a cut may fall inside a bin or period, whose rows are taken as evenly spread.
    """
    check_text("condition", text)
    if not text.strip():
        raise QueryError("The condition is empty; write one such as \"age >= 65\", or 'true' for everything.")
    return guarded(
        "condition", lambda: read_condition(parsed_condition(text), text, domain, interpolate=interpolate)
    )


def mentioned_in(text: str, domain: Domain) -> list[str]:
    """Return the attributes that a sound condition names."""
    nodes = guarded("condition", lambda: list(parsed_condition(text).find_all(exp.Column)))
    return list(dict.fromkeys(attribute_name(node, domain) for node in nodes))


def read_condition(node: Node, text: str, domain: Domain, *, interpolate: bool) -> Query:
    """Turn a parsed condition into a query with the given text."""
    check_condition(node)
    reader = _Reader(domain, interpolate)
    terms = terms_of(reader.read(node, negated=False), domain)
    return Query(text, tuple(terms), tuple(dict.fromkeys(reader.warnings)))


class _Reader:
    """Turns a parsed condition into a tree of choices, pushing ``not`` down to the comparisons."""

    def __init__(self, domain: Domain, interpolate: bool) -> None:
        self.domain = domain
        self.interpolate = interpolate
        self.warnings: list[str] = []

    def read(self, node: Node, *, negated: bool) -> Tree:
        """Return the choices for which ``node`` is true (false if negated)."""
        match node:
            case exp.Paren():
                return self.read(node.this, negated=negated)
            case exp.Not():
                return self.read(node.this, negated=not negated)
            case exp.And() | exp.Or():
                parts = [self.read(part, negated=negated) for part in node.flatten(unnest=False)]
                return Joined(isinstance(node, exp.And) is not negated, tuple(parts))
            case exp.Boolean():
                return bool(node.this) is not negated
            case exp.Column():
                name, attribute = self._attribute(node)
                if not isinstance(attribute, Boolean):
                    raise QueryError(f"'{name}' by itself is not a condition; compare it with something.")
                return self._choice(node, name, {attribute.find("true")}, negated)
            case exp.Is():
                return self._null(node, negated)
            case exp.In():
                return self._membership(node, negated)
            case exp.Between():
                return self._between(node, negated)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(node, negated)
        raise QueryError(
            f"Cannot answer {written(node)!r}: conditions are made of =, <>, <, <=, >, >=, between, in (…),"
            " is null, and, or, not."
        )

    def _comparison(self, node: Node, negated: bool) -> Tree:
        column, value, operator = unnested(node.this), unnested(node.expression), type(node)
        if not isinstance(column, exp.Column) and isinstance(value, exp.Column):
            column, value, operator = value, column, _FLIPPED[operator]
        name, attribute = self._attribute(column)
        with about(name):
            if operator in (exp.EQ, exp.NEQ):
                spans = {self._find(attribute, value)}
                return self._choice(node, name, spans, negated is not (operator is exp.NEQ))
            cut, beyond = self._cut(name, value, inclusive=operator in (exp.LTE, exp.GT))
        span = (0, cut) if operator in (exp.LT, exp.LTE) else (cut, attribute.regular)
        if not beyond and span[0] < span[1]:
            self._leaves_out(name, written(node))
        return self._choice(node, name, {span}, negated, ranged=True, beyond=beyond)

    def _between(self, node: Node, negated: bool) -> Tree:
        name, _ = self._attribute(node.this)
        if node.args.get("symmetric"):
            raise QueryError("Cannot answer 'between symmetric'; write the lower value first.")
        with about(name):
            start, below = self._cut(name, node.args["low"], inclusive=False)
            stop, above = self._cut(name, node.args["high"], inclusive=True)
        beyond = below or above
        if negated and not beyond and start < stop:  # else no value outside could fulfil it, or it is told
            self._leaves_out(name, f"NOT {written(node)}")
        return self._choice(node, name, {(start, stop)}, negated, ranged=True, beyond=beyond)

    def _leaves_out(self, name: str, text: str) -> None:
        """Warn that values outside the domain, which might fulfil a range, are not counted by it."""
        if self.domain[name].other_code is not None:
            self.warnings.append(
                f"Values of '{name}' outside its domain are counted as '{OTHER}'; {text} leaves them out."
            )

    def _membership(self, node: Node, negated: bool) -> Tree:
        name, attribute = self._attribute(node.this)
        field = node.args.get("field")
        members = [field] if field is not None else node.expressions
        if not members:
            raise QueryError(f"{written(node)!r} needs a list of labels: {name} in ('a', 'b').")
        with about(name):
            spans = [self._find(attribute, member) for member in members]
            beyond = any(
                start == stop and attribute.beyond(literal(member, self.domain), inclusive=stop > 0)
                for member, (start, stop) in zip(members, spans, strict=True)
            )
        return self._choice(node, name, set(spans), negated, beyond=beyond)

    def _null(self, node: Node, negated: bool) -> Tree:
        if isinstance(node.expression, exp.Boolean):
            name, attribute = self._attribute(node.this)
            if not isinstance(attribute, Boolean):
                raise QueryError(
                    f"Attribute '{name}': 'is true' and 'is false' are for booleans; use = with a value."
                )
            # Never unknown: a missing value is not true and not false.
            choice = self._comparison(exp.EQ(this=node.this, expression=node.expression), negated)
            return replace(choice, unknown=()) if isinstance(choice, Choice) else choice
        name, attribute = self._attribute(node.this)
        if not isinstance(node.expression, exp.Null):
            raise QueryError(
                f"Cannot answer {written(node)!r}: 'is' goes with null, true or false; use = for values."
            )
        code = attribute.missing_code
        if code is None and negated:
            return True
        if code is None:
            raise QueryError(
                f"Attribute '{name}' has no category for missing values; that needs 'missing: own-category'"
                " in the plan."
            )
        return Choice(self.domain.names.index(name), frozenset({(code, code + 1)}), negated)

    def _cut(self, name: str, value: Node, *, inclusive: bool) -> tuple[Place, bool]:
        """Return where a cut falls among the categories, and whether that is outside the domain."""
        attribute, text = self.domain[name], literal(value, self.domain)
        try:
            return attribute.below(text, inclusive=inclusive), attribute.beyond(text, inclusive=inclusive)
        except QueryError:
            if not self.interpolate:
                raise
        cut = attribute.spread_below(text, inclusive=inclusive)
        unit = attribute.period if isinstance(attribute, Dates) else "bin"
        if cut.denominator > 1:
            falls = f"falls inside its {unit} {attribute.regular_labels[floor(cut)]}"
            taken = f"the {unit}'s rows are taken as evenly spread"
        else:
            falls, taken = "is made at an edge", f"rows of exactly {text} are taken as none"
        self.warnings.append(
            f"The cut of '{name}' at {text} {falls}: {taken}, and the interval does not cover the error"
            " of that."
        )
        return cut, False

    def _choice(
        self,
        node: Node,
        name: str,
        spans: AbstractSet[tuple[Place, Place]],
        negated: bool,
        *,
        ranged: bool = False,
        beyond: bool = False,
    ) -> Choice:
        """Return some categories of one attribute, or all but these.

        Values outside the domain, counted as other, may lie on either side of a range: like missing values
        they fulfil neither it nor its negation.
        """
        axis = self.domain.names.index(name)
        attribute = self.domain.attributes[axis]
        counted = _COUNTED.get(attribute.outside)
        if all(start >= stop for start, stop in spans):
            self.warnings.append(
                f"No category of '{name}' fulfils {written(node)}."
                + (f" Values outside its domain are counted {counted}." if counted else "")
            )
        elif beyond:
            told = (
                f"values outside it are counted {counted}" if counted else "only what lies inside is counted"
            )
            self.warnings.append(
                f"{written(node)} reaches outside the domain of '{name}', {attribute.extent}; {told}."
            )
        codes = (attribute.missing_code, attribute.other_code if ranged else None)
        unknown = tuple(code for code in codes if code is not None)
        return Choice(axis, frozenset(spans), negated, unknown)

    def _attribute(self, node: Node) -> tuple[str, Attribute]:
        name = attribute_name(node, self.domain)
        return name, self.domain[name]

    def _find(self, attribute: Attribute, value: Node) -> Span:
        """Return the categories that a label, or ``node('…')``, names."""
        value = unnested(value)
        if isinstance(value, exp.Anonymous) and len(value.expressions) == 1:  # no other function is let in
            if not isinstance(attribute, Nominal) or attribute.hierarchy is None:
                raise QueryError("it has no hierarchy, so node('…') has no meaning for it")
            return attribute.find_node(literal(value.expressions[0], self.domain))
        text = literal(value, self.domain)
        if text == OTHER and attribute.other_code is not None:
            return attribute.other_code, attribute.other_code + 1
        return attribute.find(text)
