"""The local part of the estimates' error covariance, and its sums over boxes as look-ups.

Before cells are shifted to their region's total their errors have the covariance K = v F Fᵀ + M, F being the
filter of the neighbourhood reference and M the diagonal of its model part. K_ij is not zero only for cells
of one region that are at most two steps apart. For an offset δ the cells i with i and i + δ in a box are a
box again, so Σ_{i,j in box} K_ij = Σ_δ Σ_{i in a smaller box} K_{i,i+δ}: a look-up for each offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from dpcli.estimate.ispe.reference import Filter
from dpcli.estimate.ispe.regions import Places, Regions, SummedArea
from dpcli.strategy.axis import FloatArray, IntArray

Offset = tuple[int, ...]


@dataclass(frozen=True)
class Local:
    """K by offsets: ``tables[δ]`` holds K_{i,i+δ} at i, summed up, for one of each pair ±δ."""

    tables: dict[Offset, SummedArea]
    rows: FloatArray
    """Σ_j K_ij for each cell."""

    def sums(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return Σ K_ij over the pairs of cells in each box."""
        total = np.zeros(len(starts))
        for offset, table in self.tables.items():
            shift = np.array(offset)
            part = table.sums(starts + np.maximum(0, -shift), stops - np.maximum(0, shift))
            total += part if not any(offset) else 2 * part
        return total


def plain(variances: FloatArray) -> Local:
    """Return K for independent cells."""
    return Local({(0,) * variances.ndim: SummedArea(variances)}, variances)


def filtered(regions: Regions, chosen: Filter, variance: FloatArray) -> Local:
    """Return K = v F Fᵀ + M, v being a region's own."""
    spread = variance[regions.labels]
    ndim = len(regions.shape)
    nowhere: Offset = (0,) * ndim
    taps: dict[Offset, FloatArray] = {nowhere: chosen.own}
    for axis in range(ndim):
        joined = regions.joined(axis)
        for step in (1, -1):
            offset = tuple(step * (k == axis) for k in range(ndim))
            here, _ = _shifted(offset)
            tap = np.zeros(regions.shape)
            tap[here] = chosen.share[here] * joined
            taps[offset] = tap
    entries: dict[Offset, FloatArray] = {}
    for (one, left), (other, right) in product(taps.items(), repeat=2):
        offset = tuple(a - b for a, b in zip(one, other, strict=True))
        if offset < nowhere:
            continue
        # Cell i takes i + one and cell j = i + offset takes j + other, which are the same.
        here, there = _shifted(offset)
        entry = entries.setdefault(offset, np.zeros(regions.shape))
        entry[here] += spread[here] * left[here] * right[there]
    entries[nowhere] += chosen.model
    rows = entries[nowhere].copy()
    for offset, entry in entries.items():
        if offset != nowhere:
            here, there = _shifted(offset)
            rows[here] += entry[here]
            rows[there] += entry[here]
    return Local({offset: SummedArea(entry) for offset, entry in entries.items()}, rows)


def _shifted(offset: Offset) -> tuple[Places, Places]:
    """Return the places of the cells i for which i + offset is in the grid, and those of i + offset."""
    here = tuple(slice(max(0, -step), -step if step > 0 else None) for step in offset)
    there = tuple(slice(max(0, step), step if step < 0 else None) for step in offset)
    return here, there
