"""The cost: sensitivities against brute force over real neighbours."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest

from dpcli.data.hierarchy import Hierarchy
from dpcli.privacy.cost import Neighbors, cost, scale_for, sensitivity
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.optimized import Optimized
from dpcli.strategy.tree import Tree

TREE = Hierarchy.from_nested({"a": ["b", "c"], "d": None})
STRATEGIES = [
    Strategy((Identity(1),)),
    Strategy((Identity(4),)),
    Strategy((Identity(2), Identity(3))),
    Strategy((Haar(6),)),
    Strategy((Haar(3), Identity(2))),
    Strategy((Haar(2), NominalWavelet.from_hierarchy(TREE))),
    Strategy((Tree.kary(4, 2), NominalWavelet.flat(3))),
    Strategy((Tree(4, (4, 2, 1), (2, 1, 3)), Haar(2))),
    Strategy((Optimized(5, 64, 5, (), ((20, 20, 0, 0, 0), (0, 0, 9, 30, 7))), Identity(2))),
]


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
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_no_neighbours_are_further_apart_than_the_sensitivity(strategy: Strategy, kind: Neighbors) -> None:
    weights = reduce(np.multiply.outer, [axis.weights for axis in strategy.inner], np.ones(())).ravel()
    worst = max(
        float((np.abs(strategy.forward(one) - strategy.forward(other)) / weights).sum())
        for one, other in neighbours(prod(strategy.shape), kind)
    )
    bound = float(sensitivity(strategy, kind, 1))
    assert worst <= bound * (1 + 1e-12)
    if kind == "add-remove":
        assert worst == pytest.approx(bound)  # a single row reaches it
    elif not strategy.inner and prod(strategy.shape) > 1:
        assert worst == pytest.approx(bound)  # two cells that share no coefficient


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
