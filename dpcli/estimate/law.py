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
from dpcli.strategy.axis import FloatArray, IntArray

MOST_GROUPS = 128
_LATTICE, _GRID = 1 << 15, 1 << 14


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
    return _many_draws(float(1 / scale), draws, level), "exact"


def weighted_half_width(
    scale: Fraction, shares: FloatArray, weights: IntArray, rest: float, level: float
) -> tuple[float, How]:
    """Return h such that Σ a_i z_i + a normal of variance ``rest`` lies within ±h with probability ≥ level.

    z_i has scale λ·w_i. Where no single draw matters, the sum is as good as normal.
    """
    if not len(shares):
        return _normal(rest, level), "exact" if rest == 0 else "normal"
    unit = float(np.abs(shares).max())
    size, weight = (np.abs(shares) / unit).round(12) * unit, weights.astype(np.float64)
    order = np.lexsort((weight, size))
    size, weight = size[order], weight[order]
    first = np.flatnonzero(np.r_[True, (np.diff(size) != 0) | (np.diff(weight) != 0)])
    times = np.diff(np.append(first, len(size))).astype(np.float64)
    law = _law(scale, rest, np.stack([size[first], weight[first], times]).tobytes())
    if law.within is None:
        return _normal(law.variance, level), "normal"
    half = law.step * (int(np.searchsorted(law.within, level)) + law.early)
    return half, "exact" if law.normal <= 0.01 * law.variance else "normal"


class _Law(NamedTuple):
    """P(|X| <= k·step) of a sum X; so much of its ``variance`` is ``normal``, all if there is no table."""

    variance: float
    normal: float
    step: float = 0.0
    within: FloatArray | None = None
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
    largest = float((size * weight)[heavy].max()) * float(scale)
    if total == 0:
        return _Law(0.0, 0.0, within=np.ones(1))
    if largest**2 * 2 < 1e-3 * total:
        return _Law(total, total)
    reach = 8 * sqrt(total) + 20 * largest
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
    within = mass[0] + 2 * np.cumsum(np.concatenate(([0.0], mass[1 : _GRID // 2])))
    # Where the grid tells the law's atoms apart, smoothing lets a level be reached up to three widths early.
    return _Law(total, normal, step, within, 6 if size[heavy].max() > step else 1)


def _normal(variance: float, level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2) * sqrt(variance)


def _one_draw(rate: float, level: float) -> int:
    """Return the least whole h with P(|z| <= h) = 1 − 2q^(h+1)/(1+q) >= level."""
    enough = (log1p(-level) + log1p(exp(-rate)) - log(2)) / -rate - 1
    return max(0, ceil(enough - 1e-9))


def _many_draws(rate: float, draws: int, level: float) -> float:
    """Invert φ(t)^n by FFT on a grid that spans all but a negligible part of the law.

    The grid's step is 1 (the law itself) or, for wide noise, 2^k: the grid then holds the law's density,
    and the mass that folds over is of order (step/(π λ))^(2n), below 1e-9 here.
    """
    sd = sqrt(draws * 2 * exp(-rate)) / -expm1(-rate)
    reach = 12 * sd + 40 / rate
    step = 1
    while reach / step > _LATTICE / 2:
        step *= 2
    angle = 2 * np.pi * np.arange(_LATTICE // 2 + 1) / (_LATTICE * step)
    q, gap = exp(-rate), expm1(-rate) ** 2
    characteristic = np.exp(-draws * np.log1p(4 * q / gap * np.sin(angle / 2) ** 2))
    mass = np.fft.irfft(characteristic, _LATTICE)
    within = mass[0] + 2 * np.cumsum(np.concatenate(([0.0], mass[1 : _LATTICE // 2])))
    return float(step * int(np.searchsorted(within, level - 1e-12)) + step // 2)
