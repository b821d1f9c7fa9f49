"""Values of many queries on a released cube, from one pass over what they touch.

Categories that no query tells apart are added up while the file is read, so the array that is left is small
unless the queries are many. On it, groups are matrix products along each axis, and thousands of boxes are
looked up in a summed-area table: 2^d corners each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.parallel import in_order
from dpcli.query.batch import Batch
from dpcli.query.product import Weights
from dpcli.release.file import Release
from dpcli.release.reduced import NOWHERE, Pieces, reduced

MOST_GRID = 1 << 22
GRID_PER_QUERY = 4
MOST_ONE_BY_ONE = 1 << 24
"""Numbers to multiply by going through a batch query by query, above which the summed-area table pays."""
BOXES = 1 << 16

Values = NDArray[Any]


class Totals:
    """The counts of a release, as far as some batches of queries need them."""

    def __init__(self, release: Release, asked: Sequence[Batch]) -> None:
        pieces = [
            _pieces([batch.vectors[axis] for batch in asked], size)
            for axis, size in enumerate(release.domain.shape)
        ]
        self._first = [each.first for each in pieces]
        self._counts = reduced(release, pieces)
        self._summed: Values | None = None
        many = self._counts.size > 0 and sum(map(len, asked)) * self._counts.size > MOST_ONE_BY_ONE
        if many and all(map(_plain, asked)):
            self._summed = _summed_up(self._counts)  # in the same memory: the counts are used up

    def values(self, batch: Batch) -> Values:
        """Return the value of each query of a batch that was announced: Σ_s Σ_cells Π_k weights."""
        vectors = [v[:, first] for v, first in zip(batch.vectors, self._first, strict=True)]
        total = np.zeros(len(batch), np.result_type(self._counts, *vectors, np.int64))
        for term in range(batch.terms if self._counts.size else 0):
            which = batch.which[:, term]
            total += self._term(vectors, which) if self._summed is None else self._boxes(vectors, which)
        return total

    def _term(self, vectors: Sequence[Weights], which: NDArray[np.intp]) -> Values:
        used = [np.unique(column, return_inverse=True) for column in which.T]
        if prod(len(rows) for rows, _ in used) <= max(MOST_GRID, GRID_PER_QUERY * len(which)):
            matrices = [v[rows] for v, (rows, _) in zip(vectors, used, strict=True)]
            return self._grid(matrices)[tuple(places.reshape(-1) for _, places in used)]
        each = [[v[[k]] for v, k in zip(vectors, row, strict=True)] for row in which]
        return np.array([self._grid(matrices).item() for matrices in each])

    def _grid(self, matrices: Sequence[Weights]) -> Values:
        """Apply one matrix (vectors × pieces) along each axis, those that shrink the array most first."""
        counts = self._counts
        for axis in sorted(range(counts.ndim), key=lambda k: matrices[k].shape[0] / matrices[k].shape[1]):
            matrix = matrices[axis]
            if matrix.shape == (1, 1) and matrix.dtype == np.bool_ and matrix.all():
                continue  # everything is one piece: the pass over the file has added it up
            moved = np.moveaxis(counts, axis, -1)
            if matrix.dtype == np.bool_ and (matrix.sum(axis=1) == 1).all():
                counts = np.moveaxis(moved[..., matrix.argmax(axis=1)], -1, axis)
            else:
                weights = matrix.astype(np.result_type(matrix, np.int64)).T
                counts = np.moveaxis(moved @ weights, -1, axis)
        return counts

    def _boxes(self, vectors: Sequence[Weights], which: NDArray[np.intp]) -> Values:
        """Return the sum over each query's boxes, each run of each of its vectors making boxes of its own."""
        runs = [_runs(v) for v in vectors]
        assert self._summed is not None
        shape, flat = self._summed.shape, self._summed.reshape(-1)
        strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
        total = np.zeros(len(which), flat.dtype)

        def add(part: slice) -> None:
            counts = np.stack([count[which[part, k]] for k, (count, _, _) in enumerate(runs)], axis=1)
            query = np.repeat(np.arange(len(counts)), counts.prod(axis=1))
            number = np.arange(len(query)) - (np.cumsum(counts.prod(axis=1)) - counts.prod(axis=1))[query]
            corners: list[list[tuple[Values, Values]]] = []
            for k, (_, offset, bounds) in enumerate(runs):
                number, place = np.divmod(number, counts[query, k])
                chosen = bounds[offset[which[part, k]][query] + place]
                corners.append([((edge - 1) * strides[k], edge > 0) for edge in (chosen[:, 1], chosen[:, 0])])
            found = np.zeros(len(query), total.dtype)
            for choice in product((0, 1), repeat=len(corners)):
                ends = [corner[which_end] for corner, which_end in zip(corners, choice, strict=True)]
                index, inside = sum(place for place, _ in ends), np.logical_and.reduce([ok for _, ok in ends])
                found += (-1) ** sum(choice) * np.where(inside, flat[np.where(inside, index, 0)], 0)
            np.add.at(total[part], query, found)

        boxes = np.prod([count[which[:, k]] for k, (count, _, _) in enumerate(runs)], axis=0)
        cuts = np.unique(np.searchsorted(np.cumsum(boxes), np.arange(0, boxes.sum(), BOXES)))
        for _ in in_order(add, map(slice, cuts, np.append(cuts[1:], len(which)))):
            pass
        return total


