"""The local part of the estimates' error covariance, and its sums over boxes as look-ups.

Before cells are shifted to their region's total their errors have the covariance K = v1 F F + M, F being the
filter of the neighbourhood reference and M = Σ_e m_e (e_i − e_j)(e_i − e_j)ᵀ what neighbours miss. K's rows
add up to v1. K_ij is not zero only for cells of one region that are at most two steps apart. For an offset δ
the cells i with i and i + δ in a box are a box again, so Σ_{i,j in box} K_ij = Σ_δ Σ_{i in a smaller box}
K_{i,i+δ}: a look-up for each offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dpcli.estimate.ispe.reference import Filter
from dpcli.estimate.ispe.regions import Places, SummedArea, along
from dpcli.strategy.axis import FloatArray, IntArray

Offset = tuple[int, ...]


@dataclass(frozen=True)
class Local:
    """K by offsets: ``tables[δ]`` holds K_{i,i+δ} at i, summed up, for one of each pair ±δ."""

    tables: dict[Offset, SummedArea]

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
    return Local({(0,) * variances.ndim: SummedArea(variances)})


def filtered(chosen: Filter, variance: float, shape: tuple[int, ...]) -> Local:
    """Return K = v1 F F + M."""
    ndim = len(shape)
    nowhere: Offset = (0,) * ndim
    taps = _entries([-weight for weight in chosen.weights], shape)
    taps[nowhere] += 1
    for offset in list(taps):
        if offset != nowhere:  # F is symmetric: the step back has the same weight
            back = taps.setdefault(tuple(-step for step in offset), np.zeros(shape))
            here, there = _shifted(offset)
            back[there] = taps[offset][here]
    entries: dict[Offset, FloatArray] = {}
    for (one, left), (other, right) in product(taps.items(), repeat=2):
        offset = tuple(a - b for a, b in zip(one, other, strict=True))
        if offset < nowhere:
            continue
        # Cell i takes i + one and cell j = i + offset takes j + other, which are the same.
        here, there = _shifted(offset)
        entry = entries.setdefault(offset, np.zeros(shape))
        entry[here] += variance * left[here] * right[there]
    for offset, part in _entries(chosen.model, shape).items():
        entries[offset] += part
    return Local({offset: SummedArea(entry) for offset, entry in entries.items()})


def _entries(weights: Sequence[FloatArray], shape: tuple[int, ...]) -> dict[Offset, FloatArray]:
    """Return a Laplacian's entries: the diagonal, and the one step ahead along each axis."""
    ndim = len(shape)
    found: dict[Offset, FloatArray] = {(0,) * ndim: np.zeros(shape)}
    for axis, weight in enumerate(weights):
        before, after = along(ndim, axis)
        found[(0,) * ndim][before] += weight
        found[(0,) * ndim][after] += weight
        ahead = np.zeros(shape)
        ahead[before] = -weight
        found[tuple(int(k == axis) for k in range(ndim))] = ahead
    return found


def _shifted(offset: Offset) -> tuple[Places, Places]:
    """Return the places of the cells i for which i + offset is in the grid, and those of i + offset."""
    here = tuple(slice(max(0, -step), -step if step > 0 else None) for step in offset)
    there = tuple(slice(max(0, step), step if step < 0 else None) for step in offset)
    return here, there
