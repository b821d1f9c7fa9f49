"""The optimised axis against its integers written out one by one."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpcli.strategy.axis import IntArray
from dpcli.strategy.fit import search
from dpcli.strategy.grams import random_ranges
from dpcli.strategy.optimized import CHUNK, Optimized

SAMPLES = [
    Optimized(1, 1, 1, (), ()),
    Optimized(1, 16, 1, (3,), ((5,),)),
    Optimized(2, 8, 2, (), ((3, 2),)),
    Optimized(3, 10, 1, (), ((4,), (2,))),
    Optimized(5, 64, 5, (), ((20, 20, 0, 0, 0), (0, 0, 9, 30, 7), (6, 7, 8, 7, 6))),
    Optimized(7, 100, 3, (30, 20, 40), ()),
    Optimized(23, 1024, 5, (300, 200, 250, 0, 300), ((100, 250, 300, 250, 90), (0, 0, 17, 400, 200))),
    Optimized(101, 512, 8, (90, 80, 70, 60, 60, 70, 80, 99), ((40, 60, 80, 100, 100, 80, 60, 40),)),
]


def dense(axis: Optimized) -> IntArray:
    """A written out with Python integers, straight from the definition."""
    size, knots = axis.size, axis.knots
    places = [k * (size - 1) // max(knots - 1, 1) for k in range(knots)]

    def interpolated(row: tuple[int, ...]) -> list[int]:
        entries = []
        for cell in range(size):
            k = max(k for k in range(knots) if places[k] <= cell)
            if k == knots - 1:
                entries.append(row[k])
            else:
                gap, distance = places[k + 1] - places[k], cell - places[k]
                entries.append((row[k] * (gap - distance) + row[k + 1] * distance) // gap)
        return entries

    single = [tuple(height if k == i else 0 for k in range(knots)) for i, height in enumerate(axis.near)]
    sums = np.array([interpolated(row) for row in (*single, *axis.far)], np.int64).reshape(-1, size)
    return np.vstack([np.diag(axis.unit - sums.sum(axis=0)), sums])


@pytest.mark.parametrize("axis", SAMPLES, ids=repr)
class TestAgainstTheDenseMatrix:
    def test_forward(self, axis: Optimized) -> None:
        matrix = dense(axis)
        assert matrix.shape == (axis.rows, axis.size)
        assert np.array_equal(axis.forward(np.eye(axis.size, dtype=np.int64), 0), matrix)
        cube = np.random.default_rng(1).integers(-9, 1000, size=(2, 3, axis.size, 4))
        for axis_number, letters in ((2, "ij,abjc->abic"), (-2, "ij,abjc->abic")):
            assert np.array_equal(axis.forward(cube, axis_number), np.einsum(letters, matrix, cube))

    def test_inverse_is_the_pseudo_inverse(self, axis: Optimized) -> None:
        pseudo = np.linalg.pinv(dense(axis).astype(float))
        assert np.allclose(axis.inverse(np.eye(axis.rows), 0), pseudo, atol=1e-12)
        values = np.random.default_rng(2).normal(size=(3, axis.rows, 2))
        assert np.allclose(axis.inverse(values, 1), np.einsum("ij,ajb->aib", pseudo, values))

    def test_response_and_covariance(self, axis: Optimized) -> None:
        pseudo = np.linalg.pinv(dense(axis).astype(float))
        left, right = queries = np.random.default_rng(3).normal(size=(2, axis.size))
        assert np.allclose(axis.response(queries), queries @ pseudo)
        assert axis.covariance(left, right) == pytest.approx(left @ pseudo @ pseudo.T @ right)

    def test_norm_is_that_of_every_column(self, axis: Optimized) -> None:
        columns = np.abs(dense(axis)).sum(axis=0)
        assert set(columns.tolist()) == {axis.unit}
        assert axis.norm == Fraction(axis.unit)

    def test_one_replaced_row_moves_at_most_twice_the_norm(self, axis: Optimized) -> None:
        columns = dense(axis).T
        moves = [int(np.abs(one - other).sum()) for one, other in combinations(columns, 2)]
        assert max(moves, default=0) <= 2 * axis.norm

    def test_json_round_trip(self, axis: Optimized) -> None:
        fields = json.loads(json.dumps(axis.describe()))
        assert fields.pop("kind") == "optimized"
        again = Optimized(**fields)
        assert again == axis
        assert hash(again) == hash(axis)


def test_it_says_how_many_sums_it_has() -> None:
    assert SAMPLES[6].summary() == "fitted with 7 sums"


def test_a_long_axis_is_exact_and_gives_the_counts_back() -> None:
    axis = search(1009, random_ranges(1009), unit=1024)
    counts = np.random.default_rng(4).integers(0, 1 << 40, size=axis.size)
    coefficients = axis.forward(counts, 0)
    exact = [sum(int(a) * int(x) for a, x in zip(row, counts, strict=True)) for row in dense(axis)]
    assert coefficients.tolist() == exact
    assert np.allclose(axis.inverse(coefficients, 0), counts)


def test_large_arrays_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    axis = SAMPLES[6]
    cube = np.random.default_rng(5).integers(0, 99, size=(7, axis.size, 9))
    whole = axis.forward(cube, 1)
    assert cube.size < CHUNK
    for chunk in (1, 50, 500):
        monkeypatch.setattr("dpcli.strategy.optimized.CHUNK", chunk)
        assert np.array_equal(axis.forward(cube, 1), whole)
        assert np.allclose(axis.inverse(whole, 1), cube)


def test_empty_arrays_and_wrong_counts() -> None:
    axis = SAMPLES[6]
    assert axis.forward(np.zeros((0, axis.size), np.int64), 1).shape == (0, axis.rows)
    with pytest.raises(TypeError):
        axis.forward(np.full(axis.size, 0.5), 0)  # type: ignore[arg-type]


GOOD: dict[str, Any] = {
    "size": 9,
    "unit": 64,
    "knots": 3,
    "near": [9, 8, 7],
    "far": [[1, 2, 3], [20, 20, 20]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "the size of an axis must be a whole number of at least 1, not 0"),
        ({"size": 9.0}, "the size of an axis"),
        ({"unit": 0}, "the unit of an optimised axis must be a whole number from 1 to 1048576, not 0"),
        ({"unit": 1 << 21}, "the unit of an optimised axis"),
        ({"unit": True}, "the unit of an optimised axis"),
        (
            {"knots": 10},
            "the number of knots of an optimised axis must be a whole number from 1 to 9, not 10",
        ),
        ({"knots": 0}, "the number of knots"),
        ({"knots": 2}, "needs one number per knot, 2 in all"),
        ({"near": [9, 8]}, "needs one number per knot, 3 in all"),
        ({"near": [9, 8, 7.0]}, "must be lists of whole numbers"),
        ({"near": "987"}, "must be lists of whole numbers"),
        ({"near": None}, "must be lists of whole numbers"),
        ({"far": None}, "must be a list of sums"),
        ({"far": [[1, 2, 3], 4]}, "must be lists of whole numbers"),
        ({"far": [[1, 2]]}, "needs one number per knot, 3 in all"),
        ({"far": [[]]}, "needs one number per knot, 3 in all"),
        ({"far": [[1, -1, 3]]}, "sums of 0 or more that add up to less than its unit"),
        ({"near": [-1, 0, 0]}, "sums of 0 or more"),
        ({"far": [[0, 57, 0]]}, "add up to less than its unit"),
        ({"far": [[0, 0, 0]] * 2049}, "at most 2048 sums, not 2052"),
    ],
)
def test_forged_fields_are_refused(change: dict[str, Any], message: str) -> None:
    Optimized(**GOOD)
    with pytest.raises(ValueError, match=message):
        Optimized(**(GOOD | change))
