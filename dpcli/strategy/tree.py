"""Levels of plain sums along an axis, with exact least squares in two passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcli.data.hierarchy import Hierarchy
from dpcli.strategy.axis import Axis, FloatArray, IntArray, along, integers, whole

Level = int | tuple[int, ...]
MOST_WEIGHT = 10**6


@dataclass(frozen=True)
class Tree(Axis):
    """The sums of every group of every level, from coarse to fine; the finest level is the cells.

    Each level cuts the whole axis into runs, and each run of a level is a union of runs of the next. Level l
    has weight w_l: its sums get noise of scale w_l·λ. Every cell is in one group of each level, so
    norm = Σ_l 1/w_l. A level may be left out, also the root.

    Inverse: least squares weighted by 1/w² in O(rows) (Hay et al., "Boosting the accuracy of differentially
    private histograms through consistency", §4, there for equal fan-outs and weights). Going up, z is the
    best estimate of a group's sum from what was measured in it and a its variance, from z = y, a = w² at the
    cells; with S = Σz_c and A = Σa_c over its children c

        z = (A·y + w²·S)/(w² + A),  a = w²·A/(w² + A).

    Going down from x = z on the coarsest level, what is missing is shared out by variance:
    x_c = z_c + (a_c/A)·(x − S).
    """

    kind: ClassVar[str] = "tree"

    levels: tuple[Level, ...]
    """Each level as the length of its groups (the last group may be shorter), or as their first cells."""

    level_weights: tuple[int, ...] = ()
    """w_l of each level; none given means 1."""

    def __post_init__(self) -> None:
        whole(self.size, "the size of an axis", least=1)
        if not isinstance(self.levels, (list, tuple)) or not isinstance(self.level_weights, (list, tuple)):
            raise ValueError("the levels and level weights of a tree axis must be lists")
        levels = tuple(_level(level, self.size) for level in self.levels)
        if not levels or levels[-1] != 1:
            raise ValueError("the last level of a tree axis must be 1, every category by itself")
        for number, (coarse, fine) in enumerate(pairwise(levels), start=1):
            if not _nested(coarse, fine, self.size):
                raise ValueError(f"level {number + 1} of a tree axis must cut the groups of level {number}")
        weights = tuple(self.level_weights) or (1,) * len(levels)
        if len(weights) != len(levels):
            raise ValueError(f"a tree axis of {len(levels)} levels can't have {len(weights)} level weights")
        for weight in weights:
            whole(weight, "a level weight of a tree axis", least=1, most=MOST_WEIGHT)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "level_weights", weights)

    @classmethod
    def kary(
        cls, size: int, branching: int, levels: Iterable[int] | None = None, *, root: bool = True
    ) -> Tree:
        """Return the tree with ``branching`` children per group over an ordered axis.

        Level 0 is the cells, level j the groups of branching^j cells (the last may be shorter). ``levels``
        says which of them to keep, by default all; the cells are always kept. ``root`` adds the total.
        """
        whole(size, "the size of an axis", least=1)
        whole(branching, "the branching of a tree axis", least=2)
        lengths = [1]
        while lengths[-1] * branching < size:
            lengths.append(lengths[-1] * branching)
        kept = {0, *(range(len(lengths)) if levels is None else levels)}
        for level in kept:
            whole(level, "a level of this tree", least=0, most=len(lengths) - 1)
        chosen = [lengths[level] for level in sorted(kept, reverse=True)]
        return cls(size, (size, *chosen) if root and size > 1 else tuple(chosen))

    @classmethod
    def from_hierarchy(cls, hierarchy: Hierarchy, extra: int = 0, *, root: bool = True) -> Tree:
        """Return the hierarchy's own tree, with ``extra`` more leaves at the end, right below the root.

        A leaf above the deepest level is measured by itself on the levels below it too: that makes it more
        exact and costs nothing, as the norm is that of the deepest leaf. Levels that cut nothing are skipped.
        """
        size = len(hierarchy.leaves) + whole(extra, "the number of extra categories", least=0)
        firsts = np.ones((hierarchy.height - 1, size), np.bool_)
        for node in hierarchy.nodes:
            firsts[len(node.path), node.start + 1 : node.stop] = False
        firsts[0] = np.arange(size) == 0
        levels: list[Level] = []
        seen = 0 if root else 1
        for level in firsts:
            starts = np.flatnonzero(level)
            if seen < len(starts) < size:
                levels.append(_compact(starts, size))
                seen = len(starts)
        return cls(size, (*levels, 1))

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(_groups(level, self.size) for level in self.levels)

    @property
    def rows(self) -> int:
        return sum(self._sizes)

    @property
    def weights(self) -> IntArray:
        return np.repeat(np.array(self.level_weights, np.int64), self._sizes)

    @property
    def norm(self) -> Fraction:
        return sum((Fraction(1, weight) for weight in self.level_weights), Fraction(0))

    def summary(self) -> str:
        sizes = [str(size) for size in self._sizes]
        return "tree " + "/".join(sizes if len(sizes) <= 4 else [sizes[0], sizes[1], "…", sizes[-1]])

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        return along(axis, self.size, integers(counts), self._sums)

    def inverse(self, values: NDArray[Any], axis: int) -> FloatArray:
        return along(axis, self.rows, values, self._fitted)

    def response(self, queries: NDArray[Any]) -> FloatArray:
        """W·(A⁺)ᵀq = W⁻¹·A·(AᵀW⁻²A)⁻¹q, and (AᵀW⁻²A)⁻¹q is the inverse of w²q on the cells and 0 above."""
        values = np.zeros((len(queries), self.rows, 1))
        values[:, -self.size :, 0] = self.level_weights[-1] ** 2 * queries
        answers: FloatArray = self._sums(self._fitted(values))[:, :, 0] / self.weights
        return answers

    def _sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of all levels along the middle axis."""
        result = np.empty((cells.shape[0], self.rows, cells.shape[2]), cells.dtype)
        result[:, -self.size :] = cells
        for step in self._steps:
            cells = np.add.reduceat(cells, step.offsets, axis=1)
            result[:, step.rows] = cells
        return result

    def _fitted(self, values: NDArray[Any]) -> FloatArray:
        """Return the least-squares cells along the middle axis."""
        z = values[:, -self.size :]
        climbed = []
        for step in self._steps:
            below = np.add.reduceat(z, step.offsets, axis=1)
            climbed.append((step, below, z))
            z = below + step.trust * (values[:, step.rows] - below)
        fitted = z.astype(np.float64)
        for step, below, z in reversed(climbed):
            fitted = np.repeat((fitted - below) * step.gain, step.fans, axis=1)
            if step.share is not None:
                fitted *= step.share
            fitted += z
        return fitted

    @cached_property
    def _steps(self) -> tuple[_Step, ...]:
        """The steps up the tree, from the cells to the coarsest level."""
        steps = []
        variances = np.array([float(self.level_weights[-1]) ** 2])  # one number where all are equal
        ends = list(accumulate(self._sizes))
        for place in reversed(range(len(self.levels) - 1)):
            size = self._sizes[place + 1]
            offsets = _offsets(self.levels[place], self.levels[place + 1], self.size)
            total = np.add.reduceat(np.broadcast_to(variances, (size,)), offsets)
            equal = len(variances) == 1
            own = float(self.level_weights[place]) ** 2
            trust = _one(total / (own + total))
            steps.append(
                _Step(
                    rows=slice(ends[place] - self._sizes[place], ends[place]),
                    offsets=offsets,
                    fans=np.diff(offsets, append=size),
                    trust=trust[:, None],
                    gain=_one((variances if equal else 1.0) / total)[:, None],
                    share=None if equal else variances[:, None],
                )
            )
            variances = own * trust
        return tuple(steps)


@dataclass(frozen=True)
class _Step:
    """From one level up to the next coarser one; columns have a row per group, or one row for all."""

    rows: slice
    """The coarse level's rows."""
    offsets: IntArray
    """The first child of each coarse group."""
    fans: IntArray
    """Its number of children."""
    trust: FloatArray
    """A/(w² + A): how much its own measurement counts beside the sum of its children."""
    gain: FloatArray
    """1/A, or a_c/A where all children have the same variance."""
    share: FloatArray | None
    """a_c of each child, where they differ."""


def _one(values: FloatArray) -> FloatArray:
    """Keep one number where all are equal."""
    return values[:1] if np.all(values == values[0]) else values


def _level(level: Any, size: int) -> Level:
    """Check one level of a file: a group length, or the first cells of its groups."""
    if not isinstance(level, (list, tuple)):
        return whole(level, "a level of a tree axis", least=1, most=size)
    starts = tuple(
        whole(start, "the start of a group of a tree axis", least=0, most=size - 1) for start in level
    )
    if starts[:1] != (0,) or any(after <= before for before, after in pairwise(starts)):
        raise ValueError("the groups of a level of a tree axis must start at 0 and then at increasing places")
    return starts


def _groups(level: Level, size: int) -> int:
    """Return the number of groups of a level."""
    return -(-size // level) if isinstance(level, int) else len(level)


def _nested(coarse: Level, fine: Level, size: int) -> bool:
    """Tell whether each start of a coarse group is one of a fine group, and there are more fine ones."""
    if _groups(coarse, size) >= _groups(fine, size):
        return False
    if isinstance(fine, tuple):
        return set(range(0, size, coarse) if isinstance(coarse, int) else coarse) <= set(fine)
    if isinstance(coarse, tuple):
        return all(start % fine == 0 for start in coarse)
    return coarse >= size or coarse % fine == 0


def _offsets(coarse: Level, fine: Level, size: int) -> IntArray:
    """Return which fine group each coarse group starts with."""
    starts = np.arange(0, size, coarse) if isinstance(coarse, int) else np.array(coarse)
    return starts // fine if isinstance(fine, int) else np.searchsorted(np.array(fine), starts)


def _compact(starts: IntArray, size: int) -> Level:
    """Return the groups' length where they are equal (the last may be shorter), or else their starts."""
    length = int(starts[1]) if len(starts) > 1 else size
    return length if np.array_equal(starts, np.arange(0, size, length)) else tuple(starts.tolist())
