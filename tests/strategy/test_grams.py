"""The Gram matrices against every query written out, and the objective against a dense matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from dpcli.strategy import grams
from dpcli.strategy.axis import FloatArray
from dpcli.strategy.grams import Objective
from dpcli.strategy.optimized import knot_positions

Ranges = Iterable[tuple[int, int, float]]
SIZES = [1, 2, 3, 7, 16]


def written_out(size: int, ranges: Ranges) -> FloatArray:
    """Σ P·q·qᵀ over (first, last, P)."""
    total = np.zeros((size, size))
    for first, last, probability in ranges:
        total[first : last + 1, first : last + 1] += probability
    return total


def width_then_place(size: int) -> Ranges:
    for width in range(1, size + 1):
        for first in range(size - width + 1):
            yield first, first + width - 1, 1 / size / (size - width + 1)


def every_range(size: int) -> Ranges:
    pairs = [(first, last) for first in range(size) for last in range(first, size)]
    return [(first, last, 1 / len(pairs)) for first, last in pairs]


def two_sorted_ends(size: int) -> Ranges:
    return [(min(a, b), max(a, b), 1 / size**2) for a in range(size) for b in range(size)]


def every_prefix(size: int) -> Ranges:
    return [(0, last, 1 / size) for last in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("gram", "ranges"),
    [
        (grams.random_ranges, width_then_place),
        (grams.all_ranges, every_range),
        (grams.two_ends, two_sorted_ends),
        (grams.prefixes, every_prefix),
    ],
)
def test_closed_forms(size: int, gram: Callable[[int], FloatArray], ranges: Callable[[int], Ranges]) -> None:
    assert np.allclose(gram(size), written_out(size, ranges(size)), atol=1e-14)


def test_random_ranges_have_a_mean_width_of_half_the_axis() -> None:
    """tr G = E[width] = (m + 1)/2, the variance of the identity: on 4096 cells about 64 rows RMSE at ε = 1."""
    assert np.trace(grams.random_ranges(1001)) == pytest.approx(1002 / 2)


def test_ends_do_not_read_below_the_diagonal() -> None:
    probabilities = np.random.default_rng(0).random((6, 6))
    ranges = [(a, b, probabilities[a, b]) for a in range(6) for b in range(a, 6)]
    before = probabilities.copy()
    assert np.allclose(grams.from_ends(probabilities), written_out(6, ranges))
    assert np.array_equal(before, probabilities)


def test_spans_are_the_mean_of_their_outer_products() -> None:
    nodes = [(0, 7), (0, 3), (3, 7), (4, 5), (6, 7)]
    expected = written_out(7, [(start, stop - 1, 1 / 5) for start, stop in nodes])
    assert np.allclose(grams.spans(7, nodes), expected)
    weighted = written_out(7, [(a, b - 1, w / 8) for (a, b), w in zip(nodes, (4, 1, 1, 2, 0), strict=True)])
    assert np.allclose(grams.spans(7, nodes, (4, 1, 1, 2, 0)), weighted)


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [([], None), ([(0, 2)], [1.0, 1.0]), ([(0, 2)], [0.0]), ([(0, 2), (1, 2)], [2.0, -1.0])],
)
def test_spans_need_a_weight_each(nodes: list[tuple[int, int]], weights: list[float] | None) -> None:
    with pytest.raises(ValueError, match="needs one weight of 0 or more per stretch"):
        grams.spans(3, nodes, weights)


@pytest.mark.parametrize("span", [(-1, 2), (2, 2), (1, 4)])
def test_spans_lie_on_the_axis(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"{span[0]}:{span[1]} does not lie on an axis of 3 cells"):
        grams.spans(3, [span])


def test_padded_asks_for_every_further_cell_alone() -> None:
    expected = written_out(
        6, [*((a, b, p * 4 / 6) for a, b, p in every_range(4)), (4, 4, 1 / 6), (5, 5, 1 / 6)]
    )
    assert np.allclose(grams.padded(grams.all_ranges(4), 6), expected)


def dense_value(size: int, knots: int, gram: FloatArray, rows: FloatArray, *, tents: bool) -> float:
    """tr((AᵀA)⁻¹G) with A written out."""
    places = knot_positions(size, knots)
    hats = np.stack([np.interp(np.arange(size), places, unit) for unit in np.eye(knots)])
    far = rows[1:] if tents else rows
    near = rows[0][:, None] * hats if tents else np.zeros((0, size))
    matrix = np.vstack([np.eye(size), near, far @ hats])
    matrix = matrix / matrix.sum(axis=0)
    return float(np.trace(np.linalg.inv(matrix.T @ matrix) @ gram))


CASES = [
    (1, 1, 1, False),
    (5, 1, 2, True),
    (6, 6, 2, False),
    (11, 11, 3, True),
    (23, 5, 2, True),
    (23, 7, 3, False),
]


@pytest.mark.parametrize(("size", "knots", "count", "tents"), CASES)
def test_objective_is_the_dense_trace_and_has_its_gradient(
    size: int, knots: int, count: int, tents: bool
) -> None:
    gram = grams.random_ranges(size)
    rows = np.random.default_rng(size).random((count, knots)) * 2
    objective = Objective.of(size, knots, gram)
    value, gradient = objective(rows.reshape(-1), tents)
    assert value == pytest.approx(dense_value(size, knots, gram, rows, tents=tents))
    step = 1e-6
    for place, slope in enumerate(gradient):
        nudge = np.zeros(rows.size)
        nudge[place] = step
        above, below = (objective(rows.reshape(-1) + sign * nudge, tents)[0] for sign in (1, -1))
        assert (above - below) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_objective_takes_stretches_of_cells() -> None:
    """A Gram matrix of lower order is one of blocks of cells that are all alike."""
    coarse = grams.all_ranges(6)
    alike = np.repeat(np.repeat(coarse, 3, axis=0), 3, axis=1)
    rows = np.random.default_rng(1).random((3, 5))
    expected = Objective.of(18, 5, alike)(rows.reshape(-1), True)
    found = Objective.of(18, 5, coarse)(rows.reshape(-1), True)
    assert found[0] == pytest.approx(expected[0])
    assert np.allclose(found[1], expected[1])
