"""Regions, the parts that boxes cut off them, and summed-area tables against direct sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from dpcli.estimate.ispe.regions import Regions, SummedArea


def connected(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return labels of connected regions: equal values of a coarse random picture."""
    level = rng.integers(0, 3, shape)
    labels, count = np.zeros(shape, int), 0
    for value in np.unique(level):
        found, number = ndimage.label(level == value)
        labels[level == value] = found[level == value] + count - 1
        count += number
    return labels


def boxes(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.sort(np.stack([rng.integers(0, m + 1, (count, 2)) for m in shape], axis=1), axis=2)
    return ends[:, :, 0], ends[:, :, 1]


def inside(start: np.ndarray, stop: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(a, b) for a, b in zip(start, stop, strict=True))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_box_sums_are_sums(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    starts, stops = boxes(rng, tuple(shape), 10)
    expected = [values[inside(a, b)].sum() for a, b in zip(starts, stops, strict=True)]
    assert SummedArea(values).sums(starts, stops) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 1000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_cuts_are_the_regions_partly_inside(shape: list[int], seed: int, torn: bool) -> None:
    rng = np.random.default_rng(seed)
    labels = connected(rng, tuple(shape))
    if torn:
        labels = np.unique(labels // 2, return_inverse=True)[1].reshape(shape)
    regions = Regions(labels)
    assert torn or regions.connected
    starts, stops = boxes(rng, tuple(shape), 12)
    cuts = regions.cuts(starts, stops)
    for k, (a, b) in enumerate(zip(starts, stops, strict=True)):
        cells = np.bincount(labels[inside(a, b)].ravel(), minlength=len(regions))
        expected = np.flatnonzero((cells > 0) & (cells < regions.sizes))
        mine = cuts.box == k
        some = cuts.cells[mine] > 0
        assert cuts.region[mine][some].tolist() == expected.tolist()
        assert cuts.cells[mine][some].tolist() == cells[expected].tolist()


def test_no_boxes_cut_nothing() -> None:
    cuts = Regions(np.zeros((3, 3), int)).cuts(np.zeros((0, 2), int), np.zeros((0, 2), int))
    assert len(cuts.box) == len(cuts.region) == 0


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 2]),
        np.array([-1, 0]),
        np.array([0.0, 1.0]),
        np.zeros((0,), int),
        np.array(0),
        np.array([0, 10**9]),
    ],
)
def test_labels_have_no_gaps(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="region labels"):
        Regions(labels)
