"""Privelet*: soft thresholding of noisy wavelet coefficients, subband by subband (Privelet §7, corrected).

The printed algorithm (Fig. 8) has index errors, sorts by sign and leaves cases out; this is the corrected
one. It uses noisy values and public noise scales only, so it costs no privacy. Thresholded answers are
biased, which is why they have no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.errors import UsageError
from dpcli.strategy.axis import FloatArray, IntArray, Wavelet
from dpcli.strategy.haar import Haar
from dpcli.strategy.kronecker import Strategy


class Thresholding:
    """Soft thresholding of the blocks of a wavelet strategy.

    ``fitted``: the coefficients come from counts that were reconstructed, so the noise of each nominal
    sibling group of f has lost its mean, and with it 1/f of its variance.
    """

    def __init__(self, strategy: Strategy, variance: float, *, fitted: bool) -> None:
        self._axes = [axis for axis in strategy.inner if isinstance(axis, Wavelet)]
        if not self._axes or len(self._axes) < len(strategy.inner):
            raise UsageError(
                "Thresholding needs wavelets on every attribute that is not direct; this release has"
                f" {', '.join(axis.kind for axis in strategy.axes)}. Use it on a privelet release."
            )
        self._strategy = strategy
        self._variance = variance
        noise = [_noise(axis, fitted=fitted) for axis in self._axes]
        self._unit = np.maximum(reduce(np.multiply.outer, noise).ravel(), np.finfo(float).tiny)
        self._bands = _subbands(self._axes)

    def coefficients(self, counts: NDArray[Any]) -> FloatArray:
        """Return the coefficients, one row per slab, of noisy counts."""
        values = counts.reshape(-1, *(axis.size for axis in self._axes))
        for place, axis in enumerate(self._axes, start=1):
            values = axis.analysed(values, place)
        return values.reshape(len(values), -1)

    def counts(self, coefficients: NDArray[Any]) -> FloatArray:
        """Return the counts of one block (one row per slab) from thresholded coefficients."""
        normal = coefficients / self._unit
        for band in self._bands:
            normal[:, band] = soft_threshold(normal[:, band], self._variance)
        return self._strategy.inverse(normal * self._unit)


def soft_threshold(noisy: FloatArray, variance: float) -> FloatArray:
    """Shrink each row, a subband of normalised coefficients c with noise variance v, towards zero.

    η(c) = sign(c)·max(|c| − θ, 0), with the θ that brings Σ η(c)² to T = Σ c² − |S|·v, the estimated sum of
    squares without noise.
    """
    threshold = thresholds(noisy, variance)[:, None]
    return np.sign(noisy) * np.maximum(np.abs(noisy) - threshold, 0)


def thresholds(noisy: FloatArray, variance: float) -> FloatArray:
    """Return θ of each row.

    With X = |c| in descending order, α_i = Σ_{j<=i} X_j², β_i = Σ_{j<=i} X_j and X_{n+1} = 0, the sum left
    over at θ = X_{i+1} is g_i = α_i − 2 β_i X_{i+1} + i X_{i+1}², which does not decrease in i. For the first
    i with g_i >= T, θ solves α_i − 2 β_i θ + i θ² = T: θ = (β_i − √(β_i² − i(α_i − T)))/i. If T <= 0, all
    goes: θ = X_1.
    """
    ordered = -np.sort(-np.abs(noisy), axis=1)
    alpha, beta = np.cumsum(ordered**2, axis=1), np.cumsum(ordered, axis=1)
    count = np.arange(1, noisy.shape[1] + 1)
    following = np.concatenate([ordered[:, 1:], np.zeros((len(noisy), 1))], axis=1)
    target = alpha[:, -1] - noisy.shape[1] * variance
    left = alpha - 2 * beta * following + count * following**2
    first = np.argmax(left >= target[:, None] * (1 - 1e-12), axis=1)
    rows = np.arange(len(noisy))
    a, b, i = alpha[rows, first], beta[rows, first], count[first]
    solved = (b - np.sqrt(np.maximum(b**2 - i * (a - target), 0))) / i
    return np.where(target <= 0, ordered[:, 0], solved)


def _noise(axis: Wavelet, *, fitted: bool) -> FloatArray:
    """Return the noise of an axis's coefficients beside that of a unit draw."""
    weights = axis.weights.astype(np.float64)
    if not fitted or isinstance(axis, Haar):
        return weights
    fan_out = (weights + 2) / 2  # w = 2f − 2
    fan_out[0] = np.inf  # the total has lost nothing
    return weights * np.sqrt(1 - 1 / fan_out)


def _subbands(axes: Sequence[Wavelet]) -> list[IntArray]:
    """Return the coefficients of each subband: the same level on every axis. The base is left out."""
    label = np.zeros(1, np.int64)
    for axis in axes:
        levels = axis.levels_of_rows()
        label = np.add.outer(label * (levels.max() + 1), levels).ravel()
    order = np.argsort(label, kind="stable")
    distinct, starts = np.unique(label[order], return_index=True)
    return [band for name, band in zip(distinct, np.split(order, starts[1:]), strict=True) if name]
