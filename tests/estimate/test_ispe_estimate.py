"""Estimates of regions against dense linear algebra, and look-ups against direct sums."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from dpcli.estimate.ispe import estimate as module
from dpcli.estimate.ispe.estimate import RegionEstimate
from dpcli.estimate.ispe.local import filtered
from dpcli.estimate.ispe.mmse import least_squares
from dpcli.estimate.ispe.reference import even, flow, weighted
from dpcli.estimate.ispe.regions import Regions
from dpcli.estimate.ispe.sorting import allowed, noise_shares
from dpcli.estimate.law import unit_variance
from dpcli.query.batch import Batch

SCALES = Fraction(20, 3), Fraction(20)
V1, V2 = map(unit_variance, SCALES)
KINDS = list(product(["least-squares", "mmse"], ["off", "printed", "weighted"]))


def release(seed: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return noisy cells, connected regions and noisy counts of some data."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 30, shape).astype(float)
    level = ndimage.gaussian_filter(true, 1.0).astype(int) // 4
    labels, count = np.zeros(shape, int), 0
    for value in np.unique(level):
        found, number = ndimage.label(level == value)
        labels[level == value] = found[level == value] + count - 1
        count += number
    noisy = true + rng.geometric(0.14, shape) - rng.geometric(0.14, shape)
    counts = np.bincount(labels.ravel(), true.ravel())
    return noisy, labels, counts + rng.geometric(0.05, count) - rng.geometric(0.05, count)


def some_boxes(seed: int, shape: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ends = np.sort(np.stack([rng.integers(0, m + 1, (count, 2)) for m in shape], axis=1), axis=2)
    return ends[:, :, 0], ends[:, :, 1]


def indicators(starts: np.ndarray, stops: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    found = np.zeros((len(starts), *shape))
    for k, (a, b) in enumerate(zip(starts, stops, strict=True)):
        found[k][tuple(slice(i, j) for i, j in zip(a, b, strict=True))] = 1
    return found


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_least_squares_is_the_solution_of_the_weighted_equations(seed: int, rows: int, columns: int) -> None:
    noisy, labels, counts = release(seed, (rows, columns))
    strategy = np.vstack([np.eye(noisy.size), np.arange(len(counts))[:, None] == labels.ravel()])
    weight = np.r_[np.full(noisy.size, V1**-0.5), np.full(len(counts), V2**-0.5)]
    expected = np.linalg.lstsq(strategy * weight[:, None], np.r_[noisy.ravel(), counts] * weight, rcond=None)[
        0
    ]
    made = RegionEstimate(noisy, labels, counts, *SCALES, "least-squares", "off")
    assert made.cells.ravel() == pytest.approx(expected, abs=1e-8)
    covariance = np.linalg.inv((strategy * weight[:, None]).T @ (strategy * weight[:, None]))
    starts, stops = some_boxes(seed, noisy.shape, 8)
    asked = indicators(starts, stops, noisy.shape).reshape(8, -1)
    answers = made.boxes(starts, stops)
    assert answers.value == pytest.approx(asked @ expected, abs=1e-8)
    variances = np.maximum(0, np.einsum("qi,ij,qj->q", asked, covariance, asked))
    assert answers.stderr == pytest.approx(np.sqrt(variances), abs=1e-6)


@pytest.mark.parametrize("make", ["weighted", "even"])
@pytest.mark.parametrize("shape", [(9,), (6, 7), (3, 4, 5), (1, 1), (2, 3, 1, 3)])
def test_local_covariance_is_that_of_the_filter(make: str, shape: tuple[int, ...]) -> None:
    noisy, labels, _ = release(3, shape)
    regions = Regions(labels)
    shares = noise_shares(noisy.astype(float), SCALES[0], allowed(shape, None))
    chosen = weighted(regions, shares, V1) if make == "weighted" else even(regions)
    units = np.eye(noisy.size).reshape(-1, *shape)
    dense = np.stack([chosen.apply(unit).ravel() for unit in units], axis=1)
    assert dense.sum(axis=1) == pytest.approx(np.ones(noisy.size))
    assert dense == pytest.approx(dense.T)
    assert dense.min() >= 0
    assert not dense[labels.ravel()[:, None] != labels.ravel()].any()
    missed = np.stack([flow(chosen.model, unit).ravel() for unit in units], axis=1)
    covariance = V1 * dense @ dense + missed
    found = filtered(chosen, V1, shape)
    starts, stops = some_boxes(5, shape, 20)
    asked = indicators(starts, stops, shape).reshape(20, -1)
    assert found.sums(starts, stops) == pytest.approx(np.einsum("qi,ij,qj->q", asked, covariance, asked))


def test_cells_alike_differ_by_noise_only_and_steps_do_not() -> None:
    rng = np.random.default_rng(0)
    noise = (rng.geometric(0.14, 40_000) - rng.geometric(0.14, 40_000)).astype(float)
    (flat,) = noise_shares(noise, SCALES[0], allowed(noise.shape, None))
    assert flat.mean() > 0.97
    (mixed,) = noise_shares(noise + rng.integers(0, 100, noise.size), SCALES[0], allowed(noise.shape, None))
    assert 0.05 < mixed.mean() < 0.2
    spiked = noise.copy()
    spiked[::50] += 300
    (spikes,) = noise_shares(spiked, SCALES[0], allowed(noise.shape, None))
    assert spikes[50::50].mean() < 0.05
    assert spikes[20::50].mean() > 0.9


def test_slices_of_a_nominal_axis_say_nothing_about_each_other() -> None:
    """With a group for each category the estimate is the same in whatever order the categories are listed."""
    noisy, labels, counts = release(21, (6, 8))
    labels = np.arange(6)[:, None] * 2 + (np.arange(8) > 3)
    counts = np.bincount(labels.ravel(), noisy.ravel())
    order = np.array([3, 0, 5, 1, 4, 2])
    moved = np.searchsorted(np.unique(labels[order]), labels)  # regions keep their numbers
    cells = [
        RegionEstimate(y, region, counts, *SCALES, groups=[list(range(6)), None]).cells
        for y, region in ((noisy, labels), (noisy[order], moved[order]))
    ]
    assert cells[1] == pytest.approx(cells[0][order])
    free = RegionEstimate(noisy, labels, counts, *SCALES).cells
    assert not np.allclose(free, cells[0])


@pytest.mark.parametrize(("estimator", "neighbours"), KINDS)
@pytest.mark.parametrize("shape", [(30,), (12, 14), (4, 5, 6)])
def test_look_ups_are_direct_sums(
    estimator: str, neighbours: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = RegionEstimate(*release(7, shape), *SCALES, estimator, neighbours)  # type: ignore[arg-type]
    starts, stops = some_boxes(8, shape, 150)
    direct = made.boxes(starts, stops, 0.9)
    assert direct.value == pytest.approx(
        [q.ravel() @ made.cells.ravel() for q in indicators(starts, stops, shape)]
    )
    monkeypatch.setattr(module, "MOST_EXACT", 0)
    found = made.boxes(starts, stops, 0.9)
    assert found.stderr == pytest.approx(direct.stderr, abs=1e-5)
    known = direct.stderr > 0
    ratio = (found.high - found.low)[known] / (direct.high - direct.low)[known]
    assert 0.9 < ratio.min() <= ratio.max() < 1.15
    assert 0.97 < ratio.mean() < 1.05
    linear = (estimator, neighbours) == ("least-squares", "off")
    assert set(direct.how) == {"exact"} if linear else {"posterior"}
    assert set(found.how) == {"normal"} if linear else {"posterior"}


def test_the_linear_part_of_an_answer_is_its_response_to_noise() -> None:
    noisy, labels, counts = release(11, (5, 6))
    made = RegionEstimate(noisy, labels, counts, *SCALES, "least-squares", "off")
    weights = np.random.default_rng(0).normal(size=noisy.shape)
    cells, regions, rest = made.shares(weights)
    assert rest == 0
    base = (weights * made.cells).sum()
    for place in np.ndindex(noisy.shape):
        other = noisy.copy()
        other[place] += 1
        moved = RegionEstimate(other, labels, counts, *SCALES, "least-squares", "off").cells
        assert (weights * moved).sum() - base == pytest.approx(cells[place])
    for place in range(len(counts)):
        other = counts.copy()
        other[place] += 1
        moved = RegionEstimate(noisy, labels, other, *SCALES, "least-squares", "off").cells
        assert (weights * moved).sum() - base == pytest.approx(regions[place])


@pytest.mark.parametrize("estimator", ["least-squares", "mmse"])
@pytest.mark.parametrize("neighbours", ["off", "printed"])
def test_region_totals_are_those_of_the_estimator(estimator: str, neighbours: str) -> None:
    noisy, labels, counts = release(12, (8, 9))
    made = RegionEstimate(noisy, labels, counts, *SCALES, estimator, neighbours)  # type: ignore[arg-type]
    plain = RegionEstimate(noisy, labels, counts, *SCALES, estimator, "off")  # type: ignore[arg-type]
    regions = Regions(labels)
    assert regions.sums(made.cells) == pytest.approx(regions.sums(plain.cells))
    if estimator == "least-squares":
        residual = regions.sums(noisy.astype(float)) - counts
        removed = least_squares(residual, regions.sizes, V1, V2)
        assert regions.sums(plain.cells) == pytest.approx(regions.sums(noisy) - removed.noise)


def test_products_of_weights_along_the_axes() -> None:
    noisy, labels, counts = release(13, (6, 5))
    made = RegionEstimate(noisy, labels, counts, *SCALES)
    rng = np.random.default_rng(1)
    vectors = (rng.random((3, 6)), rng.random((2, 5)))
    which = np.array([[[0, 0], [1, 1]], [[2, 1], [2, 0]]])
    answers = made.products(Batch(vectors, which), 0.9)
    for place in range(2):
        weights = sum(np.outer(vectors[0][i], vectors[1][j]) for i, j in which[place])
        cells, regions, rest = made.shares(weights)
        assert answers.value[place] == pytest.approx((weights * made.cells).sum())
        variance = V1 * (cells**2).sum() + V2 * (regions**2).sum() + rest
        assert answers.stderr[place] == pytest.approx(variance**0.5)
    whole = Batch((np.ones((1, 6), bool), np.eye(5, dtype=bool)), np.array([[[0, 2]]]))
    box = made.boxes(np.array([[0, 2]]), np.array([[6, 3]]), 0.9)
    assert made.products(whole, 0.9).low == pytest.approx(box.low)
    many = Batch((np.tri(6, dtype=bool), np.zeros((1, 5), bool)), np.array([[[k, 0]] for k in range(6)]))
    assert not made.products(many).value.any()
    gaps = Batch((np.array([[1, 0, 1, 0, 0, 1]], bool), np.ones((1, 5), bool)), np.zeros((1, 1, 2), int))
    assert made.products(gaps).value[0] == pytest.approx(made.cells[[0, 2, 5]].sum())


def test_printed_reference_of_alike_neighbours_is_their_middle() -> None:
    """One row of equal cells and a count that agrees: every posterior has its mean there."""
    made = RegionEstimate(np.full(6, 9), np.zeros(6, int), np.array([54]), *SCALES, "mmse", "printed")
    assert made.cells == pytest.approx(np.full(6, 9.0), abs=0.05)


def test_single_cells_and_no_boxes() -> None:
    made = RegionEstimate(np.array([[5]]), np.array([[0]]), np.array([9]), *SCALES)
    assert 5 < made.cells[0, 0] < 9
    assert len(made.boxes(np.zeros((0, 2)), np.zeros((0, 2)))) == 0
    empty = made.boxes(np.array([[1, 0]]), np.array([[1, 1]]))
    assert (empty.value[0], empty.stderr[0], empty.low[0], empty.high[0]) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell_scale": 0}, "positive"),
        ({"region_scale": -1}, "positive"),
        ({"region": np.array([[0, 2], [2, 2]])}, "gaps"),
        ({"region": np.array([0, 0])}, "label"),
        ({"counts": np.array([1.0, 2.0])}, "one count"),
        ({"estimator": "mean"}, "no estimator"),
        ({"neighbours": "all"}, "no estimator"),
    ],
)
def test_wrong_input(change: dict[str, object], message: str) -> None:
    given_ = {"noisy": np.ones((2, 2)), "region": np.zeros((2, 2), int), "counts": np.array([4.0])}
    with pytest.raises(ValueError, match=message):
        RegionEstimate(**{**given_, "cell_scale": 1, "region_scale": 1, **change})  # type: ignore[arg-type]


def test_wrong_questions() -> None:
    made = RegionEstimate(np.ones((2, 3)), np.zeros((2, 3), int), np.array([6.0]), 1, 2)
    for starts, stops in (([[0, 0]], [[2, 4]]), ([[1, 0]], [[0, 1]]), ([[0]], [[1]]), ([[-1, 0]], [[1, 1]])):
        with pytest.raises(ValueError, match="boxes"):
            made.boxes(np.array(starts), np.array(stops))
    with pytest.raises(ValueError, match="level"):
        made.boxes(np.array([[0, 0]]), np.array([[1, 1]]), 1.0)
    with pytest.raises(ValueError, match="shape"):
        made.products(Batch((np.ones((1, 2)), np.ones((1, 2))), np.zeros((1, 1, 2), int)))
