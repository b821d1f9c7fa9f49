"""The exact law of sums of discrete Laplace noise, and the intervals that follow from it.

One draw has P(z) ∝ q^|z| with q = e^(−1/λ), variance 2q/(1−q)² and characteristic function
φ(t) = (1−q)² / (1 − 2q cos t + q²).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log, log1p, pi, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpcli.estimate.answer import How
from dpcli.estimate.tails import clipped_rate, half_widths_of_sums, weighted_chernoff
from dpcli.strategy.axis import FloatArray, IntArray

MOST_GROUPS = 128
_GRID = 1 << 14
LEAST_TAIL = 1e-11
"""Tails that are smaller than this are bounded; an FFT does not see them."""


def unit_variance(scale: Fraction) -> float:
    """Return the variance 2q/(1−q)² of one draw with scale λ."""
    return cumulant(scale, 2)


def cumulant(scale: Fraction, order: int) -> float:
    """Return the second, fourth or sixth cumulant of one draw with scale λ.

    The draw is the difference of two geometric variables, so it is 2 q E(q)/(1−q)^order with the Eulerian
    polynomials E = 1, 1 + 4q + q², 1 + 26q + 66q² + 26q³ + q⁴.
    """
    rate = float(1 / scale)
    q = exp(-rate)
    eulerian = {2: 1.0, 4: 1 + q * (4 + q), 6: 1 + q * (26 + q * (66 + q * (26 + q)))}
    return 2 * q * eulerian[order] / (-expm1(-rate)) ** order


@lru_cache(maxsize=4096)
def sum_half_width(scale: Fraction, draws: int, level: float) -> tuple[float, How]:
    """Return a whole h such that a sum of ``draws`` draws lies within ±h with probability >= level."""
    if draws == 0:
        return 0.0, "exact"
    if draws == 1:
        return float(_one_draw(float(1 / scale), level)), "exact"
    if draws == 2:
        return float(_two_draws(clipped_rate(scale), level)), "exact"
    return float(half_widths_of_sums(scale, np.array([draws]), level)[0]), "exact"


def weighted_half_width(
    scale: Fraction, shares: FloatArray, weights: IntArray, rest: float, level: float
) -> tuple[float, How]:
    """Return h such that Σ a_i z_i + a normal of variance ``rest`` lies within ±h with probability ≥ level.

    z_i has scale λ·w_i. Where no single draw matters, the sum is as good as normal, but
    for steps as wide as its widest.
    """
    if not len(shares):
        return _normal(rest, level, 0.0), "exact" if rest == 0 else "normal"
    unit = float(np.abs(shares).max())
    size, weight = (np.abs(shares) / unit).round(12) * unit, weights.astype(np.float64)
    order = np.lexsort((weight, size))
    size, weight = size[order], weight[order]
    first = np.flatnonzero(np.r_[True, (np.diff(size) != 0) | (np.diff(weight) != 0)])
    times = np.diff(np.append(first, len(size))).astype(np.float64)
    law = _law(scale, rest, np.stack([size[first], weight[first], times]).tobytes())
    if law.noisy <= 1 - level:
        return 0.0, "exact"
    how: How = "exact" if law.normal <= 0.01 * law.variance else "normal"
    if 1 - level < LEAST_TAIL:
        return weighted_chernoff(scale, law.heavy, law.normal, level), how
    if law.beyond is None:
        return _normal(law.variance, level, law.excess) + unit / 2, how
    return law.step * (int(np.searchsorted(-law.beyond, level - 1)) + law.early), how


class _Law(NamedTuple):
    """P(|X| > k·step) of a sum X; so much of its ``variance`` is ``normal``, all if there is no table."""

    variance: float
    normal: float
    noisy: float
    """A bound of P(X ≠ 0)."""
    heavy: tuple[FloatArray, FloatArray, FloatArray]
    """The groups of draws that are not among the normal: a, w, how many of each."""
    excess: float
    """The largest κ4/κ2 of a draw."""
    step: float = 0.0
    beyond: FloatArray | None = None
    early: int = 0
    """How many steps too early a level may be reached."""


@lru_cache(maxsize=512)
def _law(scale: Fraction, rest: float, draws: bytes) -> _Law:
    """Return the law of Σ a_i z_i + a normal of variance ``rest``; ``draws`` holds a, w, how many of each.

    The ``MOST_GROUPS`` heaviest groups of equal draws enter by their exact law, and the others with the
    normal: no single one of them matters. A narrow normal on top (two steps of the grid wide) lets the
    characteristic function fade out, so that nothing folds over; it can only widen intervals.
    """
    size, weight, times = np.frombuffer(draws).reshape(3, -1)
    q = np.exp(-float(1 / scale) / weight)
    gap = np.expm1(-float(1 / scale) / weight) ** 2
    variances = times * size**2 * 2 * q / gap
    heavy = np.argsort(-variances)[:MOST_GROUPS]
    normal = rest + float(variances.sum() - variances[heavy].sum())
    total = rest + float(variances.sum())
    noisy = 1.0 if rest > 0 else float((times * 2 * q / (1 + q)).sum())
    groups = size[heavy], weight[heavy], times[heavy]
    excess = float((size**2 * (1 + 4 * q + q**2) / gap).max())
    if excess < 3e-3 * total:
        return _Law(total, total, noisy, groups, excess)
    reach = weighted_chernoff(scale, groups, normal, 1 - LEAST_TAIL / 10)
    step = 2 * reach / _GRID
    t = pi / reach * np.arange(_GRID // 2 + 1)
    logarithm = np.full(len(t), -np.inf)
    for start in range(0, len(t), _GRID // 16):  # it falls; what is below e^−45 adds nothing
        part = slice(start, start + _GRID // 16)
        # (1−q)² + 4q sin²(t/2) is 1 − 2q cos t + q² without cancellation.
        waves = 4 * q[heavy, None] * np.sin(size[heavy, None] * t[part] / 2) ** 2
        faded = (normal + (2 * step) ** 2) * t[part] ** 2 / 2
        logarithm[part] = -(times[heavy, None] * np.log1p(waves / gap[heavy, None])).sum(axis=0) - faded
        if faded[0] > 45:
            break
    mass = np.fft.irfft(np.exp(logarithm), _GRID)
    beyond = 2 * np.cumsum(np.append(mass[1 : _GRID // 2], 0.0)[::-1])[::-1]
    # Where the grid tells the law's atoms apart, smoothing lets a level be reached up to five widths early.
    return _Law(total, normal, noisy, groups, excess, step, beyond, 10 if size[heavy].max() > step else 1)


def _normal(variance: float, level: float, excess: float) -> float:
    """Return the half-width of a sum of many draws, none of which has a κ4/κ2 above ``excess``.

    The quantile z of the normal is too narrow by about κ4/κ2²·(z³ − 3z)/24 (Cornish and Fisher).
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    more = 0.0 if variance == 0 else excess / variance * max(0.0, z**3 - 3 * z) / 24
    return (z + more) * sqrt(variance)


def _one_draw(rate: float, level: float) -> int:
    """Return the least whole h with P(|z| <= h) = 1 − 2q^(h+1)/(1+q) >= level."""
    enough = (log1p(-level) + log1p(exp(-rate)) - log(2)) / -rate - 1
    return max(0, ceil(enough - 1e-9))


def _two_draws(rate: float, level: float) -> int:
    """Return the least whole h with P(|z + z'| > h) <= 1 − level.

    P(z + z' = k) = ((1−q)/(1+q))² q^k (k + c) for k >= 0, c = (1+q²)/(1−q²); summed from m = h + 1 on that is
    (1−q) q^m (m + c + q/(1−q))/(1+q)².
    """
    q, gap, cost = exp(-rate), -expm1(-rate), log1p(-level)
    constant = (1 + q * q) / (gap * (1 + q)) + q / gap

    def held(h: int) -> bool:
        return log(2 * gap) - rate * (h + 1) + log(h + 1 + constant) - 2 * log1p(q) <= cost

    low, high = -1, 1
    while not held(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if held(middle) else (middle, high)
    return high
