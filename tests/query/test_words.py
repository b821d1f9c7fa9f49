"""Conditions in words: the reader takes each back to exactly the categories that it was made for."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from dpcli.data.attributes import Nominal
from dpcli.data.domain import Domain
from dpcli.data.periods import period_first_day, period_index
from dpcli.errors import QueryError
from dpcli.query.parse import parse_condition
from dpcli.query.words import MOST_ATTRIBUTES, MOST_RANGES, category_phrase, identifier, phrase, span_phrase

TREE = {
    "Health": ["Nurse", "Dentist"],
    "Trade": {"Stone": ["Mason", "Tiler"], "Pipe": ["Plumber", "O'Brien"]},
    "Public": {"Health": ["Inspector", "Clerk"], "Retired": ["Judge", "Mayor"]},
    "Retired": None,
}
EXTRA = {"outside": "other", "missing": "own-category"}


def one(name: str = "x", **description: Any) -> Domain:
    return Domain.from_description([{"name": name, **description}])


def words(domain: Domain, *codes: int) -> str:
    """Put categories in words, after making sure that they are read back."""
    attribute = domain.attributes[0]
    mask = np.isin(np.arange(attribute.size), codes)
    text = phrase(domain.names[0], attribute, mask)
    assert read(text, domain) == mask.tolist(), text
    return text


def read(text: str, domain: Domain) -> list[bool]:
    query = parse_condition(text, domain)
    told = [text for text in query.warnings if "leaves them out" not in text]
    assert not told or text == "false"
    found = np.zeros(domain.shape, bool)
    for term in query.terms:
        found |= np.asarray(term.get(0, np.ones(domain.shape, bool))).astype(bool)
    return found.tolist()


# --- the words themselves ---------------------------------------------------------------------------------

AGE = one("age", kind="ordinal", range=[-1, 9], **EXTRA)
PAY = one("pay", kind="ordinal", edges=["-0.5", "0", "1000", "5000", "5000.25"], **EXTRA)
DAY = one("day", kind="date", range=["2020-01-01", "2020-12-31"], period="quarter", **EXTRA)
JOB = one("job", kind="nominal", hierarchy=TREE, **EXTRA)
SEX = one("sex", kind="nominal", values=["F", "M", "it's"], **EXTRA)
WED = one("wed", kind="boolean", **EXTRA)


@pytest.mark.parametrize(
    ("domain", "codes", "text"),
    [
        (AGE, [4], "age = 3"),
        (AGE, [0], "age = -1"),
        (AGE, [4, 5, 6], "age between 3 and 5"),
        (AGE, [9, 10], "age >= 8"),
        (AGE, [0, 1], "age <= 0"),
        (AGE, range(11), "age between -1 and 9"),
        (AGE, range(12), "age is not null"),
        (AGE, range(13), "true"),
        (AGE, [*range(11), 12], "(age between -1 and 9 or age is null)"),
        (AGE, [0, 2, 3], "age in (-1, 1, 2)"),
        (AGE, [0, 2, 3, 4, 11], "(age between 1 and 3 or age in (-1, '(other)'))"),
        (AGE, [11], "age = '(other)'"),
        (AGE, [12], "age is null"),
        (AGE, [8, 9, 10, 12], "(age >= 7 or age is null)"),
        (AGE, [], "false"),
        (PAY, [0], "pay < 0"),
        (PAY, [1, 2], "pay >= 0 and pay < 5000"),
        (PAY, [3], "pay >= 5000"),
        (PAY, range(4), "pay between -0.5 and 5000.25"),
        (PAY, [0, 3], "pay in ('[-0.5, 0)', '[5000, 5000.25]')"),
        (PAY, [1, 2, 3, 5], "(pay >= 0 or pay is null)"),
        (DAY, [1], "day = '2020-Q2'"),
        (DAY, [1, 2], "day between '2020-Q2' and '2020-Q3'"),
        (DAY, [2, 3], "day >= '2020-Q3'"),
        (DAY, [0, 2], "day in ('2020-Q1', '2020-Q3')"),
        (JOB, [1], "job = 'Dentist'"),
        (JOB, [0, 1], "job in ('Nurse', 'Dentist')"),  # node('Health') may mean Public/Health
        (JOB, [2, 3, 4, 5], "job = 'Trade'"),
        (JOB, [4, 5], "job = 'Pipe'"),
        (JOB, [6, 7], "job = node('Public/Health')"),
        (JOB, [3, 4, 5, 11], "job in ('Tiler', 'Pipe', '(other)')"),
        (JOB, [5], "job = 'O''Brien'"),
        (JOB, [10], "job not in ('Nurse', 'Dentist', 'Trade', 'Public', '(other)')"),
        (JOB, range(11), "job <> '(other)'"),
        (SEX, [2], "sex = 'it''s'"),
        (SEX, [0, 1, 4], "(sex in ('F', 'M') or sex is null)"),
        (SEX, [0, 1, 2, 4], "(sex <> '(other)' or sex is null)"),
        (WED, [1], "wed = true"),
        (WED, [0, 2], "wed in (false, '(other)')"),
    ],
)
def test_words(domain: Domain, codes: list[int], text: str) -> None:
    assert words(domain, *codes) == text


def test_a_leaf_by_its_path_and_a_node_called_other() -> None:
    tree = {"A": ["x", "y"], "B": ["A", "z"], "(other)": ["p", "q"]}
    domain = one("job", kind="nominal", hierarchy=tree, outside="other")
    assert words(domain, 2) == "job = 'B/A'"
    assert words(domain, 4, 5) == "job = node('(other)')"
    assert words(domain, 6) == "job = '(other)'"


def test_what_the_reader_has_no_word_for_is_refused_and_never_misread() -> None:
    tree = [{"a": ["b", "c"]}, "a", {"d": ["e", "f"]}, "d"]
    domain = one("job", kind="nominal", hierarchy=tree)
    mask = np.arange(6) == 2
    with pytest.raises(QueryError, match="the name 'a' is ambiguous"):
        parse_condition(phrase("job", domain.attributes[0], mask), domain)


def test_many_runs_are_listed() -> None:
    domain = one("age", kind="ordinal", range=[0, 999])
    codes = [code for code in range(1000) if code % 4]
    assert words(domain, *codes).startswith("age in (1, 2, 3, 5, ")
    some = [code for code in codes if code < 4 * MOST_RANGES]
    assert words(domain, *some).count(" between ") == MOST_RANGES


@pytest.mark.parametrize(
    "name", ["in", "select", "order", "from", "Age", "a b", 'a"b', "t.x", "1st", "ä", "if", "by"]
)
def test_names_that_sql_does_not_take_as_they_are(name: str) -> None:
    assert identifier(name) == '"' + name.replace('"', '""') + '"'
    assert words(one(name, kind="ordinal", range=[0, 9], **EXTRA), 0, 2, 3, 4, 11)


def test_every_word_that_means_something_in_sql() -> None:
    keys = [*Tokenizer.KEYWORDS, *Parser.FUNCTIONS, *Parser.NO_PAREN_FUNCTION_PARSERS, "node", "x", "b", "n"]
    for name in sorted({key.lower() for key in keys if key.isidentifier()}):
        words(one(name, kind="ordinal", range=[0, 9], **EXTRA), 0, 2, 3, 4, 11, 12)


def test_spans_and_categories() -> None:
    domain = one("age", kind="ordinal", range=[0, 9], missing="own-category")
    age = domain.attributes[0]
    assert span_phrase("age", age, 3, 6) == "age between 3 and 5"
    assert span_phrase("age", age, 3, 6) is span_phrase("age", age, 3, 6)
    assert span_phrase("old", age, 3, 6) == "old between 3 and 5"
    assert span_phrase("age", age, 0, 10) == "age is not null"
    assert [category_phrase("age", AGE.attributes[0], code) for code in (4, 11, 12)] == [
        "age = 3",
        "age = '(other)'",
        "age is null",
    ]
    job = JOB.attributes[0]
    assert span_phrase("job", job, 0, 6) == "job in ('Nurse', 'Dentist', 'Trade')"
    assert category_phrase("job", job, 10) == words(JOB, 10)
    for place in range(MOST_ATTRIBUTES + 1):  # what is remembered is bounded, and stays right
        other = one(kind="ordinal", range=[place, place + 9]).attributes[0]
        assert span_phrase("x", other, 1, 2) == f"x = {place + 1}"


# --- any attribute, any mask ------------------------------------------------------------------------------

labels = st.one_of(
    st.sampled_from(
        ["a", "b", "c", "A", "a/b", "b/a", "it's", "''", "(other)", "null", "node", "x\ny", "--", "\\"]
    ),
    st.text(min_size=1, max_size=4).map(str.strip).filter(bool),
)
trees = st.recursive(
    st.lists(labels, min_size=1, max_size=3),
    lambda inner: st.lists(
        st.one_of(labels, st.builds(lambda k, v: {k: v}, labels, inner)), min_size=1, max_size=4
    ),
    max_leaves=12,
)
numbers = st.decimals(-1000, 1000, places=2, allow_nan=False)


@st.composite
def dates(draw: st.DrawFn) -> dict[str, Any]:
    period = draw(st.sampled_from(["day", "week", "month", "quarter", "year"]))
    first = period_index(draw(st.dates(dt.date(2, 1, 1), dt.date(9000, 1, 1))), period)
    after = period_first_day(first + draw(st.integers(1, 12)), period)
    days = [period_first_day(first, period), after - dt.timedelta(days=1)]
    return {"kind": "date", "range": [day.isoformat() for day in days], "period": period}


kinds = st.one_of(
    st.builds(
        lambda low, n: {"kind": "ordinal", "range": [low, low + n]},
        st.one_of(st.integers(-20, 5), st.integers(-(10**14), 10**14)),
        st.integers(0, 15),
    ),
    st.builds(
        lambda cuts: {"kind": "ordinal", "edges": [str(cut) for cut in sorted(cuts)]},
        st.sets(numbers, min_size=2, max_size=9),
    ),
    st.builds(
        lambda low, width, n: {
            "kind": "ordinal",
            "range": [str(low), str(low + n * width)],
            "bin": str(width),
        },
        numbers,
        st.decimals("0.01", 100, places=2),
        st.integers(1, 9),
    ),
    dates(),
    st.builds(
        lambda values: {"kind": "nominal", "values": values}, st.lists(labels, min_size=1, unique=True)
    ),
    st.builds(lambda tree: {"kind": "nominal", "hierarchy": tree}, trees),
    st.just({"kind": "boolean"}),
)
names = st.one_of(
    st.sampled_from(
        ["x", "age", "in", "order", "Age", "a b", 'say "x"', "a.b", "it's", "--", "1", "null", "date"]
    ),
    st.text(min_size=1, max_size=6).filter(lambda name: bool(name.strip()) and name.isprintable()),
)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    description = draw(kinds)
    outside = draw(st.sampled_from(["error", "other"]))
    missing = draw(st.sampled_from(["error", "own-category"]))
    try:
        return one(draw(names), outside=outside, missing=missing, **description)
    except ValueError:  # a leaf or a group twice, or '(other)' as a label of its own
        assume(False)
        raise


def unnamed(attribute: object) -> int:
    """Return how many leaves the reader has no word for: neither a name nor a group that ends them."""
    if not isinstance(attribute, Nominal) or attribute.hierarchy is None:
        return 0
    nodes = attribute.hierarchy.nodes

    def found(text: str, leaf: int) -> bool:
        try:
            return attribute.find(text) == (leaf, leaf + 1)
        except QueryError:
            return False

    paths = [
        "/".join([*max((n for n in nodes if n.start <= k < n.stop), key=lambda n: len(n.path)).path, label])
        for k, label in enumerate(attribute.hierarchy.leaves)
    ]
    return sum(
        not found(label, leaf) and not found(path, leaf)
        for leaf, (label, path) in enumerate(zip(attribute.hierarchy.leaves, paths, strict=True))
    )


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_any_mask_is_read_back(data: st.DataObject) -> None:
    domain = data.draw(domains())
    name, attribute = domain.names[0], domain.attributes[0]
    mask = data.draw(st.lists(st.booleans(), min_size=attribute.size, max_size=attribute.size))
    text = phrase(name, attribute, np.array(mask))
    try:
        found = read(text, domain)
    except QueryError:
        assert unnamed(attribute) > 1, text
    else:
        assert found == mask, text


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_span_and_category_is_read_back(data: st.DataObject) -> None:
    domain = data.draw(domains())
    name, attribute = domain.names[0], domain.attributes[0]
    assume(unnamed(attribute) == 0)
    start = data.draw(st.integers(0, attribute.regular - 1))
    stop = data.draw(st.integers(start + 1, attribute.regular))
    places = range(attribute.size)
    assert read(span_phrase(name, attribute, start, stop), domain) == [start <= c < stop for c in places]
    code = data.draw(st.integers(0, attribute.size - 1))
    assert read(category_phrase(name, attribute, code), domain) == [c == code for c in places]
