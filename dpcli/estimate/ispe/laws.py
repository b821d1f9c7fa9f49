"""Laws of sums of Laplace noises, each from one FFT of its characteristic function.

A sum of n_k draws of scale b_k has the characteristic function Π φ_k(t)^n_k with, for discrete Laplace,
φ(t) = (1−q)²/(1 − 2q cos t + q²), q = e^(−1/b), and for the continuous law φ(t) = 1/(1 + b²t²). ISPE's
eq. (9) and its cases (21), (22) are the continuous laws of equal draws; (22) is there without a factor 1/b:
it is (3/(16b) + 3|z|/(16b²) + z²/(16b³)) e^(−|z|/b). Its Algorithm 5 simulates them (and should divide by m,
not mn); nothing is simulated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, expm1, gcd, sqrt
from typing import NamedTuple

import numpy as np

from dpcli.estimate.law import cumulant
from dpcli.strategy.axis import FloatArray

Noises = Sequence[tuple[Fraction, int]]
"""Scales, each with the number of its draws."""

MOST_POINTS = 1 << 18
_FINE = 1 << 16


class Law(NamedTuple):
    """A law on the points −m·step … m·step: ``mass`` adds up to one."""

    step: float
    mass: FloatArray

    @property
    def points(self) -> FloatArray:
        """The points that carry the mass."""
        middle = len(self.mass) // 2
        return self.step * np.arange(-middle, middle + 1, dtype=np.float64)

    def cdf(self) -> FloatArray:
        """Return P(Z <= z) at every point."""
        return np.cumsum(self.mass)

    def at(self, values: FloatArray) -> FloatArray:
        """Return the density mass/step at any values, between the points by interpolation."""
        return np.interp(values, self.points, self.mass, left=0.0, right=0.0) / self.step


def log_characteristic(scale: Fraction, t: FloatArray) -> FloatArray:
    """Return log φ(t) of one discrete draw, without cancellation near t = 0."""
    rate = float(1 / scale)
    # 1 − 2q cos t + q² = (1−q)² + 4q sin²(t/2)
    found: FloatArray = -np.log1p(4 * exp(-rate) * np.sin(t / 2) ** 2 / expm1(-rate) ** 2)
    return found


def checked(scale: Fraction | float) -> Fraction:
    """Return a noise scale, which must be positive and finite, as a fraction."""
    if not 0 < scale < float("inf"):
        raise ValueError(f"a noise scale must be positive, not {scale}")
    return Fraction(scale)


def whole_multiples(one: Fraction, other: Fraction) -> tuple[int, int, Fraction]:
    """Return p, q and u such that the scales are p·u and q·u, to nine digits if they are not simple."""
    one, other = one.limit_denominator(10**9), other.limit_denominator(10**9)
    top = gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    unit = Fraction(top, one.denominator * other.denominator)
    return int(one / unit), int(other / unit), unit


def discrete_sum(noises: Noises) -> Law:
    """Return the exact pmf of a sum of independent discrete Laplace draws.

    The grid reaches 12 standard deviations and 40 scales, so that what folds over is below 1e-16. Where
    that is more than ``MOST_POINTS`` whole numbers, every 2^k-th stands for its surroundings.
    """
    total = sum(draws for _, draws in noises)
    if total == 0:
        return Law(1.0, np.ones(1))
    size, step = grid(noises)
    t = 2 * np.pi * np.arange(size // 2 + 1) / (size * step)
    logarithm = sum((draws * log_characteristic(scale, t) for scale, draws in noises), np.zeros(len(t)))
    mass = np.fft.irfft(np.exp(logarithm), size)
    half = size // 2 - 1
    return Law(float(step), np.maximum(np.concatenate([mass[-half:], mass[: half + 1]]), 0.0))


def grid(noises: Noises) -> tuple[int, int]:
    """Return how many points, and how far apart, hold the law of a sum."""
    reach = 12 * sqrt(sum(draws * cumulant(scale, 2) for scale, draws in noises)) + 40 * max(
        1.0, *(float(scale) for scale, draws in noises if draws)
    )
    step = 1
    while 2 * reach / step > MOST_POINTS:
        step *= 2
    return 1 << max(6, int(2 * reach / step).bit_length()), step


def continuous_sum(noises: Noises) -> Law:
    """Return the density (times the step) of a sum of independent continuous Laplace draws.

    One draw alone is written down; for more, what the grid cuts off of φ is of order (step/(πb))^(2n−1),
    below 1e-9 for draws of like scale.
    """
    total = sum(draws for _, draws in noises)
    if total == 0:
        raise ValueError("a sum of no draws has no density")
    widest = max(float(scale) for scale, draws in noises if draws)
    reach = 12 * sqrt(sum(2 * draws * float(scale) ** 2 for scale, draws in noises)) + 40 * widest
    step = 2 * reach / _FINE
    half = _FINE // 2 - 1
    if total == 1:
        mass = np.exp(-np.abs(step * np.arange(-half, half + 1)) / widest)
        return Law(step, mass / mass.sum())
    t = np.pi / reach * np.arange(_FINE // 2 + 1)
    logarithm = sum((-draws * np.log1p((float(scale) * t) ** 2) for scale, draws in noises), np.zeros(len(t)))
    mass = np.fft.irfft(np.exp(logarithm), _FINE)
    return Law(step, np.maximum(np.concatenate([mass[-half:], mass[: half + 1]]), 0.0))
