"""The nominal wavelet: Privelet's example, mean subtraction as least squares, ragged hierarchies."""

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
from dpcli.strategy.nominal import NominalWavelet

TOWN = Hierarchy.from_nested(
    {
        "Health": ["Nurse", {"Doctor": ["Dentist", "Surgeon"]}],
        "Trade": {"Building": ["Mason"]},
        "Retired": None,
    }
)
UNIFORM = NominalWavelet(16 * 32, tuple((start, start + 32) for start in range(0, 512, 32)))
NESTED = st.recursive(st.none(), lambda below: st.lists(below, min_size=1, max_size=4), max_leaves=25)


def hierarchy(tree: Any) -> Hierarchy:
    """Name the nodes of nested lists."""
    names = map(str, count())

    def named(node: Any) -> Any:
        return next(names) if node is None else {f"group {next(names)}": [named(below) for below in node]}

    return Hierarchy.from_nested([named(node) for node in tree or [None]])


def dense(axis: NominalWavelet) -> np.ndarray:
    return axis.forward(np.eye(axis.size, dtype=np.int64), 0)


def weighted(column: np.ndarray, axis: NominalWavelet) -> Fraction:
    """Σ|A_i|/w_i, exactly."""
    return sum(
        (Fraction(abs(int(a)), int(w)) for a, w in zip(column, axis.weights, strict=True)), Fraction(0)
    )


def test_the_papers_example_3() -> None:
    axis = NominalWavelet(6, ((0, 3), (3, 6)))
    coefficients = axis.forward(np.array([9, 3, 6, 2, 8, 2]), 0)
    assert coefficients.tolist() == [30, 6, -6, 9, -9, 0, -6, 12, -6]
    normalised = coefficients / [1, 2, 2, 3, 3, 3, 3, 3, 3]
    assert normalised.tolist() == [30, 3, -3, 3, -3, 0, -2, 4, -2]
    assert normalised[3] + normalised[0] / 6 + normalised[1] / 3 == 9
    assert axis.weights.tolist() == [1, 2, 2, 4, 4, 4, 4, 4, 4]
    assert axis.norm == 3
    assert np.allclose(axis.inverse(coefficients, 0), [9, 3, 6, 2, 8, 2])


def test_the_inverse_subtracts_the_mean_of_each_sibling_group() -> None:
    axis = NominalWavelet(6, ((0, 3), (3, 6)))
    noisy = np.array([30, 6 + 5, -6 + 5, 9 - 2, -9 - 2, 0 - 2, -6 + 1, 12 + 1, -6 + 1])
    assert np.allclose(axis.inverse(noisy, 0), [9, 3, 6, 2, 8, 2])


def test_variances_of_16_groups_of_32() -> None:
    root, group, leaf = np.zeros((3, 512))
    root[:] = group[:32] = leaf[0] = 1
    found = [UNIFORM.covariance(query, query) for query in (root, group, leaf)]
    assert found == pytest.approx([1, 3.2998, 3.6398], abs=5e-5)
    levels = [1.0]
    for fan in (16, 32):
        levels.append(levels[-1] / fan**2 + 4 * (1 - 1 / fan) ** 3)
    assert found == pytest.approx(levels)
    assert UNIFORM.norm == 3


def test_a_ragged_hierarchy() -> None:
    axis = NominalWavelet.from_hierarchy(TOWN, extra=1)
    assert axis == NominalWavelet(6, ((0, 3), (1, 3)))  # Trade and Building have one child each
    assert axis.rows == 1 + 4 + 2 + 2
    assert axis.weights.tolist() == [1, 6, 6, 6, 6, 2, 2, 2, 2]
    assert axis.norm == 4
    counts = np.array([5, 1, 2, 10, 20, 3])
    assert axis.forward(counts, 0).tolist() == [41, -9, -1, 39, -29, 2, -2, -1, 1]


def test_extra_categories_become_leaves_below_the_root() -> None:
    wrapped = hierarchy([[None, None, None]])
    assert NominalWavelet.from_hierarchy(wrapped) == NominalWavelet.flat(3)
    assert NominalWavelet.from_hierarchy(wrapped, extra=2) == NominalWavelet(5, ((0, 3),))


