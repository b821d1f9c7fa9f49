"""The tails of sums of discrete Laplace noise: bounds that always hold, and exact ones for many sums at once.

One draw of scale λ has the cumulant generating function K(s) = −log(1 − r·sinh²(s/2)), r = 4q/(1−q)², for
|Re s| < 1/λ. Both kinds of tails come from it, and are precise however small they are.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axis import FloatArray

ONE_BY_ONE = 32
"""The characteristic function of so few draws fades out slowly; that of more, within few nodes."""
NARROWEST = 300
"""1/λ is taken as no more than this: no interval can tell narrower noise from none."""
_NODES, _NOTHING = 64, 36.0
"""How many nodes are tried first; e^−36 of a tail is nothing."""
_CLOSE = 2.0**-14
"""How much of itself a half-width may be too wide."""


def clipped_rate(scale: Fraction) -> float:
    """Return 1/λ, or what stands for it where noise is narrower than can matter."""
    return min(float(1 / scale), float(NARROWEST))


def generating(s: NDArray[Any], rate: float | FloatArray) -> NDArray[Any]:
    """Return K(s) of one draw with λ = 1/``rate``."""
    found: NDArray[Any] = -np.log1p(-((np.sinh(s / 2) / np.sinh(np.asarray(rate) / 2)) ** 2))
    return found


def chernoff(scale: Fraction, draws: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return h = min_θ (n·K(θ) + log 2/α)/θ with P(|S| > h) <= α = 1 − level for sums S of n draws, and θ."""
    rate, cost = clipped_rate(scale), _cost(level)

    def bound(theta: FloatArray) -> FloatArray:
        found: FloatArray = (draws[:, None] * generating(theta, rate) + cost) / theta
        return found

    theta = _lowest(bound, np.full(len(draws), rate))
    return bound(theta[:, None])[:, 0], theta


def weighted_chernoff(
    scale: Fraction, groups: tuple[FloatArray, FloatArray, FloatArray], rest: float, level: float
) -> float:
    """Return the same h for a sum of ``groups`` of draws, as sizes a, weights w (scales λw) and how many.

    Draws of variance ``rest`` in all are no wider than the widest of these, a·w·λ = b. For one with b' <= b
    K(θ) = −log(1 − b'²θ²) <= b'²θ²/(1 − b²θ²), also if it is discrete.
    """
    size, weight, times = (part[:, None] for part in groups)
    rate, top = clipped_rate(scale) / weight, float((clipped_rate(scale) / (size * weight)).min())

    def bound(theta: FloatArray) -> FloatArray:
        whole = (times * generating(size * theta, rate)).sum(axis=0)
        found: FloatArray = (whole + rest * theta**2 / 2 / (1 - (theta / top) ** 2) + _cost(level)) / theta
        return found

    return float(bound(_lowest(bound, np.array([top]))[:, None])[0, 0])


def _cost(level: float) -> float:
    """Return log 2/α."""
    return float(np.log(2) - np.log1p(-level))


def _lowest(bound: Callable[[FloatArray], FloatArray], top: FloatArray) -> FloatArray:
    """Return where bounds are about least, 0 < θ < ``top``; each θ is a bound, so it need not be exact.

    K is steep at both ends, so θ is looked for evenly in log θ/(top − θ), closer and closer.
    """
    low, high = np.full(len(top), -25.0), np.full(len(top), 25.0)
    for _ in range(5):
        place = np.linspace(low, high, 17, axis=1)
        best = np.argmin(bound(top[:, None] / (1 + np.exp(-place))), axis=1)[:, None]
        low, high = (np.take_along_axis(place, np.clip(best + step, 0, 16), axis=1)[:, 0] for step in (-1, 1))
    found: FloatArray = top / (1 + np.exp(-(low + high) / 2))
    return found


def half_widths_of_sums(scale: Fraction, draws: NDArray[np.int64], level: float) -> FloatArray:
    """Return whole h such that sums of n > 1 draws lie within ±h with probability >= level.

    It is the least such h, or where h is large a little more. The logarithm of the tail is concave in h, so
    a line through two of its points lies above it on both sides of them, and steps to the line's root, from
    a bound above, do not pass the tail's own.
    """
    count = draws.astype(np.float64)
    bound, theta = chernoff(scale, count, level)
    tail = _Tails(clipped_rate(scale), count, theta, level)
    half = np.ceil(bound)
    left = np.arange(len(half))
    while len(left):
        at = half[left]
        step = np.maximum(1.0, np.floor(_CLOSE * at))
        there, before = tail.logarithm(at, left), tail.logarithm(np.maximum(at - step, 0.0), left)
        slope = (there - before) / step
        root = np.where(slope < 0, at - there / np.where(slope < 0, slope, -1.0), at)
        moving = (at >= step) & (before <= 0)
        left = left[moving]
        half[left] = np.maximum(0.0, np.minimum(np.ceil(root), at - step)[moving])
    return half + 0.0  # not −0


class _Tails:
    """The tails of sums of n draws, for many n, from their laws tilted by θ.

    P(S >= m) = 1/M Σ_ω exp(n·K(s) − s·m)/(1 − e^(−s)), s = θ + iω, ω = 2πj/M, over a whole period. That is
    exact but for what lies M away: P(S >= m − M) e^(−θM) + P(S >= m + M) e^(θM) + …, and the latter is at
    most exp(n·K(θ') − θ'(m + M) + θM) for any θ' > θ. M is so large that both are nothing.
    """

    def __init__(self, rate: float, count: FloatArray, theta: FloatArray, level: float) -> None:
        self._cost = _cost(level)
        size = count * generating(theta, rate)
        steeper = theta[:, None] + (rate - theta[:, None]) * 2.0 ** np.arange(-12, 0)
        away = (count[:, None] * generating(steeper, rate) - size[:, None] + _NOTHING) / (
            steeper - theta[:, None]
        )
        period = np.ceil(np.maximum(away.min(axis=1), (_NOTHING + self._cost) / theta))
        nodes = _NODES // 2
        faded = False
        while not faded:
            nodes *= 2
            whole = np.maximum(period, 2 * nodes)
            self._waves = 2 * np.pi / whole
            s = theta[:, None] + 1j * self._waves[:, None] * np.arange(nodes + 1)
            logarithm = count[:, None] * generating(s, rate) - size[:, None]
            faded = bool(np.all((period <= 2 * nodes) | (logarithm[:, -1].real < -_NOTHING)))
        self._size, self._theta = size - np.log(whole), theta
        self._terms = 2 * np.exp(logarithm) / -np.expm1(-s)
        self._terms[:, [0, -1]] /= 2  # these stand alone, the others for −ω, too

    def logarithm(self, half: FloatArray, places: NDArray[np.intp]) -> FloatArray:
        """Return log P(|S| > h)/α, at some places."""
        m = half + 1
        turns = (m * self._waves[places])[:, None] * np.arange(self._terms.shape[1])
        terms = self._terms[places]
        total = np.einsum("ij,ij->i", terms.real, np.cos(turns)) + np.einsum(
            "ij,ij->i", terms.imag, np.sin(turns)
        )
        found: FloatArray = (
            np.log(np.maximum(total, 1e-300)) + self._size[places] - self._theta[places] * m + self._cost
        )
        return found
