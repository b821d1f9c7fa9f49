"""Least-squares and minimum-mean-square-error estimates of a region's cells (ISPE, sections 4.1 and 4.2).

A region of n cells has noisy cells y_i (noise z_i of variance v1) and a noisy count Y (noise of variance
v2). Both estimates of a query on n_q of its cells take from y_q a share n_q/n of what the cells' noise is
expected to add up to, given the residual r = Σ y_i − Y = Σ z_i − z_Y:

* least squares: r n v1/(n v1 + v2), with exact variance n_q v1 − (n_q v1)²/(n v1 + v2);
* MMSE: E[Σ z_i | r] from the exact laws. With a flat prior on the cells, the z_i given r are exchangeable,
  so the answers of all queries are sums of the answers of cells, as least squares' are.

If all scales are equal, Y's noise is one more of the z_i, and both are the same.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.ispe.laws import Law, Noises, continuous_sum, discrete_sum, grid, log_characteristic
from dpcli.estimate.law import unit_variance
from dpcli.strategy.axis import FloatArray

_TRUSTED = 1e-8
"""The share of a law's peak down to which its FFT gives conditional moments to six digits."""


class Removed(NamedTuple):
    """For each region what its cells' noise adds up to, and how uncertain that and single cells are."""

    noise: FloatArray
    """The expected Σ z_i."""
    total: FloatArray
    """The variance of Σ z_i."""
    cell: FloatArray
    """The variance of one z_i less its covariance with another."""


def least_squares(residual: FloatArray, sizes: NDArray[np.intp], cells: float, regions: float) -> Removed:
    """Return the best linear unbiased estimate from residuals r; ``cells`` is v1, ``regions`` v2."""
    whole = sizes * cells + regions
    return Removed(
        residual * sizes * cells / whole, sizes * cells * regions / whole, np.full(len(sizes), cells)
    )


def part(
    asked: float, cells: int, region_sum: float, size: int, count: float, scales: tuple[Fraction, Fraction]
) -> tuple[float, float]:
    """Return the least-squares answer for n_q cells of a region, and its variance; ``asked`` is y_q."""
    v1, v2 = map(unit_variance, scales)
    share = cells * v1 / (size * v1 + v2)
    return asked + share * (count - region_sum), cells * v1 * (1 - share)


def mmse(residual: FloatArray, sizes: NDArray[np.intp], scales: tuple[Fraction, Fraction]) -> Removed:
    """Return the posterior mean and variance of each region's noise from the exact laws.

    One set of FFTs serves all regions of a size. Beyond residuals of density 1e-8 of the peak the mean goes
    on with its last slope, and the variances stay as they are; six digits are right before that.
    """
    found = Removed(*(np.zeros(len(sizes)) for _ in range(3)))
    distinct, kind = np.unique(sizes, return_inverse=True)
    order = np.argsort(kind.reshape(-1), kind="stable")
    for size, members in zip(
        distinct, np.split(order, np.cumsum(np.bincount(kind.reshape(-1)))[:-1]), strict=True
    ):
        moments = _moments(int(size), scales, residual[members])
        for column, values in zip(found, moments, strict=True):
            column[members] = values
    return found


def _moments(size: int, scales: tuple[Fraction, Fraction], residual: FloatArray) -> Removed:
    """Return E[S | r], Var(S | r) and Var(z_1 | r) − Cov(z_1, z_2 | r), S = Σ z_i, where S + z_Y = r.

    The transform of s^k p(s) is (−i)^k times the k-th derivative of φ, so all three are FFTs.
    """
    points, step = grid([(scales[0], size), (scales[1], 1)])
    t = 2 * np.pi * np.arange(points // 2 + 1) / (points * step)
    rate = float(1 / scales[0])
    q, gap = exp(-rate), expm1(-rate) ** 2
    base = gap + 4 * q * np.sin(t / 2) ** 2
    # φ'/φ and φ''/φ of one draw; the n-th power has n φ'/φ and n(n−1)(φ'/φ)² + n φ''/φ.
    first = -2 * q * np.sin(t) / base
    second = 2 * first**2 - 2 * q * np.cos(t) / base
    whole = np.exp(size * log_characteristic(scales[0], t) + log_characteristic(scales[1], t))
    mass = np.fft.irfft(whole, points)
    mean = np.fft.irfft(1j * size * first * whole, points)
    square = np.fft.irfft(-(size * (size - 1) * first**2 + size * second) * whole, points)
    single = np.fft.irfft(-second * whole, points)
    half = points // 2
    trusted = int(np.argmin(np.append(mass[:half] > _TRUSTED * mass[0], False))) - 1
    # All are even in r but the mean, which is odd.
    density = mass[: trusted + 1]
    expected = mean[: trusted + 1] / density
    total = np.maximum(square[: trusted + 1] / density - expected**2, 0.0)
    one = np.maximum(single[: trusted + 1] / density - (expected / size) ** 2, 0.0)
    known = float(step) * np.arange(trusted + 1)
    far = np.abs(residual)
    slope = (expected[-1] - expected[max(0, trusted - 1)]) / step
    value = np.interp(far, known, expected) + slope * np.maximum(far - known[-1], 0.0)
    variance = np.interp(far, known, total)
    # n Var(z_1) and n(n−1) Cov(z_1, z_2) make up Var(S).
    alone = np.interp(far, known, one)
    cell = (size * alone - variance / size) / (size - 1) if size > 1 else alone
    return Removed(np.sign(residual) * value, variance, np.maximum(cell, 0.0))


class Posterior(NamedTuple):
    """The posterior of a quantity: its mean, standard deviation and equal-tailed interval."""

    mean: float
    sd: float
    low: float
    high: float


def combined(
    first: float, first_noise: Noises, second: float, second_noise: Noises, level: float, *, continuous: bool
) -> Posterior:
    """Return the posterior of θ, flat beforehand, from two observations of it (ISPE, Theorems 4.1 and 4.2).

    Pr(θ | θ̃1, θ̃2) ∝ f1(θ̃1 − θ) f2(θ̃2 − θ). For a part of a region θ̃1 is the sum of its noisy cells and θ̃2
    the region's count less the other cells. The paper's example (θ̃1 = 25.6289 with two draws of scale 20,
    θ̃2 = −52.9904 with three) has mean −5.8188; its −5.9707 comes from simulated laws.
    """
    law = continuous_sum if continuous else discrete_sum
    one, other = law(first_noise), law(second_noise)
    theta, weight = _product(one, other, first, second)
    mass = weight / weight.sum()
    mean = float((mass * theta).sum())
    below = np.cumsum(mass)
    sd = sqrt(float((mass * (theta - mean) ** 2).sum()))
    tail = (1 - level) / 2
    if continuous:
        middle = below - mass / 2
        low, high = (float(np.interp(p, middle, theta)) for p in (tail, 1 - tail))
    else:
        low, high = (float(theta[np.searchsorted(below, p)]) for p in (tail, 1 - tail - 1e-12))
    return Posterior(mean, sd, low, high)


def _product(one: Law, other: Law, first: float, second: float) -> tuple[FloatArray, FloatArray]:
    """Return the points of θ and f1(first − θ) f2(second − θ) there."""
    narrow, place = (one, first) if one.points[-1] <= other.points[-1] else (other, second)
    theta = place + narrow.points
    weight = one.at(first - theta) * other.at(second - theta)
    if not weight.any():
        raise ValueError("the two observations contradict each other")
    return theta, weight
