"""Intervals against brute-force convolution of the exact law."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from dpcli.estimate.law import sum_half_width, unit_variance
from dpcli.privacy.noise import DiscreteLaplace, Keystream


def law(scale: Fraction, reach: int) -> np.ndarray:
    q = exp(-1 / float(scale))
    return (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1)).astype(float)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(5, 3), Fraction(20)]
)
def test_unit_variance_is_that_of_the_law(scale: Fraction) -> None:
    values = np.arange(-2000, 2001)
    assert unit_variance(scale) == pytest.approx((law(scale, 2000) * values**2).sum(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(5, 3), Fraction(20)])
@pytest.mark.parametrize("draws", [1, 2, 3, 10])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_sum_half_width_is_the_least_that_covers(scale: Fraction, draws: int, level: float) -> None:
    one = law(scale, 900)
    total = one
    for _ in range(draws - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    half, how = sum_half_width(scale, draws, level)
    assert how == "exact"
    assert half == int(half)
    covered = [total[middle - h : middle + h + 1].sum() for h in range(int(half) + 1)]
    assert covered[-1] >= level - 1e-9
    assert half == 0 or covered[-2] < level


@pytest.mark.parametrize("scale", [Fraction(10**6), Fraction(10**9)])
def test_wide_noise_has_the_quantiles_of_laplace(scale: Fraction) -> None:
    assert sum_half_width(scale, 1, 0.95)[0] == pytest.approx(2.995732 * float(scale), rel=1e-5)
    # Two continuous Laplace draws of scale 1: P(|S| > h) = (1 + h/2) e^(−h).
    h = sum_half_width(scale, 2, 0.95)[0] / float(scale)
    assert (1 + h / 2) * exp(-h) == pytest.approx(0.05, rel=5e-3)


@pytest.mark.parametrize(
    ("scale", "draws"), [(Fraction(1, 10), 2000), (Fraction(1, 8), 10000), (Fraction(2), 20_000)]
)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_sums_of_many_draws_cover(scale: Fraction, draws: int, level: float) -> None:
    """Also where the noise is so narrow that a normal interval would be a fraction of one."""
    half, how = sum_half_width(scale, draws, level)
    sample = (
        DiscreteLaplace(scale).sample(Keystream.from_seed(1), draws * 400).reshape(400, draws).sum(axis=1)
    )
    assert how == "exact"
    assert (abs(sample) <= half).mean() >= level - 0.08
    assert half < 1 or (abs(sample) <= half - 1).mean() < level + 0.08


def test_no_cells_have_no_error() -> None:
    assert sum_half_width(Fraction(2), 0, 0.95) == (0.0, "exact")
