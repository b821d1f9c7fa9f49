"""Attributes: the public categories of one column, as a plan declares them and as a release file keeps them.

Each kind is a frozen pydantic model, so that one definition serves the plan, its JSON Schema, the file's
metadata and the arithmetic on categories. Nothing here has ever seen a table.

An attribute has ``regular`` categories, numbered from 0 in their natural order, and after them, where the
plan asks for it, one category for values outside the domain (``outside: other``) and one for missing
values (``missing: own-category``).
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_validator,
)

from dpcli.data.hierarchy import Hierarchy
from dpcli.data.periods import Period, period_first_day, period_index, period_label
from dpcli.errors import QueryError, did_you_mean, listed

OTHER = "(other)"
Label = int | str | None
Span = tuple[int, int]
_EXACT = Context(prec=27, traps=[Inexact, InvalidOperation])  # so that sums are exact in 28 digits


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
    BeforeValidator(lambda v: v if v is None or isinstance(v, (dict, list)) else str(v).strip()),
    Field(min_length=1),
]


class Attribute(BaseModel):
    """What every kind of attribute shares."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
    ordered: ClassVar[bool] = True

    outside: Literal["error", "drop", "clamp", "other"] = Field(
        "error", description="What to do with a value outside the domain."
    )
    missing: Literal["error", "drop", "own-category"] = Field(
        "error", description="What to do with a missing value."
    )

    @model_validator(mode="after")
    def _clamp_needs_order(self) -> Attribute:
        if self.outside == "clamp" and not self.ordered:
            raise ValueError(f"outside: clamp needs an ordered attribute, and a {self.kind} one has no order")
        return self

    # --- to be given by each kind -----------------------------------------------------------------
    kind: str

    @cached_property
    def regular_labels(self) -> list[Any]:
        """The labels of the regular categories, in order."""
        raise TypeError(f"{type(self).__name__} declares no labels")

    @property
    def regular(self) -> int:
        """The number of regular categories."""
        return len(self.regular_labels)

    def below(self, value: str, *, inclusive: bool) -> int:
        """Return how many regular categories hold only values ``< value`` (``<= value`` if inclusive).

        Raises ``QueryError`` when the cut would fall inside a category.
        """
        raise QueryError(f"it has no order, so it can't be compared with {value!r}; use = or in (…)")

    def find(self, value: str) -> Span:
        """Return the regular categories ``start <= c < stop`` that a label names."""
        place = self._place_of.get(value)
        if place is None:
            raise QueryError(
                f"it has no category {value!r}.{did_you_mean(value, self._place_of)}"
                f" It has: {listed(self.regular_labels)}"
            )
        return place, place + 1

    # --- derived ----------------------------------------------------------------------------------
    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {str(label): place for place, label in enumerate(self.regular_labels)}

    @property
    def size(self) -> int:
        """The number of categories, those for other and missing values included."""
        return self.regular + (self.outside == "other") + (self.missing == "own-category")

    @property
    def other_code(self) -> int | None:
        """The category of values outside the domain, where there is one."""
        return self.regular if self.outside == "other" else None

    @property
    def missing_code(self) -> int | None:
        """The category of missing values, where there is one."""
        return self.size - 1 if self.missing == "own-category" else None

    def labels(self) -> list[Label]:
        """All labels in category order: text, or whole numbers where every label is one; missing is None."""
        labels: list[Label] = list(self.regular_labels)
        if self.outside == "other":
            labels = [*map(str, labels), OTHER]
        return [*labels, None] if self.missing == "own-category" else labels


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

    def below(self, value: str, *, inclusive: bool) -> int:
        number = query_number(value)
        whole = int(number // 1)  # floor
        first_not_below = whole + 1 if inclusive or number != whole else whole
        return min(max(first_not_below - self.range[0], 0), self.regular)

    def find(self, value: str) -> Span:
        number = query_number(value)
        return self.below(value, inclusive=False), self.below(value, inclusive=number == number // 1)


class Binned(Attribute):
    """Numbers in bins ``[e0, e1), [e1, e2), …``; the last bin holds its upper edge too."""

    kind: Literal["ordinal"] = "ordinal"
    range: tuple[Number, Number] | None = Field(None, description="The lowest and the highest number.")
    bin: Number | None = Field(None, description="The width of the bins that divide the range.")
    edges: tuple[Number, ...] | None = Field(None, description="The edges of the bins, in increasing order.")

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
        raise QueryError(
            f"a cut with {sign} {plain(number)} falls inside its bin {self.regular_labels[inside]};"
            f" cut with < or >= at an edge, such as {low} or {high}"
        )

    def find(self, value: str) -> Span:
        place = self._place_of.get(value)
        if place is not None:
            return place, place + 1
        raise QueryError(
            f"it is binned, so = and in (…) take a whole bin such as '{self.regular_labels[0]}',"
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
                f" cut at the first day of a {self.period}, such as {start} or {following}"
            )
        return index - self.first_index

    def find(self, value: str) -> Span:
        if value in self._place_of:
            return self._place_of[value], self._place_of[value] + 1
        return self.below(value, inclusive=False), self.below(value, inclusive=True)


class Nominal(Attribute):
    """Labels without order, plain or in a hierarchy."""

    ordered: ClassVar[bool] = False
    kind: Literal["nominal"] = "nominal"
    values: tuple[Text, ...] | None = Field(None, description="The labels.")
    hierarchy: Any = Field(
        None,
        description="Nested groups of labels, or the YAML or CSV file with them, relative to the plan.",
    )

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if values is not None:
            if not values:
                raise ValueError("is empty; list at least one label")
            twice = (
                sorted({value for value in values if values.count(value) > 1})[:3]
                if len(set(values)) < len(values)
                else []
            )
            if twice:
                raise ValueError(
                    f"has {listed(map(repr, twice))} more than once; every label must stand once"
                )
        return values

    @field_validator("hierarchy")
    @classmethod
    def _tree(cls, tree: Any) -> Hierarchy | None:
        return tree if tree is None or isinstance(tree, Hierarchy) else Hierarchy.from_nested(tree)

    @field_serializer("hierarchy")
    def _nested(self, tree: Hierarchy | None) -> Any:
        return None if tree is None else tree.nested()

    @model_validator(mode="after")
    def _either_values_or_hierarchy(self) -> Nominal:
        if (self.values is None) == (self.hierarchy is None):
            raise ValueError("give either values or hierarchy")
        if self.outside == "other" and OTHER in self.regular_labels:
            raise ValueError(f"outside: other adds the label {OTHER}, which is also one of its own labels")
        return self

    @cached_property
    def regular_labels(self) -> list[str]:
        return list(self.values if self.values is not None else self.hierarchy.leaves)

    def find(self, value: str) -> Span:
        """A label names its category, a hierarchy's node its run of leaves."""
        found = self.node_spans(value)
        if value in self._place_of:
            found = found | {(self._place_of[value], self._place_of[value] + 1)}
        if len(found) > 1:
            raise QueryError(
                f"the name {value!r} is ambiguous; use node('…') with the path, as in {self._paths(value)}"
            )
        if not found:
            names = [*self._place_of, *(self.hierarchy.spans if self.hierarchy else ())]
            raise QueryError(
                f"it has no category {value!r}.{did_you_mean(value, names)}"
                f" It has: {listed(self.regular_labels)}"
            )
        return next(iter(found))

    def find_node(self, name: str) -> Span:
        """Return the leaves of the inner node called ``name`` (a label, or a path joined by ``/``)."""
        found = self.node_spans(name)
        if len(found) != 1:
            names = self.hierarchy.spans if self.hierarchy else ()
            problem = (
                f"several nodes are called {name!r}: {self._paths(name)}"
                if found
                else f"it has no node {name!r}."
            )
            raise QueryError(f"{problem}{'' if found else did_you_mean(name, names)}")
        return next(iter(found))

    def node_spans(self, name: str) -> set[Span]:
        """Return the runs of leaves of all inner nodes with that name."""
        return set(self.hierarchy.spans.get(name, set())) if self.hierarchy else set()

    def _paths(self, name: str) -> str:
        paths = ["/".join(node.path) for node in self.hierarchy.nodes if node.path and node.label == name]
        return listed(map(repr, paths))


class Boolean(Attribute):
    """``false`` and ``true``."""

    ordered: ClassVar[bool] = False
    kind: Literal["boolean"] = "boolean"

    @cached_property
    def regular_labels(self) -> list[str]:
        return ["false", "true"]

    def find(self, value: str) -> Span:
        return super().find({"0": "false", "1": "true"}.get(value, value.lower()))


def plain(number: Decimal) -> str:
    """Write a decimal without exponent and without trailing zeros: 1000, 0.5."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def query_number(text: str) -> Decimal:
    """Read a number in a query."""
    try:
        return _decimal(text)
    except ValueError:
        raise QueryError(f"{text!r} is not a number") from None


def query_day(text: str) -> dt.date:
    """Read a day in a query."""
    try:
        return _day(text)
    except ValueError:
        raise QueryError(f"{text!r} is not a date; write it as '2026-01-31'") from None


def _which(value: Any) -> str | None:
    """Tell the kind of an attribute from its keys, so that errors speak of that kind alone."""
    if isinstance(value, Attribute):
        return "binned" if isinstance(value, Binned) else value.kind
    if not isinstance(value, dict):
        return None
    kind = value.get("kind")
    if kind == "ordinal" and ("bin" in value or "edges" in value):
        return "binned"
    return kind if isinstance(kind, str) else None


AnyAttribute = Annotated[
    Annotated[Integers, Tag("ordinal")]
    | Annotated[Binned, Tag("binned")]
    | Annotated[Dates, Tag("date")]
    | Annotated[Nominal, Tag("nominal")]
    | Annotated[Boolean, Tag("boolean")],
    Discriminator(
        _which,
        custom_error_type="attribute_kind",
        custom_error_message="needs a kind: ordinal, date, nominal or boolean",
    ),
]
