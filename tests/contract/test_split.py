"""hierarchical with split: geometric, where each level has half of the epsilon of the next finer one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from dpcli.data.domain import Domain
from dpcli.mechanisms import Options, strategy_of
from dpcli.release.file import open_release
from dpcli.strategy.tree import MOST_WEIGHT, Tree

ITEMS = [
    {"name": "a", "kind": "ordinal", "range": [0, 7]},
    {"name": "b", "kind": "nominal", "hierarchy": [{"x": ["p", "q"]}, {"y": ["r", "s", "t"]}, "u"]},
    {"name": "c", "kind": "nominal", "values": ["F", "M", "X"]},
]


def trees(split: str) -> list[Tree]:
    options = Options(split=split)  # type: ignore[arg-type]
    axes = strategy_of("hierarchical", Domain.from_description(ITEMS), options).axes
    assert all(isinstance(axis, Tree) for axis in axes)
    return [axis for axis in axes if isinstance(axis, Tree)]


def test_weights_double_from_each_level_to_the_next_coarser() -> None:
    assert [tree.level_weights for tree in trees("geometric")] == [(8, 4, 2, 1), (4, 2, 1), (2, 1)]
    assert [tree.level_weights for tree in trees("equal")] == [(1, 1, 1, 1), (1, 1, 1), (1, 1)]
    assert [tree.levels for tree in trees("geometric")] == [tree.levels for tree in trees("equal")]
    assert trees("geometric")[0].norm == 1 + Fraction(1, 2) + Fraction(1, 4) + Fraction(1, 8)


def test_weights_of_a_deep_tree_stay_within_reach() -> None:
    domain = Domain.from_description([{"name": "a", "kind": "ordinal", "range": [0, 2**22 - 1]}])
    (axis,) = strategy_of("hierarchical", domain, Options(split="geometric")).axes
    assert isinstance(axis, Tree)
    assert axis.level_weights[:3] == (MOST_WEIGHT,) * 3
    assert axis.level_weights[-3:] == (4, 2, 1)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_least_squares_are_those_of_numpy(place: int) -> None:
    axis = trees("geometric")[place]
    matrix = axis.forward(np.eye(axis.size, dtype=np.int64), 0)
    noisy = np.random.default_rng(place).integers(-50, 50, axis.rows)
    by_weight = 1 / axis.weights
    expected = np.linalg.lstsq(matrix * by_weight[:, None], noisy * by_weight, rcond=None)[0]
    assert axis.inverse(noisy, 0) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_epsilon_is_recomputed_from_the_file(
    dpcli: Callable[..., Result], write_plan: Callable[..., Path], table: Path, neighbors: str
) -> None:
    plan = write_plan(mechanism="hierarchical\n    split: geometric", neighbors=neighbors, epsilon="0.7")
    result = dpcli("release", plan, table, "-o", "out.parquet")
    assert result.exit_code == 0, result.stderr
    metadata = open_release("out.parquet").metadata
    assert metadata.spent() == metadata.privacy.epsilon == Fraction(7, 10)
    weights = {axis.level_weights for axis in metadata.strategy.axes if isinstance(axis, Tree)}
    assert weights == {(16, 8, 4, 2, 1), (2, 1), (4, 2, 1)}
    assert dpcli("query", "out.parquet", "age < 5").exit_code == 0
