"""How noise enters linear answers: exact variances, cumulants, and the draws that carry most of an answer.

A coefficient i of a strategy has noise of variance v(λ w_i), and an answer q·x̂ takes it a_i = ((A⁺)ᵀq)_i
times. For a product-form query a and w are products over the axes, so sums over the coefficients of equal
weight are products of sums over each axis. ``v`` is not exactly w² v(λ), so axes are summed by weight class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.law import cumulant
from dpcli.parallel import in_order
from dpcli.query.batch import Batch
from dpcli.query.product import Weights
from dpcli.strategy.axis import Axis, FloatArray, IntArray
from dpcli.strategy.kronecker import Strategy

MOST_COEFFICIENTS = 20_000
CHUNK = 1 << 21
"""How many responses of an axis are held at once."""


@dataclass(frozen=True)
class AxisShares:
    """a_i of one axis's coefficients for some vectors of weights, sorted into classes of equal w_i."""

    axis: Axis
    vectors: Weights

    def shares(self, places: NDArray[np.intp]) -> FloatArray:
        """Return for each of some vectors what the coefficients' noise is multiplied by."""
        if len(self.vectors) * self.axis.rows <= CHUNK:
            return self._all[places]
        return self._shares(self.vectors[places])

    @cached_property
    def _all(self) -> FloatArray:
        return self._shares(self.vectors)

    @cached_property
    def classes(self) -> list[tuple[int, NDArray[np.bool_]]]:
        """Each weight w with the coefficients that have it."""
        return [(int(w), self.axis.weights == w) for w in np.unique(self.axis.weights)]

    def inner(self, left: NDArray[np.intp], right: NDArray[np.intp]) -> list[FloatArray]:
        """For each class, the sums Σ_i a_i b_i for pairs of vectors."""
        if left is right:
            return [powers[left] for powers in self.powers(2)]
        pairs, places = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
        step = max(1, CHUNK // self.axis.rows)
        parts = []
        for start in range(0, pairs.shape[1], step):
            one, other = (self.shares(side[start : start + step]) for side in pairs)
            parts.append([np.einsum("ni,ni->n", one[:, m], other[:, m]) for _, m in self.classes])
        return [np.concatenate(sums)[places.reshape(-1)] for sums in zip(*parts, strict=True)]

    def powers(self, order: int) -> list[FloatArray]:
        """For each class, the sums Σ_i a_i^order of every vector."""
        return [sums[order] for sums in self._powers]

    @cached_property
    def _powers(self) -> list[dict[int, FloatArray]]:
        """Σ_i a_i^2, a_i^4 and a_i^6, worked out in runs of vectors on all cores."""
        step = max(1, CHUNK // self.axis.rows)

        def sums(start: int) -> list[list[FloatArray]]:
            shares = self._shares(self.vectors[start : start + step])
            squares = [shares[:, members] ** 2 for _, members in self.classes]
            return [
                [np.einsum("ni->n", s), np.einsum("ni,ni->n", s, s), np.einsum("ni,ni,ni->n", s, s, s)]
                for s in squares
            ]

        parts = list(in_order(sums, range(0, len(self.vectors), step)))
        return [
            {2 * m + 2: np.concatenate([part[c][m] for part in parts] or [np.zeros(0)]) for m in range(3)}
            for c in range(len(self.classes))
        ]

    def _shares(self, vectors: Weights) -> FloatArray:
        return self.axis.response(vectors.astype(np.float64)) / self.axis.weights


@dataclass(frozen=True)
class Carriers:
    """The coefficients that carry most of an answer's noise: shares a_i, weights w_i.

    What the others add to its variance is ``rest``.
    """

    shares: FloatArray
    weights: IntArray
    rest: float


class BatchNoise:
    """How noise enters the answers of a batch."""

    def __init__(self, batch: Batch, strategy: Strategy, scale: Fraction) -> None:
        self.batch, self.strategy, self.scale = batch, strategy, scale
        self.axes = [AxisShares(axis, v) for axis, v in zip(strategy.axes, batch.vectors, strict=True)]

    def variances(self) -> FloatArray:
        """Return Σ_classes v(λ Π w) Σ_s Σ_t Π_k Σ_{i in class} a_ski a_tki for every query."""
        if self.batch.terms**2 > 4 * len(self.batch):
            return np.maximum([self._variance(place) for place in range(len(self.batch))], 0.0)
        total = np.zeros(len(self.batch))
        which = [[self.batch.which[:, s, k] for k in range(len(self.axes))] for s in range(self.batch.terms)]
        for s in range(self.batch.terms):
            for t in range(s + 1):
                inner = [axis.inner(which[s][k], which[t][k]) for k, axis in enumerate(self.axes)]
                total += (2 - (s == t)) * self._summed(inner, 2)
        return np.maximum(total, 0.0)  # rounding may leave less than nothing

    def _variance(self, place: int) -> float:
        """Return the variance of one answer of many terms: all pairs of terms at once."""
        inner = []
        for k, axis in enumerate(self.axes):
            vectors, terms = np.unique(self.batch.which[place, :, k], return_inverse=True)
            shares = axis.shares(vectors)
            grams = [shares[:, members] @ shares[:, members].T for _, members in axis.classes]
            inner.append([gram[np.ix_(terms.reshape(-1), terms.reshape(-1))] for gram in grams])
        return float(np.sum(self._summed(inner, 2)))

    def cumulants(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the second, fourth and sixth cumulants of the noise in queries of one term."""
        assert self.batch.terms == 1
        second, fourth, sixth = (
            self._summed([self._looked_up(axis, k, order) for k, axis in enumerate(self.axes)], order)
            for order in (2, 4, 6)
        )
        return second, fourth, sixth

    def _looked_up(self, axis: AxisShares, k: int, order: int) -> list[FloatArray]:
        return [powers[self.batch.which[:, 0, k]] for powers in axis.powers(order)]

    def _summed(self, per_axis: Sequence[Sequence[FloatArray]], order: int) -> FloatArray:
        """Return Σ over combinations of classes of the products of sums, times one draw's cumulant."""
        weights = [[w for w, _ in axis.classes] for axis in self.axes]
        total: FloatArray = np.zeros(())
        for choice in product(*(range(len(each)) for each in weights)):
            scale = self.scale * prod(each[c] for each, c in zip(weights, choice, strict=True))
            sums = prod((sums[c] for sums, c in zip(per_axis, choice, strict=True)), start=np.ones(()))
            total = total + sums * cumulant(scale, order)
        return total

    def carriers(self, place: int, variance: float) -> Carriers:
        """Return what carries most of one answer, whose variance is known."""
        which, axes = self.batch.which[place], self.strategy.axes
        shares = [axis.shares(which[:, k]) for k, axis in enumerate(self.axes)]
        kept = _heaviest(shares, axes)
        heavy: FloatArray = np.zeros(prod(map(len, kept)))
        for term in range(len(which)):
            factors = [share[term, rows] for share, rows in zip(shares, kept, strict=True)]
            heavy += reduce(np.multiply.outer, factors).ravel()
        factors = [axis.weights[rows] for axis, rows in zip(axes, kept, strict=True)]
        weights = reduce(np.multiply.outer, factors).ravel()
        present = np.flatnonzero(heavy)
        heavy, weights = heavy[present], weights[present]
        carried = sum(
            float((heavy[weights == w] ** 2).sum()) * cumulant(self.scale * int(w), 2)
            for w in np.unique(weights)
        )
        rest = variance - carried
        return Carriers(heavy, weights, rest if rest > 1e-9 * variance else 0.0)

    def alike(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return some queries that stand for all, and for every query which of them it is alike.

        Two queries are alike if, axis by axis, the same shares meet the same weights, in whatever order.
        """
        kinds = np.empty((len(self.batch), len(self.axes)), np.intp)
        for k, axis in enumerate(self.axes):
            tuples, places = np.unique(self.batch.which[:, :, k], axis=0, return_inverse=True)
            if len(tuples) * axis.axis.rows > CHUNK:
                kinds[:, k] = places.reshape(-1)
                continue
            known: dict[bytes, int] = {}
            numbers = [known.setdefault(key, len(known)) for key in _sorted_columns(axis, tuples)]
            kinds[:, k] = np.array(numbers, np.intp)[places.reshape(-1)]
        _, first, inverse = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)


def _sorted_columns(axis: AxisShares, tuples: NDArray[np.intp]) -> Iterator[bytes]:
    """Yield, for each tuple of vectors, its shares and weights as bytes that do not tell their order."""
    for vectors in tuples:
        shares = axis.shares(vectors).round(12) + 0.0
        rows = np.vstack([axis.axis.weights, np.abs(shares) if len(vectors) == 1 else shares])
        yield rows[:, np.lexsort(rows)].tobytes()


def _heaviest(shares: Sequence[FloatArray], axes: Sequence[Axis]) -> list[IntArray]:
    """Return the rows of each axis that carry most, so that together they are not too many."""
    sizes = [np.abs(share).max(axis=0) * axis.weights for share, axis in zip(shares, axes, strict=True)]
    orders = [np.argsort(-size, kind="stable")[: np.count_nonzero(size)] for size in sizes]
    lengths = [max(1, len(order)) for order in orders]
    while prod(lengths) > MOST_COEFFICIENTS:
        # Shorten the axis whose last kept row is the lightest beside its first.
        place = min(
            (k for k in range(len(lengths)) if lengths[k] > 1),
            key=lambda k: sizes[k][orders[k][lengths[k] - 1]] / sizes[k][orders[k][0]],
        )
        lengths[place] = max(1, lengths[place] * 3 // 4)
    return [order[:length] for order, length in zip(orders, lengths, strict=True)]
