"""Least squares and posterior means of a region's cells."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.estimate.ispe.mmse import combined, least_squares, mmse, part
from dpcli.estimate.law import unit_variance

TWENTY = Fraction(20)


def test_the_worked_example_of_the_paper() -> None:
    found = combined(25.6289, [(TWENTY, 2)], -52.9904, [(TWENTY, 3)], 0.95, continuous=True)
    assert found.mean == pytest.approx(-5.8188, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((-73.65, 55.66), abs=0.01)
    # The same from the closed forms of the two laws, on a fine grid.
    theta, b = np.linspace(-900, 900, 360_001), 20.0
    one, other = np.abs(25.6289 - theta), np.abs(-52.9904 - theta)
    density = (1 + one / b) * (3 + 3 * other / b + (other / b) ** 2) * np.exp(-(one + other) / b)
    below = (np.cumsum(density) - density / 2) / density.sum()
    assert (found.low, found.high) == pytest.approx(np.interp([0.025, 0.975], below, theta), abs=1e-3)


@given(st.integers(1, 400), st.fractions(Fraction(1, 2), 60, max_denominator=9), st.floats(-4, 4))
@settings(max_examples=40, deadline=None)
def test_with_equal_scales_mmse_is_least_squares(size: int, scale: Fraction, deviations: float) -> None:
    variance = unit_variance(scale)
    residual = np.array([round(deviations * ((size + 1) * variance) ** 0.5)], float)
    sizes = np.array([size])
    linear = least_squares(residual, sizes, variance, variance).noise
    assert mmse(residual, sizes, (scale, scale)).noise == pytest.approx(linear, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("residual", [0, 3, -11, 40])
def test_moments_are_those_of_the_posterior(residual: int) -> None:
    """Two cells and their region, by going through all pairs of noises."""
    scales = Fraction(3), Fraction(7)
    z = np.arange(-150, 151)
    one, other = np.meshgrid(z, z, indexing="ij")
    weight = np.exp(-(np.abs(one) + np.abs(other)) / 3 - np.abs(one + other - residual) / 7)
    weight /= weight.sum()
    mean = (weight * (one + other)).sum()
    total = (weight * (one + other) ** 2).sum() - mean**2
    alone = (weight * one**2).sum() - (weight * one).sum() ** 2
    shared = (weight * one * other).sum() - (weight * one).sum() ** 2
    found = mmse(np.array([float(residual)]), np.array([2]), scales)
    assert found.noise[0] == pytest.approx(mean, abs=1e-6)
    assert found.total[0] == pytest.approx(total, rel=1e-6)
    assert found.cell[0] == pytest.approx(alone - shared, rel=1e-6)


@pytest.mark.parametrize("asked", [1, 3, 6, 7])
def test_sums_of_cells_are_the_posterior_means_of_parts(asked: int) -> None:
    """A part of seven cells from Theorem 4.1, against shares of the region's expected noise."""
    scales = Fraction(4), Fraction(9)
    cells = np.array([12.0, -3, 5, 0, 8, 2, 1])
    count = 41.0
    removed = mmse(np.array([cells.sum() - count]), np.array([7]), scales)
    found = combined(
        cells[:asked].sum(),
        [(scales[0], asked)],
        count - cells[asked:].sum(),
        [(scales[0], 7 - asked), (scales[1], 1)],
        0.9,
        continuous=False,
    )
    assert found.mean == pytest.approx(cells[:asked].sum() - asked / 7 * removed.noise[0], abs=1e-5)
    spread = removed.cell[0] * (asked - asked**2 / 7) + (asked / 7) ** 2 * removed.total[0]
    assert found.sd == pytest.approx(spread**0.5, rel=1e-5)
    assert found.low < found.mean < found.high


def test_far_residuals_stay_monotone() -> None:
    residual = np.linspace(-5000, 5000, 101)
    noise = mmse(residual, np.full(101, 9), (Fraction(2), Fraction(5))).noise
    assert (np.diff(noise) >= -1e-9).all()
    assert noise == pytest.approx(-noise[::-1])


def test_a_part_by_least_squares() -> None:
    scales = Fraction(20, 3), TWENTY
    v1, v2 = map(unit_variance, scales)
    value, variance = part(10, 2, 30, 5, 50, scales)
    assert value == pytest.approx(10 + 2 * v1 / (5 * v1 + v2) * 20)
    assert variance == pytest.approx(2 * v1 - (2 * v1) ** 2 / (5 * v1 + v2))


def test_observations_that_cannot_both_be() -> None:
    with pytest.raises(ValueError, match="contradict"):
        combined(0, [(Fraction(1), 1)], 1e6, [(Fraction(1), 1)], 0.9, continuous=False)
    assert exp(-1e6) == 0
