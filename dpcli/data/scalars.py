"""Numbers and days as plans and queries write them: read from the digits, kept exactly."""

from __future__ import annotations

import datetime as dt
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from dpcli.errors import QueryError

_EXACT = Context(prec=27, traps=[Inexact, InvalidOperation])  # so that sums are exact in 28 digits
_READING = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_HUGE, _TINY = Decimal("1e20"), Decimal("1e-1000")
_LAST = dt.date(9999, 1, 1)  # after the last day that a plan may have, and days follow it


def _decimal(value: Any) -> Decimal:
    """Read a finite decimal from the digits written."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError("must be a number")
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        raise ValueError("must be a number") from None
    if not number.is_finite():
        raise ValueError("must be a finite number")
    try:
        number = number.quantize(Decimal("1e-12"), context=_EXACT)
    except ArithmeticError:
        raise ValueError("must lie within ±10^15 and have at most 12 decimals") from None
    return Decimal(plain(number + 0))


def _day(value: Any) -> dt.date:
    """Read a day written as 2026-01-31."""
    try:
        day = value if type(value) is dt.date else dt.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("must be a day such as 2026-01-31") from None
    if day.year > 9998:
        raise ValueError("must be a day before the year 9999")  # so that a following period exists
    return day


Number = Annotated[Decimal, BeforeValidator(_decimal), WithJsonSchema({"type": ["number", "string"]})]
Day = Annotated[dt.date, BeforeValidator(_day)]
Text = Annotated[
    str,
    Field(min_length=1),
    BeforeValidator(lambda v: v if v is None or isinstance(v, (dict, list)) else str(v).strip()),
]


def plain(number: Decimal) -> str:
    """Write a decimal without exponent and without trailing zeros: 1000, 0.5."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def query_number(text: str) -> Decimal:
    """Read a number in a query exactly, whatever its size.

    Far beyond all domains, or closer to zero than any two numbers of a plan are to each other, only its sign
    matters: such a number is replaced by another, which needs less memory in whole numbers and fractions.
    """
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = _READING.create_decimal(text.strip())  # infinite if only the exponent is too large
    if number.is_nan() or (number.is_infinite() and not any(sign.isdigit() for sign in text)):
        raise QueryError(f"{text!r} is not a number")
    if not number:
        return Decimal(0)
    if number.copy_abs() > _HUGE:
        return _HUGE.copy_sign(number)
    return _TINY.copy_sign(number) if number.adjusted() < _TINY.adjusted() else number


def query_day(text: str) -> dt.date:
    """Read a day in a query."""
    try:
        return min(dt.date.fromisoformat(text), _LAST)
    except ValueError:
        raise QueryError(f"{text!r} is not a date; write it as '2026-01-31'") from None
