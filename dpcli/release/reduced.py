"""Sums of a release's counts over groups of categories, in one pass over the row groups that matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.parallel import in_order
from dpcli.release.file import Release

Counts = NDArray[Any]
NOWHERE = -1


@dataclass(frozen=True)
class Pieces:
    """Groups of one axis's categories: ``of[c]`` is the piece that category c belongs to, or ``NOWHERE``."""

    of: NDArray[np.intp]

    def __len__(self) -> int:
        return int(self.of.max(initial=NOWHERE)) + 1

    @property
    def first(self) -> NDArray[np.intp]:
        """The first category of each piece."""
        pieces, places = np.unique(self.of, return_index=True)
        found: NDArray[np.intp] = places[pieces != NOWHERE]
        return found

    def sums(self, counts: Counts, axis: int) -> Counts:
        """Add up the counts of each piece along an axis."""
        order = np.argsort(self.of, kind="stable")[np.count_nonzero(self.of == NOWHERE) :]
        if len(order) and order[-1] - order[0] + 1 == len(order) and (np.diff(order) == 1).all():
            counts = counts[(slice(None),) * axis + (slice(order[0], order[-1] + 1),)]
        else:
            counts = np.take(counts, order, axis)
        if len(self) == len(order):
            return counts
        if len(self) == 1:
            return np.add.reduce(counts, axis=axis, keepdims=True)
        starts = np.searchsorted(self.of[order], np.arange(len(self)))
        sums: Counts = np.add.reduceat(counts, starts, axis)
        return sums


def reduced(release: Release, pieces: Sequence[Pieces]) -> Counts:
    """Return the sums of the counts over every combination of pieces; reads only what is needed for them."""
    shape, into = release.domain.shape, [len(each) for each in pieces]
    total: Counts = np.zeros(into, release.dtype)
    if not total.size:
        return total

    def read(run: tuple[int, int, int]) -> tuple[int, NDArray[np.intp], Counts] | None:
        """Sum up one row group: rows of all categories of the last axes, each with its place in the total."""
        group, start, cells = run
        split = next(k for k in range(len(shape) + 1) if _divides(prod(shape[k:]), start, cells))
        rest = prod(shape[split:])
        rows = np.arange(start // rest, (start + cells) // rest)
        places = _places(rows, shape[:split], pieces)
        kept = places != NOWHERE
        if not kept.any():
            return None
        counts = release.block(group).reshape(-1, *shape[split:])
        counts = counts if kept.all() else counts[kept]
        for axis in reversed(range(split, len(shape))):
            counts = pieces[axis].sums(counts, axis - split + 1)
        return split, places[kept], counts.reshape(len(counts), -1)

    for found in in_order(read, _runs(release)):
        if found is not None:
            split, places, counts = found
            _add(total.reshape(prod(into[:split]), -1), places, counts)
    return total


def _runs(release: Release) -> Iterator[tuple[int, int, int]]:
    """Yield each row group with its first cell and its number of cells."""
    start = 0
    for group, block in enumerate(release.metadata.blocks):
        yield group, start, block.rows
        start += block.rows


def _places(rows: NDArray[np.intp], shape: Sequence[int], pieces: Sequence[Pieces]) -> NDArray[np.intp]:
    """Return where each row, numbered in C order over some axes, goes among their pieces, or ``NOWHERE``."""
    places, stride = np.zeros(len(rows), np.intp), prod(shape)
    for size, each in zip(shape, pieces, strict=False):
        stride //= size
        place = each.of[rows // stride % size]
        places = np.where((places < 0) | (place < 0), NOWHERE, places * len(each) + place)
    return places


def _add(total: Counts, places: NDArray[np.intp], counts: Counts) -> None:
    """Add rows to the rows at their places, several of which may be the same."""
    if (np.diff(places) == 1).all():
        total[places[0] : places[-1] + 1] += counts
    elif (places == places[0]).all():
        total[places[0]] += counts.sum(axis=0)
    else:
        np.add.at(total, places, counts)


def _divides(cells: int, *numbers: int) -> bool:
    return all(number % cells == 0 for number in numbers)
