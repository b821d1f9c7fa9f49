"""Strategies: products of axes, measured block by block."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.tree import Tree

CUBES = [(1,), (7,), (3, 4), (2, 3, 5)]


@pytest.mark.parametrize("shape", CUBES)
def test_covariance_is_the_kronecker_product(shape: tuple[int, ...]) -> None:
    strategy = Strategy(tuple(map(Identity, shape)))
    generator = np.random.default_rng(0)
    left = [generator.normal(size=size) for size in shape]
    right = [generator.normal(size=size) for size in shape]
    assert strategy.covariance(left, right) == pytest.approx(reduce(np.kron, left) @ reduce(np.kron, right))


@pytest.mark.parametrize("shape", CUBES)
@pytest.mark.parametrize("most", [1, 4, 10**6])
def test_blocks_cover_every_cell_once_in_order(shape: tuple[int, ...], most: int) -> None:
    strategy = Strategy(tuple(map(Identity, shape)))
    blocks = list(strategy.blocks(most))
    assert [cell for start, stop in blocks for cell in range(start, stop)] == list(range(int(np.prod(shape))))
    assert all(stop - start <= most for start, stop in blocks)


def test_forward_and_inverse_of_a_block() -> None:
    strategy = Strategy((Identity(2), Identity(3)))
    counts = np.arange(6)
    assert np.array_equal(strategy.inverse(strategy.forward(counts)), counts)


def test_description_round_trip() -> None:
    strategy = Strategy((Identity(2), Identity(3)))
    assert Strategy.from_description(strategy.describe()) == strategy


def test_weights_that_could_wrap_around_are_refused() -> None:
    heavy = Tree(2, (2, 1), (10**6, 10**6))
    with pytest.raises(ValueError, match="is above"):
        Strategy((heavy,) * 4).noise_classes(0, 1)
    assert Strategy((heavy, heavy)).largest_weight == 10**12


def test_noise_classes_of_a_run_list_every_coefficient_once_with_its_weight() -> None:
    strategy = Strategy((Identity(2), Tree(3, (3, 1), (2, 1)), Tree(4, (4, 1), (3, 2))))
    weights = np.multiply.outer(strategy.inner[0].weights, strategy.inner[1].weights).ravel()
    assert strategy.weights == tuple(np.unique(weights).tolist())
    for start, stop in [(0, strategy.coefficients), (7, 18), (3, 4)]:
        classes = strategy.noise_classes(start, stop)
        listed = {int(place): weight for weight, places in classes for place in places}
        assert listed == dict(enumerate(weights[start:stop].tolist()))
        assert sum(len(places) for _, places in classes) == stop - start
