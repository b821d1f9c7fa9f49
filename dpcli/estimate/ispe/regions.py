"""Regions of a grid: sums over them, the parts that boxes cut off them, and summed-area tables."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpcli.strategy.axis import FloatArray, IntArray

Labels = NDArray[np.int32]
Places = tuple[slice, ...]


class SummedArea:
    """Sums over boxes as look-ups: 2^d corners of a table of sums up to each cell."""

    def __init__(self, values: FloatArray) -> None:
        self.table: FloatArray = np.zeros([m + 1 for m in values.shape])
        inner = self.table[tuple(slice(1, None) for _ in values.shape)]
        inner[...] = values
        for axis in range(values.ndim):
            np.cumsum(inner, axis=axis, out=inner)

    def sums(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the sum over every box; boxes without cells have none."""
        starts = np.minimum(starts, np.array(self.table.shape) - 1)
        stops = np.maximum(starts, stops)
        total = np.zeros(len(starts))
        for choice in product((0, 1), repeat=self.table.ndim):
            corner = np.where(np.array(choice, np.bool_), starts, stops)
            total += (-1) ** sum(choice) * self.table[tuple(corner.T)]
        return total


class Cuts(NamedTuple):
    """Regions that boxes cut: which box, which region, how many of its cells lie inside."""

    box: NDArray[np.intp]
    region: NDArray[np.intp]
    cells: NDArray[np.intp]


def added_up(place: NDArray[Any], values: FloatArray, length: int) -> FloatArray:
    """Return the sum of the values at each of the places 0 … length − 1."""
    return np.bincount(place, values, length).astype(np.float64, copy=False)


def along(ndim: int, axis: int) -> tuple[Places, Places]:
    """Return the places of all cells but the last, and but the first, along an axis."""
    before, after = [slice(None)] * ndim, [slice(None)] * ndim
    before[axis], after[axis] = slice(None, -1), slice(1, None)
    return tuple(before), tuple(after)


def run_of_ones(vectors: NDArray[Any]) -> IntArray | None:
    """Return the start and the stop of each vector's run of ones, or nothing if they are not all runs."""
    ones = vectors != 0
    count = ones.sum(axis=1)
    start = np.where(count > 0, ones.argmax(axis=1), 0)
    stop = np.where(count > 0, ones.shape[1] - ones[:, ::-1].argmax(axis=1), 0)
    if vectors.dtype != np.bool_ or (stop - start != count).any():
        return None
    return np.stack([start, stop], axis=1).astype(np.int64)


class Regions:
    """The regions 0 … R−1 of a grid, from each cell's label."""

    def __init__(self, labels: NDArray[Any]) -> None:
        labels = np.asarray(labels)
        if labels.ndim == 0 or labels.size == 0 or labels.dtype.kind not in "iu":
            raise ValueError("region labels are a grid of whole numbers")
        if labels.min() < 0:
            raise ValueError("region labels start at 0")
        if labels.max() >= labels.size:
            raise ValueError("region labels run from 0 without gaps")
        self.sizes = np.bincount(labels.reshape(-1))
        if not self.sizes.all():
            raise ValueError("region labels run from 0 without gaps")
        self.labels: Labels = np.ascontiguousarray(labels, np.int32)
        self.flat = self.labels.reshape(-1)
        self.shape = labels.shape

    def __len__(self) -> int:
        return len(self.sizes)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum of a value per cell over each region."""
        return added_up(self.flat, values.reshape(-1), len(self))

    def centred(self, values: FloatArray) -> FloatArray:
        """Return the values less their mean in the region."""
        return values - (self.sums(values) / self.sizes)[self.labels]

    def joined(self, axis: int) -> NDArray[np.bool_]:
        """Return which cells are in one region with the next along an axis."""
        before, after = along(self.labels.ndim, axis)
        return np.equal(self.labels[before], self.labels[after])

    @cached_property
    def connected(self) -> bool:
        """Whether each region hangs together along the axes."""
        number = np.arange(self.labels.size).reshape(self.shape)
        pairs = []
        for axis in range(self.labels.ndim):
            before, after = along(self.labels.ndim, axis)
            same = self.joined(axis)
            pairs.append(np.stack([number[before][same], number[after][same]]))
        row, column = np.concatenate(pairs, axis=1)
        graph = sparse.coo_array((np.ones(len(row), np.bool_), (row, column)), shape=(number.size,) * 2)
        return int(sparse.csgraph.connected_components(graph, directed=False)[0]) == len(self)

    @cached_property
    def _members(self) -> tuple[list[NDArray[np.int32]], NDArray[np.intp]]:
        """Where the cells are, in the order of their regions, and where each region starts."""
        order = np.argsort(self.flat, kind="stable")
        places = [place.astype(np.int32) for place in np.unravel_index(order, self.shape)]
        return places, np.append(0, np.cumsum(self.sizes))

    def cuts(self, starts: IntArray, stops: IntArray) -> Cuts:
        """Return the regions that lie partly in each box.

        A connected region is cut if and only if some face of the box runs through it, so only the faces are
        looked at, and then the cells of the cut regions, or those of the box if they are fewer.
        """
        found = [self._cut(start, stop) for start, stop in zip(starts, stops, strict=True)]
        box = np.repeat(np.arange(len(found)), [len(region) for region, _ in found])
        if not found:
            return Cuts(box, np.zeros(0, np.intp), np.zeros(0, np.intp))
        return Cuts(box, *(np.concatenate(column) for column in zip(*found, strict=True)))

    def _cut(self, start: IntArray, stop: IntArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        box = tuple(slice(int(a), int(b)) for a, b in zip(start, stop, strict=True))
        volume = int(np.prod(np.maximum(stop - start, 0)))
        region = self._faces(box) if self.connected else None
        if region is not None and int(self.sizes[region].sum()) < volume:
            return self._gathered(region, start, stop)
        cells = np.bincount(self.labels[box].reshape(-1), minlength=len(self))
        if region is None:
            region = np.flatnonzero((cells > 0) & (cells < self.sizes))
        return region, cells[region]

    def _faces(self, box: Places) -> NDArray[np.intp]:
        """Return the regions that go on beyond a box."""
        labels, through = self.labels, []
        for axis, side in enumerate(box):
            for inner, outer in ((side.start, side.start - 1), (side.stop - 1, side.stop)):
                if side.stop > side.start and 0 <= outer < self.shape[axis]:
                    rest = box[:axis] + box[axis + 1 :]
                    here, there = (np.take(labels, p, axis)[rest] for p in (inner, outer))
                    through.append(here[here == there])
        return np.unique(np.concatenate(through)).astype(np.intp) if through else np.zeros(0, np.intp)

    def _gathered(
        self, region: NDArray[np.intp], start: IntArray, stop: IntArray
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        places, first = self._members
        size = self.sizes[region]
        index = np.repeat(first[region] - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        inside = np.ones(len(index), np.bool_)
        for place, a, b in zip(places, start, stop, strict=True):
            here = place[index]
            inside &= (here >= a) & (here < b)
        number = np.repeat(np.arange(len(region)), size)[inside]
        return region, np.bincount(number, minlength=len(region))