def _plain(batch: Batch) -> bool:
    return all(vectors.dtype == np.bool_ for vectors in batch.vectors)


def _summed_up(counts: Values) -> Values:
    """Turn counts into the sums of all counts up to each cell, on all cores."""
    whole = counts.reshape(len(counts), -1)

    def within(place: int) -> None:
        """Add up one slice of the first axis along the others."""
        for axis in range(1, counts.ndim):
            lines = counts[place].reshape(prod(counts.shape[1:axis]), counts.shape[axis], -1)
            if lines.shape[2] == 1:
                np.cumsum(lines, axis=1, out=lines)
            else:
                _add_up(lines.transpose(1, 0, 2))

    step = max(1024, whole.shape[1] // 256)
    columns = [whole[:, k : k + step] for k in range(0, whole.shape[1], step)]
    for _ in in_order(within, range(len(counts))):
        pass
    for _ in in_order(_add_up, columns):
        pass
    return counts


def _add_up(lines: Values) -> None:
    """Add each line to the next."""
    for place in range(1, len(lines)):
        lines[place] += lines[place - 1]


def _pieces(vectors: Sequence[Weights], size: int) -> Pieces:
    """Group the categories of an axis that all vectors weigh alike; leave out those that none counts.

    Pieces are numbered by their first categories, so that runs of categories stay runs of pieces.
    """
    stacks = list({id(v): v for v in vectors}.values())
    counted = np.logical_or.reduce([np.zeros(size, np.bool_), *((v != 0).any(axis=0) for v in stacks)])
    columns = [np.ascontiguousarray(v.T).view(np.uint8).reshape(size, -1) for v in stacks if len(v)]
    alike = np.concatenate([counted[:, None], *columns], axis=1)
    rows = alike.view(f"V{alike.shape[1]}").reshape(size)
    _, first, of = np.unique(rows, return_index=True, return_inverse=True)
    number = np.full(len(first), NOWHERE, np.intp)
    kept = np.flatnonzero(counted[first])
    number[kept[np.argsort(first[kept])]] = np.arange(len(kept))
    return Pieces(number[of])


def _runs(vectors: Weights) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return how many runs of ones each vector has, where its first stands, and all runs as (start, stop)."""
    edges = np.diff(np.pad(vectors, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, start = np.nonzero(edges == 1)
    stop = np.nonzero(edges == -1)[1]
    counts = np.bincount(row, minlength=len(vectors))
    return counts, np.cumsum(counts) - counts, np.stack([start, stop], axis=1)
