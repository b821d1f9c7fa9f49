"""Neighbourhood reference: what a cell's neighbours in its region say about it (ISPE, section 4.1).

The paper takes neighbours for further observations of the cell itself ("printed"). That halves the error
where neighbours are alike and triples it where they are not. "weighted" lets them earn their weight. With
k = 2d and v1 the cell noise's variance, the mean m of a cell's k neighbours, that miss it by τ² in the mean
square, is best given the weight k w, w = v1/(k τ² + (k + 1) v1). By the same reasoning a difference of two
neighbours is noise with the share ρ = (k + 1) w (see ``sorting``, where ρ is found), so w = ρ/(k + 1).

The filter is F = I − Σ_e w_e (e_i − e_j)(e_i − e_j)ᵀ over the pairs e = (i, j) of neighbours. It is
symmetric, and rows and columns add up to one: sums over regions stay, and those over ranges change only by
what flows through their borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpcli.estimate.ispe.laws import discrete_sum
from dpcli.estimate.ispe.regions import Regions, along
from dpcli.strategy.axis import FloatArray

_POINTS, _CHUNK = 257, 1 << 12


class Filter:
    """x̃_i = y_i − Σ w_ij (y_i − y_j); ``weights[axis]`` holds w of each cell and the next along an axis."""

    def __init__(self, weights: Sequence[FloatArray], model: Sequence[FloatArray]) -> None:
        self.weights = weights
        self.model = model
        """For each pair the part k w² τ² = v1 ρ(1 − ρ)/(k + 1) that neighbours miss."""

    def apply(self, values: FloatArray) -> FloatArray:
        """Return the filtered values; F is symmetric, so these are also how much each cell counts in them."""
        return values - flow(self.weights, values)


def flow(weights: Sequence[FloatArray], values: FloatArray) -> FloatArray:
    """Return Σ_j w_ij (v_i − v_j) for each cell i: what flows out of it."""
    total = np.zeros(values.shape)
    for axis, weight in enumerate(weights):
        before, after = along(values.ndim, axis)
        part = weight * (values[before] - values[after])
        total[before] += part
        total[after] -= part
    return total


def degrees(weights: Sequence[FloatArray], power: int) -> FloatArray:
    """Return Σ_j w_ij^power for each cell i."""
    total = np.zeros([m + (k == 0) for k, m in enumerate(weights[0].shape)])
    for axis, weight in enumerate(weights):
        before, after = along(total.ndim, axis)
        total[before] += weight**power
        total[after] += weight**power
    return total


def energy(weights: Sequence[FloatArray], values: FloatArray) -> float:
    """Return Σ w_ij (v_i − v_j)² over all pairs."""
    total = 0.0
    for axis, weight in enumerate(weights):
        before, after = along(values.ndim, axis)
        total += float((weight * (values[before] - values[after]) ** 2).sum())
    return total


def weighted(regions: Regions, shares: Sequence[FloatArray], variance: float) -> Filter:
    """Return the filter whose neighbours have the weight that they earn, from the shares ρ of noise."""
    k = 2 * len(regions.shape)
    inner = [share * regions.joined(axis) for axis, share in enumerate(shares)]
    return Filter(
        [share / (k + 1) for share in inner], [variance * share * (1 - share) / (k + 1) for share in inner]
    )


def even(regions: Regions) -> Filter:
    """Return the filter that is close to the printed reference: a cell and its neighbours count the same."""
    k = 2 * len(regions.shape)
    joined = [regions.joined(axis).astype(np.float64) for axis in range(len(regions.shape))]
    return Filter([each / (k + 1) for each in joined], [np.zeros(each.shape) for each in joined])


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
