"""Laws of sums of noises against direct convolution and the paper's closed forms."""

from __future__ import annotations

from fractions import Fraction
from math import exp, factorial

import numpy as np
import pytest
from scipy.integrate import quad

from dpcli.estimate.ispe.laws import checked, continuous_sum, discrete_sum
from dpcli.estimate.law import cumulant

TWENTY = Fraction(20)


def one(scale: Fraction, reach: int) -> np.ndarray:
    q = exp(-1 / float(scale))
    return (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1)).astype(float)


@pytest.mark.parametrize("noises", [[(5, 1)], [(5, 3)], [(2, 4), (7, 1)], [(Fraction(1, 3), 6), (1, 1)]])
def test_discrete_sums_are_convolutions(noises: list[tuple[Fraction, int]]) -> None:
    noises = [(Fraction(scale), draws) for scale, draws in noises]
    expected = np.ones(1)
    for scale, draws in noises:
        for _ in range(draws):
            expected = np.convolve(expected, one(scale, 400))
    law = discrete_sum(noises)
    middle, centre = len(law.mass) // 2, len(expected) // 2
    reach = min(middle, centre, 150)
    found = law.mass[middle - reach : middle + reach + 1]
    assert np.abs(found - expected[centre - reach : centre + reach + 1]).max() < 1e-14
    assert law.mass.sum() == pytest.approx(1)
    assert law.cdf()[middle - 1] == pytest.approx((1 - law.mass[middle]) / 2)
    variance = sum(draws * cumulant(scale, 2) for scale, draws in noises)
    assert (law.mass * law.points**2).sum() == pytest.approx(variance)


def test_wide_noise_is_held_on_fewer_points() -> None:
    law = discrete_sum([(Fraction(10**6), 2)])
    assert law.step > 1
    assert (law.mass * law.points**2).sum() == pytest.approx(4e12, rel=1e-4)


def test_sums_of_two_and_three_are_the_corollary_of_the_paper() -> None:
    """Equation (21), and (22) with the powers of b that are missing there."""
    b = 20.0
    for draws, closed in (
        (2, lambda z: (1 / (4 * b) + z / (4 * b**2)) * np.exp(-z / b)),
        (3, lambda z: (3 / (16 * b) + 3 * z / (16 * b**2) + z**2 / (16 * b**3)) * np.exp(-z / b)),
    ):
        law = continuous_sum([(TWENTY, draws)])
        assert np.abs(law.mass / law.step - closed(np.abs(law.points))).max() < 1e-8


@pytest.mark.parametrize("n", [1, 2, 5])
def test_sums_follow_equation_nine(n: int) -> None:
    b = 20.0
    law = continuous_sum([(TWENTY, n)])
    for z in (0.0, 7.0, 55.0):
        integral = quad(lambda v: v ** (n - 1) * (z + v * b / 2) ** (n - 1) * exp(-v), 0, 80)[0]  # noqa: B023
        density = exp(-z / b) * integral / (2**n * b**n * factorial(n - 1) ** 2)
        assert law.at(np.array([z]))[0] == pytest.approx(density, rel=1e-3 if n == 1 else 1e-6)


def test_nothing_added_up_is_nothing() -> None:
    assert discrete_sum([(TWENTY, 0)]).mass.tolist() == [1]
    with pytest.raises(ValueError, match="no draws"):
        continuous_sum([(TWENTY, 0)])


@pytest.mark.parametrize("scale", [0, -1, float("inf"), float("nan")])
def test_scales_are_positive(scale: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        checked(scale)
