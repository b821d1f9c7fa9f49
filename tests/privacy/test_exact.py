"""Exact numbers: what is written is what is kept."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.privacy.exact import exact_text, parse_epsilon


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("1.0", Fraction(1)),
        ("0.1", Fraction(1, 10)),
        (" .5 ", Fraction(1, 2)),
        ("1e-3", Fraction(1, 1000)),
        ("0.30000000000000004", Fraction(30000000000000004, 10**17)),
        (2, Fraction(2)),
        (Decimal("0.7"), Fraction(7, 10)),
    ],
)
def test_digits_are_kept(written: object, exact: Fraction) -> None:
    assert parse_epsilon(written) == exact


def test_three_tenths_and_seven_tenths_are_one() -> None:
    assert parse_epsilon("0.3") + parse_epsilon("0.7") == 1


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0", "must be above 0"),
        ("0.000", "must be above 0"),
        ("-1", "must be above 0, not -1"),
        ("one", "must be a decimal such as 0.5, not 'one'"),
        ("1/3", "must be a decimal such as 0.5, not '1/3'"),
        ("inf", "must be a decimal such as 0.5, not 'inf'"),
        ("nan", "must be a decimal such as 0.5, not 'nan'"),
        ("", "must be a decimal such as 0.5, not ''"),
        (0.1, "must be a decimal written as text, such as '0.5'"),
        (True, "must be a decimal written as text, such as '0.5'"),
        (None, "must be a decimal written as text, such as '0.5'"),
        ("0." + "3" * 50, "must not have more than 40 digits"),
        ("1e-10", "must lie between 1e-9 and 1000000"),
        ("1e999", "must lie between 1e-9 and 1000000"),
    ],
)
def test_anything_else_is_refused(written: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_epsilon(written)
    assert str(caught.value) == message


@given(st.fractions())
def test_exact_text_loses_nothing(number: Fraction) -> None:
    assert Fraction(exact_text(number)) == number


def test_exact_text_prefers_decimals() -> None:
    assert [exact_text(Fraction(*pair)) for pair in [(3, 10), (7, 40), (5, 1), (1, 3), (-1, 2)]] == [
        "0.3",
        "0.175",
        "5",
        "1/3",
        "-0.5",
    ]
