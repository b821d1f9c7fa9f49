"""What it does to the noise that regions were drawn from the noisy cells themselves.

Noise decides which region a cell goes to, so given the regions it is no longer what was added:

* High noise is sorted to high noise: a region's noise Σ z_i has more than the variance n v1, a few times as
  much in small ones. Y's noise is its own, so the residuals r = Σ z_i − z_Y show it.
* Cells of a region were chosen to be alike, so inside of it the (filtered) noise has less than its variance.
  Where the filtered cells vary less than noise alone would, that is how much less.
* A slope is cut into steps, inside of which the noise makes up for it: z runs against x. The slope comes
  back if cells lean towards the levels of regions next to theirs, as far as those are close.

None of this is in the paper. The constants here were set by simulation on smooth, blocky, random and spiky
data.
"""

from __future__ import annotations

import numpy as np

from dpcli.estimate.ispe.reference import POOLED, Filter
from dpcli.estimate.ispe.regions import Regions, along
from dpcli.strategy.axis import FloatArray

_SMALL, _SORTED = 16, 1.9
_PRIOR = 0.5
_STEPS = 10
_BACKGROUND = 0.25


def inflation(
    sizes: FloatArray, residual: FloatArray, cells: float, regions: float, spread: float
) -> FloatArray:
    """Return for each region how many times n v1 the variance of its noise is.

    It is 1 + γ h(n), h(n) = 1.9/√(1 + n/16). γ is fitted to E r² = v2 + n v1 (1 + γ h), beginning from
    v1/(v1 + τ²) with a standard deviation of 1/2: where cells differ much by themselves, noise sorts little.
    """
    sorted_out = _SORTED / np.sqrt(1 + sizes / _SMALL)
    expected = cells / (cells + spread)
    slope = sizes * cells * sorted_out
    excess = residual**2 - regions - sizes * cells
    precision = 1 / (4 * (regions + sizes * cells + expected * slope) ** 2)
    start = 1 / _PRIOR**2
    gamma = (float((precision * slope * excess).sum()) + start * expected) / (
        float((precision * slope**2).sum()) + start
    )
    found: FloatArray = 1 + min(max(gamma, 0.0), 4.0) * sorted_out
    return found


def settled(regions: Regions, chosen: Filter, noisy: FloatArray, variance: float) -> FloatArray:
    """Return for each region which share (at most 1) of the filtered noise's variance is left inside of it.

    That is the sum of squares of the filtered cells around their mean, over what noise alone would make,
    v1 Σ_i ((F Fᵀ)_ii − Σ_j (F Fᵀ)_ij / n); each region's is pooled with that of the grid (20 cells).
    """
    observed = regions.sums(regions.centred(chosen.apply(regions, noisy)) ** 2)
    ones = np.ones(regions.shape)
    columns = chosen.apply_transposed(regions, ones)
    diagonal = chosen.own**2 + chosen.neighbours * chosen.share**2
    expected = variance * (regions.sums(diagonal) - regions.sums(columns**2) / regions.sizes)
    expected = np.maximum(expected, 0.0)
    if not expected.any():
        return np.ones(len(regions))
    grid = min(1.0, float(observed.sum() / expected.sum()))
    pooled = POOLED * float(expected.sum()) / regions.labels.size
    found: FloatArray = np.minimum(1.0, (observed + grid * pooled) / (expected + pooled))
    return found


def lean(regions: Regions, level: FloatArray, variance: float, spread: float) -> FloatArray:
    """Return how far each cell leans towards the regions around it; in each region that adds up to nothing.

    Every cell begins at its region's mean, and ten times takes the mean over itself and the cells next to it.
    Across a border these count by e^(−Δ²/v1), Δ being the difference of the means, and less next to regions
    of fewer than 16 cells, whose means are mostly noise. The lean is v1/(v1 + τ²) of that: where cells differ
    by themselves there are no slopes to bring back.
    """
    start = level[regions.labels]
    trust = (np.minimum(regions.sizes, _SMALL) / _SMALL)[regions.labels]
    ways = []
    count = np.ones(regions.shape)
    for axis in range(start.ndim):
        before, after = along(start.ndim, axis)
        way = np.exp(-((start[before] - start[after]) ** 2) / variance) * trust[before] * trust[after]
        count[before] += way
        count[after] += way
        ways.append((before, after, way))
    values = start
    for _ in range(_STEPS):
        total = values.copy()
        for before, after, way in ways:
            total[before] += way * values[after]
            total[after] += way * values[before]
        values = total / count
    return regions.centred(values) * (variance / (variance + spread))


def openness(regions: Regions, level: FloatArray, variance: float) -> FloatArray:
    """Return for each region the share (0 … 1) of its border that noise may have drawn.

    That is how much of it, measured by 2d n^(1−1/d), is to regions of 16 cells and more with means as close
    as noise, each unit of border counted by e^(−Δ²/2v1); a quarter of it is there by chance and taken off.
    """
    labels, sizes = regions.labels, regions.sizes
    border = np.zeros(len(regions))
    for axis in range(labels.ndim):
        before, after = along(labels.ndim, axis)
        apart = labels[before] != labels[after]
        one, other = labels[before][apart], labels[after][apart]
        close = np.exp(-((level[one] - level[other]) ** 2) / (2 * variance))
        close *= (sizes[one] >= _SMALL) & (sizes[other] >= _SMALL)
        border += np.bincount(one, close, len(regions)) + np.bincount(other, close, len(regions))
    share = np.minimum(1.0, border / (2 * labels.ndim * sizes ** (1 - 1 / labels.ndim)))
    found: FloatArray = np.maximum(0.0, share - _BACKGROUND) / (1 - _BACKGROUND)
    return found
