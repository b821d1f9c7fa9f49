"""The Haar wavelet along an ordered axis of any length (Privelet §4), in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axis import FloatArray, IntArray, Wavelet, along, integers, whole


@dataclass(frozen=True)
class Haar(Wavelet):
    """The total and, for every inner node of a binary tree, sum(left) − sum(right).

    Privelet §4.1 gives a node the coefficient c = (mean(left) − mean(right))/2, and the base the mean; §4.2
    adds noise of magnitude λ/W, W the number of leaves below (m for the base). W·c is a whole number,
    sum(left) − sum(right) or the total, and its noise has scale λ. So all weights are 1 here.

    The tree needs no padding, whatever the length m: while a level has more than one item, neighbours (e, o)
    are paired, d = e − o is kept, s = e + o passes up, and an odd last item passes up as it is. Order: the
    total, then the differences from the root's level down. These are m coefficients for m cells, so the
    inverse is exact: e = (s + d)/2, o = (s − d)/2.

    norm = 1 + ⌈log2 m⌉ (Lemma 2, for any m). Proof: a cell adds 1 to the total and ±1 to at most one
    difference of each of the ⌈log2 m⌉ levels; the first cell is paired on every level.

    Variance of a query q for unit noise: put u = q on the cells and u = (u_e + u_o)/2 above them; then
    qᵀVq = u(root)² + Σ((u_e − u_o)/2)². Lemma 3's bound is about twice that.
    """

    kind: ClassVar[str] = "haar"

    def __post_init__(self) -> None:
        whole(self.size, "the size of an axis", least=1)

    @property
    def rows(self) -> int:
        return self.size

    @property
    def weights(self) -> IntArray:
        return np.ones(self.size, np.int64)

    @property
    def norm(self) -> Fraction:
        return Fraction(1 + (self.size - 1).bit_length())

    def levels_of_rows(self) -> IntArray:
        lengths = [self.size]
        while lengths[-1] > 1:
            lengths.append((lengths[-1] + 1) // 2)
        return np.repeat(np.arange(len(lengths)), np.diff([0, *reversed(lengths)]))

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        return along(axis, self.size, integers(counts), _differences)

    def analysed(self, values: NDArray[Any], axis: int) -> FloatArray:
        return along(axis, self.size, values.astype(np.float64), _differences)

    def inverse(self, values: NDArray[Any], axis: int) -> FloatArray:
        return along(axis, self.size, values, _rebuilt)

    def response(self, queries: NDArray[Any]) -> FloatArray:
        """The adjoint of the inverse: the same tree, with every sum and difference halved."""
        return along(1, self.size, queries.astype(np.float64), lambda tree: _differences(tree, halved=True))


def _differences(items: NDArray[Any], *, halved: bool = False) -> NDArray[Any]:
    """Return the total and the differences of the carry tree along the middle axis."""
    before, length, after = items.shape
    result = np.empty_like(items, order="C")
    while length > 1:
        pairs = length // 2
        up = length - pairs
        even, odd = items[:, 0 : 2 * pairs : 2], items[:, 1 : 2 * pairs : 2]
        differences = result[:, up:length]
        np.subtract(even, odd, out=differences)
        sums = np.empty((before, up, after), items.dtype)
        np.add(even, odd, out=sums[:, :pairs])
        if halved:
            differences *= 0.5
            sums[:, :pairs] *= 0.5
        if up > pairs:
            sums[:, pairs] = items[:, length - 1]
        items, length = sums, up
    result[:, 0] = items[:, 0]
    return result


def _rebuilt(values: NDArray[Any]) -> FloatArray:
    """Invert :func:`_differences`: from the total down, each sum is split by its difference."""
    before, size, after = values.shape
    lengths = [size]
    while lengths[-1] > 1:
        lengths.append((lengths[-1] + 1) // 2)
    sums = values[:, :1].astype(np.float64)
    for length in reversed(lengths[:-1]):
        pairs = length // 2
        up = length - pairs
        items = np.empty((before, length, after))
        even, odd = items[:, 0 : 2 * pairs : 2], items[:, 1 : 2 * pairs : 2]
        np.add(sums[:, :pairs], values[:, up:length], out=even)
        even *= 0.5
        np.subtract(sums[:, :pairs], even, out=odd)
        if up > pairs:
            items[:, length - 1] = sums[:, pairs]
        sums = items
    return sums