@pytest.mark.parametrize("fans", [(5,), (2, 3), (3, 2, 4), (2, 2, 2, 2)])
def test_the_norm_of_a_uniform_hierarchy_is_its_number_of_levels(fans: tuple[int, ...]) -> None:
    tree: Any = None
    for fan in reversed(fans):
        tree = [tree] * fan
    labelled = hierarchy(tree)
    assert NominalWavelet.from_hierarchy(labelled).norm == len(fans) + 1 == labelled.height


@settings(max_examples=80, deadline=None)
@given(tree=NESTED, extra=st.integers(0, 2), place=st.integers(0, 2), seed=st.integers(0, 2**32 - 1))
def test_any_hierarchy_along_any_axis(tree: Any, extra: int, place: int, seed: int) -> None:
    axis = NominalWavelet.from_hierarchy(hierarchy(tree), extra)
    matrix = dense(axis)
    assert matrix.shape == (axis.rows, axis.size)
    assert axis.norm == max(weighted(column, axis) for column in matrix.T)
    replaced = [weighted(one - other, axis) for one, other in combinations(matrix.T, 2)]
    assert max(replaced, default=0) <= 2 * axis.norm

    generator = np.random.default_rng(seed)
    counts = np.moveaxis(generator.integers(-99, 99, size=(axis.size, 2, 3)), 0, place)
    coefficients = axis.forward(counts, place)
    assert np.array_equal(coefficients, np.moveaxis(np.tensordot(matrix, counts, (1, place)), 0, place))
    assert np.allclose(axis.inverse(coefficients, place), counts)
    root = 1 / axis.weights
    inverse = np.linalg.pinv(root[:, None] * matrix) * root
    noisy = np.moveaxis(generator.normal(size=(axis.rows, 2, 3)), 0, place)
    expected = np.moveaxis(np.tensordot(inverse, noisy, (1, place)), 0, place)
    assert np.allclose(axis.inverse(noisy, place), expected)
    queries = generator.normal(size=(3, axis.size))
    assert np.allclose(axis.response(queries), queries @ inverse * axis.weights)
    assert NominalWavelet(**without_kind(json.loads(json.dumps(axis.describe())))) == axis


def without_kind(description: dict[str, Any]) -> dict[str, Any]:
    assert description.pop("kind") == "nominal"
    return description


def test_a_deep_hierarchy_takes_no_quadratic_memory() -> None:
    size = 2000
    axis = NominalWavelet(size, tuple((0, stop) for stop in range(size - 1, 1, -1)))
    counts = np.arange(size)
    assert axis.norm == size
    assert np.allclose(axis.inverse(axis.forward(counts, 0), 0), counts)


@pytest.mark.parametrize(
    ("size", "groups", "message"),
    [
        (0, (), "the size of an axis must be a whole number of at least 1, not 0"),
        (4, 3, "must be a list of"),
        (4, [3], "must be a list of"),
        (4, [[0, 2, 3]], "must be a pair of whole numbers"),
        (4, [[0, 2.0]], "must be a pair of whole numbers"),
        (4, [[False, 2]], "must be a pair of whole numbers"),
        (4, [[0, 4]], r"\[0, 4\] .* without being all of it"),
        (4, [[0, 5]], r"\[0, 5\] .* must hold two or more of its 4 categories"),
        (4, [[-1, 2]], r"\[-1, 2\]"),
        (4, [[1, 2]], r"\[1, 2\]"),
        (4, [[3, 1]], r"\[3, 1\]"),
        (4, [[0, 3], [0, 3]], r"\[0, 3\]"),
        (4, [[0, 2], [1, 3]], r"\[1, 3\]"),
        (6, [[3, 6], [0, 3]], r"\[0, 3\]"),
        (6, [[0, 2], [0, 3]], r"\[0, 3\]"),
    ],
)
def test_forged_groups_are_refused(size: int, groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NominalWavelet(size, groups)
