"""Growing regions of connected cells with similar values (ISPE §3.3, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dpcli.partition.method import THRESHOLD, Criterion
from dpcli.partition.neighbours import FloatArray, Groups, IntArray, runs_of_axes, steps

Step = tuple[int, ...]


def grow(
    values: NDArray[np.floating] | NDArray[np.integer],
    *,
    criterion: Criterion = "running-mean",
    threshold: float = THRESHOLD,
    distance: float = 1,
    groups: Groups | None = None,
) -> IntArray:
    """Return each cell's region: 0, 1, ... in the C order of the regions' first cells.

    The cells within Euclidean ``distance`` d are neighbours (ISPE Definition 3.1), never across ``groups``
    (see :mod:`dpcli.partition.neighbours`). Every region is connected by neighbours. A neighbour k of a
    region's cell j joins when its value v differs by less than the threshold ξ

    - ``running-mean``: from the mean of the region so far, |v_k − mean| < ξ. The first cell in C order that
      has no region is the next seed. A region's cells are visited in the order in which they joined, and the
      neighbours of each are tested in C order; the mean moves with every cell that joins. A cell that was
      turned down is tested again from each further cell of the region that it neighbours. What no region
      took becomes a seed, so that every cell is in exactly one region;
    - ``frontier``: from the neighbour in the region, |v_k − v_j| < ξ. The order does not matter: the regions
      are the connected components of the graph of all such pairs. Along a gentle slope they have no bound.

    Algorithm 2 prints the frontier rule without the absolute value, by which any lower cell would join.
    """
    cells = np.asarray(values, np.float64, order="C")
    if criterion not in get_args(Criterion):
        raise ValueError(f"the criterion must be one of {', '.join(get_args(Criterion))}, not {criterion!r}")
    if not (isfinite(threshold) and threshold > 0):
        raise ValueError(f"the threshold of a region must be a positive number, not {threshold!r}")
    if cells.size == 0:
        raise ValueError("there are no cells to grow regions from")
    if not np.isfinite(cells).all():
        raise ValueError("the values to grow regions from must be finite numbers")
    runs = runs_of_axes(cells.shape, groups)
    by_criterion = {"running-mean": _around_means, "frontier": _components}
    return by_criterion[criterion](cells, float(threshold), runs, steps(runs, distance))


def _around_means(
    values: FloatArray, threshold: float, runs: Sequence[IntArray], around: Sequence[Step]
) -> IntArray:
    """Grow one region after the other by the running mean.

    The cells lie in a flat list, with as many empty places after each run as the longest step along its axis:
    a step out of a run ends in one of these, and so does a step before the first cell, as a negative place
    counts from the end. Empty places and cells that have a region hold ∞, which no test lets in.
    """
    reaches = [max((step[axis] for step in around), default=0) for axis in range(values.ndim)]
    shape = [each.size + reach * (int(each[-1]) + 1) for each, reach in zip(runs, reaches, strict=True)]
    places = np.ix_(*(np.arange(each.size) + reach * each for each, reach in zip(runs, reaches, strict=True)))
    padded = np.full(shape, inf)
    padded[places] = values
    strides = [stride // padded.itemsize for stride in padded.strides]
    jumps = [sum(far * stride for far, stride in zip(step, strides, strict=True)) for step in around]

    free = padded.ravel().tolist()
    joined: list[int] = []
    sizes: list[int] = []
    for seed, total in enumerate(free):
        if total == inf:
            continue
        free[seed] = inf
        low, high = total - threshold, total + threshold
        region = [seed]
        for cell in region:  # which grows meanwhile
            for jump in jumps:
                value = free[cell + jump]
                if low < value < high:
                    free[cell + jump] = inf
                    region.append(cell + jump)
                    total += value
                    mean = total / len(region)
                    low, high = mean - threshold, mean + threshold
        joined += region
        sizes.append(len(region))

    labels = np.empty(padded.size, np.int64)
    labels[joined] = np.repeat(np.arange(len(sizes)), sizes)
    return np.asarray(labels.reshape(shape)[places])


def _components(
    values: FloatArray, threshold: float, runs: Sequence[IntArray], around: Sequence[Step]
) -> IntArray:
    """Label the connected components of all pairs of neighbours whose values differ by less than ξ."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers = np.arange(values.size).reshape(values.shape)
    heads, tails = [], []
    for step in around[len(around) // 2 :]:  # the other half are the same pairs from the other side
        near = tuple(slice(max(0, -far), min(0, -far) or None) for far in step)
        there = tuple(slice(max(0, far), min(0, far) or None) for far in step)
        alike = np.abs(values[there] - values[near]) < threshold
        for axis, each in enumerate(runs):
            if step[axis] and each[-1] > 0:
                within = each[there[axis]] == each[near[axis]]
                alike &= within.reshape([-1 if other == axis else 1 for other in range(values.ndim)])
        heads.append(numbers[near][alike])
        tails.append(numbers[there][alike])
    empty = np.empty(0, np.int64)
    pairs = np.concatenate([empty, *heads]), np.concatenate([empty, *tails])
    graph = coo_array((np.ones(len(pairs[0]), bool), pairs), shape=(values.size, values.size))
    _, labels = connected_components(graph, directed=False)
    return _in_order_of_first_cells(labels).reshape(values.shape)


def _in_order_of_first_cells(labels: NDArray[np.integer]) -> IntArray:
    first = np.empty(int(labels.max()) + 1, np.int64)
    first[labels[::-1]] = np.arange(labels.size)[::-1]  # the last to be written is the first cell
    numbers = np.empty_like(first)
    numbers[np.argsort(first)] = np.arange(first.size)
    return np.asarray(numbers[labels])
