"""Attributes: their labels, the cuts and names that queries use, and a plain sentence for every mistake."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dpcli.data.attributes import AnyAttribute, Attribute, Binned, Boolean, Dates, Integers, Nominal
from dpcli.data.scalars import plain
from dpcli.errors import PlanError, QueryError
from dpcli.plan.load import parse_plan

ADAPTER: TypeAdapter[Attribute] = TypeAdapter(AnyAttribute)
JOBS = {"Health": ["Nurse", "Dentist"], "Trade": ["Mason", {"Fine": ["Potter"]}], "Retired": None}
AGE = Integers(range=(10, 19))
TENS = Binned(range=("0", "30"), bin="10")
MONTHS = Dates(range=("2026-01-01", "2026-12-31"), period="month")
DAYS = Dates(range=("2026-01-01", "2026-01-31"))
SEX = Nominal(values=("F", "M"))
JOB = Nominal(hierarchy=JOBS)


def refusal(**keys: Any) -> tuple[str, str]:
    """Return where and why an attribute is refused."""
    with pytest.raises(ValidationError) as caught:
        ADAPTER.validate_python(keys)
    (problem,) = caught.value.errors()
    return ".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")


def question(ask: Any, *values: Any, **options: Any) -> str:
    """Return why a query is refused."""
    with pytest.raises(QueryError) as caught:
        ask(*values, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


# --- labels and sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "labels"),
    [
        (Integers(range=(-1, 1)), [-1, 0, 1]),
        (TENS, ["[0, 10)", "[10, 20)", "[20, 30]"]),
        (Binned(range=("-0.5", "1"), bin="0.50"), ["[-0.5, 0)", "[0, 0.5)", "[0.5, 1]"]),
        (Binned(edges=("0", "1e3", "2.50e3")), ["[0, 1000)", "[1000, 2500]"]),
        (Dates(range=("2026-01-30", "2026-02-01")), ["2026-01-30", "2026-01-31", "2026-02-01"]),
        (Dates(range=("2025-12-29", "2026-01-11"), period="week"), ["2026-W01", "2026-W02"]),
        (Dates(range=("2025-12-01", "2026-01-31"), period="month"), ["2025-12", "2026-01"]),
        (Dates(range=("2025-10-01", "2026-03-31"), period="quarter"), ["2025-Q4", "2026-Q1"]),
        (Dates(range=("1969-01-01", "1970-12-31"), period="year"), ["1969", "1970"]),
        (Nominal(values=(" b ", 1, "a")), ["b", "1", "a"]),
        (JOB, ["Nurse", "Dentist", "Mason", "Potter", "Retired"]),
        (Boolean(), ["false", "true"]),
    ],
)
def test_labels(attribute: Attribute, labels: list[Any]) -> None:
    assert attribute.labels() == list(attribute.regular_labels) == labels
    assert attribute.size == attribute.regular == len(labels)
    assert attribute.other_code is None
    assert attribute.missing_code is None


@pytest.mark.parametrize(
    "attribute", [AGE, TENS, MONTHS, SEX, JOB, Boolean()], ids=lambda attribute: type(attribute).__name__
)
def test_categories_for_other_and_missing_values_come_last(attribute: Attribute) -> None:
    keys = attribute.model_dump()
    regular = attribute.regular
    other = type(attribute)(**{**keys, "outside": "other"})
    assert (other.size, other.other_code, other.missing_code) == (regular + 1, regular, None)
    assert other.labels() == [*map(str, attribute.labels()), "(other)"]
    missing = type(attribute)(**{**keys, "missing": "own-category"})
    assert (missing.size, missing.other_code, missing.missing_code) == (regular + 1, None, regular)
    assert missing.labels() == [*attribute.labels(), None]
    both = type(attribute)(**{**keys, "outside": "other", "missing": "own-category"})
    assert (both.size, both.other_code, both.missing_code) == (regular + 2, regular, regular + 1)
    assert both.labels() == [*map(str, attribute.labels()), "(other)", None]
    assert both.regular == regular


def test_large_attributes_are_not_written_out() -> None:
    assert Integers(range=(-(2**53) + 1, 2**53 - 1)).size == 2**54 - 1
    assert Binned(range=("0", "100000000"), bin="1").size == 10**8


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1000", "1000"),
        ("1E+3", "1000"),
        ("0.50", "0.5"),
        ("100.00", "100"),
        ("-0.0010", "-0.001"),
        ("0", "0"),
    ],
)
def test_plain_numbers(number: str, text: str) -> None:
    assert plain(Decimal(number)) == text


# --- round trip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attribute",
    [
        AGE,
        TENS,
        Binned(edges=("0", "0.1", "1e3"), outside="clamp"),
        Binned(edges=("0", "0.1"), represent="upper"),
        MONTHS,
        Dates(range=("2025-12-29", "2026-01-11"), period="week", missing="drop"),
        SEX,
        JOB,
        Nominal(values=("a",), outside="other", missing="own-category"),
        Boolean(missing="own-category"),
    ],
)
def test_an_attribute_survives_json(attribute: Attribute) -> None:
    text = json.dumps(attribute.model_dump(mode="json", exclude_none=True))
    again = ADAPTER.validate_python(json.loads(text))
    assert again == attribute
    assert type(again) is type(attribute)
    assert again.labels() == attribute.labels()


def test_attributes_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        AGE.outside = "drop"


# --- cuts -------------------------------------------------------------------------------------------------


@given(value=st.integers(5, 25), inclusive=st.booleans())
def test_cuts_of_whole_numbers(value: int, inclusive: bool) -> None:
    expected = sum(label <= value if inclusive else label < value for label in AGE.regular_labels)
    assert AGE.below(str(value), inclusive=inclusive) == expected
    assert AGE.below(f"{value}.0", inclusive=inclusive) == expected


@given(value=st.decimals(5, 25, places=2), inclusive=st.booleans())
def test_cuts_of_whole_numbers_by_decimals(value: Decimal, inclusive: bool) -> None:
    expected = sum(label <= value if inclusive else label < value for label in AGE.regular_labels)
    assert AGE.below(str(value), inclusive=inclusive) == expected


@pytest.mark.parametrize(
    ("value", "below", "up_to"),
    [("-1", 0, 0), ("0", 0, None), ("10", 1, None), ("20", 2, None), ("30", None, 3), ("30.5", 3, 3)],
)
def test_cuts_of_bins(value: str, below: int | None, up_to: int | None) -> None:
    for inclusive, expected in ((False, below), (True, up_to)):
        if expected is None:
            assert "falls inside its bin" in question(TENS.below, value, inclusive=inclusive)
        else:
            assert TENS.below(value, inclusive=inclusive) == expected


def test_cuts_inside_a_bin() -> None:
    assert question(TENS.below, "15", inclusive=False) == (
        "a cut with < or >= 15 falls inside its bin [10, 20); cut with < or >= at an edge, such as 10 or 20;"
        " or ask with --interpolate, which takes the bin's rows as evenly spread"
    )
    assert question(TENS.below, "10.0", inclusive=True) == (
        "a cut with <= or > 10 falls inside its bin [10, 20); cut with < or >= at an edge, such as 10 or 20;"
        " or ask with --interpolate, which takes the bin's rows as evenly spread"
    )
    assert question(TENS.below, "30", inclusive=False) == (
        "a cut with < or >= 30 falls inside its bin [20, 30]; cut with < or >= at an edge, such as 20,"
        " or with <= or > at the last one, 30; or ask with --interpolate, which takes the bin's rows as evenly spread"
    )
    assert question(TENS.below, "ten", inclusive=True) == "'ten' is not a number"


@given(day=st.dates(dt.date(2025, 12, 25), dt.date(2026, 2, 5)), inclusive=st.booleans())
def test_cuts_of_days(day: dt.date, inclusive: bool) -> None:
    expected = sum(label <= str(day) if inclusive else label < str(day) for label in DAYS.regular_labels)
    assert DAYS.below(str(day), inclusive=inclusive) == expected


@pytest.mark.parametrize(
    ("value", "below", "up_to"),
    [
        ("2025-12-31", 0, 0),
        ("2026-01-01", 0, None),
        ("2026-01-31", None, 1),
        ("2026-02-01", 1, None),
        ("2026-12-31", None, 12),
        ("2027-01-01", 12, 12),
        ("2026-01", 0, 1),
        ("2026-12", 11, 12),
    ],
)
def test_cuts_of_months(value: str, below: int | None, up_to: int | None) -> None:
    for inclusive, expected in ((False, below), (True, up_to)):
        if expected is None:
            assert "falls inside its month" in question(MONTHS.below, value, inclusive=inclusive)
        else:
            assert MONTHS.below(value, inclusive=inclusive) == expected


def test_cuts_inside_a_period() -> None:
    assert question(MONTHS.below, "2026-03-15", inclusive=False) == (
        "a cut at 2026-03-15 falls inside its month 2026-03; cut at the first day of a month, such as"
        " 2026-03-01 or 2026-04-01; or ask with --interpolate, which takes the month's rows as evenly spread"
    )
    for late in ("9999-01-01", "9999-12-31"):
        assert MONTHS.below(late, inclusive=True) == MONTHS.regular
        assert MONTHS.beyond(late, inclusive=True)
    for junk in ("March", "15.3.2026", "10000-01-01"):
        assert question(MONTHS.below, junk, inclusive=True) == (
            f"{junk!r} is not a date; write it as '2026-01-31'"
        )


@pytest.mark.parametrize("attribute", [SEX, JOB, Boolean()])
def test_no_cuts_without_order(attribute: Attribute) -> None:
    assert question(attribute.below, "F", inclusive=True) == (
        "it has no order, so it can't be compared with 'F'; use = or in (…)"
    )


# --- cuts inside a category, its values taken as evenly spread --------------------------------------------


@given(value=st.decimals(-5, 35, places=3), inclusive=st.booleans())
def test_spread_over_bins(value: Decimal, inclusive: bool) -> None:
    expected = Fraction(min(max(value, Decimal(0)), Decimal(30))) / 10
    assert TENS.spread_below(str(value), inclusive=inclusive) == expected


@pytest.mark.parametrize(
    ("value", "place"),
    [("0.5", "1/2"), ("1", "1"), ("1.75", "5/4"), ("4", "2"), ("4.3", "7/3"), ("5", "10/3"), ("7", "4")],
)
def test_spread_over_bins_of_unequal_width(value: str, place: str) -> None:
    bins = Binned(edges=("0", "1", "4", "4.9", "5.2"))
    for inclusive in (False, True):
        assert bins.spread_below(value, inclusive=inclusive) == Fraction(place)


@given(day=st.dates(dt.date(2025, 12, 25), dt.date(2027, 1, 5)), inclusive=st.booleans())
def test_spread_over_periods(day: dt.date, inclusive: bool) -> None:
    days = [dt.date(2026, 1, 1) + dt.timedelta(k) for k in range(365)]
    lengths = Counter(d.month for d in days)
    below = (d for d in days if (d <= day if inclusive else d < day))
    expected = sum((Fraction(1, lengths[d.month]) for d in below), Fraction(0))
    assert MONTHS.spread_below(str(day), inclusive=inclusive) == expected


@pytest.mark.parametrize("attribute", [AGE, DAYS, TENS, MONTHS])
def test_a_spread_cut_at_an_edge_is_the_plain_one(attribute: Attribute) -> None:
    values = {"date": ["2025-12-31", "2026-01-01", "2026-02-01", "2027-01-01"]}.get(
        attribute.kind, ["-3.5", "0", "10", "20", "99"]
    )
    for value in values:
        assert attribute.spread_below(value, inclusive=False) == attribute.below(value, inclusive=False)
    if attribute is MONTHS:
        assert MONTHS.spread_below("2026-03", inclusive=True) == MONTHS.below("2026-03", inclusive=True) == 3


def test_a_spread_cut_of_nonsense() -> None:
    assert question(TENS.spread_below, "ten", inclusive=True) == "'ten' is not a number"
    assert (
        question(MONTHS.spread_below, "May", inclusive=True)
        == "'May' is not a date; write it as '2026-01-31'"
    )
    assert "it has no order" in question(SEX.spread_below, "F", inclusive=True)


@pytest.mark.parametrize(
    ("attribute", "extent", "inside", "outside"),
    [
        (
            AGE,
            "10 to 19",
            ["<10", "<=9", "<20", "<=19", "<9.5", "<19.5"],
            ["<9", "<=8", "<=20", "<21", "<=-1.5"],
        ),
        (TENS, "0 to 30", ["<0", "<=0", "<15", "<=30", "<30"], ["<-0.1", "<=30.1"]),
        (
            MONTHS,
            "2026-01-01 to 2026-12-31",
            ["<2026-01-01", "<=2025-12-31", "<2027-01-01", "<=2026-12-31", "<2026-01", "<=2026-12"],
            ["<2025-12-31", "<=2027-01-01"],
        ),
        (SEX, None, ["<F"], []),
    ],
)
def test_cuts_beyond_the_domain(
    attribute: Attribute, extent: str | None, inside: list[str], outside: list[str]
) -> None:
    for cut in inside + outside:
        beyond = attribute.beyond(cut.lstrip("<="), inclusive="=" in cut)
        assert beyond == (cut in outside), cut
    if extent:
        assert attribute.extent == extent


def test_cuts_of_negative_numbers() -> None:
    below_zero = Integers(range=(-3, 3))
    assert [below_zero.below(v, inclusive=False) for v in ("-3.5", "-1.5", "-1", "-0.5", "0.5")] == [
        0,
        2,
        2,
        3,
        4,
    ]
    assert below_zero.find("-1.5") == (2, 2)


# --- numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "numbers"),
    [
        (Integers(range=(-1, 1)), [-1, 0, 1]),
        (Integers(range=(-1, 1), outside="other", missing="own-category"), [-1, 0, 1, None, None]),
        (Binned(edges=("0", "1", "4"), missing="own-category"), [0.5, 2.5, None]),
        (Binned(edges=("0", "1", "4"), represent="lower", outside="other"), [0, 1, None]),
        (Binned(range=("0", "3"), bin="1.5", represent="upper"), [1.5, 3]),
        (Boolean(), [0, 1]),
        (Boolean(outside="other", missing="own-category"), [0, 1, None, None]),
    ],
)
def test_numbers(attribute: Attribute, numbers: list[float | None]) -> None:
    found = attribute.numbers()
    assert found.dtype == np.float64
    assert np.array_equal(found, np.array(numbers, np.float64), equal_nan=True)
    assert len(found) == attribute.size


@pytest.mark.parametrize("attribute", [DAYS, MONTHS, SEX, JOB])
def test_no_numbers(attribute: Attribute) -> None:
    assert question(attribute.numbers) == "it has no numbers, so it can't be summed or averaged"


PLAN = """\
plan: 1
dataset: town
privacy: {epsilon: 1}
attributes:
  pay: {kind: ordinal, range: [0, 30], bin: 10, represent: lower}
