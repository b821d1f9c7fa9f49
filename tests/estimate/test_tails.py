"""Half-widths hold with at least their level: checked against exact laws, without drawing."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from dpcli.data.domain import Domain
from dpcli.estimate import errors as module
from dpcli.estimate.errors import errors
from dpcli.estimate.law import cumulant, sum_half_width, weighted_half_width
from dpcli.estimate.matched import half_widths
from dpcli.estimate.tails import chernoff, half_widths_of_sums, weighted_chernoff
from dpcli.mechanisms import strategy_of
from dpcli.query.batch import Batch, batches
from dpcli.query.workload import random_ranges

LEVELS = [0.5, 0.9, 0.95, 0.99, 0.999, 1 - 1e-4, 1 - 1e-6, 1 - 5e-8]
EPSILONS = ["1/2", "1", "2", "3", "5", "8", "10", "13", "15", "20"]
NUMBERS = [2, 3, 7, 31, 33, 100, 201, 260, 500, 1000, 3000, 10_000, 30_000]


@lru_cache(maxsize=64)
def tails(scale: Fraction, draws: int) -> np.ndarray:
    """P(|S| > h) for h = 0, 1, … of a sum of draws, by FFT on the integers."""
    length, rate = 1 << 16, float(1 / scale)
    angle = 2 * np.pi * np.arange(length // 2 + 1) / length
    waves = 4 * np.exp(-rate) / np.expm1(-rate) ** 2 * np.sin(angle / 2) ** 2
    mass = np.fft.irfft(np.exp(-draws * np.log1p(waves)), length)
    return 2 * np.cumsum(mass[1 : length // 2][::-1])[::-1]


def stepwise_tails(scale: Fraction, shares: np.ndarray, weights: np.ndarray, unit: float) -> np.ndarray:
    """P(|X| > k·unit) of Σ a_i z_i whose shares are multiples of the unit."""
    length = 1 << 16
    angle = 2 * np.pi * np.arange(length // 2 + 1) / length
    logarithm = np.zeros(len(angle))
    for size, weight in zip((shares / unit).round(), weights, strict=True):
        rate = float(1 / scale) / weight
        waves = 4 * np.exp(-rate) / np.expm1(-rate) ** 2 * np.sin(size * angle / 2) ** 2
        logarithm -= np.log1p(waves)
    mass = np.fft.irfft(np.exp(logarithm), length)
    return 2 * np.cumsum(mass[1 : length // 2][::-1])[::-1]


def lengths_batch(numbers: list[int]) -> Batch:
    """One query for each number of cells of a single axis."""
    vectors = np.arange(max(numbers)) < np.array(numbers)[:, None]
    return Batch((vectors,), np.arange(len(numbers))[:, None, None])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sums_of_cells_hold_with_the_least_half_width(epsilon: str, level: float) -> None:
    scale = 1 / Fraction(epsilon)
    many = half_widths_of_sums(scale, np.array(NUMBERS), level)
    assert np.all(np.diff(many) >= 0)
    for draws, half in zip(NUMBERS, many.astype(int), strict=True):
        beyond = tails(scale, draws)
        assert beyond[half] <= (1 - level) * (1 + 1e-6)
        assert half == 0 or beyond[half - 1] > (1 - level) * (1 - 1e-6)
        assert sum_half_width(scale, draws, level)[0] == half


@pytest.mark.parametrize("level", [0.95, 0.99, 0.999, 1 - 0.05 / 400, 1 - 5e-8])
@pytest.mark.parametrize("epsilon", ["3", "8", "10", "13", "15"])
def test_tables_of_many_sums_hold(epsilon: str, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are so many numbers of cells that they are rounded up; then little is given away."""
    numbers = [*range(300), *range(301, 3000, 40)]
    batch, scale = lengths_batch(numbers), 1 / Fraction(epsilon)
    strategy = strategy_of(
        "laplace", Domain.from_description([{"name": "a", "kind": "ordinal", "range": [1, max(numbers)]}])
    )
    alone = errors(batch, strategy, scale, level)
    assert alone.exact.all()
    monkeypatch.setattr(module, "MOST_SUMS", 10)
    rounded = errors(batch, strategy, scale, level)
    assert not rounded.exact.all()
    for number, half, wide in zip(numbers, alone.half, rounded.half, strict=True):
        if number:
            assert tails(scale, number)[int(half)] <= (1 - level) * (1 + 1e-6)
        assert half <= wide <= half * 1.004 + 1


