"""The contract of an axis transform: the linear map that a strategy applies along one attribute.

An axis transform A maps the m counts of an axis to ``rows`` integer coefficients, each of which gets noise
of scale λ·w, w a whole number of its own. It knows its integer forward map, its (least-squares) inverse,
its norm (its share of the sensitivity) and how its answers respond to the noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Axis(ABC):
    """One attribute's share of a strategy. Its fields are what a release file keeps of it."""

    kind: ClassVar[str]
    """The name under which a release file keeps it."""

    size: int
    """The number of categories, m."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of coefficients."""

    @property
    @abstractmethod
    def weights(self) -> IntArray:
        """w: what multiplies the noise scale of each coefficient."""

    @property
    @abstractmethod
    def norm(self) -> Fraction:
        """max_j Σ_i |A_ij| / w_i: the most that one added row moves the weighted coefficients in L1."""

    @abstractmethod
    def forward(self, counts: IntArray, axis: int) -> IntArray:
        """Return A applied to ``counts`` along ``axis``, in integers."""

    @abstractmethod
    def inverse(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """Return A⁺ applied to ``values`` along ``axis``: least squares, weighted by 1/w²."""

    @abstractmethod
    def response(self, queries: NDArray[Any]) -> FloatArray:
        """Return W·(A⁺)ᵀ q for every row q of ``queries``: what each unit noise adds to the answer q·x̂."""

    def covariance(self, left: NDArray[Any], right: NDArray[Any]) -> float:
        """Return leftᵀ V right, V = A⁺ W² (A⁺)ᵀ the covariance of the reconstructed axis for unit noise."""
        one, other = self.response(np.stack([left, right]))
        return float(one @ other)

    def summary(self) -> str:
        """Return in a word or two what this axis does, for people."""
        return self.kind

    def describe(self) -> dict[str, Any]:
        """Return what a release file must keep to rebuild this axis."""
        return {"kind": self.kind, **{field.name: getattr(self, field.name) for field in fields(self)}}


class Wavelet(Axis):
    """An axis transform whose coefficients come in levels, so that they can be thresholded."""

    @abstractmethod
    def levels_of_rows(self) -> IntArray:
        """Return each coefficient's level: 0 for the total, 1 for what is right below the root, and so on."""

    @abstractmethod
    def analysed(self, values: NDArray[Any], axis: int) -> FloatArray:
        """Return A applied to real ``values`` (noisy counts) along ``axis``."""


def along(
    axis: int, length: int, values: NDArray[Any], transform: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """Apply a transform of the middle axis of (before, length, after) arrays along any axis."""
    axis = range(values.ndim)[axis]
    before, after = values.shape[:axis], values.shape[axis + 1 :]
    result = transform(values.reshape(prod(before), length, prod(after)))
    return result.reshape(*before, result.shape[1], *after)


def integers(counts: NDArray[Any]) -> IntArray:
    """Return counts as int64, without a copy where they are; floats are refused with a ``TypeError``."""
    return counts.astype(np.int64, casting="same_kind", copy=False)


def whole(value: object, what: str, *, least: int, most: int | None = None) -> int:
    """Return a whole number within its bounds; a file can hold anything."""
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} must be a whole number {bounds}, not {value!r}")
    return value
