"""The Haar axis: Privelet's examples, its exact sensitivity and variances, any length and any axis."""

from __future__ import annotations

import json
from functools import reduce
from itertools import combinations
from math import log2, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy

EXAMPLE = [9, 3, 6, 2, 8, 4, 5, 7]


def dense(axis: Any) -> np.ndarray:
    return axis.forward(np.eye(axis.size, dtype=np.int64), 0)


def over_all_ranges(axis: Any) -> float:
    """S²·V averaged over all ranges: V of [i, j) is C_ii + C_jj − 2·C_ij, C the covariance of prefix sums."""
    responses = axis.response(np.tri(axis.size + 1, axis.size, -1))
    covariance = responses @ responses.T
    i, j = np.triu_indices(axis.size + 1, 1)
    return float(axis.norm) ** 2 * float(np.mean(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))


def test_the_papers_examples_1_and_2() -> None:
    coefficients = Haar(8).forward(np.array(EXAMPLE), 0)
    assert coefficients.tolist() == [44, -4, 4, 0, 6, 4, 4, -2]
    normalised = coefficients / [8, 8, 4, 4, 2, 2, 2, 2]  # the paper's W_Haar
    assert normalised.tolist() == [5.5, -0.5, 1, 0, 3, 2, 2, -1]
    assert normalised[0] + normalised[1] + normalised[2] - normalised[4] == EXAMPLE[1]
    assert Haar(8).inverse(coefficients, 0).tolist() == EXAMPLE


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([7], [7]),
        ([1, 2, 3, 4, 5], [15, 5, -4, -1, -1]),
        ([1, 2, 3, 4, 5, 6], [21, -1, -4, -1, -1, -1]),
    ],
)
def test_lengths_that_are_no_power_of_two(counts: list[int], expected: list[int]) -> None:
    assert Haar(len(counts)).forward(np.array(counts), 0).tolist() == expected


def test_two_axes() -> None:
    strategy = Strategy((Haar(2), Haar(3)))
    coefficients = strategy.forward(np.array([1, 2, 3, 4, 5, 6]))
    assert coefficients.reshape(2, 3).tolist() == [[21, 3, -2], [-9, -3, 0]]
    assert strategy.inverse(coefficients).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("size", range(1, 70))
def test_the_norm_is_exact_and_replacing_a_row_costs_at_most_twice_that(size: int) -> None:
    matrix = dense(Haar(size))
    assert Haar(size).norm == np.abs(matrix).sum(axis=0).max() == 1 + int(np.ceil(log2(size)))
    replaced = [np.abs(matrix[:, i] - matrix[:, j]).sum() for i, j in combinations(range(size), 2)]
    assert max(replaced, default=0) <= 2 * Haar(size).norm
    if size > 1 and size & (size - 1) == 0:
        assert max(replaced) == 2 * log2(size)


@pytest.mark.parametrize("sizes", [(4, 8), (2, 4, 4)])
def test_replacing_a_row_of_several_haar_axes_costs_a_little_less_than_twice_the_norm(
    sizes: tuple[int, ...],
) -> None:
    def worst(axes: tuple[Any, ...]) -> int:
        matrix = reduce(np.kron, map(dense, axes))
        pairs = combinations(range(matrix.shape[1]), 2)
        return max(int(np.abs(matrix[:, i] - matrix[:, j]).sum()) for i, j in pairs)

    axes = tuple(map(Haar, sizes))
    norm = prod(axis.norm for axis in axes)
    assert worst(axes) == 2 * (norm - 2 ** (len(axes) - 1))
    assert worst((*axes, Identity(2))) == 2 * norm


@pytest.mark.parametrize(
    ("size", "start", "stop", "variance"),
    [
        (8, 0, 8, 1),
        (8, 0, 4, 0.5),
        (8, 0, 1, 0.34375),
        (8, 2, 5, 0.71875),
        (8, 1, 7, 1.1875),
        (1001, 100, 900, 1.9953003),
        (101, 0, 1, 0.3333740),
    ],
)
def test_variance_of_a_range(size: int, start: int, stop: int, variance: float) -> None:
    query = np.zeros(size)
    query[start:stop] = 1
    assert Haar(size).covariance(query, query) == pytest.approx(variance, abs=5e-8)
    assert variance <= (2 + log2(size)) / 2  # Lemma 3


@pytest.mark.parametrize(
    ("size", "identity", "haar"),
    [(16, 6, 18.9), (64, 22, 51.1), (101, 34.3, 71), (256, 86, 110.6), (1001, 334.3, 204.7)],
)
def test_variance_over_all_ranges(size: int, identity: float, haar: float) -> None:
    assert over_all_ranges(Identity(size)) == pytest.approx(identity, abs=0.05)
    assert over_all_ranges(Haar(size)) == pytest.approx(haar, abs=0.05)


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(1, 40),
    around=st.lists(st.integers(1, 3), max_size=3),
    place=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_length_along_any_axis(size: int, around: list[int], place: int, seed: int) -> None:
    axis = Haar(size)
    place = min(place, len(around))
    generator = np.random.default_rng(seed)
    shape = (*around[:place], size, *around[place:])
    counts = generator.integers(-(2**40), 2**40, size=shape)
    coefficients = axis.forward(counts, place)
    assert coefficients.dtype == np.int64
    assert np.array_equal(coefficients, np.moveaxis(np.tensordot(dense(axis), counts, (1, place)), 0, place))
    assert np.array_equal(axis.forward(counts, place - counts.ndim), coefficients)
    assert np.array_equal(axis.forward(np.asfortranarray(counts), place), coefficients)
    assert np.array_equal(axis.inverse(coefficients, place), counts)
    noisy = generator.normal(size=shape)
    inverse = np.linalg.inv(dense(axis))
    expected = np.moveaxis(np.tensordot(inverse, noisy, (1, place)), 0, place)
    assert np.allclose(axis.inverse(noisy, place), expected)
    queries = generator.normal(size=(3, size))
    assert np.allclose(axis.response(queries), queries @ inverse)


def test_large_counts_stay_exact() -> None:
    counts = np.full(1 << 10, 2**52 + 1)
    assert Haar(1 << 10).forward(counts, 0)[0] == 2**62 + 2**10


def test_what_a_file_keeps() -> None:
    kept = json.loads(json.dumps(Haar(5).describe()))
    assert kept == {"kind": "haar", "size": 5}


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "8", None])
def test_a_forged_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="the size of an axis must be a whole number of at least 1, not"):
        Haar(size)


def test_counts_must_be_integers_of_the_right_length() -> None:
    with pytest.raises(TypeError, match="Cannot cast"):
        Haar(2).forward(np.array([0.5, 1.5]), 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reshape"):
        Haar(3).forward(np.zeros((3, 4), np.int64), 1)
