"""What every kind of attribute shares: labels, extra categories, and how queries name categories.

An attribute has ``regular`` categories, numbered from 0 in their natural order, and after them, where the
plan asks for it, one category for values outside the domain (``outside: other``) and one for missing
values (``missing: own-category``). Nothing here has ever seen a table.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dpcli.errors import QueryError, did_you_mean, listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OTHER = "(other)"
Label = int | str | None
Span = tuple[int, int]


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

    def spread_below(self, value: str, *, inclusive: bool) -> Fraction:
        """Return how many regular categories lie below a cut, taking a category's values as evenly spread.

        A cut inside category c, after the share s of its width, is at c + s. Any other is where
        :meth:`below` has it.
        """
        return Fraction(self.below(value, inclusive=inclusive))

    def beyond(self, value: str, *, inclusive: bool) -> bool:
        """Tell whether a cut lies outside the domain, past its lowest or its highest value."""
        return False

    @property
    def extent(self) -> str:
        """The domain of an ordered attribute in words: ``0 to 100``."""
        raise TypeError(f"{type(self).__name__} has no order")

    def numbers(self) -> NDArray[np.float64]:
        """Return the number that stands for each category in sums, NaN for other and missing values."""
        raise QueryError("it has no numbers, so it can't be summed or averaged")

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

    def _numbers(self, regular: NDArray[Any] | tuple[int, ...]) -> NDArray[np.float64]:
        """Return the numbers of the regular categories, and NaN for those after them."""
        import numpy as np  # a plan is checked without it

        numbers = np.full(self.size, np.nan)
        numbers[: self.regular] = regular
        return numbers
