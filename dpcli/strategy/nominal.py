"""The nominal wavelet along an axis with a hierarchy (Privelet §5), in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcli.data.hierarchy import Hierarchy
from dpcli.strategy.axis import FloatArray, IntArray, Wavelet, along, integers, whole

Span = tuple[int, int]


@dataclass(frozen=True)
class NominalWavelet(Wavelet):
    """The total, and for every node below the root how far its leaf-sum is above its siblings' mean.

    Privelet §5.1: c = leafsum − parentsum/f, f the fan-out of the node's parent; §5.2 gives c noise of
    magnitude λ(2f − 2)/f. Kept here is the whole number z = f·c = f·leafsum − parentsum with noise of scale
    (2f − 2)·λ, that is with weight 2f − 2; the total has weight 1. Order: the total, then level by level,
    each in the order of the leaves. A node without siblings says nothing (z = 0) and is left out.

    Inverse: from each z the mean of its sibling group is subtracted; then, from the root down,
    leafsum = (z + parentsum)/f. That is least squares weighted by 1/w²: the counts are given by the total and
    any z that sum to 0 within each group, so every group is fitted by itself, and as its weights are equal,
    subtracting the mean gives the nearest z that sum to 0.

    norm = 1 + the most groups of siblings in which one leaf stands; for a uniform hierarchy the number h of
    its levels (Lemma 4). Proof: a leaf adds 1 to the total. Where it stands below one of f siblings, it moves
    that one's z/w by (f − 1)/(2f − 2) = 1/2 and each of the f − 1 others by 1/(2f − 2), together 1/2. It
    moves nothing else.
    """

    kind: ClassVar[str] = "nominal"

    groups: tuple[Span, ...] = ()
    """The inner nodes below the root in preorder, each with its leaves ``start <= leaf < stop``."""

    def __post_init__(self) -> None:
        whole(self.size, "the size of an axis", least=1)
        object.__setattr__(self, "groups", _spans(self.groups))
        _depths(self.size, self.groups)

    @classmethod
    def flat(cls, size: int) -> NominalWavelet:
        """Return the wavelet of a nominal attribute without hierarchy: the root and its leaves."""
        return cls(size)

    @classmethod
    def from_hierarchy(cls, hierarchy: Hierarchy, extra: int = 0) -> NominalWavelet:
        """Return the wavelet of a hierarchy, with ``extra`` more leaves at the end, right below the root."""
        size = len(hierarchy.leaves) + whole(extra, "the number of extra categories", least=0)
        spans = {(node.start, node.stop) for node in hierarchy.nodes[1:] if node.stop - node.start > 1}
        return cls(size, tuple(sorted(spans - {(0, size)}, key=lambda span: (span[0], -span[1]))))

    @property
    def rows(self) -> int:
        return 1 + len(self.groups) + self.size if self.size > 1 else 1

    @property
    def weights(self) -> IntArray:
        return np.concatenate(
            [np.ones(1, np.int64), *(2 * level.fan_out - 2 for level in self._layout.levels)]
        )

    @property
    def norm(self) -> Fraction:
        deepest = max(_depths(self.size, self.groups), default=0)
        return Fraction(2 + deepest if self.size > 1 else 1)

    def levels_of_rows(self) -> IntArray:
        lengths = [len(level.fan_out) for level in self._layout.levels]
        return np.repeat(np.arange(len(lengths) + 1), [1, *lengths])

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        return along(axis, self.size, integers(counts), self._climb)

    def analysed(self, values: NDArray[Any], axis: int) -> FloatArray:
        return along(axis, self.size, values.astype(np.float64), self._climb)

    def inverse(self, values: NDArray[Any], axis: int) -> FloatArray:
        return along(axis, self.rows, values, self._descend)

    def response(self, queries: NDArray[Any]) -> FloatArray:
        """The adjoint of the inverse: put u = q on the leaves and u_p = mean(u_c) above them.

        Each node answers with (u_c − u_p)·(2f − 2)/f, the total with u(root).
        """
        return along(1, self.size, queries.astype(np.float64), lambda tree: self._climb(tree, adjoint=True))

    def _climb(self, leaves: NDArray[Any], *, adjoint: bool = False) -> NDArray[Any]:
        """Return the root's sum and each node's f·value − (sum of its sibling group), from the leaves up."""
        tree = np.take(leaves, self._layout.leaf_of_row, axis=1)
        for level in reversed(self._layout.levels):
            nodes = tree[:, level.rows]
            sums = np.add.reduceat(nodes, level.offsets, axis=1)
            nodes *= level.fan_out[:, None]
            nodes -= np.repeat(sums, level.fans, axis=1)
            if adjoint:
                sums /= level.fans[:, None]
                nodes *= ((2 * level.fan_out - 2) / level.fan_out**2)[:, None]
            tree[:, level.parents] = sums
        return tree

    def _descend(self, values: NDArray[Any]) -> FloatArray:
        """Invert :meth:`_climb` from the root down, subtracting the mean of each sibling group."""
        tree = values.astype(np.float64)
        for level in self._layout.levels:
            nodes = tree[:, level.rows]
            means = np.add.reduceat(nodes, level.offsets, axis=1) / level.fans[:, None]
            nodes += np.repeat(tree[:, level.parents] - means, level.fans, axis=1)
            nodes /= level.fan_out[:, None]
        return np.take(tree, self._layout.row_of_leaf, axis=1)

    @cached_property
    def _layout(self) -> _Layout:
        return _Layout.of(self.size, self.groups)


@dataclass(frozen=True)
class _Level:
    """The nodes of one depth, in the order of their leaves: sibling groups side by side."""

    rows: slice
    parents: slice | IntArray
    """The row of each sibling group's parent."""
    offsets: IntArray
    """Where each sibling group starts, counted from the level's first row."""
    fans: IntArray
    """How many siblings each group has."""

    @cached_property
    def fan_out(self) -> IntArray:
        """The same for each node."""
        return np.repeat(self.fans, self.fans)


