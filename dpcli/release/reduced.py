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


@dataclass(frozen=True)
class _Run:
    """A row group: the first ``split`` axes change from row to row, and each row has all of the others."""

    group: int
    split: int
    targets: NDArray[np.intp]
    """Where each row goes among the pieces of the first axes, or ``NOWHERE``."""


def reduced(release: Release, pieces: Sequence[Pieces]) -> Counts:
    """Return the sums of the counts over every combination of pieces; reads only what is needed for them."""
    shape, into = release.domain.shape, [len(each) for each in pieces]
    total: Counts = np.zeros(into, release.dtype)

    def read(run: _Run) -> tuple[_Run, Counts]:
        counts = release.block(run.group).reshape(-1, *shape[run.split :])[run.targets != NOWHERE]
        for axis in reversed(range(run.split, len(shape))):
            counts = pieces[axis].sums(counts, axis - run.split + 1)
        return run, counts.reshape(len(counts), -1)

    for run, counts in in_order(read, _runs(release, pieces)):
        rows = total.reshape(prod(into[: run.split]), -1)
        targets = run.targets[run.targets != NOWHERE]
        if targets[-1] - targets[0] + 1 == len(targets) and (np.diff(targets) == 1).all():
            rows[targets[0] : targets[-1] + 1] += counts
        elif (targets == targets[0]).all():
            rows[targets[0]] += counts.sum(axis=0)
        else:
            np.add.at(rows, targets, counts)
    return total


def _runs(release: Release, pieces: Sequence[Pieces]) -> Iterator[_Run]:
    """Yield the row groups that hold a cell of some piece."""
    if 0 in map(len, pieces):
        return
    shape, start = release.domain.shape, 0
    for group, block in enumerate(release.metadata.blocks):
        split = next(k for k in range(len(shape) + 1) if _divides(prod(shape[k:]), start, block.rows))
        rest = prod(shape[split:])
        rows = np.arange(start // rest, (start + block.rows) // rest)
        targets = np.zeros(len(rows), np.intp)
        stride = prod(shape[:split])
        for axis in range(split):
            stride //= shape[axis]
            place = pieces[axis].of[rows // stride % shape[axis]]
            targets = np.where((targets < 0) | (place < 0), NOWHERE, targets * len(pieces[axis]) + place)
        if (targets != NOWHERE).any():
            yield _Run(group, split, targets)
        start += block.rows


def _divides(cells: int, *numbers: int) -> bool:
    return all(number % cells == 0 for number in numbers)
