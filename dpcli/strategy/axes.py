"""Axis transforms: the linear maps that strategies apply along one attribute.

An axis transform A maps the ``size`` counts of an axis to ``rows`` integer coefficients. It knows its
integer forward map, its inverse, its norm (its share of the sensitivity) and its variance form, and is
registered in ``AXES``; the contract tests run over that tuple and compare each with its dense matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Axis(Protocol):
    """One attribute's share of a strategy."""

    kind: ClassVar[str]
    """The name under which a release file keeps it."""

    @property
    def size(self) -> int:
        """The number of categories, m."""

    @property
    def rows(self) -> int:
        """The number of coefficients."""

    @property
    def norm(self) -> Fraction:
        """max_j Σ_i |A_ij| / w_i: the most that one added row moves the weighted coefficients in L1."""

    @property
    def weights(self) -> IntArray:
        """w: what multiplies the noise scale of each coefficient."""

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        """Return A applied to ``counts`` along ``axis``, in integers."""

    def inverse(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """Return the (least-squares) counts for coefficients along ``axis``."""

    def covariance(self, left: NDArray[Any], right: NDArray[Any]) -> float:
        """Return leftᵀ V right, V the covariance of the reconstructed axis for unit-variance noise."""

    def describe(self) -> dict[str, Any]:
        """Return what a release file must keep to rebuild this axis."""


@dataclass(frozen=True)
class Identity:
    """Every category is its own coefficient: A = I, V = I, norm 1."""

    kind: ClassVar[str] = "identity"
    size: int

    @property
    def rows(self) -> int:
        return self.size

    @property
    def norm(self) -> Fraction:
        return Fraction(1)

    @property
    def weights(self) -> IntArray:
        return np.ones(self.size, np.int64)

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        return counts

    def inverse(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        return values

    def covariance(self, left: NDArray[Any], right: NDArray[Any]) -> float:
        return float(left.astype(np.float64) @ right.astype(np.float64))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size}


AXES = (Identity,)


def axis_from(description: dict[str, Any]) -> Axis:
    """Rebuild an axis from what :meth:`Axis.describe` returned; raises ``ValueError`` for an unknown one."""
    fields = dict(description)
    kind = fields.pop("kind", None)
    for axis in AXES:
        if axis.kind == kind:
            return axis(**fields)
    raise ValueError(f"unknown axis transform {kind!r}")