releases:
  - {name: cube, cube: [pay]}
"""


def test_a_plan_says_where_in_a_bin_its_number_lies() -> None:
    assert parse_plan(PLAN).attributes["pay"].numbers().tolist() == [0, 10, 20]
    assert parse_plan(PLAN.replace(", represent: lower", "")).attributes["pay"].numbers().tolist() == [
        5,
        15,
        25,
    ]
    with pytest.raises(PlanError) as caught:
        parse_plan(PLAN.replace("lower", "lowest"))
    assert str(caught.value) == (
        "plan, line 5: attributes.pay.represent: 'lowest' is not a choice. Did you mean 'lower'?"
        " Choose one of: middle, lower, upper"
    )


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "value", "span"),
    [
        (AGE, "12", (2, 3)),
        (AGE, "12.0", (2, 3)),
        (AGE, "12.5", (3, 3)),
        (AGE, "9", (0, 0)),
        (AGE, "20", (10, 10)),
        (TENS, "[20, 30]", (2, 3)),
        (DAYS, "2026-01-31", (30, 31)),
        (DAYS, "2026-02-01", (31, 31)),
        (MONTHS, "2026-02", (1, 2)),
        (SEX, "M", (1, 2)),
        (JOB, "Mason", (2, 3)),
        (JOB, "Trade", (2, 4)),
        (JOB, "Trade/Fine", (3, 4)),
        (Boolean(), "TRUE", (1, 2)),
        (Boolean(), "0", (0, 1)),
    ],
)
def test_find(attribute: Attribute, value: str, span: tuple[int, int]) -> None:
    assert attribute.find(value) == span


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        (SEX, "f", "it has no category 'f'. Did you mean 'F'? It has: F, M"),
        (SEX, "x", "it has no category 'x'. It has: F, M"),
        (
            JOB,
            "Helth",
            "it has no category 'Helth'. Did you mean 'Health'? It has: Nurse, Dentist, Mason, Potter, Retired",
        ),
        (Boolean(), "perhaps", "it has no category 'perhaps'. It has: false, true"),
        (AGE, "old", "'old' is not a number"),
        (
            TENS,
            "15",
            "it is binned, so = and in (…) take a whole bin such as '[10, 20)', not '15'; for numbers use >="
            " and <",
        ),
        (DAYS, "today", "'today' is not a date; write it as '2026-01-31'"),
        (
            Nominal(hierarchy={"A": {"x": ["1", "2"]}, "B": {"x": ["3"]}}),
            "x",
            "the name 'x' is ambiguous; write node('…') with one of '/A/x', '/B/x'",
        ),
        (
            Nominal(hierarchy={"A": {"x": ["1", "2"]}, "B": ["x"]}),
            "x",
            "the name 'x' is ambiguous; write 'B/x' for the leaf, node('…') with one of '/A/x'",
        ),
    ],
)
def test_names_that_are_not_found(attribute: Attribute, value: str, message: str) -> None:
    assert question(attribute.find, value) == message


def test_nodes() -> None:
    assert JOB.find_node("Trade") == (2, 4)
    assert JOB.find_node("Trade/Fine") == JOB.find_node("Fine") == (3, 4)
    assert question(JOB.find_node, "Mason") == "it has no node 'Mason'."
    assert question(JOB.find_node, "Trades") == "it has no node 'Trades'. Did you mean 'Trade'?"
    assert question(SEX.find_node, "F") == "it has no node 'F'."
    twice = Nominal(hierarchy={"A": {"x": ["1"]}, "B": {"x": ["2"]}})
    assert question(twice.find_node, "x") == "several nodes are called 'x': '/A/x', '/B/x'"


# --- mistakes in a plan -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "where", "why"),
    [
        ({"range": [0, 1]}, "", "needs a kind: ordinal, date, nominal or boolean"),
        ({"kind": "text"}, "", "needs a kind: ordinal, date, nominal or boolean"),
        ({"kind": "ordinal", "range": [5, 4]}, "ordinal.range", "is empty: 5 is above 4"),
        ({"kind": "ordinal", "range": [0, 2**53]}, "ordinal.range", "must stay within ±2^53"),
        ({"kind": "ordinal", "edges": [1]}, "binned", "edges need at least two numbers"),
        (
            {"kind": "ordinal", "edges": ["0", "2", "1.5"]},
            "binned",
            "the bins overlap: edge 1.5 comes after edge 2; edges must increase",
        ),
        (
            {"kind": "ordinal", "edges": ["0", "0.0"]},
            "binned",
            "the bins overlap: edge 0 comes after edge 0; edges must increase",
        ),
        ({"kind": "ordinal", "bin": 2}, "binned", "give either range and bin, or edges"),
        (
            {"kind": "ordinal", "bin": 2, "range": [0, 4], "edges": [0, 4]},
            "binned",
            "give either range and bin, or edges",
        ),
        (
            {"kind": "ordinal", "range": [0, 4], "edges": [0, 4]},
            "binned",
            "give either range and bin, or edges",
        ),
        ({"kind": "ordinal", "bin": 0, "range": [0, 4]}, "binned", "the bin width must be above 0, not 0"),
        (
            {"kind": "ordinal", "bin": 1, "range": [4, 4]},
            "binned",
            "the range is empty: 4 is not below 4",
        ),
        (
            {"kind": "ordinal", "bin": 1000, "range": [0, 1999]},
            "binned",
            "the range 0 to 1999 is not a whole number of bins of width 1000; end it at 2000",
        ),
        (
            {"kind": "ordinal", "bin": "0.001", "range": [0, 1000000]},
            "binned",
            "the range has more than 100 million bins",
        ),
        (
            {"kind": "ordinal", "bin": 1, "range": [0, 4], "represent": "mean"},
            "binned.represent",
            "Input should be 'middle', 'lower' or 'upper'",
        ),
        (
            {"kind": "ordinal", "range": [0, 4], "represent": "lower"},
            "ordinal.represent",
            "Extra inputs are not permitted",
        ),
        ({"kind": "ordinal", "bin": "x", "range": [0, 4]}, "binned.bin", "must be a number"),
        ({"kind": "ordinal", "bin": True, "range": [0, 4]}, "binned.bin", "must be a number"),
        ({"kind": "ordinal", "bin": "inf", "range": [0, 4]}, "binned.bin", "must be a finite number"),
        (
            {"kind": "ordinal", "edges": [0, "1e16"]},
            "binned.edges.1",
            "must lie within ±10^15 and have at most 12 decimals",
        ),
        (
            {"kind": "ordinal", "edges": [0, "1e-13"]},
            "binned.edges.1",
            "must lie within ±10^15 and have at most 12 decimals",
        ),
        (
            {"kind": "date", "range": ["2026-02-01", "2026-01-01"]},
            "date",
            "the range is empty: 2026-02-01 is after 2026-01-01",
        ),
        (
            {"kind": "date", "range": ["2026-01-02", "2026-12-30"], "period": "month"},
            "date",
            "the range cuts a month in two; write range: [2026-01-01, 2026-12-31]",
        ),
        (
            {"kind": "date", "range": ["2026-01-01", "2026-01-31"], "period": "week"},
            "date",
            "the range cuts a week in two; write range: [2025-12-29, 2026-02-01]",
        ),
        (
            {"kind": "date", "range": ["2026-01-01", "soon"]},
            "date.range.1",
            "must be a day such as 2026-01-31",
        ),
        (
            {"kind": "date", "range": ["2026-01-01", "9999-12-31"]},
            "date.range.1",
            "must be a day before the year 9999",
        ),
        ({"kind": "nominal"}, "nominal", "give either values or hierarchy"),
        (
            {"kind": "nominal", "values": ["a"], "hierarchy": ["a"]},
            "nominal",
            "give either values or hierarchy",
        ),
        ({"kind": "nominal", "values": []}, "nominal.values", "is empty; list at least one label"),
        (
            {"kind": "nominal", "values": ["b", "a", "a", "b ", "c"]},
            "nominal.values",
            "has 'a', 'b' more than once; every label must stand once",
        ),
        (
            {"kind": "nominal", "values": ["a", " "]},
            "nominal.values.1",
            "String should have at least 1 character",
        ),
        ({"kind": "nominal", "values": ["a", None]}, "nominal.values.1", "Input should be a valid string"),
        (
            {"kind": "nominal", "hierarchy": {"A": ["a", "a"]}},
            "nominal.hierarchy",
            "the hierarchy has the leaf 'a' twice; every leaf must stand once",
        ),
        (
            {"kind": "nominal", "values": ["(other)"], "outside": "other"},
            "nominal",
            "outside: other adds the label (other), which is also one of its own labels",
        ),
        (
            {"kind": "nominal", "values": ["a"], "outside": "clamp"},
            "nominal",
            "outside: clamp needs an ordered attribute, and a nominal one has no order",
        ),
        (
            {"kind": "boolean", "outside": "clamp"},
            "boolean",
            "outside: clamp needs an ordered attribute, and a boolean one has no order",
        ),
        (
            {"kind": "boolean", "missing": "other"},
            "boolean.missing",
            "Input should be 'error', 'drop' or 'own-category'",
        ),
        ({"kind": "boolean", "colour": "red"}, "boolean.colour", "Extra inputs are not permitted"),
    ],
)
def test_mistakes(keys: dict[str, Any], where: str, why: str) -> None:
    assert refusal(**keys) == (where, why)