@pytest.mark.parametrize("level", [0.95, 0.999, 1 - 1e-7, 1 - 1e-13])
@pytest.mark.parametrize("scale", [Fraction(1, 13), Fraction(1), Fraction(10**4)])
def test_bounds_are_above_and_not_far(scale: Fraction, level: float) -> None:
    numbers = np.array([1, 2, 5, 40, 3000])
    bound, _ = chernoff(scale, numbers.astype(float), level)
    least = np.array([sum_half_width(scale, int(n), level)[0] for n in numbers])
    assert np.all(bound >= least - 1)
    if scale >= 1:
        assert np.all(bound <= 2.5 * least + 1)
    for draws, one in zip(numbers, bound, strict=True):
        group = np.ones(1), np.ones(1), np.array([float(draws)])
        assert weighted_chernoff(scale, group, 0.0, level) == pytest.approx(one, rel=1e-3)


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(10**6)])
@pytest.mark.parametrize("draws", [1, 2, 5, 40])
def test_tails_too_small_for_an_fft_are_followed(scale: Fraction, draws: int) -> None:
    """A tail of e^(−k) less takes some k·λ more, whatever the path."""
    levels = [1 - 1e-8, 1 - 1e-10, 1 - 1e-12, 1 - 1e-14]
    halves = [sum_half_width(scale, draws, level)[0] for level in levels]
    weighted = [
        weighted_half_width(scale, np.full(draws, 1.0), np.ones(draws, np.int64), 0.0, level)[0]
        for level in levels
    ]
    for found in (halves, weighted):
        assert np.all(np.diff(found) >= np.log(90) * float(scale))
    assert np.all(np.array(weighted) >= np.array(halves) * 0.999)
    assert np.all(np.array(weighted) <= np.array(halves) * 1.35)


SHARES = {
    "one": ([1.0], [1]),
    "halves": ([1.0, 0.5, 0.5, 0.25, 0.25], [1, 1, 2, 4, 4]),
    "one wide among narrow ones": ([2.0] + [0.25] * 150, [8] + [1] * 150),
    "many": ([1.0] * 250 + [0.5] * 40, [1] * 290),
    "few wide": ([1.5, 1.25, 1.0], [4, 2, 1]),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", SHARES)
@pytest.mark.parametrize("epsilon", ["1/4", "1", "2", "5", "8", "13"])
def test_laws_of_shares_hold_on_every_path(epsilon: str, kind: str, level: float) -> None:
    scale = 1 / Fraction(epsilon)
    shares, weights = np.array(SHARES[kind][0]), np.array(SHARES[kind][1])
    beyond = stepwise_tails(scale, shares, weights, 0.25)

    class Noise:
        """What the matched path asks of a batch's noise."""

        def __init__(self, terms: int) -> None:
            self.scale, self.batch = scale, Batch((), np.zeros((1, terms, 0), np.intp))

        def cumulants(self) -> tuple[np.ndarray, ...]:
            return tuple(
                np.array(
                    [sum(a**k * cumulant(scale * int(w), k) for a, w in zip(shares, weights, strict=True))]
                )
                for k in (2, 4, 6)
            )

    variance = Noise(1).cumulants()[0]
    halves = {
        "exact": weighted_half_width(scale, shares, weights, 0.0, level)[0],
        "matched": module._matched(Noise(1), variance, level)[0],  # type: ignore[arg-type]
        "widest": module._matched(Noise(2), variance, level)[0],  # type: ignore[arg-type]
    }
    for path, half in halves.items():
        assert beyond[int(half / 0.25 + 1e-9)] <= (1 - level) * 1.0001, path


@pytest.mark.parametrize("level", [0.95, 0.99, 1 - 1e-4, 1 - 1e-6])
@pytest.mark.parametrize("mechanism", ["privelet\n    direct: none", "hierarchical", "optimized", "auto"])
@pytest.mark.parametrize("epsilon", ["5", "13", "40"])
def test_many_kinds_of_narrow_noise_are_not_below_the_exact_ones(
    mechanism: str, epsilon: str, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Domain.from_description(
        [
            {"name": "age", "kind": "ordinal", "range": [0, 30]},
            {"name": "pay", "kind": "ordinal", "range": [0, 12]},
        ]
    )
    strategy = strategy_of(mechanism.split()[0], domain)
    scale = strategy.norm / Fraction(epsilon)
    ((_, batch),) = batches(random_ranges(domain, 60, 3), domain.shape)
    exact = errors(batch, strategy, scale, level)
    monkeypatch.setattr(module, "MOST_EXACT", 0)
    many = errors(batch, strategy, scale, level)
    assert np.all(many.half >= 0.99 * exact.half - (0 if scale >= 1 else 1e-9))


def test_matched_laws_alone_would_be_too_narrow() -> None:
    """Rare steps of one: within less than half of one nearly everything lies, but not enough."""
    scale, draws, level = Fraction(1, 13), 250, 1 - 0.05 / 400
    second, fourth, sixth = (np.array([draws * cumulant(scale, k)]) for k in (2, 4, 6))
    assert half_widths(second, fourth, sixth, level)[0] < 0.5
    assert tails(scale, draws)[0] > 1 - level
    assert sum_half_width(scale, draws, level)[0] == 1
