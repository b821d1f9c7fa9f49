"""The exact law of sums of discrete Laplace noise, and the intervals that follow from it.

One draw has P(z) ∝ q^|z| with q = e^(−1/λ), variance 2q/(1−q)² and characteristic function
φ(t) = (1−q)² / (1 − 2q cos t + q²).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log, log1p, pi, sqrt
from statistics import NormalDist

import numpy as np

from dpcli.estimate.answer import How
from dpcli.strategy.axis import FloatArray, IntArray

MOST_GROUPS = 128
_LATTICE, _GRID = 1 << 15, 1 << 14


def unit_variance(scale: Fraction) -> float:
    """Return the variance 2q/(1−q)² of one draw with scale λ."""
    rate = float(1 / scale)
    return 2 * exp(-rate) / expm1(-rate) ** 2


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

    z_i has scale λ·w_i. The ``MOST_GROUPS`` heaviest groups of equal draws enter by their exact law, and
    the others with the normal: no single one of them matters. A narrow normal on top (two steps of the
    grid wide) lets the characteristic function fade out, so that nothing folds over; it can only widen h.
    """
    groups, times = np.unique(
        np.stack([np.abs(shares).round(12), weights.astype(np.float64)]), axis=1, return_counts=True
    )
    size, weight = groups
    q = np.exp(-float(1 / scale) / weight)
    gap = np.expm1(-float(1 / scale) / weight) ** 2
    variances = times * size**2 * 2 * q / gap
    heavy = np.argsort(-variances)[:MOST_GROUPS]
    normal = rest + float(variances.sum() - variances[heavy].sum())
    total = rest + float(variances.sum())
    if total == 0:
        return 0.0, "exact"
    largest = float((size * weight)[heavy].max(initial=0)) * float(scale)
    if largest**2 * 2 < 1e-3 * total:
        return _normal(total, level), "normal"
    reach = 8 * sqrt(total) + 20 * largest
    step = 2 * reach / _GRID
    t = pi / reach * np.arange(_GRID // 2 + 1)
    # (1−q)² + 4q sin²(t/2) is 1 − 2q cos t + q² without cancellation.
    waves = 4 * q[heavy, None] * np.sin(size[heavy, None] * t / 2) ** 2
    logarithm = -(times[heavy, None] * np.log1p(waves / gap[heavy, None])).sum(axis=0)
    mass = np.fft.irfft(np.exp(logarithm - (normal + (2 * step) ** 2) * t**2 / 2), _GRID)
    within = mass[0] + 2 * np.cumsum(np.concatenate(([0.0], mass[1 : _GRID // 2])))
    # Where the law has atoms, smoothing lets the level be reached up to three widths before one.
    half = step * (int(np.searchsorted(within, level)) + 6)
    return half, "exact" if normal <= 0.01 * total else "normal"


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
