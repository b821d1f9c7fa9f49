"""The exact variance of any linear answer, and the weights with which single draws of noise enter it.

A coefficient i of a strategy has noise of variance v(λ w_i), and an answer q·x̂ takes it a_i = ((A⁺)ᵀq)_i
times. For a product-form query a and w are products over the axes, so sums over the coefficients of equal
weight are products of sums over each axis. ``v`` is not exactly w² v(λ), so axes are summed by weight class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.law import unit_variance
from dpcli.query.product import Query
from dpcli.strategy.axis import Axis, FloatArray, IntArray
from dpcli.strategy.kronecker import Strategy

MOST_PER_AXIS_TABLE = 2048
MOST_COEFFICIENTS = 20_000


@dataclass(frozen=True)
class NoiseInAnswer:
    """How noise enters one answer: its variance, and the coefficients that carry most of it.

    ``shares`` are a_i and ``weights`` w_i of the heaviest coefficients; what the others add to the variance
    is ``rest``.
    """

    variance: float
    shares: FloatArray
    weights: IntArray
    rest: float


def noise_in_answer(query: Query, strategy: Strategy, scale: Fraction) -> NoiseInAnswer:
    """Work out how noise enters the answer to a query."""
    if not query.terms:
        return NoiseInAnswer(0.0, np.zeros(0), np.zeros(0, np.int64), 0.0)
    masks = [query.factors(term, strategy.shape) for term in query.terms]
    shares = [
        axis.response(np.stack([term[place] for term in masks]).astype(np.float64)) / axis.weights
        for place, axis in enumerate(strategy.axes)
    ]
    variance = _variance(shares, strategy.axes, scale)
    kept = _heaviest(shares, strategy.axes)
    heavy = sum(
        reduce(
            np.multiply.outer, [share[term, rows] for share, rows in zip(shares, kept, strict=True)]
        ).ravel()
        for term in range(len(masks))
    )
    weights = reduce(
        np.multiply.outer, [axis.weights[rows] for axis, rows in zip(strategy.axes, kept, strict=True)]
    ).ravel()
    present = np.flatnonzero(heavy)
    heavy, weights = np.asarray(heavy)[present], weights[present]
    carried = sum(
        float((heavy[weights == weight] ** 2).sum()) * unit_variance(scale * int(weight))
        for weight in np.unique(weights)
    )
    rest = max(variance - carried, 0.0)
    return NoiseInAnswer(variance, heavy, weights, rest if rest > 1e-9 * variance else 0.0)


def _variance(shares: Sequence[FloatArray], axes: Sequence[Axis], scale: Fraction) -> float:
    """Return Σ_classes v(λ Π w) Σ_s Σ_t Π_k Σ_{i in class} a_ski a_tki."""
    by_class = []
    for share, axis in zip(shares, axes, strict=True):
        classes = [(int(w), share[:, axis.weights == w]) for w in np.unique(axis.weights)]
        by_class.append([(w, part @ part.T) for w, part in classes])
    total = 0.0
    for combination in product(*by_class):
        inner = prod((gram for _, gram in combination), start=np.ones(()))
        total += float(np.sum(inner)) * unit_variance(scale * prod(w for w, _ in combination))
    return total


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


def box_variances(
    strategy: Strategy, scale: Fraction, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> FloatArray:
    """Return the variances of many boxes ``starts[n, k] <= c_k < stops[n, k]`` by look-ups.

    For an axis and a weight class let P_ij = Σ a(prefix i) a(prefix j); a range [i, j) has the form
    P_jj − 2 P_ij + P_ii.
    """
    by_class = []
    for place, axis in enumerate(strategy.axes):
        forms = []
        for weight, table in _prefix_tables(axis):
            i, j = starts[:, place], stops[:, place]
            diagonal = np.diagonal(table)
            forms.append((weight, diagonal[j] - 2 * table[i, j] + diagonal[i]))
        by_class.append(forms)
    total = np.zeros(len(starts))
    for combination in product(*by_class):
        total += prod((form for _, form in combination), start=np.ones(())) * unit_variance(
            scale * prod(w for w, _ in combination)
        )
    return total


@lru_cache(maxsize=32)
def _prefix_tables(axis: Axis) -> list[tuple[int, FloatArray]]:
    """Return P for each weight class of an axis."""
    prefixes = np.tri(axis.size + 1, axis.size, -1)
    shares = axis.response(prefixes) / axis.weights
    classes = [(int(w), shares[:, axis.weights == w]) for w in np.unique(axis.weights)]
    return [(w, part @ part.T) for w, part in classes]
