"""The tree axis: sums of nested levels, least squares with any weights, and how good the trees are."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.data.hierarchy import Hierarchy
from dpcli.strategy.tree import MOST_WEIGHT, Tree

TOWN = Hierarchy.from_nested(
    {
        "Health": ["Nurse", {"Doctor": ["Dentist", "Surgeon"]}],
        "Trade": {"Building": ["Mason"]},
        "Retired": None,
    }
)
NESTED = st.recursive(st.none(), lambda below: st.lists(below, min_size=1, max_size=4), max_leaves=25)


def hierarchy(tree: Any) -> Hierarchy:
    """Name the nodes of nested lists."""
    names = map(str, count())

    def named(node: Any) -> Any:
        return next(names) if node is None else {f"group {next(names)}": [named(below) for below in node]}

    return Hierarchy.from_nested([named(node) for node in tree or [None]])


def dense(axis: Tree) -> np.ndarray:
    return axis.forward(np.eye(axis.size, dtype=np.int64), 0)


def weighted(column: np.ndarray, axis: Tree) -> Fraction:
    """Σ|A_i|/w_i, exactly."""
    return sum(
        (Fraction(abs(int(a)), int(w)) for a, w in zip(column, axis.weights, strict=True)), Fraction(0)
    )


def over_all_ranges(axis: Tree) -> float:
    """S²·V averaged over all ranges: V of [i, j) is C_ii + C_jj − 2·C_ij, C the covariance of prefix sums."""
    responses = axis.response(np.tri(axis.size + 1, axis.size, -1))
    covariance = responses @ responses.T
    i, j = np.triu_indices(axis.size + 1, 1)
    return float(axis.norm) ** 2 * float(np.mean(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))


def test_eight_leaves_in_pairs() -> None:
    axis = Tree.kary(8, 2)
    assert axis == Tree(8, (8, 4, 2, 1), (1, 1, 1, 1))
    assert axis.norm == 4
    assert axis.forward(np.arange(8), 0).tolist() == [28, 6, 22, 1, 5, 9, 13, *range(8)]
    noisy = np.array([44, 21, 24, 12, 9, 11, 12, 10, 2, 6, 4, 8, 4, 3, 8])
    expected = [9.904762, 1.904762, 5.571429, 3.571429, 7.761905, 3.761905, 3.428571, 8.428571]
    assert axis.inverse(noisy, 0) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("size", "branching", "levels", "variance"),
    [
        (64, 8, (8, 1), 18.5),
        (101, 11, (11, 1), 23.9),
        (256, 16, (16, 1), 39.6),
        (1001, 11, (121, 11, 1), 77.8),
    ],
)
def test_variance_over_all_ranges(
    size: int, branching: int, levels: tuple[int, ...], variance: float
) -> None:
    axis = Tree.kary(size, branching, root=False)
    assert axis.levels == levels
    assert over_all_ranges(axis) == pytest.approx(variance, abs=0.05)


def test_the_best_tree_over_all_ranges() -> None:
    """At 16 cells none beats measuring the cells alone; at 64 groups of 8 without a root are best."""
    trees = [
        (over_all_ranges(Tree.kary(size, branching, root=root)), size, branching, root)
        for size in (16, 64)
        for branching in range(2, size)
        for root in (False, True)
    ]
    assert min(value for value, size, *_ in trees if size == 16) > over_all_ranges(Tree(16, (1,)))
    assert min(tree for tree in trees if tree[1] == 64)[1:] == (64, 8, False)


def test_variances_of_16_groups_of_32() -> None:
    axis = Tree.from_hierarchy(hierarchy([[None] * 32] * 16))
    assert axis == Tree(512, (512, 32, 1))
    assert axis.norm == 3
    root, group, leaf = np.zeros((3, 512))
    root[:] = group[:32] = leaf[0] = 1
    found = [axis.covariance(query, query) for query in (root, group, leaf)]
    assert found == pytest.approx([0.939, 0.913, 0.970], abs=5e-4)


def test_which_levels_a_k_ary_tree_has() -> None:
    assert Tree.kary(10, 3).levels == (10, 9, 3, 1)
    assert Tree.kary(10, 3, root=False).levels == (9, 3, 1)
    assert Tree.kary(10, 3, levels=(1,)).levels == (10, 3, 1)
    assert Tree.kary(10, 3, levels=(2, 0), root=False).levels == (9, 1)
    assert Tree.kary(9, 3).levels == (9, 3, 1)
    assert Tree.kary(9, 3, levels=(), root=False).levels == (1,)
    assert Tree.kary(1, 2).levels == (1,)
    assert Tree.kary(10, 3).rows == 1 + 2 + 4 + 10
    with pytest.raises(ValueError, match="a level of this tree must be a whole number from 0 to 2, not 3"):
        Tree.kary(10, 3, levels=(3,))
    with pytest.raises(ValueError, match="the branching of a tree axis must be a whole number of at least 2"):
        Tree.kary(10, 1)


def test_a_ragged_hierarchy_measures_shallow_leaves_on_every_level() -> None:
    axis = Tree.from_hierarchy(TOWN, extra=1)
    assert axis.levels == (6, (0, 3, 4, 5), (0, 1, 3, 4, 5), 1)
    assert axis.norm == 4
    assert axis.forward(np.array([5, 1, 2, 10, 20, 3]), 0).tolist() == [
        *[41],
        *[8, 10, 20, 3],
        *[5, 3, 10, 20, 3],
        *[5, 1, 2, 10, 20, 3],
    ]
    assert Tree.from_hierarchy(TOWN, extra=1, root=False).levels == axis.levels[1:]
    wrapped = hierarchy([[None, None, None]])
    assert Tree.from_hierarchy(wrapped).levels == (3, 1)
    assert Tree.from_hierarchy(wrapped, root=False).levels == (1,)
    assert Tree.from_hierarchy(wrapped, extra=2).levels == (5, (0, 3, 4), 1)


def test_level_weights_divide_the_norm_and_weigh_the_squares() -> None:
    """Two cells and their total, the total three times as noisy: its residual is shared 1 : 1 : 9."""
    axis = Tree(2, (2, 1), (3, 1))
    assert axis.norm == Fraction(4, 3)
    assert axis.weights.tolist() == [3, 1, 1]
    assert axis.inverse(np.array([10 + 11, 4, 6]), 0) == pytest.approx([5, 7])


def check(axis: Tree, place: int, seed: int) -> None:
    """Compare an axis with its dense matrix."""
    matrix = dense(axis)
    assert matrix.shape == (axis.rows, axis.size)
    assert {weighted(column, axis) for column in matrix.T} == {axis.norm}
    replaced = [weighted(one - other, axis) for one, other in combinations(matrix.T, 2)]
    assert max(replaced, default=0) <= 2 * axis.norm

    generator = np.random.default_rng(seed)
    counts = np.moveaxis(generator.integers(-99, 99, size=(axis.size, 2, 3)), 0, place)
    sums = axis.forward(counts, place)
    assert np.array_equal(sums, np.moveaxis(np.tensordot(matrix, counts, (1, place)), 0, place))
    assert np.allclose(axis.inverse(sums, place), counts)
    root = 1 / axis.weights
    inverse = np.linalg.pinv(root[:, None] * matrix) * root
    noisy = np.moveaxis(generator.normal(size=(axis.rows, 2, 3)), 0, place)
    expected = np.moveaxis(np.tensordot(inverse, noisy, (1, place)), 0, place)
    assert np.allclose(axis.inverse(noisy, place), expected)
    queries = generator.normal(size=(3, axis.size))
    assert np.allclose(axis.response(queries), queries @ inverse * axis.weights)
    description = json.loads(json.dumps(axis.describe()))
    assert description.pop("kind") == "tree"
    assert Tree(**description) == axis


def with_weights(axis: Tree, data: st.DataObject) -> Tree:
    levels = len(axis.levels)
    weights = data.draw(st.lists(st.integers(1, 9), min_size=levels, max_size=levels), label="weights")
    return Tree(axis.size, axis.levels, tuple(weights))


PLACE, SEED = st.integers(0, 2), st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 40),
    branching=st.integers(2, 9),
    root=st.booleans(),
    place=PLACE,
    seed=SEED,
    data=st.data(),
)
def test_any_k_ary_tree_along_any_axis(
    size: int, branching: int, root: bool, place: int, seed: int, data: st.DataObject
) -> None:
    heights = range(len(Tree.kary(size, branching, root=False).levels))
    levels = data.draw(st.none() | st.sets(st.sampled_from(heights)), label="levels")
    check(with_weights(Tree.kary(size, branching, levels, root=root), data), place, seed)


@settings(max_examples=60, deadline=None)
@given(tree=NESTED, extra=st.integers(0, 2), root=st.booleans(), place=PLACE, seed=SEED, data=st.data())
def test_any_hierarchy_along_any_axis(
    tree: Any, extra: int, root: bool, place: int, seed: int, data: st.DataObject
) -> None:
    check(with_weights(Tree.from_hierarchy(hierarchy(tree), extra, root=root), data), place, seed)


def test_mixed_levels() -> None:
    check(Tree(12, (12, (0, 4, 8, 10), 2, 1), (2, 1, 3, 1)), 1, 0)
    check(Tree(12, (6, (0, 3, 6, 7), 1)), 1, 0)


@pytest.mark.parametrize(
    ("size", "levels", "weights", "message"),
    [
        (0, (1,), (), "the size of an axis must be a whole number of at least 1, not 0"),
        (4, 1, (), "must be lists"),
        (4, (1,), 2, "must be lists"),
        (4, (), (), "the last level of a tree axis must be 1"),
        (4, (4, 2), (), "the last level of a tree axis must be 1"),
        (4, (5, 1), (), "a level of a tree axis must be a whole number from 1 to 4, not 5"),
        (4, (0, 1), (), "from 1 to 4, not 0"),
        (4, (True,), (), "not True"),
        (4, ("2", 1), (), "not '2'"),
        (4, ((), 1), (), "must start at 0"),
        (4, ((1, 2), 1), (), "must start at 0 and then at increasing places"),
        (4, ((0, 2, 2), 1), (), "must start at 0 and then at increasing places"),
        (4, ((0, 4), 1), (), "a whole number from 0 to 3, not 4"),
        (4, ((0, 1.0), 1), (), r"not 1\.0"),
        (9, (4, 3, 1), (), "level 2 of a tree axis must cut the groups of level 1"),
        (9, (9, 3, 3, 1), (), "level 3 of a tree axis must cut the groups of level 2"),
        (9, (3, 9, 1), (), "level 2 of a tree axis must cut"),
        (9, (1, 1), (), "level 2 of a tree axis must cut"),
        (9, ((0, 4), 3, 1), (), "level 2 of a tree axis must cut"),
        (9, (6, (0, 3, 7), 1), (), "level 2 of a tree axis must cut"),
        (9, (9, 1), (1,), "a tree axis of 2 levels can't have 1 level weights"),
        (9, (9, 1), (1, 0), "a level weight of a tree axis must be a whole number from 1 to 1000000, not 0"),
        (9, (9, 1), (1, MOST_WEIGHT + 1), "from 1 to 1000000, not 1000001"),
        (9, (9, 1), (1, 1.5), r"not 1\.5"),
    ],
)
def test_forged_trees_are_refused(size: int, levels: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tree(size, levels, weights)


def test_a_forged_size_takes_no_memory() -> None:
    assert Tree(10**15, (10**15, 10**14, 1)).norm == 3
    with pytest.raises(ValueError, match="level 2"):
        Tree(10**15, (2, (0, 2), 1))
