"""Neighbourhood reference: what a cell's neighbours in its region say about it (ISPE, section 4.1).

The paper takes neighbours for further observations of the cell itself ("printed"). That halves the error
where neighbours are alike and triples it where they are not. "weighted" lets them earn their weight: with m
the mean of a cell's k neighbours (next to it along an axis, in the same region) and v1 the cell noise's
variance, the mean of (y − m)² − v1(1 + 1/k) estimates τ², the mean square by which a cell differs from its
neighbours; so m has the weight 1/(τ² + v1/k) beside the cell's own 1/v1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpcli.estimate.ispe.laws import discrete_sum
from dpcli.estimate.ispe.regions import Regions, along
from dpcli.strategy.axis import FloatArray

POOLED = 20
"""How many cells the τ² of the whole grid counts for beside a region's own."""
_POINTS, _CHUNK = 257, 1 << 12


class Filter(NamedTuple):
    """x̃_i = own_i y_i + share_i Σ y_j over the neighbours j of a cell i; a cell's weights add up to one."""

    own: FloatArray
    share: FloatArray
    neighbours: FloatArray
    """How many neighbours each cell has."""
    model: FloatArray
    """The variance (1 − own)² τ² of what the neighbours miss."""
    spread: float
    """τ² of the whole grid."""

    def apply(self, regions: Regions, values: FloatArray) -> FloatArray:
        """Return the filtered values."""
        return self.own * values + self.share * neighbour_sums(regions, values)

    def apply_transposed(self, regions: Regions, values: FloatArray) -> FloatArray:
        """Return how much each cell's noise counts in Σ values_i x̃_i."""
        return self.own * values + neighbour_sums(regions, self.share * values)


def neighbour_sums(regions: Regions, values: FloatArray) -> FloatArray:
    """Return for each cell the sum over its neighbours in its region."""
    total = np.zeros(regions.shape)
    for axis in range(values.ndim):
        before, after = along(values.ndim, axis)
        joined = regions.joined(axis)
        total[before] += joined * values[after]
        total[after] += joined * values[before]
    return total


def weighted(regions: Regions, noisy: FloatArray, variance: float) -> Filter:
    """Return the filter whose neighbours have the weight that they earn."""
    neighbours, tau2, spread = _spread(regions, noisy, variance)
    k = np.maximum(neighbours, 1)
    precision = np.where(neighbours > 0, 1 / (tau2 + variance / k), 0.0)
    own = 1 / (1 + variance * precision)
    return Filter(own, (1 - own) / k, neighbours, (1 - own) ** 2 * tau2, spread)


def even(regions: Regions, noisy: FloatArray, variance: float) -> Filter:
    """Return the filter that is close to the printed reference: a cell and its neighbours count the same."""
    neighbours, tau2, spread = _spread(regions, noisy, variance)
    own = 1 / (1 + neighbours)
    return Filter(own, own * (neighbours > 0), neighbours, (1 - own) ** 2 * tau2, spread)


def _spread(regions: Regions, noisy: FloatArray, variance: float) -> tuple[FloatArray, FloatArray, float]:
    """Return each cell's number of neighbours and τ², and τ² of the whole grid."""
    neighbours = neighbour_sums(regions, np.ones(regions.shape))
    some = neighbours > 0
    k = np.maximum(neighbours, 1)
    excess = (noisy - neighbour_sums(regions, noisy) / k) ** 2 - variance * (1 + 1 / k)
    excess = np.where(some, excess, 0.0)
    spread = max(0.0, float(excess.sum()) / max(1, int(some.sum())))
    cells = regions.sums(some.astype(np.float64))
    tau2 = np.maximum(0.0, (regions.sums(excess) + POOLED * spread) / (cells + POOLED))
    return neighbours, tau2[regions.labels], spread


def printed(
    regions: Regions, noisy: FloatArray, residual: FloatArray, scales: tuple[Fraction, Fraction]
) -> FloatArray:
    """Return the posterior means of cells as the paper has them, from all observations of Algorithm 3.

    These are the cell y_i, the region's count less the other cells (y_i − r with r the region's residual; its
    noise is n − 1 draws of scale b1 and one of b2) and the k neighbours. The posterior is summed up on 257
    points, which is right to about b1/100.
    """
    scale = float(scales[0])
    found = np.empty(noisy.size)
    values = noisy.reshape(-1)
    around, present = _neighbour_columns(regions, noisy)
    low = np.minimum(values, np.where(present, around, np.inf).min(axis=0)) - 12 * scale
    high = np.maximum(values, np.where(present, around, -np.inf).max(axis=0)) + 12 * scale
    order = np.argsort(regions.sizes[regions.flat], kind="stable")
    sizes, first = np.unique(regions.sizes[regions.flat][order], return_index=True)
    share = np.linspace(0, 1, _POINTS)
    for size, members in zip(sizes, np.split(order, first[1:]), strict=True):
        law = discrete_sum([(scales[0], int(size) - 1), (scales[1], 1)])
        floor = np.log(np.maximum(law.mass, 1e-300))
        for start in range(0, len(members), _CHUNK):
            cells = members[start : start + _CHUNK]
            theta = low[cells, None] + (high - low)[cells, None] * share
            other = values[cells] - residual[regions.flat[cells]]
            log = np.interp(other[:, None] - theta, law.points, floor)
            log -= np.abs(values[cells, None] - theta) / scale
            for place, there in zip(around, present, strict=True):
                log -= there[cells, None] * np.abs(place[cells, None] - theta) / scale
            weight = np.exp(log - log.max(axis=1, keepdims=True))
            found[cells] = (weight * theta).sum(axis=1) / weight.sum(axis=1)
    return found.reshape(noisy.shape)


def _neighbour_columns(regions: Regions, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return for each of the 2d directions the neighbours' values, and whether there is one."""
    around = np.zeros((2 * noisy.ndim, *noisy.shape))
    present = np.zeros(around.shape)
    for axis in range(noisy.ndim):
        before, after = along(noisy.ndim, axis)
        joined = regions.joined(axis)
        for column, here, there in ((2 * axis, before, after), (2 * axis + 1, after, before)):
            around[column][here], present[column][here] = noisy[there] * joined, joined
    flat = (2 * noisy.ndim, noisy.size)
    return around.reshape(flat), present.reshape(flat)
