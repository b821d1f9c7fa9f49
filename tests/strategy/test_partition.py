"""A partition: each cell in one region, exact sums, norm 1."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.strategy.partition import Partition

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def random_partition(shape: tuple[int, ...], seed: int) -> Partition:
    """Return regions that need not be connected, numbered without gaps."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, random.integers(1, np.prod(shape) + 1), shape)
    return Partition(np.unique(labels, return_inverse=True)[1].reshape(shape))


@given(SHAPES, st.integers(0, 1000))
def test_sums_are_those_of_the_matrix(shape: tuple[int, ...], seed: int) -> None:
    partition = random_partition(shape, seed)
    matrix = (partition.labels.reshape(-1) == np.arange(partition.regions)[:, None]).astype(np.int64)
    counts = np.random.default_rng(seed).integers(-(2**40), 2**40, partition.labels.size)
    cells = np.flatnonzero(counts % 3)  # as a sparse cube has them
    dense = np.where(counts % 3, counts, 0)
    assert np.array_equal(partition.sums(cells, counts[cells]), matrix @ dense)
    assert {int(total) for total in np.abs(matrix).sum(axis=0)} == {1}
    assert partition.norm == Partition.norm == Fraction(1)


def test_a_region_without_rows_is_there_too() -> None:
    found = Partition(np.array([0, 1, 1, 2])).sums(np.array([1, 2]), np.array([5, 6]))
    assert (found.tolist(), found.dtype) == ([0, 11, 0], np.int64)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 2]), "regions are numbered without gaps"),
        (np.array([1, 1]), "regions are numbered without gaps"),
        (np.array([0, -1]), "the region of each cell is a whole number from 0 on"),
        (np.array([0.0, 1.0]), "the region of each cell is a whole number from 0 on"),
        (np.array([], np.int64), "the region of each cell is a whole number from 0 on"),
    ],
)
def test_what_is_no_partition(labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Partition(labels)
