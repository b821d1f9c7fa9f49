"""Regions: both rules against slow references, connectivity, the order of labels, and borders of groups."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import dist, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.partition.regions import grow
from dpcli.partition.smoothing import smooth

Cell = tuple[int, ...]
CRITERIA: list[Any] = ["running-mean", "frontier"]
DISTANCES = [1, sqrt(2), 1.5, sqrt(3), 2, 3]


def in_one_run(group: Any, one: int, other: int) -> bool:
    between = range(min(one, other), max(one, other) + 1)
    return group is None or all(group[place] == group[one] for place in between)


def neighbours(shape: Cell, distance: float, groups: Any = None) -> dict[Cell, list[Cell]]:
    """Every cell's neighbours in C order, found by looking at all pairs."""
    groups = groups or [None] * len(shape)
    everywhere = list(np.ndindex(*shape))
    return {
        one: [
            other
            for other in everywhere
            if other != one
            and dist(one, other) <= distance
            and all(in_one_run(group, a, b) for group, a, b in zip(groups, one, other, strict=True))
        ]
        for one in everywhere
    }


def around_means(values: np.ndarray, threshold: float, near: dict[Cell, list[Cell]]) -> np.ndarray:
    """The documented rule, in fractions: seeds, visits and tests all in order, with a fresh mean each time."""
    exact = {cell: Fraction(float(values[cell])) for cell in near}
    regions: list[list[Cell]] = []
    taken: set[Cell] = set()
    for seed in np.ndindex(values.shape):
        if seed in taken:
            continue
        region, visited = [seed], 0
        taken.add(seed)
        while visited < len(region):
            for cell in near[region[visited]]:
                mean = sum(exact[member] for member in region) / len(region)
                if cell not in taken and abs(exact[cell] - mean) < Fraction(threshold):
                    region.append(cell)
                    taken.add(cell)
            visited += 1
        regions.append(region)
    return labelled(values.shape, regions)


def components(values: np.ndarray, threshold: float, near: dict[Cell, list[Cell]]) -> np.ndarray:
    """Start with every cell alone, and join the regions of each pair of similar neighbours."""
    region_of = {cell: {cell} for cell in near}
    for one, others in near.items():
        for other in others:
            if abs(values[one] - values[other]) < threshold and region_of[one] is not region_of[other]:
                region_of[one] |= region_of[other]
                for cell in region_of[other]:
                    region_of[cell] = region_of[one]
    regions: list[Any] = []
    for cell in np.ndindex(values.shape):
        if region_of[cell] not in regions:
            regions.append(region_of[cell])
    return labelled(values.shape, regions)


def labelled(shape: Cell, regions: Any) -> np.ndarray:
    labels = np.full(shape, -1)
    for number, region in enumerate(regions):
        for cell in region:
            labels[cell] = number
    return labels


REFERENCE = {"running-mean": around_means, "frontier": components}


def parts(cells: set[Cell], near: dict[Cell, list[Cell]]) -> int:
    """How many connected pieces some cells form."""
    cells, pieces = set(cells), 0
    while cells:
        pieces += 1
        todo = [cells.pop()]
        while todo:
            reached = cells.intersection(near[todo.pop()])
            cells -= reached
            todo += reached
    return pieces


def assert_in_order(labels: np.ndarray) -> None:
    assert labels.dtype == np.int64
    _, first = np.unique(labels, return_index=True)
    assert labels.ravel()[first].tolist() == list(range(len(first)))
    assert first.tolist() == sorted(first.tolist())


def cells(shape: Cell, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape)


@settings(deadline=None, max_examples=300)
@given(
    criterion=st.sampled_from(CRITERIA),
    shape=st.sampled_from(
        [(1,), (9,), (40,), (1, 7), (7, 1), (5, 6), (9, 8), (3, 4, 5), (2, 1, 6), (2, 3, 2, 3)]
    ),
    distance=st.sampled_from(DISTANCES),
    threshold=st.floats(0.05, 12).map(lambda t: t * sqrt(2)),
    seed=st.integers(0, 10_000),
    grouped=st.booleans(),
    data=st.data(),
)
def test_both_rules_do_what_they_say(
    criterion: Any,
    shape: Cell,
    distance: float,
    threshold: float,
    seed: int,
    grouped: bool,
    data: st.DataObject,
) -> None:
    values = cells(shape, seed)
    groups = None
    if grouped:
        any_groups = [st.lists(st.integers(0, 2), min_size=size, max_size=size) for size in shape]
        groups = [data.draw(st.one_of(st.none(), each)) for each in any_groups]
    near = neighbours(shape, distance, groups)
    labels = grow(values, criterion=criterion, threshold=threshold, distance=distance, groups=groups)
    assert labels.tolist() == REFERENCE[criterion](values, threshold, near).tolist()
    assert_in_order(labels)
    for number in range(labels.max() + 1):
        assert parts({tuple(cell) for cell in np.argwhere(labels == number).tolist()}, near) == 1


