"""Every registered axis transform agrees with its dense matrix. Registering is testing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcli.data.hierarchy import Hierarchy
from dpcli.strategy.axes import AXES, axis_from
from dpcli.strategy.axis import Axis
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.optimized import Optimized
from dpcli.strategy.tree import Tree

RAGGED = Hierarchy.from_nested({"a": ["b", {"c": ["d", "e"]}], "f": None, "g": {"h": {"i": ["j", "k", "l"]}}})
SAMPLES: dict[str, list[Axis]] = {
    "identity": [Identity(size) for size in (1, 2, 5, 8)],
    "haar": [Haar(size) for size in (1, 2, 3, 5, 8, 13, 16, 101)],
    "nominal": [
        NominalWavelet.flat(1),
        NominalWavelet.flat(4),
        NominalWavelet(9, ((0, 5), (1, 3), (3, 5), (6, 8))),
        NominalWavelet.from_hierarchy(RAGGED),
        NominalWavelet.from_hierarchy(RAGGED, extra=2),
    ],
    "optimized": [
        Optimized(1, 1, 1, (), ()),
        Optimized(5, 64, 5, (), ((20, 20, 0, 0, 0), (0, 0, 9, 30, 7), (6, 7, 8, 7, 6))),
        Optimized(7, 100, 3, (30, 20, 40), ()),
        Optimized(13, 16, 1, (), ((5,), (3,))),
        Optimized(23, 1024, 5, (300, 200, 250, 0, 300), ((100, 250, 300, 250, 90), (0, 0, 17, 400, 200))),
    ],
    "tree": [
        Tree.kary(1, 2),
        Tree.kary(8, 2),
        Tree.kary(13, 3),
        Tree.kary(17, 4, [1], root=False),
        Tree.kary(5, 9, []),
        Tree.from_hierarchy(RAGGED),
        Tree.from_hierarchy(RAGGED, extra=2, root=False),
        Tree(12, (12, 4, 1), (1, 3, 2)),
        Tree(13, (13, 9, 3, 1), (7, 2, 3, 1)),
        Tree(9, (9, (0, 5, 6, 8), (0, 1, 3, 5, 6, 7, 8), 1)),
        Tree(12, ((0, 4, 10), 2, 1), (1, 3, 2)),
    ],
}
CASES = [axis for kind in AXES for axis in SAMPLES[kind.kind]]


def dense(axis: Axis) -> np.ndarray:
    """The matrix of the forward map, column by column."""
    return np.stack([axis.forward(unit, 0) for unit in np.eye(axis.size, dtype=np.int64)], axis=1)


@pytest.mark.parametrize("axis", CASES, ids=repr)
class TestAxis:
    def test_shape_and_integers(self, axis: Axis) -> None:
        matrix = dense(axis)
        assert matrix.shape == (axis.rows, axis.size)
        assert matrix.dtype == np.int64
        assert axis.weights.shape == (axis.rows,)

    def test_forward_is_linear_along_any_axis(self, axis: Axis) -> None:
        cube = np.random.default_rng(1).integers(-9, 9, size=(3, axis.size, 2))
        assert np.array_equal(axis.forward(cube, 1), np.einsum("ij,ajb->aib", dense(axis), cube))

    def test_norm_is_the_largest_weighted_column(self, axis: Axis) -> None:
        columns = [
            sum(
                (Fraction(int(abs(a)), int(w)) for a, w in zip(column, axis.weights, strict=True)),
                Fraction(0),
            )
            for column in dense(axis).T
        ]
        assert axis.norm == max(columns)

    def test_replacing_a_row_moves_at_most_twice_the_norm(self, axis: Axis) -> None:
        columns = (dense(axis) / axis.weights[:, None]).T
        moved = max(np.abs(one - other).sum() for one in columns for other in columns)
        assert moved <= 2 * float(axis.norm) * (1 + 1e-12)

    def test_inverse_brings_the_counts_back(self, axis: Axis) -> None:
        cube = np.random.default_rng(2).integers(0, 99, size=(2, axis.size))
        assert np.allclose(axis.inverse(axis.forward(cube, 1), 1), cube)

    def test_covariance_is_that_of_the_reconstruction(self, axis: Axis) -> None:
        inverse = np.stack([axis.inverse(unit, 0) for unit in np.eye(axis.rows)], axis=1)
        covariance = inverse @ np.diag(axis.weights.astype(float) ** 2) @ inverse.T
        left, right = np.random.default_rng(3).normal(size=(2, axis.size))
        assert axis.covariance(left, right) == pytest.approx(left @ covariance @ right)

    def test_inverse_is_weighted_least_squares(self, axis: Axis) -> None:
        root = 1 / axis.weights
        expected = np.linalg.pinv(root[:, None] * dense(axis)) * root
        assert np.allclose(axis.inverse(np.eye(axis.rows), 0), expected)

    def test_description_round_trip(self, axis: Axis) -> None:
        assert axis_from(axis.describe()) == axis


def test_every_kind_has_samples_and_an_unknown_one_is_refused() -> None:
    assert {kind.kind for kind in AXES} == set(SAMPLES)
    with pytest.raises(ValueError, match="unknown axis transform 'fourier'"):
        axis_from({"kind": "fourier", "size": 3})
