"""Attributes with an order: whole numbers, binned numbers, dates by period."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator, model_validator

from dpcli.data.attribute import Attribute, Span
from dpcli.data.periods import Period, period_first_day, period_index, period_label
from dpcli.data.scalars import Day, Number, plain, query_day, query_number
from dpcli.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Integers(Attribute):
    """Whole numbers ``low .. high``, both included."""

    kind: Literal["ordinal"] = "ordinal"
    range: tuple[int, int] = Field(description="The lowest and the highest whole number, both included.")

    @field_validator("range")
    @classmethod
    def _increasing(cls, value: tuple[int, int]) -> tuple[int, int]:
        low, high = value
        if low > high:
            raise ValueError(f"is empty: {low} is above {high}")
        if max(abs(low), abs(high)) >= 2**53:
            raise ValueError("must stay within ±2^53")
        return value

    @cached_property
    def regular_labels(self) -> range:  # type: ignore[valid-type]
        low, high = self.range
        return range(low, high + 1)

    def _first_not_below(self, value: str, inclusive: bool) -> int:
        """Return the first whole number that is not below a cut."""
        number = query_number(value)
        whole = floor(number)  # not //, which cuts a Decimal off towards zero
        return whole + 1 if inclusive or number != whole else whole

    def below(self, value: str, *, inclusive: bool) -> int:
        return min(max(self._first_not_below(value, inclusive) - self.range[0], 0), self.regular)

    def beyond(self, value: str, *, inclusive: bool) -> bool:
        return not self.range[0] <= self._first_not_below(value, inclusive) <= self.range[1] + 1

    @property
    def extent(self) -> str:
        return f"{self.range[0]} to {self.range[1]}"

    def numbers(self) -> NDArray[np.float64]:
        import numpy as np

        return self._numbers(np.arange(self.range[0], self.range[1] + 1))

    def find(self, value: str) -> Span:
        number = query_number(value)
        return self.below(value, inclusive=False), self.below(value, inclusive=number == floor(number))


class Binned(Attribute):
    """Numbers in bins ``[e0, e1), [e1, e2), …``; the last bin holds its upper edge too."""

    kind: Literal["ordinal"] = "ordinal"
    range: tuple[Number, Number] | None = Field(None, description="The lowest and the highest number.")
    bin: Number | None = Field(None, description="The width of the bins that divide the range.")
    edges: tuple[Number, ...] | None = Field(None, description="The edges of the bins, in increasing order.")
    represent: Literal["middle", "lower", "upper"] = Field(
        "middle", description="Where in a bin lies the number that stands for it in sums and averages."
    )

    @model_validator(mode="after")
    def _either_range_or_edges(self) -> Binned:
        if (self.edges is None) == (self.range is None) or (self.bin is None) != (self.range is None):
            raise ValueError("give either range and bin, or edges")
        if self.range is not None and self.bin is not None:
            low, high = self.range
            if self.bin <= 0:
                raise ValueError(f"the bin width must be above 0, not {self.bin}")
            if low >= high:
                raise ValueError(f"the range is empty: {low} is not below {high}")
            if (high - low) % self.bin:
                raise ValueError(
                    f"the range {low} to {high} is not a whole number of bins of width {self.bin};"
                    f" end it at {low + ((high - low) // self.bin + 1) * self.bin}"
                )
            if (high - low) / self.bin > 10**8:
                raise ValueError("the range has more than 100 million bins")
        elif self.edges is not None:
            if len(self.edges) < 2:
                raise ValueError("edges need at least two numbers")
            for before, after in pairwise(self.edges):
                if after <= before:
                    raise ValueError(
                        f"the bins overlap: edge {after} comes after edge {before}; edges must increase"
                    )
        return self

    @cached_property
    def cuts(self) -> list[Decimal]:
        """The edges, lowest first."""
        if self.edges is not None:
            return list(self.edges)
        assert self.range is not None
        assert self.bin is not None
        low, high = self.range
        return [low + step * self.bin for step in range(int((high - low) / self.bin) + 1)]

    @property
    def regular(self) -> int:
        if self.range is not None and self.bin is not None:
            return int((self.range[1] - self.range[0]) / self.bin)
        return len(self.cuts) - 1

    @cached_property
    def regular_labels(self) -> list[str]:
        texts = [plain(cut) for cut in self.cuts]
        last = len(texts) - 2
        return [f"[{a}, {b}{']' if i == last else ')'}" for i, (a, b) in enumerate(pairwise(texts))]

    def below(self, value: str, *, inclusive: bool) -> int:
        number = query_number(value)
        place = bisect_left(self.cuts, number)
        if number < self.cuts[0] or (place == 0 and not inclusive):
            return 0
        if number > self.cuts[-1] or (number == self.cuts[-1] and inclusive):
            return self.regular
        if not inclusive and self.cuts[place] == number and place < self.regular:
            return place
        inside = min(bisect_right(self.cuts, number) - 1, self.regular - 1)
        low, high = plain(self.cuts[inside]), plain(self.cuts[inside + 1])
        sign = "<= or >" if inclusive else "< or >="
        last = inside == self.regular - 1
        shown = min(plain(number), value.strip(), key=len)
        raise QueryError(
            f"a cut with {sign} {shown} falls inside its bin {self.regular_labels[inside]};"
            f" cut with < or >= at an edge, such as {low}"
            + (f", or with <= or > at the last one, {high}" if last else f" or {high}")
            + "; or ask with --interpolate, which takes the bin's rows as evenly spread"
        )

    def spread_below(self, value: str, *, inclusive: bool) -> Fraction:
        number = query_number(value)
        if not self.cuts[0] < number < self.cuts[-1]:
            return Fraction(0 if number <= self.cuts[0] else self.regular)
        inside = bisect_right(self.cuts, number) - 1
        low, high = map(Fraction, self.cuts[inside : inside + 2])
        return inside + (Fraction(number) - low) / (high - low)

    def beyond(self, value: str, *, inclusive: bool) -> bool:
        return not self.cuts[0] <= query_number(value) <= self.cuts[-1]

    @property
    def extent(self) -> str:
        return f"{plain(self.cuts[0])} to {plain(self.cuts[-1])}"

    def numbers(self) -> NDArray[np.float64]:
        import numpy as np

        edges = np.array(self.cuts, np.float64)
        lower, upper = edges[:-1], edges[1:]
        chosen = {"lower": lower, "upper": upper, "middle": (lower + upper) / 2}
        return self._numbers(chosen[self.represent])

    def find(self, value: str) -> Span:
        place = self._place_of.get(value)
        if place is not None:
            return place, place + 1
        number = query_number(value)
        near = min(max(bisect_right(self.cuts, number) - 1, 0), self.regular - 1)
        raise QueryError(
            f"it is binned, so = and in (…) take a whole bin such as '{self.regular_labels[near]}',"
            f" not {value!r}; for numbers use >= and <"
        )


class Dates(Attribute):
    """Days grouped by period; the range starts with a period's first day and ends with one's last."""

    kind: Literal["date"] = "date"
    range: tuple[Day, Day] = Field(description="The first and the last day, both included.")
    period: Period = Field("day", description="How days are grouped.")

    @model_validator(mode="after")
    def _whole_periods(self) -> Dates:
        first, last = self.range
        if first > last:
            raise ValueError(f"the range is empty: {first} is after {last}")
        start = period_first_day(period_index(first, self.period), self.period)
        stop = period_first_day(period_index(last, self.period) + 1, self.period) - dt.timedelta(days=1)
        if (start, stop) != (first, last):
            raise ValueError(f"the range cuts a {self.period} in two; write range: [{start}, {stop}]")
        return self

    @property
    def first_index(self) -> int:
        """The period number of the first category."""
        return period_index(self.range[0], self.period)

    @property
    def regular(self) -> int:
        return period_index(self.range[1], self.period) - self.first_index + 1

    @cached_property
    def regular_labels(self) -> list[str]:
        return [period_label(self.first_index + i, self.period) for i in range(self.regular)]

    def below(self, value: str, *, inclusive: bool) -> int:
        if value in self._place_of:
            return self._place_of[value] + inclusive
        day = query_day(value) + dt.timedelta(days=inclusive)
        index = period_index(day, self.period)
        if day <= self.range[0] or day > self.range[1]:
            return 0 if day <= self.range[0] else self.regular
        start = period_first_day(index, self.period)
        if start != day:
            following = period_first_day(index + 1, self.period)
            raise QueryError(
                f"a cut at {value} falls inside its {self.period} {period_label(index, self.period)};"
                f" cut at the first day of a {self.period}, such as {start} or {following};"
                f" or ask with --interpolate, which takes the {self.period}'s rows as evenly spread"
            )
        return index - self.first_index

    def spread_below(self, value: str, *, inclusive: bool) -> Fraction:
        if value in self._place_of or self.beyond(value, inclusive=inclusive):
            return Fraction(self.below(value, inclusive=inclusive))
        day = query_day(value) + dt.timedelta(days=inclusive)
        index = period_index(day, self.period)
        start, following = (period_first_day(index + step, self.period) for step in (0, 1))
        return index - self.first_index + Fraction((day - start).days, (following - start).days)

    def beyond(self, value: str, *, inclusive: bool) -> bool:
        if value in self._place_of:
            return False
        day = query_day(value) + dt.timedelta(days=inclusive)
        return not self.range[0] <= day <= self.range[1] + dt.timedelta(days=1)

    @property
    def extent(self) -> str:
        return f"{self.range[0]} to {self.range[1]}"

    def find(self, value: str) -> Span:
        if value in self._place_of:
            return self._place_of[value], self._place_of[value] + 1
        day = query_day(value)
        if self.period != "day":
            label = period_label(period_index(day, self.period), self.period)
            raise QueryError(f"it is counted by {self.period}, so write the whole {self.period}: '{label}'")
        return self.below(value, inclusive=False), self.below(value, inclusive=True)