def test_a_cell_that_was_turned_down_may_join_later() -> None:
    """3 is too far from 0. It joins from the last cell, when the mean of 0, 2 and 1 is 1."""
    assert grow(np.array([[0, 3], [2, 1]]), threshold=2.5).tolist() == [[0, 0], [0, 0]]
    assert grow(np.array([[0, 3], [2, 9]]), threshold=2.5).tolist() == [[0, 1], [0, 2]]


def test_neighbours_are_tested_in_order() -> None:
    """From the middle of the first row, 2.9 comes before 4 and draws the mean near enough."""
    assert grow(np.array([[0, 2, 2.9], [9, 4, 9]]), threshold=2.5).tolist() == [[0, 0, 0], [1, 0, 2]]
    assert grow(np.array([[0, 2, 4], [9, 2.9, 9]]), threshold=2.5).tolist() == [[0, 0, 1], [2, 0, 3]]


def test_a_slope_is_one_region_by_the_frontier_but_not_by_the_mean() -> None:
    slope = np.arange(20.0)
    assert grow(slope, criterion="frontier", threshold=1.5).tolist() == [0] * 20
    assert (
        grow(slope, criterion="running-mean", threshold=3.25).tolist()
        == np.repeat(range(4), [6, 6, 6, 2]).tolist()
    )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_difference_of_the_threshold_itself_is_too_much(criterion: Any) -> None:
    assert grow(np.array([0.0, 6.0]), criterion=criterion).tolist() == [0, 1]
    assert grow(np.array([6.0, 0.0]), criterion=criterion).tolist() == [0, 1]
    assert grow(np.array([0.0, 5.999]), criterion=criterion).tolist() == [0, 0]


def test_the_papers_neighbourhoods() -> None:
    """Below Definition 3.1: in a 3 × 3 cube, x5 has four neighbours for d = 1 and eight for d = √2."""
    values = np.array([[9.0, 0, 9], [0, 0, 0], [9, 0, 9]])
    assert grow(values, threshold=1, distance=1).tolist() == [[0, 1, 2], [1, 1, 1], [3, 1, 4]]
    corners = np.array([[0.0, 9, 0], [9, 0, 9], [0, 9, 0]])
    for criterion in CRITERIA:
        assert grow(corners, criterion=criterion, threshold=1).max() == 8
        found = grow(corners, criterion=criterion, threshold=1, distance=sqrt(2))
        assert found.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_distance_two_reaches_over_a_cell(criterion: Any) -> None:
    stripes = np.array([0.0, 9, 0, 9, 0, 50, 60, 0])
    assert grow(stripes, criterion=criterion, threshold=1, distance=2).tolist() == [0, 1, 0, 1, 0, 2, 3, 4]
    assert grow(stripes, criterion=criterion, threshold=1, distance=3).tolist() == [0, 1, 0, 1, 0, 2, 3, 0]
    between = [[0, 0, 1, 2, 2, 2, 2, 2]]
    found = grow(stripes, criterion=criterion, threshold=1, distance=3, groups=between)
    assert found.tolist() == [0, 1, 2, 3, 4, 5, 6, 4]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("distance", DISTANCES)
def test_groups_are_never_crossed(criterion: Any, distance: float) -> None:
    groups = [[0, 0, 0, 1, 1, 2], None, [0, 1, 2]]
    labels = grow(np.zeros((6, 5, 3)), criterion=criterion, distance=distance, groups=groups)
    expected = np.array([0, 0, 0, 1, 1, 2])[:, None, None] * 3 + np.arange(3)
    assert labels.tolist() == np.broadcast_to(expected, (6, 5, 3)).tolist()


