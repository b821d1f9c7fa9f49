"""Periods are numbered since 1970, and numbers, first days and labels agree."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.data.periods import period_first_day, period_index, period_label

PERIODS = ("day", "week", "month", "quarter", "year")
DAYS = st.dates(dt.date(1, 1, 8), dt.date(9998, 12, 31))


@pytest.mark.parametrize("period", PERIODS)
def test_the_epoch_is_in_period_zero(period: Any) -> None:
    assert period_index(dt.date(1970, 1, 1), period) == 0


@given(day=DAYS, period=st.sampled_from(PERIODS))
def test_a_day_lies_in_its_period_and_before_the_next(day: dt.date, period: Any) -> None:
    index = period_index(day, period)
    assert period_first_day(index, period) <= day < period_first_day(index + 1, period)
    assert period_index(period_first_day(index, period), period) == index


@given(day=DAYS)
def test_weeks_start_on_monday(day: dt.date) -> None:
    assert period_first_day(period_index(day, "week"), "week").weekday() == 0


@given(one=DAYS, other=DAYS, period=st.sampled_from(PERIODS))
def test_labels_sort_as_days_do(one: dt.date, other: dt.date, period: Any) -> None:
    first, second = period_index(one, period), period_index(other, period)
    assert (first < second) == (period_label(first, period) < period_label(second, period))


@pytest.mark.parametrize(
    ("period", "day", "label"),
    [
        ("day", dt.date(2026, 1, 31), "2026-01-31"),
        ("week", dt.date(2026, 1, 31), "2026-W05"),
        ("week", dt.date(2027, 1, 3), "2026-W53"),
        ("week", dt.date(2024, 12, 30), "2025-W01"),
        ("month", dt.date(2026, 1, 31), "2026-01"),
        ("quarter", dt.date(2026, 3, 31), "2026-Q1"),
        ("quarter", dt.date(2026, 4, 1), "2026-Q2"),
        ("quarter", dt.date(1969, 12, 31), "1969-Q4"),
        ("year", dt.date(1969, 12, 31), "1969"),
        ("year", dt.date(33, 4, 3), "0033"),
    ],
)
def test_labels(period: Any, day: dt.date, label: str) -> None:
    assert period_label(period_index(day, period), period) == label
