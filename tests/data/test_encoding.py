"""Columns of every type become the categories of every kind of attribute."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcli.data.attributes import Attribute, Binned, Boolean, Dates, Integers, Nominal
from dpcli.data.encoding import DROPPED, MISSING, OUTSIDE, encode
from dpcli.errors import DataError

AGE = Integers(range=(0, 9))
YEAR = Dates(range=("2026-01-01", "2026-12-31"), period="month")
TENS = Binned(range=("0", "30"), bin="10")
FRACTIONS = Binned(edges=("0", "0.1", "0.3", "1"))
SEX = Nominal(values=("F", "M"))


def codes(attribute: Attribute, values: Any, kind: pa.DataType | None = None) -> list[int]:
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)
    found = encode("x", attribute, column)
    assert found.dtype == np.int64
    return found.tolist()


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    ids=str,
)
def test_whole_numbers_of_every_width(kind: pa.DataType) -> None:
    assert codes(AGE, [0, 9, 10, None], kind) == [0, 9, OUTSIDE, MISSING]
    assert codes(TENS, [0, 10, 29, 30, 31, None], kind) == [0, 1, 2, 2, OUTSIDE, MISSING]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_are_whole_numbers_where_they_are_whole(kind: pa.DataType) -> None:
    values = np.array([0, 9, 3.5, -1, 9.5, np.inf, -np.inf, np.nan], kind.to_pandas_dtype())
    column = pa.concat_arrays([pa.array(values, kind), pa.nulls(1, kind)])
    assert codes(AGE, column) == [0, 9, *[OUTSIDE] * 5, MISSING, MISSING]
    bins = [0, 0, 0, OUTSIDE, 0, OUTSIDE, OUTSIDE, MISSING, MISSING]
    assert codes(TENS, column) == bins


def test_decimals_are_read_by_their_digits() -> None:
    kind = pa.decimal128(6, 2)
    values = [Decimal("3.00"), Decimal("3.50"), Decimal("-1"), None]
    assert codes(AGE, values, kind) == [3, OUTSIDE, OUTSIDE, MISSING]
    edges = [Decimal("0.10"), Decimal("0.09"), Decimal("0.30"), Decimal("1.00"), Decimal("1.01")]
    assert codes(FRACTIONS, edges, kind) == [1, 0, 2, 2, OUTSIDE]
    assert codes(FRACTIONS, edges, pa.decimal256(50, 12)) == [1, 0, 2, 2, OUTSIDE]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_numbers_in_text(kind: pa.DataType) -> None:
    texts = ["7", " 7\t", "+7", "7.0", "7.", ".7e1", "0.07E+2", "-0", "1e999", "-inf", "Infinity"]
    expected = [7, 7, 7, 7, 7, 7, 7, 0, OUTSIDE, OUTSIDE, OUTSIDE]
    assert codes(AGE, texts, kind) == expected
    junk = ["seven", "7,0", "1_0", "0x7", "nan", "7 7", "--7", "e5", ".", "٣", "true"]
    assert codes(AGE, junk, kind) == [OUTSIDE] * len(junk)
    assert codes(AGE, ["", "  ", None], kind) == [MISSING] * 3
    assert codes(TENS, ["9.999", "1e1", "30", "30.001", "x", ""], kind) == [
        0,
        1,
        2,
        OUTSIDE,
        OUTSIDE,
        MISSING,
    ]


def test_bytes_are_text() -> None:
    assert codes(AGE, [b"7", b"x", None]) == [7, OUTSIDE, MISSING]
    assert codes(SEX, [b"F", b"M"], pa.binary(1)) == [0, 1]


def test_edges_in_text_fall_where_the_plan_says() -> None:
    tenths = Binned(range=("0", "1"), bin="0.1")
    edges = [str(Decimal(step) / 10) for step in range(11)]
    assert codes(tenths, edges) == [*range(10), 9]
    assert codes(tenths, [float(edge) for edge in edges]) == [*range(10), 9]


def test_equal_bins_of_whole_numbers_agree_with_the_same_edges() -> None:
    values = np.arange(-40, 41)
    equal = Binned(range=("-30", "30"), bin="4", outside="other")
    edges = Binned(edges=tuple(str(edge) for edge in range(-30, 31, 4)), outside="other")
    assert codes(equal, values) == codes(edges, values) == codes(equal, values.astype(float))
    ones = Binned(range=("0", "5"), bin="1")
    assert codes(ones, [0, 4, 5, 6, 7]) == [0, 4, 4, OUTSIDE, OUTSIDE]


def test_the_largest_numbers_do_not_wrap_around() -> None:
    low, high = -(2**63), 2**63 - 1
    for attribute in (AGE, Integers(range=(-(2**53) + 1, 2**53 - 1)), TENS):
        assert codes(attribute, [low, high]) == [OUTSIDE, OUTSIDE]
        clamped = attribute.model_copy(update={"outside": "clamp"})
        assert codes(clamped, [low, high]) == [0, attribute.regular - 1]
        assert codes(clamped, [2**64 - 1], pa.uint64()) == [attribute.regular - 1]


def test_rules_for_values_outside() -> None:
    values = [-5, 3, 12]
    assert codes(AGE, values) == [OUTSIDE, 3, OUTSIDE]
    assert codes(Integers(range=(0, 9), outside="drop"), values) == [DROPPED, 3, DROPPED]
    assert codes(Integers(range=(0, 9), outside="other"), values) == [10, 3, 10]
    assert codes(Integers(range=(0, 9), outside="clamp"), values) == [0, 3, 9]


def test_clamping_needs_a_place_in_the_order() -> None:
    clamp = Integers(range=(0, 9), outside="clamp")
    assert codes(clamp, ["-inf", "-0.5", "9.5", "inf", "3.5", "x"]) == [0, 0, 9, 9, OUTSIDE, OUTSIDE]
    assert codes(clamp, [-np.inf, -0.5, 9.5, np.inf, 3.5]) == [0, 0, 9, 9, OUTSIDE]
    bins = Binned(range=("0", "30"), bin="10", outside="clamp")
    assert codes(bins, ["-1", "31", "inf", "x"]) == [0, 2, 2, OUTSIDE]
    days = Dates(range=("2026-01-01", "2026-12-31"), period="month", outside="clamp")
    assert codes(days, ["2025-12-31", "2027-01-01", "2026-02-30"]) == [0, 11, OUTSIDE]


def test_rules_for_missing_values() -> None:
    for kind in (pa.int64(), pa.string(), pa.null()):
        column = pa.nulls(2, kind)
        assert codes(AGE, column) == [MISSING, MISSING]
        assert codes(Integers(range=(0, 9), missing="drop"), column) == [DROPPED, DROPPED]
        both = Integers(range=(0, 9), outside="other", missing="own-category")
        assert codes(both, column) == [11, 11]
    assert codes(both, [10.0, float("nan")]) == [10, 11]


def test_days_of_every_type() -> None:
    days = [dt.date(2026, 1, 31), dt.date(2026, 12, 31), dt.date(2025, 12, 31), dt.date(1960, 2, 29), None]
    expected = [0, 11, OUTSIDE, OUTSIDE, MISSING]
    assert codes(YEAR, days, pa.date32()) == expected
    assert codes(YEAR, days, pa.date64()) == expected
    assert codes(YEAR, pa.array(days).dictionary_encode()) == expected
    for unit in ("s", "ms", "us", "ns"):
        late = [day and dt.datetime.combine(day, dt.time(23, 59, 59)) for day in days]
        assert codes(YEAR, late, pa.timestamp(unit)) == expected


def test_times_with_a_zone_are_read_by_their_wall_clock() -> None:
    late = [dt.datetime(2026, 1, 31, 23, 30, tzinfo=dt.UTC), None]
    assert codes(YEAR, late, pa.timestamp("us", "UTC")) == [0, MISSING]
    assert codes(YEAR, late, pa.timestamp("us", "Europe/Berlin")) == [1, MISSING]
    assert codes(YEAR, late, pa.timestamp("us", "-05:00")) == [0, MISSING]


def test_days_in_text() -> None:
    good = {
        "2026-01-31": 0,
        " 2026-02-28 ": 1,
        "2026-03-01 10:20:00": 2,
        "2026-04-01T10:20": 3,
        "2026-05-31T23:59:60.123Z": 4,
        "2026-06-30T23:00:00+05:30": 5,
        "2026-12-31 00:00:00 -0100": 11,
    }
    assert codes(YEAR, list(good)) == list(good.values())
    bad = ["31.12.2026", "2026-1-1", "20260131", "2026-02-30", "2026-00-10", "2026-13-01", "2026-01-00"]
    bad += ["2026", "2026-01", "x", "2026-01-31 24:00", "2026-01-31T10:61", "2026-01-31 10", "2026-01-31x"]
    assert codes(YEAR, bad) == [OUTSIDE] * len(bad)
    leap = Dates(range=("2024-02-29", "2024-02-29"))
    assert codes(leap, ["2024-02-29", "2023-02-29"]) == [0, OUTSIDE]


@pytest.mark.parametrize("period", ["day", "week", "month", "quarter", "year"])
def test_periods_agree_with_their_labels(period: Any) -> None:
    first, last = {
        "week": (dt.date(1968, 12, 30), dt.date(1971, 1, 3)),
    }.get(period, (dt.date(1968, 1, 1), dt.date(1972, 12, 31)))
    attribute = Dates(range=(first, last), period=period)
    days = [first + dt.timedelta(days=step) for step in range((last - first).days + 1)]

    def label(day: dt.date) -> str:
        year, week, _ = day.isocalendar()
        return {
            "day": f"{day}",
            "week": f"{year}-W{week:02d}",
            "month": f"{day:%Y-%m}",
            "quarter": f"{day.year}-Q{(day.month + 2) // 3}",
            "year": f"{day.year}",
        }[period]

    expected = [attribute.regular_labels.index(label(day)) for day in days]
    assert codes(attribute, days) == expected
    assert codes(attribute, [str(day) for day in days]) == expected


def test_labels_match_exactly_but_for_blanks_around() -> None:
    assert codes(SEX, ["F", " M ", "f", "X", "", None]) == [0, 1, OUTSIDE, OUTSIDE, MISSING, MISSING]
    assert codes(SEX, pa.array(["M", None, "F"]).dictionary_encode()) == [1, MISSING, 0]
    names = Nominal(values=("Ærø", "a b", "ﬁ"))
    assert codes(names, ["Ærø", "a b", "a  b", "fi"]) == [0, 1, OUTSIDE, OUTSIDE]
    tree = Nominal(hierarchy={"Health": ["Nurse", "Dentist"], "Retired": None})
    assert codes(tree, ["Retired", "Nurse", "Health"]) == [2, 0, OUTSIDE]


def test_labels_of_numbers_and_other_types() -> None:
    labels = Nominal(values=("1", "-2", "3.5", "123456789012", "true", "2026-01-31"))
    assert codes(labels, [1, -2, 3, None]) == [0, 1, OUTSIDE, MISSING]
    floats = [1.0, -2.0, 3.5, 123456789012.0, 1e300, float("nan"), None]
    assert codes(labels, floats) == [0, 1, 2, 3, OUTSIDE, MISSING, MISSING]
    kind = pa.decimal128(16, 2)
    assert codes(labels, [Decimal("1.00"), Decimal("-2"), Decimal("3.50"), Decimal("3.51")], kind) == [
        *(0, 1, 2, OUTSIDE)
    ]
    assert codes(Nominal(values=("100", "20")), [Decimal(100), Decimal(20)], pa.decimal128(5, 0)) == [0, 1]
    assert codes(labels, [True, False]) == [4, OUTSIDE]
    assert codes(labels, [dt.date(2026, 1, 31)]) == [5]


def test_booleans() -> None:
    true, false = ["true", "T", "Yes", "y", "1"], ["FALSE", "f", "no", "N", "0"]
    assert codes(Boolean(), true + false) == [1] * 5 + [0] * 5
    assert codes(Boolean(), ["ja", "2", ""]) == [OUTSIDE, OUTSIDE, MISSING]
    assert codes(Boolean(), [True, False, None]) == [1, 0, MISSING]
    assert codes(Boolean(), [1, 0, 2]) == codes(Boolean(), [1.0, 0.0, 0.5]) == [1, 0, OUTSIDE]
    assert codes(AGE, [True, False]) == [1, 0]


def test_chunks_and_dictionaries() -> None:
    chunks = [pa.array(["F", "M"]).dictionary_encode(), pa.array(["x", "F", None]).dictionary_encode()]
    assert codes(SEX, pa.chunked_array(chunks)) == [0, 1, OUTSIDE, 0, MISSING]
    assert codes(SEX, pa.chunked_array([], pa.string())) == []
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["F", None]))
    assert codes(SEX, with_null) == [0, MISSING, MISSING]
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.uint8()), pa.array([3, 44]))
    assert codes(AGE, numbers) == [OUTSIDE, 3, OUTSIDE]
    assert codes(AGE, pa.array([5, 6, 7, None])[1:3]) == [6, 7]


@pytest.mark.parametrize(
    "attribute", [AGE, TENS, FRACTIONS, YEAR, SEX, Boolean()], ids=lambda attribute: type(attribute).__name__
)
def test_no_rows(attribute: Attribute) -> None:
    assert codes(attribute, [], pa.string()) == codes(attribute, [], pa.null()) == []


@pytest.mark.parametrize(
    ("attribute", "column", "kind"),
    [
        (AGE, pa.array([dt.date(2026, 1, 1)]), "date32[day]"),
        (TENS, pa.array([[1]]), "list<item: int64>"),
        (YEAR, pa.array([2026]), "int64"),
        (YEAR, pa.array([True]).dictionary_encode(), "bool"),
        (SEX, pa.array([{"a": 1}]), "struct<a: int64>"),
        (SEX, pa.array([dt.time(1)]), "time64[us]"),
        (Boolean(), pa.array([dt.timedelta(1)]), "duration[us]"),
    ],
)
def test_types_that_do_not_suit(attribute: Attribute, column: pa.Array, kind: str) -> None:
    with pytest.raises(DataError) as caught:
        encode("x", attribute, column)
    assert str(caught.value) == (
        f"Column 'x' has the type {kind}, which does not suit the kind '{attribute.kind}'."
        " Change the column's type, or the kind in the plan."
    )
    assert caught.value.exit_code == 3
    assert caught.value.__suppress_context__


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(DataError) as caught:
        encode("x", SEX, pa.array([b"secret\xff"]))
    assert str(caught.value) == "Column 'x' holds text that is not UTF-8. Store the column as UTF-8 text."


def test_an_unknown_time_zone() -> None:
    with pytest.raises(DataError) as caught:
        encode("x", YEAR, pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("s", "No/Where")))
    assert str(caught.value) == (
        "Column 'x' has the time zone 'No/Where', which is not known here."
        " Store the column with a known time zone, or without one."
    )