@pytest.mark.parametrize("criterion", CRITERIA)
def test_slices_of_a_nominal_axis_are_grown_apart(criterion: Any) -> None:
    values = cells((4, 12))
    labels = grow(values, criterion=criterion, groups=[np.arange(4), None])
    start = 0
    for row, found in zip(values, labels, strict=True):
        alone = grow(row, criterion=criterion)
        assert found.tolist() == (alone + start).tolist()
        start += int(alone.max()) + 1


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("shape", [(200,), (20, 30), (6, 7, 8)])
def test_what_changes_nothing(criterion: Any, shape: Cell) -> None:
    values = cells(shape)
    labels = grow(values, criterion=criterion, threshold=2.7)
    assert 1 < labels.max() < labels.size - 1
    for same in (values + 1000.25, values - 17.5, -values, np.asfortranarray(values)):
        assert np.array_equal(grow(same, criterion=criterion, threshold=2.7), labels)
    assert np.array_equal(grow(values * 8, criterion=criterion, threshold=2.7 * 8), labels)
    assert np.array_equal(grow(values[None], criterion=criterion, threshold=2.7)[0], labels)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_values_are_left_as_they_are(criterion: Any) -> None:
    values = cells((6, 7))
    before = values.copy()
    grow(values, criterion=criterion)
    assert np.array_equal(values, before)


def test_frontier_regions_only_grow_with_threshold_and_distance() -> None:
    values = cells((15, 16))
    found = [
        grow(values, criterion="frontier", threshold=t, distance=d)
        for t, d in [(1, 1), (2, 1), (2, 1.5), (2, 2)]
    ]
    for fine, coarse in combinations(found, 2):
        pairs = np.unique(np.stack([fine.ravel(), coarse.ravel()]), axis=1)
        assert pairs.shape[1] == fine.max() + 1


def test_frontier_regions_do_not_depend_on_the_order_of_axes() -> None:
    values = cells((15, 16))
    one = grow(values, criterion="frontier", threshold=2)
    other = grow(values.T, criterion="frontier", threshold=2).T
    pairs = np.unique(np.stack([one.ravel(), other.ravel()]), axis=1)
    assert pairs.shape[1] == one.max() + 1 == other.max() + 1


@pytest.mark.parametrize("criterion", CRITERIA)
def test_extremes(criterion: Any) -> None:
    values = cells((9, 9))
    assert grow(values, criterion=criterion, threshold=1e-12).ravel().tolist() == list(range(81))
    assert grow(values, criterion=criterion, threshold=1e6).max() == 0
    assert grow(np.array([[4.0]]), criterion=criterion).tolist() == [[0]]
    assert grow(np.array(4), criterion=criterion).tolist() == 0
    assert grow(np.array([[1, 2, 30]]), criterion=criterion).tolist() == [[0, 0, 1]]
    assert grow(np.array([[1, 2, 30]]).T, criterion=criterion).tolist() == [[0], [0], [1]]


def test_blocks_are_found_in_noise() -> None:
    """Four blocks 60 apart, noise of scale 1/0.15: off their edges, blocks share no region of any size."""
    blocks = np.kron([[0, 60], [120, 180]], np.ones((16, 16)))
    noisy = blocks + np.random.default_rng(5).laplace(0, 1 / 0.15, blocks.shape)
    labels = grow(smooth(noisy), threshold=12)
    main = [np.bincount(labels[blocks == level]).argmax() for level in (0, 60, 120, 180)]
    assert len(set(main)) == 4
    for level, number in zip((0, 60, 120, 180), main, strict=True):
        assert np.mean(labels[blocks == level] == number) > 0.8
        assert np.mean(blocks[labels == number] == level) > 0.97


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "mean"}, "the criterion must be one of running-mean, frontier, not 'mean'"),
        ({"threshold": 0}, "the threshold of a region must be a positive number, not 0"),
        ({"threshold": -1.5}, "the threshold of a region must be a positive number, not -1.5"),
        ({"threshold": float("nan")}, "the threshold of a region must be a positive number, not nan"),
        ({"threshold": float("inf")}, "the threshold of a region must be a positive number, not inf"),
        ({"distance": 0}, "the distance between neighbours must be a number of at least 1, not 0"),
        (
            {"distance": float("nan")},
            "the distance between neighbours must be a number of at least 1, not nan",
        ),
        ({"groups": [None]}, "the groups name 1 axes, but the cells have 2"),
        ({"groups": [[0, 0], None]}, "the groups of axis 0 must be 3 whole numbers, one for each category"),
    ],
)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_bad_options_are_refused(criterion: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        grow(np.zeros((3, 4)), **{"criterion": criterion, **options})
    assert str(refused.value) == message


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_refused(criterion: Any, wrong: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        grow(np.array([1, wrong, 2]), criterion=criterion)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_cells_are_refused(criterion: Any) -> None:
    with pytest.raises(ValueError, match="there are no cells"):
        grow(np.empty((3, 0)), criterion=criterion)
