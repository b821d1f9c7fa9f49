"""Intervals from the exact law of discrete Laplace noise.

One draw has P(z) ∝ q^|z| with q = e^(−1/λ), variance 2q/(1−q)² and characteristic function
φ(t) = (1−q)² / (1 − 2q cos t + q²).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log, log1p, sqrt
from statistics import NormalDist

import numpy as np

from dpcli.estimate.answer import How

MOST_EXACT = 1000
_GRID = 1 << 15


def unit_variance(scale: Fraction) -> float:
    """Return the variance 2q/(1−q)² of one draw with scale λ."""
    rate = float(1 / scale)
    return 2 * exp(-rate) / expm1(-rate) ** 2


@lru_cache(maxsize=4096)
def half_width(scale: Fraction, draws: int, level: float) -> tuple[float, How]:
    """Return h such that the sum of ``draws`` independent draws lies within ±h with probability ≥ level.

    Up to ``MOST_EXACT`` draws from the exact law; above that the sum is normal to within a thousandth of h.
    """
    if draws == 0:
        return 0.0, "exact"
    if draws > MOST_EXACT:
        return NormalDist().inv_cdf((1 + level) / 2) * sqrt(draws * unit_variance(scale)), "normal"
    if draws == 1:
        return float(_one_draw(float(1 / scale), level)), "exact"
    return _many_draws(float(1 / scale), draws, level), "exact"


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
    while reach / step > _GRID / 2:
        step *= 2
    angle = 2 * np.pi * np.arange(_GRID // 2 + 1) / (_GRID * step)
    # (1−q)² + 4q sin²(t/2) is 1 − 2q cos t + q² without cancellation.
    q, gap = exp(-rate), expm1(-rate) ** 2
    characteristic = (gap / (gap + 4 * q * np.sin(angle / 2) ** 2)) ** draws
    mass = np.fft.irfft(characteristic, _GRID)
    within = mass[0] + 2 * np.cumsum(np.concatenate(([0.0], mass[1 : _GRID // 2])))
    return float(step * int(np.searchsorted(within, level - 1e-12)))
