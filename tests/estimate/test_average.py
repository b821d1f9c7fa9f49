"""Averages: Fieller's interval is the set of ratios that the noise law does not rule out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcli.data.domain import Domain
from dpcli.estimate.average import averages, bounds
from dpcli.estimate.cube import CubeNoise
from dpcli.mechanisms import strategy_of
from dpcli.query.batch import batches, grouped
from dpcli.query.parse import parse_condition

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [-3, 9], "missing": "own-category"},
        {"name": "sex", "kind": "nominal", "values": ["F", "M"]},
    ]
)
NUMBERS = DOMAIN["age"].numbers()


@pytest.mark.parametrize("mechanism", ["laplace", "privelet", "hierarchical"])
@pytest.mark.parametrize("condition", ["true", "age > 0 or sex = 'F'", "age between 2 and 5"])
@pytest.mark.parametrize("count", [60.0, 900.0])
def test_the_interval_is_the_ratios_that_are_not_ruled_out(
    mechanism: str, condition: str, count: float
) -> None:
    strategy, scale, level = strategy_of(mechanism, DOMAIN), Fraction(10), 0.9
    ((_, batch),) = batches([parse_condition(condition, DOMAIN)], DOMAIN.shape)
    (least,), (greatest,) = bounds(batch, 0, NUMBERS)
    total = count * (0.3 * least + 0.7 * greatest)
    found = averages(
        batch, 0, NUMBERS, np.array([total]), np.array([count]), CubeNoise(strategy, scale), level
    )
    ratios = np.linspace(least, greatest, 201)
    tilted = [batch.weighted(0, np.where(np.isnan(NUMBERS), 0, NUMBERS - r)) for r in ratios]
    half = np.array([CubeNoise(strategy, scale).errors(each, level).half[0] for each in tilted])
    possible = ratios[np.abs(total - ratios * count) <= half]
    step = 2 * (ratios[1] - ratios[0])
    assert found.value[0] == pytest.approx(total / count)
    assert found.low[0] <= possible.min() + step
    assert found.high[0] >= possible.max() - step
    if count == 900:  # where the count itself is uncertain, the interval may be wider than need be
        assert found.low[0] >= possible.min() - step
        assert found.high[0] <= possible.max() + step


def test_an_uncertain_count_leaves_every_average_possible() -> None:
    strategy, scale = strategy_of("laplace", DOMAIN), Fraction(10)
    codes, batch = grouped(parse_condition("age >= 5", DOMAIN), (1,), DOMAIN.shape)
    assert len(codes) == 2
    found = averages(
        batch, 0, NUMBERS, np.array([30.0, -9.0]), np.array([4.0, -3.0]), CubeNoise(strategy, scale), 0.95
    )
    assert found.low.tolist() == [5, 5]
    assert found.high.tolist() == [9, 9]
    assert found.value[0] == pytest.approx(7.5)
    assert np.isnan(found.value[1])


def test_without_noise_the_interval_is_a_point() -> None:
    strategy = strategy_of("laplace", DOMAIN)
    ((_, batch),) = batches([parse_condition("sex = 'F'", DOMAIN)], DOMAIN.shape)
    found = averages(
        batch, 0, NUMBERS, np.array([20.0]), np.array([8.0]), CubeNoise(strategy, Fraction(1, 10**6)), 0.95
    )
    assert (found.low[0], found.value[0], found.high[0]) == (2.5, 2.5, 2.5)
