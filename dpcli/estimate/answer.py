"""Answers: values, how far they may be off, and how that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axis import FloatArray

How = Literal["exact", "normal", "posterior", "none"]
COLUMNS = ("value", "stderr", "low", "high", "how")


@dataclass(frozen=True)
class Answer:
    """One answer.

    ``low`` and ``high`` hold the true value with at least the asked-for probability; ``how`` says whether
    they come from the exact law of the noise, from an approximation that is close to normal, or (``none``)
    are not known.
    """

    query: str
    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    how: How
    warnings: tuple[str, ...] = ()

    def record(self) -> dict[str, object]:
        """Return the answer as the fields that machine formats print."""
        return {"query": self.query, **{name: getattr(self, name) for name in COLUMNS}}


@dataclass(frozen=True)
class Answers:
    """Many answers in columns; NaN stands for what is not known."""

    value: NDArray[Any]
    stderr: FloatArray
    low: FloatArray
    high: FloatArray
    how: NDArray[np.str_]

    @classmethod
    def within(cls, value: NDArray[Any], stderr: FloatArray, half: FloatArray, exact: NDArray[Any]) -> Self:
        """Return values with intervals of a half-width around them, whole where both are."""
        if value.dtype.kind == "i" and not (half % 1).any():
            half = half.astype(np.int64)
        return cls(value, stderr, value - half, value + half, np.where(exact, "exact", "normal"))

    @classmethod
    def bare(cls, value: NDArray[Any]) -> Self:
        """Return values whose error is not known."""
        unknown = np.full(len(value), np.nan)
        return cls(value, unknown, unknown, unknown, np.full(len(value), "none"))

    def __len__(self) -> int:
        return len(self.value)

    def part(self, places: slice | NDArray[np.intp]) -> Self:
        """Return some of the answers, in the order of ``places``."""
        return type(self)(*(getattr(self, name)[places] for name in COLUMNS))

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """Return the answers of all parts, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS))

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns as lists, with ``None`` for what is not known."""
        known = [getattr(self, name) for name in COLUMNS]
        return {
            name: [None if v != v else v for v in column.tolist()]
            for name, column in zip(COLUMNS, known, strict=True)
        }
