"""Smoothing: the paper's mask, direct convolution, the mean, and edges between groups."""

from __future__ import annotations

from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.partition.smoothing import check, gaussian_weights, smooth

SHAPES = [(1,), (7,), (1, 6), (6, 1), (5, 4), (3, 5, 4)]


def cells(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).laplace(10, 7, shape)


def mirrored(place: int, size: int) -> int:
    """The category that stands at a place before or after an axis: ... c b a | a b c | c b a ..."""
    place %= 2 * size
    return place if place < size else 2 * size - 1 - place


def windows(counts: np.ndarray, size: int) -> Any:
    """Each cell with the cells of its window and the distances from it."""
    reach = range(-(size // 2), size // 2 + 1)
    for cell in np.ndindex(counts.shape):
        steps = list(product(reach, repeat=counts.ndim))
        around = [
            counts[tuple(mirrored(c + s, m) for c, s, m in zip(cell, step, counts.shape, strict=True))]
            for step in steps
        ]
        yield cell, np.array(around), np.array(steps)


def convolved(counts: np.ndarray, sigma: float, size: int) -> np.ndarray:
    """Eq. 10 as it stands: one mask over all axes, divided by its sum."""
    result = np.empty(counts.shape)
    for cell, around, steps in windows(counts, size):
        mask = np.array([exp(-sum(s * s for s in step) / (2 * sigma**2)) for step in steps.tolist()])
        result[cell] = around @ mask / mask.sum()
    return result


def medians(counts: np.ndarray, size: int) -> np.ndarray:
    result = np.empty(counts.shape)
    for cell, around, _ in windows(counts, size):
        result[cell] = np.median(around)
    return result


def test_the_papers_mask() -> None:
    weights = gaussian_weights(0.5, 3)
    printed = [[0.0113, 0.0838, 0.0113], [0.0838, 0.6193, 0.0838], [0.0113, 0.0838, 0.0113]]
    assert np.abs(np.outer(weights, weights) - printed).max() < 0.0001
    spike = np.zeros((5, 5))
    spike[2, 2] = 1
    assert np.abs(smooth(spike, iterations=1)[1:4, 1:4] - printed).max() < 0.0001


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_gaussian_is_a_direct_convolution(shape: tuple[int, ...], iterations: int) -> None:
    counts = cells(shape)
    expected = counts
    for _ in range(iterations):
        expected = convolved(expected, 0.8, 3)
    assert np.allclose(smooth(counts, iterations=iterations, sigma=0.8), expected, rtol=0, atol=1e-11)


def test_a_wider_window() -> None:
    counts = cells((9, 5))
    expected = convolved(convolved(counts, 1.3, 5), 1.3, 5)
    assert np.allclose(smooth(counts, iterations=2, sigma=1.3, size=5), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_median_is_the_median_of_the_window(shape: tuple[int, ...]) -> None:
    counts = cells(shape)
    assert np.array_equal(smooth(counts, method="median", iterations=2), medians(medians(counts, 3), 3))


@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    iterations=st.integers(1, 30),
    sigma=st.floats(0.05, 20),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_gaussian_keeps_the_mean_of_every_block(
    shape: list[int], iterations: int, sigma: float, seed: int, data: st.DataObject
) -> None:
    groups = [data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) for size in shape]
    counts = cells(tuple(shape), seed)
    found = smooth(counts, iterations=iterations, sigma=sigma, groups=groups)
    assert found.mean() == pytest.approx(counts.mean())
    runs = [np.cumsum(np.diff(group, prepend=group[0]) != 0) for group in groups]
    for block in product(*(range(int(run[-1]) + 1) for run in runs)):
        part = np.ix_(*(run == number for run, number in zip(runs, block, strict=True)))
        assert found[part].mean() == pytest.approx(counts[part].mean())
        assert found[part].min() >= counts[part].min() - 1e-9
        assert found[part].max() <= counts[part].max() + 1e-9


@pytest.mark.parametrize("method", ["gaussian", "median"])
def test_groups_are_smoothed_apart(method: Any) -> None:
    counts = cells((8, 6))
    found = smooth(counts, method=method, groups=[[0, 0, 0, 0, 5, 5, 5, 9], None])
    for part in (slice(0, 4), slice(4, 7)):
        assert np.array_equal(found[part], smooth(counts[part], method=method))
    assert np.array_equal(found[7], smooth(counts[7], method=method))


@pytest.mark.parametrize("method", ["gaussian", "median"])
def test_a_nominal_axis_is_not_smoothed(method: Any) -> None:
    counts = cells((4, 6))
    rows = np.stack([smooth(row, method=method) for row in counts])
    assert np.array_equal(smooth(counts, method=method, groups=[np.arange(4), None]), rows)
    siblings = smooth(counts, method=method, groups=[[0, 0, 1, 1], None], ordered=[False, True])
    assert np.array_equal(siblings, rows)
    assert np.array_equal(smooth(counts, method=method, ordered=[False, False]), counts)


def test_a_group_that_comes_back_is_another_run() -> None:
    counts = cells((5,))
    found = smooth(counts, groups=[[0, 0, 1, 0, 0]])
    assert np.array_equal(found, smooth(counts, groups=[[0, 0, 1, 2, 2]]))
    assert found[2] == counts[2]


def test_none_returns_a_copy_of_the_counts() -> None:
    counts = np.arange(6)
    found = smooth(counts, method="none")
    assert found.dtype == np.float64
    assert found.tolist() == counts.tolist()
    assert not np.shares_memory(found, counts)


@pytest.mark.parametrize("method", ["gaussian", "median", "none"])
def test_the_counts_are_left_as_they_are(method: Any) -> None:
    counts = cells((6, 7))
    before = counts.copy()
    smooth(counts, method=method)
    assert np.array_equal(counts, before)


@pytest.mark.parametrize("method", ["gaussian", "median", "none"])
def test_constant_counts_stay(method: Any) -> None:
    assert smooth(np.full((4, 3, 2), 7.5), method=method) == pytest.approx(7.5)


def test_no_axis_and_any_memory_order() -> None:
    assert smooth(np.array(3)).item() == 3
    counts = cells((5, 6))
    assert np.array_equal(smooth(np.asfortranarray(counts)), smooth(counts))


@pytest.mark.parametrize("sigma", [1e-300, 1e-320, 1e-3])
def test_a_tiny_sigma_changes_nothing(sigma: float) -> None:
    counts = cells((6,))
    assert np.array_equal(smooth(counts, sigma=sigma), counts)


def test_a_large_sigma_averages_the_window() -> None:
    assert gaussian_weights(1e9, 5) == pytest.approx(np.full(5, 0.2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "box"}, "the smoothing method must be one of gaussian, median, none, not 'box'"),
        ({"iterations": 0}, "the iterations of smoothing must be a whole number from 1 on, not 0"),
        ({"iterations": 2.0}, "the iterations of smoothing must be a whole number from 1 on, not 2.0"),
        ({"iterations": True}, "the iterations of smoothing must be a whole number from 1 on, not True"),
        ({"size": 4}, "the size of a smoothing window must be an odd number from 3 on, not 4"),
        ({"size": 1}, "the size of a smoothing window must be an odd number from 3 on, not 1"),
        ({"sigma": 0.0}, "sigma must be a positive number, not 0.0"),
        ({"sigma": -1.0}, "sigma must be a positive number, not -1.0"),
        ({"sigma": float("nan")}, "sigma must be a positive number, not nan"),
        (
            {"size": 9},
            "a smoothing window of 9 is larger than axis 1, which has 8 categories in a row; choose a window of at most 7",
        ),
        (
            {"size": 7, "groups": [[0] * 5 + [1] * 5, None]},
            "a smoothing window of 7 is larger than axis 0, which has 5 categories in a row; choose a window of at most 5",
        ),
        ({"groups": [None]}, "the groups name 1 axes, but the cells have 2"),
        (
            {"groups": [None, [0] * 7]},
            "the groups of axis 1 must be 8 whole numbers, one for each category",
        ),
        (
            {"groups": [None, [0.5] * 8]},
            "the groups of axis 1 must be 8 whole numbers, one for each category",
        ),
        ({"ordered": [True]}, "ordered names 1 axes, but the cells have 2"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        check((10, 8), **options)
    assert str(refused.value) == message
    with pytest.raises(ValueError) as refused:
        smooth(cells((10, 8)), **options)
    assert str(refused.value) == message


def test_windows_that_are_allowed() -> None:
    check((10, 8), size=7)
    check((2, 1), size=3)
    check((10, 3), size=9, groups=[None, [0, 1, 2]])
    check((10, 3), size=9, ordered=[True, False])
    check((2, 2), size=9, method="none")


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_counts_that_are_no_numbers_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        smooth(np.array([1, wrong, 2]))


def test_no_cells_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no cells to smooth"):
        smooth(np.empty((3, 0)))
