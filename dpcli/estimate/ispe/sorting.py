"""What it does to the noise that regions were drawn from the noisy cells themselves.

Noise decides which region a cell goes to: high noise is sorted to high noise, so over a region the cells'
noise no longer adds up to nothing. What one region has too much, those next to it have too little. Noise has
flowed through the borders, and it can be let flow back.

How much of a difference between neighbours is noise is seen from all pairs of neighbours of the grid, which
nobody selected: with p the law of their differences and n = 2 draws of noise in each, Tweedie's formula for
Laplace noise is

    E[noise | d] p(d) = −n σ² (g ∗ p)'(d)          (discrete: 2q/(1−q)² for σ², (s(d+1) − s(d−1))/2 for s'),

g being the law of one draw. ρ(d) = E[noise | d]/d is one where all cells are alike, v1/(v1 + τ²) where they
vary at random, and near nothing for a step far beyond noise. p is blurred by one more draw, so n = 3, to
make it smooth.

With weights ρ/(2d + 1) the noisy cells are averaged with their neighbours m times, across borders too. What
flows through the borders of regions by that is h, a field on the cells at borders that adds up to nothing.
If it is noise, the residuals r = Σ y − Y of regions have c Σ h as their mean. Y's noise is its own, so m and
c are chosen by least squares, c beginning from 1 ± 1. This is not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, expm1
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.ispe.reference import flow
from dpcli.estimate.ispe.regions import Regions
from dpcli.partition.neighbours import Groups, runs_of_axes
from dpcli.strategy.axis import FloatArray

_REACH = 60
"""Differences of more than so many scales are not noise."""
_TIMES = (1, 2, 4, 8, 16, 32)


class Sorted(NamedTuple):
    """What noise has flowed through borders: c h per cell, and how far c is known."""

    field: FloatArray
    """h."""
    sums: FloatArray
    """Σ h over each region."""
    coefficient: float
    variance: float


def allowed(shape: tuple[int, ...], groups: Groups | None) -> list[NDArray[np.bool_]]:
    """Return for each axis which steps to the next cell stay within a run, to multiply with its pairs."""
    found = []
    for axis, runs in enumerate(runs_of_axes(shape, groups)):
        same = runs[1:] == runs[:-1]
        found.append(same.reshape([-1 if k == axis else 1 for k in range(len(shape))]))
    return found


def noise_shares(noisy: FloatArray, scale: Fraction, steps: Sequence[NDArray[np.bool_]]) -> list[FloatArray]:
    """Return for each axis the share ρ of noise in each cell's difference from the next; 0 for no step."""
    reach = int(_REACH * max(1.0, float(scale))) + 2
    found = []
    counts = np.zeros(reach + 2)
    for axis, step in enumerate(steps):
        far = np.minimum(np.rint(np.abs(np.diff(noisy, axis=axis))), reach + 1).astype(np.int64)
        within = np.broadcast_to(step, far.shape)
        counts += np.bincount(far[within], minlength=reach + 2)
        found.append((far, within))
    table = _table(counts[:-1], float(scale))
    return [np.where(within, table[far], 0.0) for far, within in found]


def _table(counts: FloatArray, scale: float) -> FloatArray:
    """Return ρ(d) for d = 0, 1, …, from how many differences are ±d; beyond the last it is 0."""
    reach = len(counts) - 1
    size = 1 << (4 * reach).bit_length()
    law = np.zeros(size)
    law[1 : reach + 1] = counts[1:] / 2
    law[-reach:] += counts[:0:-1] / 2
    law[0] = counts[0]
    q, gap = exp(-1 / scale), expm1(-1 / scale) ** 2
    t = 2 * np.pi * np.arange(size // 2 + 1) / size
    draw = gap / (gap + 4 * q * np.sin(t / 2) ** 2)
    blurred = np.fft.rfft(law) * draw
    density = np.fft.irfft(blurred, size)[: reach + 1]
    slope = np.fft.irfft(blurred * draw * 1j * np.sin(t), size)[: reach + 1]
    known = density > 1e-9 * max(1e-300, float(density.max()))
    share = np.ones(reach + 2)
    place = np.arange(1, reach + 1)
    share[1:-1] = np.where(
        known[1:], -3 * 2 * q / gap * slope[1:] / (place * np.where(known, density, 1.0)[1:]), 0
    )
    share[0], share[-1] = share[1], 0.0
    return np.clip(share, 0.0, 1.0)


def flowed_back(
    regions: Regions,
    noisy: FloatArray,
    shares: Sequence[FloatArray],
    residual: FloatArray,
    variance: FloatArray,
) -> Sorted:
    """Return what flowed through the borders; ``variance`` is that of each residual, n v1 + v2."""
    weights = [share / (2 * noisy.ndim + 1) for share in shares]
    through = [weight * ~regions.joined(axis) for axis, weight in enumerate(weights)]
    best, found = np.inf, None
    values, passed = noisy, np.zeros(noisy.shape)
    for times in range(1, _TIMES[-1] + 1):
        passed += values
        if times in _TIMES:
            field = flow(through, passed)
            sums = regions.sums(field)
            spread = 1 / (float((sums**2 / variance).sum()) + 1)
            c = spread * (float((sums * residual / variance).sum()) + 1)
            loss = float(((residual - c * sums) ** 2 / variance).sum()) + (c - 1) ** 2
            if loss < best:
                best, found = loss, Sorted(field, sums, c, spread)
        if times < _TIMES[-1]:
            values = values - flow(weights, values)
    assert found is not None
    return found
