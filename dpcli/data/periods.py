"""Days grouped by period: the number of a period, its first day and its label.

A period's number counts periods since 1970-01-01 (weeks start on Monday), so that the numbers of a column
of days can be had by whole-array arithmetic.
"""

from __future__ import annotations

import datetime as dt
from typing import Literal

Period = Literal["day", "week", "month", "quarter", "year"]
MONTHS = {"month": 1, "quarter": 3, "year": 12}
_EPOCH = dt.date(1970, 1, 1)


def period_index(day: dt.date, period: Period) -> int:
    """Return the number of the period that holds ``day``."""
    if period in MONTHS:
        return ((day.year - 1970) * 12 + day.month - 1) // MONTHS[period]
    days = (day - _EPOCH).days
    return days if period == "day" else (days + 3) // 7  # 1970-01-01 was a Thursday


def period_first_day(index: int, period: Period) -> dt.date:
    """Return the first day of a period."""
    if period in MONTHS:
        month = index * MONTHS[period]
        return dt.date(1970 + month // 12, month % 12 + 1, 1)
    return _EPOCH + dt.timedelta(days=index if period == "day" else index * 7 - 3)


def period_label(index: int, period: Period) -> str:
    """Return a period's label: 2026-01-31, 2026-W05, 2026-01, 2026-Q1 or 2026."""
    first = period_first_day(index, period)
    if period == "week":
        year, week, _ = first.isocalendar()
        return f"{year:04d}-W{week:02d}"
    if period == "quarter":
        return f"{first.year:04d}-Q{first.month // 3 + 1}"
    return first.isoformat()[: {"day": 10, "month": 7, "year": 4}[period]]
