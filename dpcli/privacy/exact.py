"""Exact privacy numbers: fractions read from the digits written, never through a float."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_EXACT = re.compile(r"\d{1,60}(\.\d{1,60}|/[1-9]\d{0,59})?", re.ASCII)
_DECIMAL = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
SMALLEST, LARGEST = Fraction(1, 10**9), Fraction(10**6)


def parse_epsilon(value: Any) -> Fraction:
    """Read a positive decimal such as ``"0.1"`` or ``1e-3`` as the exact fraction that its digits say.

    Raises ``ValueError`` for anything else; a float is refused because its digits are not what was written.
    """
    if isinstance(value, Fraction):
        number = value
    else:
        if isinstance(value, (bool, float)) or not isinstance(value, (str, int, Decimal)):
            raise ValueError("must be a decimal written as text, such as '0.5'")
        text = str(value).strip()
        if text.startswith("-"):
            raise ValueError(f"must be above 0, not {text}")
        if not _DECIMAL.fullmatch(text):
            raise ValueError(f"must be a decimal such as 0.5, not {text!r}")
        if len(text) > 40:
            raise ValueError("must not have more than 40 digits")
        number = Fraction(text)
    if number <= 0:
        raise ValueError("must be above 0")
    if not SMALLEST <= number <= LARGEST:
        raise ValueError("must lie between 1e-9 and 1000000")
    return number


def parse_exact(value: Any) -> Fraction:
    """Read what :func:`exact_text` writes, a decimal or a fraction above 0, as it stands in a file."""
    if not isinstance(value, str) or not _EXACT.fullmatch(value) or "/0" in value[-2:]:
        raise ValueError("must be a positive number written as 0.5 or 1/3")
    number = Fraction(value)
    if number <= 0:
        raise ValueError("must be above 0")
    return number


def exact_text(number: Fraction) -> str:
    """Write a fraction exactly: ``0.3`` where it is a finite decimal, ``1/3`` where it is not."""
    denominator, twos, fives = number.denominator, 0, 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    if denominator != 1:
        return f"{number.numerator}/{number.denominator}"
    places = max(twos, fives)
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    whole, part = (digits[:-places], digits[-places:]) if places else (digits, "")
    return ("-" if number < 0 else "") + whole + (f".{part}" if part else "")


Exact = Annotated[
    Fraction,
    BeforeValidator(lambda value: value if isinstance(value, Fraction) else parse_exact(value)),
    PlainSerializer(exact_text, return_type=str),
]
"""A positive fraction, kept in files as text."""

Epsilon = Annotated[
    Fraction,
    BeforeValidator(parse_epsilon),
    PlainSerializer(exact_text, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "description": "A decimal above 0, kept as written."}),
]
