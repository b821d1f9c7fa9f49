"""The cost: sensitivities against brute force over real neighbours."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest

from dpcli.privacy.cost import Neighbors, cost, scale_for, sensitivity
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy

SHAPES = [(1,), (4,), (2, 3)]


def tables(cells: int, rows: int) -> list[np.ndarray]:
    """Every table with so many rows, as counts."""
    return [np.bincount(t, minlength=cells) for t in combinations_with_replacement(range(cells), rows)]


def neighbours(cells: int, kind: Neighbors) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every pair of neighbouring tables with up to three rows."""
    if kind == "add-remove":
        return [
            (t, t + unit) for n in range(3) for t in tables(cells, n) for unit in np.eye(cells, dtype=int)
        ]
    return [
        (t + a, t + b)
        for n in range(2)
        for t in tables(cells, n)
        for a, b in product(np.eye(cells, dtype=int), repeat=2)
    ]


@pytest.mark.parametrize("kind", ["add-remove", "replace-one"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sensitivity_is_the_largest_distance_between_neighbours(
    shape: tuple[int, ...], kind: Neighbors
) -> None:
    strategy = Strategy(tuple(map(Identity, shape)))
    worst = max(
        int(np.abs(strategy.forward(one) - strategy.forward(other)).sum())
        for one, other in neighbours(prod(shape), kind)
    )
    bound = sensitivity(strategy, kind, 1)
    assert worst <= bound
    assert worst == bound or prod(shape) == 1  # a cube of one cell has no row to replace by another


@pytest.mark.parametrize("kind", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_cost_inverts_the_scale_exactly(kind: Neighbors, rows: int) -> None:
    strategy = Strategy((Identity(3), Identity(2)))
    for epsilon in (Fraction(1, 10), Fraction(7, 3), Fraction(1, 10**9)):
        assert cost(strategy, scale_for(strategy, epsilon, kind, rows), kind, rows) == epsilon


def test_cost_bounds_the_loss_of_the_exact_law() -> None:
    """P(y | x) / P(y | x') computed from the discrete Laplace law never exceeds e^cost, and reaches it."""
    scale = Fraction(5, 3)
    strategy = Strategy((Identity(2),))
    worst = max(
        abs(float((np.abs(y - other).sum() - np.abs(y - one).sum()) / scale))
        for one, other in neighbours(2, "replace-one")
        for y in (np.array(pair) for pair in product(range(-6, 9), repeat=2))
    )
    assert worst == pytest.approx(float(cost(strategy, scale, "replace-one", 1)))


def test_rows_per_person_multiply_and_must_be_positive() -> None:
    strategy = Strategy((Identity(4),))
    assert sensitivity(strategy, "add-remove", 5) == 5
    assert sensitivity(strategy, "replace-one", 5) == 10
    with pytest.raises(ValueError, match="at least one row"):
        sensitivity(strategy, "add-remove", 0)
