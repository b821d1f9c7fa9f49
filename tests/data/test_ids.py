"""Ids: what is one person in spite of its spelling, what are two, and what is none."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.data.ids import read_ids
from dpcli.errors import DataError


def people(column: pa.Array) -> list[Any]:
    """Return for each row who owns it: a number, a text, or None."""
    ids = read_ids("person_id", column)
    texts = [None] * len(column) if ids.texts is None else ids.texts.to_pylist()
    missing = np.zeros(len(column), bool) if ids.missing is None else ids.missing
    return [
        None if gone else number if text is None else text
        for number, text, gone in zip(ids.numbers.tolist(), texts, missing, strict=True)
    ]


SEVEN = [
    pa.array([7], pa.int8()),
    pa.array([7], pa.uint64()),
    pa.array([7.0], pa.float32()),
    pa.array([7.0]),
    pa.array([Decimal("7.00")]),
    *(pa.array([text]) for text in ("7", " 7\t", "007", "+7", "7.", "7.00", "\u00a07", "0" * 30 + "7")),
    pa.array(["7"], pa.large_string()),
    pa.array(["7"], pa.string_view()),
    pa.array([b"7"]),
    pa.array(["7"]).dictionary_encode(),
    pa.array([7]).dictionary_encode(),
]


@pytest.mark.parametrize("column", SEVEN, ids=lambda column: f"{column.type} {column[0]!s}")
def test_ways_to_write_seven(column: pa.Array) -> None:
    assert people(column) == [7]
    assert people(pa.concat_arrays([column, column.slice(0, 0)])) == [7]


@pytest.mark.parametrize(
    ("column", "owners"),
    [
        (pa.array([-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
        (
            pa.array([str(-(2**63)), str(2**63 - 1), f"+000{2**63 - 1}.0", "-0", "-07"]),
            [-(2**63), 2**63 - 1, 2**63 - 1, 0, -7],
        ),
        (pa.array([2**63, 5, None], pa.uint64()), [str(2**63), 5, None]),
        (
            pa.array([str(2**63), str(-(2**63) - 1), f"00{2**63}"]),
            [str(2**63), str(-(2**63) - 1), str(2**63)],
        ),
        (pa.array([Decimal(2**63), Decimal(3), None]), [str(2**63), 3, None]),
        (pa.array([1.0, 1.5, float("nan"), None, -0.0]), [1, "1.5", None, None, 0]),
        (pa.array(["a", " a ", "A", "a b", "", " ", None]), ["a", "a", "A", "a b", None, None, None]),
        (pa.array(["e\u0301", "\u00e9", "7"]), ["\u00e9", "\u00e9", 7]),
        (
            pa.array(["0x10", "1e3", "7.5", "--7", "7-", "+", "."]),
            ["0x10", "1e3", "7.5", "--7", "7-", "+", "."],
        ),
        (pa.array(["b", None, "7", "b"]).dictionary_encode(), ["b", None, 7, "b"]),
        (pa.array([5, None, 5]).dictionary_encode(), [5, None, 5]),
        (pa.array([dt.date(2026, 1, 31), None]), ["2026-01-31", None]),
        (pa.array([dt.date(2026, 1, 31)], pa.date64()), ["2026-01-31"]),
        (pa.nulls(2), [None, None]),
        (pa.array([], pa.string()), []),
        (pa.array([], pa.uint64()), []),
        (pa.array([None], pa.uint64()), [None]),
    ],
)
def test_who_owns_a_row(column: pa.Array, owners: list[Any]) -> None:
    assert people(column) == owners


@given(st.lists(st.text(max_size=4) | st.integers().map(str) | st.integers(-9, 9).map("{:+05d}".format)))
def test_who_an_id_stands_for_does_not_depend_on_others(texts: list[str]) -> None:
    whole = people(pa.array(texts, pa.string()))
    assert whole == [owner for text in texts for owner in people(pa.array([text]))]
    assert whole == people(pa.array(texts, pa.string()).dictionary_encode())


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_and_their_texts_are_the_same_people(numbers: list[int]) -> None:
    column = pa.array(numbers, pa.int64())
    assert people(column) == people(column.cast(pa.string())) == numbers


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([True]),
        pa.array([dt.datetime(2026, 1, 1)]),
        pa.array([dt.timedelta(1)]),
        pa.array([{"secret": 1}]),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_are_no_ids(column: pa.Array) -> None:
    with pytest.raises(DataError) as caught:
        read_ids("person_id", column)
    assert str(caught.value) == (
        f"Column 'person_id' has the type {column.type}, by which people are not told apart. Store their ids as"
        " whole numbers or as text."
    )


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(DataError) as caught:
        read_ids("person_id", pa.array([b"\xff"]))
    assert str(caught.value) == (
        "Column 'person_id' holds text that is not UTF-8. Store the column as UTF-8 text."
    )
