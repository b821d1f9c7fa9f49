"""Random conditions over random domains against an evaluation in pandas, row by row and by SQL's own logic.

A frame has one row per point. Without interpolation a cell has one point; with it, one per quarter of a unit
of its bin or per day of its period, and a cell's weight is the share of its points that fulfil the condition.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.data.domain import Domain
from dpcli.query.parse import parse_condition
from dpcli.query.product import Query

Literal = tuple[str, float]  # as written, and what it is compared as
Atom = tuple[str, Callable[[pd.DataFrame], pd.Series]]
NAMES = ["age", "in", "a b", "Select", 'q"t', "über"]


@dataclass(repr=False)
class Column:
    """An attribute, its points, and the literals that conditions on it may use."""

    name: str
    plan: dict[str, Any]
    values: list[list[float]]  # the points of each regular category
    lower: list[Literal]  # for < and >=
    upper: list[Literal]  # for <= and >
    nodes: dict[str, list[str]]
    labels: list[Any]

    def __repr__(self) -> str:
        return self.name

    @property
    def missing(self) -> bool:
        return self.labels[-1] is None

    def points(self) -> pd.DataFrame:
        rows = [
            (code, value, None if label is None else str(label))
            for code, label in enumerate(self.labels)
            for value in (self.values[code] if code < len(self.values) else [None])
        ]
        frame = pd.DataFrame(rows, columns=[f"{self.name}:{part}" for part in ("code", "value", "label")])
        return frame.astype(dict(zip(frame.columns, ["int64", "Float64", "object"], strict=True)))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_of(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


@st.composite
def columns(draw: st.DrawFn, name: str, fine: bool) -> Column:
    kind = draw(st.sampled_from(["whole", "binned", "date", "nominal", "boolean"]))
    plan: dict[str, Any] = {"name": name, "kind": kind}
    values: list[list[float]] = []
    lower: list[Literal] = []
    upper: list[Literal] = []
    nodes: dict[str, list[str]] = {}
    size = draw(st.integers(1, 3 if fine else 5))
    if kind == "whole":
        low = draw(st.integers(-4, 4))
        plan |= {"kind": "ordinal", "range": [low, low + size - 1]}
        values = [[low + place] for place in range(size)]
        lower = upper = [(text_of(x / 2), x / 2) for x in range(2 * low - 4, 2 * (low + size) + 4)]
    elif kind == "binned":
        steps = draw(st.lists(st.integers(1, 2 if fine else 4), min_size=size, max_size=size))
        edges = [float(e) for e in np.cumsum([draw(st.integers(-5, 5)), *steps])]
        plan |= {"kind": "ordinal", "edges": edges}
        outside = [(text_of(e), e) for e in (edges[0] - 1.5, edges[-1] + 0.25)]
        if fine:
            quarters = np.arange(edges[0] - 1, edges[-1] + 1.25, 0.25).tolist()
            lower = upper = [(text_of(e), e) for e in quarters]
            values = [np.arange(a + 0.125, b, 0.25).tolist() for a, b in pairwise(edges)]
        else:
            lower = outside + [(text_of(e), e) for e in edges[:-1]]
            upper = [*outside, (text_of(edges[-1]), edges[-1])]
            values = [[edge] for edge in edges[:-1]]
    elif kind == "date":
        period = draw(
            st.sampled_from(["week", "month"] if fine else ["day", "week", "month", "quarter", "year"])
        )
        starts = pd.period_range("2020-01-01", periods=size + 1, freq=period[0].upper()).start_time
        days = [stamp.date() for stamp in starts]
        inside = [[d.toordinal() for d in pd.date_range(a, b)[:-1]] for a, b in pairwise(days)]
        plan |= {"range": [str(days[0]), str(days[-1] - dt.timedelta(1))], "period": period}
        firsts = [days[0] - dt.timedelta(9), *days, days[-1] + dt.timedelta(9)]
        lasts = [day - dt.timedelta(1) for day in firsts]
        if fine:
            firsts = lasts = [firsts[0] + dt.timedelta(k) for k in range((firsts[-1] - firsts[0]).days)]
        values = inside if fine else [days[:1] for days in inside]
        lower, upper = ([(f"'{d}'", float(d.toordinal())) for d in ends] for ends in (firsts, lasts))
    elif kind == "nominal":
        leaves = [f"{draw(st.sampled_from('abc'))}'{place}" for place in range(size)]
        plan["values"] = leaves
        if draw(st.booleans()):
            del plan["values"]
            plan["hierarchy"], nodes = draw(hierarchies(leaves))
    extra = ["error", "drop", "other"] + ["clamp"] * (kind not in ("nominal", "boolean"))
    plan["outside"] = draw(st.sampled_from(extra))
    plan["missing"] = draw(st.sampled_from(["error", "own-category"]))
    (attribute,) = Domain.from_description([plan]).attributes
    if kind in ("nominal", "boolean"):
        values = [[0.0]] * attribute.regular
    if kind == "date":
        spans = [
            ("'" + str(label) + "'", days)
            for label, days in zip(attribute.regular_labels, inside, strict=True)
        ]
        lower = lower + [(label, days[0]) for label, days in spans]
        upper = upper + [(label, days[-1]) for label, days in spans]
    return Column(name, plan, values, lower, upper, nodes, attribute.labels())


@st.composite
def hierarchies(draw: st.DrawFn, leaves: list[str]) -> tuple[Any, dict[str, list[str]]]:
    """A ragged tree over leaves, as a plan nests it, and the leaves of each node by name and by path."""
    nodes: dict[str, list[str]] = {}

    def grow(part: list[str], path: tuple[str, ...]) -> list[Any]:
        found: list[Any] = []
        while part:
            taken = draw(st.integers(1, len(part)))
            head, part = part[:taken], part[taken:]
            if len(path) < 3 and draw(st.booleans()):
                below = (*path, f"n{len(nodes)}")
                nodes[below[-1]] = nodes["/".join(below)] = head
                found.append({below[-1]: grow(head, below)})
            else:
                found += head
        return found

    return grow(leaves, ()), nodes


@st.composite
def atoms(draw: st.DrawFn, column: Column) -> Atom:
    """One comparison, as text and in pandas: true, false, or NA."""
    name = column.name
    ident = (
        quoted(name) if draw(st.booleans()) or not name.isidentifier() or name in ("in", "Select") else name
    )
    value, label = f"{name}:value", f"{name}:label"
    forms = ["=", "in"] + ["null"] * column.missing + ["bare", "is"] * (column.plan["kind"] == "boolean")
    if column.lower:
        forms += ["range", "between"] * 2
    form = draw(st.sampled_from(forms))
    if form == "range":
        op = draw(st.sampled_from(["<", ">=", "<=", ">"]))
        text, cut = draw(st.sampled_from(column.lower if op in ("<", ">=") else column.upper))
        compare = {"<": "lt", ">=": "ge", "<=": "le", ">": "gt"}[op]
        flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[op]
        if column.plan["kind"] == "date" and len(text) == 12 and draw(st.booleans()):
            text = f"date {text}"
        written = f"{text} {flipped} {ident}" if draw(st.booleans()) else f"{ident} {op} {text}"
        return written, lambda f: getattr(f[value], compare)(cut)
    if form == "between":
        (low, least), (high, most) = draw(st.sampled_from(column.lower)), draw(st.sampled_from(column.upper))
        positive = f"{ident} {{}}between {low} and {high}"
        return negatable(draw, positive, lambda f: f[value].ge(least) & f[value].le(most))
    if form == "null":
        return negatable(draw, f"{ident} is {{}}null", lambda f: f[label].isna().astype("boolean"))
    if form == "bare":
        return ident, among(label, ["true"])
    if form == "is":
        truth = draw(st.sampled_from(["true", "false"]))
        return negatable(draw, f"{ident} is {{}}{truth}", lambda f: f[label].eq(truth).astype("boolean"))
    names: list[tuple[str, list[str]]] = [
        (f"'{one}'" if isinstance(one, str) and "'" not in one else str(one), [str(one)])
        for one in column.labels
        if one is not None
    ]
    names = [
        (text if "'" not in only else "'" + only.replace("'", "''") + "'", [only]) for text, (only,) in names
    ]
    for node, leaves in column.nodes.items():
        names += [(f"'{node}'", leaves), (f"node('{node}')", leaves)]
    if column.plan["kind"] == "boolean":
        names += [("TRUE", ["true"]), ("0", ["false"])]
    if "bin" not in column.plan and "edges" not in column.plan and column.plan["kind"] == "ordinal":
        names += [("99", []), ("0.5", []), ("-99", [])]
    if form == "=":
        text, meant = draw(st.sampled_from(names))
        op = draw(st.sampled_from(["=", "<>"]))
        written = f"{text} {op} {ident}" if draw(st.booleans()) else f"{ident} {op} {text}"
        found = among(label, meant)
        return written, found if op == "=" else lambda f: ~found(f)
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    meant = [one for _, leaves in chosen for one in leaves]
    listed = f"({', '.join(text for text, _ in chosen)})"
    return negatable(draw, f"{ident} {{}}in {listed}", among(label, meant))


def among(label: str, meant: list[str]) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda f: f[label].isin(meant).astype("boolean").mask(f[label].isna())


def negatable(draw: st.DrawFn, text: str, function: Callable[[pd.DataFrame], pd.Series]) -> Atom:
    if draw(st.booleans()):
        return text.format("not "), lambda f: ~function(f)
    return text.format(""), function


def joined(one: Atom, join: str, other: Atom, outer: bool) -> Atom:
    # Without outer parentheses, what stands within binds as it is grouped here: both sides have theirs.
    text = f"({one[0]}) {join} ({other[0]})"
    if join == "and":
        return (f"({text})" if outer else text), lambda f: one[1](f) & other[1](f)
    return (f"({text})" if outer else text), lambda f: one[1](f) | other[1](f)


def plain_chain(first: Atom, others: list[tuple[str, Atom]]) -> Atom:
    """Join without parentheses: ``and`` binds more closely than ``or``."""
    groups = [[first]]
    for join, atom in others:
        if join == "and":
            groups[-1].append(atom)
        else:
            groups.append([atom])
    text = first[0] + "".join(f" {join} {atom[0]}" for join, atom in others)

    def evaluate(frame: pd.DataFrame) -> pd.Series:
        parts = [reduce(lambda a, b: a & b, [atom[1](frame) for atom in group]) for group in groups]
        return reduce(lambda a, b: a | b, parts)

    return text, evaluate


def conditions(atom: st.SearchStrategy[Atom]) -> st.SearchStrategy[Atom]:
    joins = st.sampled_from(["and", "or", "AND"]).map(str.lower)
    chains = st.builds(plain_chain, atom, st.lists(st.tuples(joins, atom), max_size=3))
    constants = st.sampled_from(["true", "FALSE"]).map(
        lambda text: (text, lambda f: pd.Series(text == "true", f.index, dtype="boolean"))
    )
    return st.recursive(
        st.one_of(atom, chains, chains, constants),
        lambda inner: st.one_of(
            st.builds(joined, inner, joins, inner, st.booleans()),
            st.builds(lambda one: (f"not ({one[0]})", lambda f: ~one[1](f)), inner),
        ),
        max_leaves=4,
    )


@st.composite
def questions(draw: st.DrawFn, fine: bool) -> tuple[Domain, pd.DataFrame, list[Atom]]:
    names = draw(st.permutations(NAMES))[: draw(st.integers(1 if fine else 2, 2 if fine else 4))]
    chosen = [draw(columns(name, fine)) for name in names]
    domain = Domain.from_description([column.plan for column in chosen])
    frame = reduce(lambda a, b: a.merge(b, how="cross"), [column.points() for column in chosen])
    atom = st.one_of([atoms(column) for column in chosen])
    return domain, frame, draw(st.lists(conditions(atom), min_size=8, max_size=8))


def weights(query: Query, shape: tuple[int, ...]) -> np.ndarray:
    """How much of each cell is counted."""
    total = np.zeros(shape)
    for term in query.terms:
        total += reduce(np.multiply.outer, [f.astype(float) for f in query.factors(term, shape)])
    return total


SETTINGS = settings(
    deadline=None,
    max_examples=250,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def cells(domain: Domain, frame: pd.DataFrame) -> np.ndarray:
    """The number of the cell of each point."""
    return np.ravel_multi_index([frame[f"{name}:code"] for name in domain.names], domain.shape)


@SETTINGS
@given(questions(fine=False))
def test_conditions_hold_where_pandas_says(question: tuple[Domain, pd.DataFrame, list[Atom]]) -> None:
    domain, frame, asked = question
    assert np.array_equal(cells(domain, frame), np.arange(domain.size))
    for text, evaluate in asked:
        expected = evaluate(frame).fillna(False).to_numpy(bool)
        for interpolate in (False, True):  # which changes nothing where no cut falls inside a bin
            query = parse_condition(text, domain, interpolate=interpolate)
            assert all(mask.dtype == np.bool_ for term in query.terms for mask in term.values())
            assert np.array_equal(weights(query, domain.shape).ravel(), expected), text


@SETTINGS
@given(questions(fine=True))
def test_interpolation_agrees_with_a_fine_grid(question: tuple[Domain, pd.DataFrame, list[Atom]]) -> None:
    domain, frame, asked = question
    cell = cells(domain, frame)
    for text, evaluate in asked:
        held = np.bincount(cell, evaluate(frame).fillna(False).to_numpy(float), domain.size)
        query = parse_condition(text, domain, interpolate=True)
        shares = weights(query, domain.shape).ravel()
        assert np.allclose(shares, held / np.bincount(cell, minlength=domain.size), rtol=0, atol=1e-12), text
