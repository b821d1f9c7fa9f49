"""The cost of a measurement: the only place where epsilon is computed.

Release files are checked with the same functions, so this module holds no secrets and reads no data.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, Protocol

Neighbors = Literal["add-remove", "replace-one"]
WIDEST_SCALE = 2**40
"""The widest noise that can be drawn exactly in 64 bits; see :mod:`dpcli.privacy.noise`."""


class Measured(Protocol):
    """What is measured: a matrix A of integers with a weight w_i for each row."""

    @property
    def norm(self) -> Fraction:
        """max_j Σ_i |A_ij| / w_i."""


def sensitivity(strategy: Measured, neighbors: Neighbors, rows_per_unit: int) -> Fraction:
    """Return Δ = r · n · max_j Σ_i |A_ij| / w_i, the weighted L1 distance between neighbours' coefficients.

    r is the number of rows that one person may own: the plan's ``max_rows``, which
    :mod:`dpcli.data.bounding` keeps, or 1, which is assumed. n is 1 for add-remove and 2 for replace-one.

    Proof: adding or removing a row in cell j changes the counts x by ±e_j and the coefficients Ax by column
    j of A, whose weighted L1 norm is at most the strategy's norm. Replacing a row removes one and adds one;
    a person with r rows does this at most r times. The triangle inequality gives the product.
    """
    if rows_per_unit < 1:
        raise ValueError("one person owns at least one row")
    return strategy.norm * {"add-remove": 1, "replace-one": 2}[neighbors] * rows_per_unit


def scale_for(strategy: Measured, epsilon: Fraction, neighbors: Neighbors, rows_per_unit: int) -> Fraction:
    """Return the noise scale λ = Δ / epsilon at which measuring the strategy costs epsilon."""
    return sensitivity(strategy, neighbors, rows_per_unit) / epsilon


def cost(strategy: Measured, scale: Fraction, neighbors: Neighbors, rows_per_unit: int) -> Fraction:
    """Return the epsilon spent by measuring the strategy with discrete Laplace noise of scale λ·w_i.

    Proof: the noise on coefficient i has P(z) ∝ exp(−|z| / (λ w_i)) on the integers. For neighbours with
    coefficients y and y', the likelihood ratio of any output is at most exp(Σ_i |y_i − y'_i| / (λ w_i)),
    and the sum is at most Δ / λ. Coefficients are integers, so the supports coincide.
    """
    return sensitivity(strategy, neighbors, rows_per_unit) / scale