@dataclass(frozen=True)
class _Layout:
    """Which node stands in which row: the root first, then level by level."""

    row_of_leaf: IntArray
    leaf_of_row: IntArray
    """0 for rows of inner nodes."""
    levels: tuple[_Level, ...]

    @classmethod
    def of(cls, size: int, groups: tuple[Span, ...]) -> _Layout:
        if size == 1:
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), ())
        spans = np.array([(0, size), *groups])
        nesting = np.zeros(size + 1, np.int64)
        np.add.at(nesting, spans[:, 0], 1)
        np.add.at(nesting, spans[:, 1], -1)
        starts = np.concatenate([spans[:, 0], np.arange(size)])
        depths = np.concatenate([[0], np.array(_depths(size, groups), np.int64), np.cumsum(nesting)[:-1]])
        order = np.lexsort((starts, depths))
        starts, depths, leaves = starts[order], depths[order], order - len(spans)
        row_of_leaf = np.empty(size, np.int64)
        row_of_leaf[leaves[leaves >= 0]] = np.flatnonzero(leaves >= 0)
        cuts = np.flatnonzero(np.diff(depths, prepend=-1, append=-1))
        levels = []
        for above, start, stop in zip(cuts, cuts[1:], cuts[2:], strict=False):
            parents = above + np.flatnonzero(leaves[above:start] < 0)
            offsets = np.searchsorted(starts[start:stop], starts[parents])
            fans = np.diff(offsets, append=stop - start)
            levels.append(_Level(slice(start, stop), _run(parents), offsets, fans))
        return cls(row_of_leaf, np.maximum(leaves, 0), tuple(levels))


def _run(places: IntArray) -> slice | IntArray:
    """Return consecutive places as a slice, which numpy reads and writes faster."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


def _spans(groups: Any) -> tuple[Span, ...]:
    """Read pairs from a file's lists."""
    pairs = tuple(map(_tuple, _tuple(groups)))
    if any([type(end) for end in pair] != [int, int] for pair in pairs):
        raise ValueError("each group of a nominal axis must be a pair of whole numbers, [start, stop]")
    return pairs


def _tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"the groups of a nominal axis must be a list of [start, stop] pairs, not {value!r}")
    return tuple(value)


def _depths(size: int, groups: tuple[Span, ...]) -> list[int]:
    """Return the depth of each group (1 right below the root); refuse spans that are no tree in preorder."""
    depths: list[int] = []
    above: list[Span] = [(0, size)]
    for start, stop in groups:
        while len(above) > 1 and above[-1][1] <= start:
            above.pop()
        inside = above[-1][0] <= start and stop <= above[-1][1] and stop - start >= 2
        if not inside or (start, stop) == above[-1]:
            raise ValueError(
                f"the group {[start, stop]} of a nominal axis must hold two or more of its {size} categories,"
                " come after the group around it and lie within it without being all of it"
            )
        depths.append(len(above))
        above.append((start, stop))
    return depths
