"""Averages: ratios of a noisy sum to a noisy count, with Fieller's interval.

For an average r = N/D of the true sum N and count D, N̂ − rD̂ has mean zero and a noise law that is known
for every r. The interval is {r : |N̂ − rD̂| <= h(r)}, h(r) being the half-width of that law, so it covers as
that law does, also where D̂ is uncertain (E. C. Fieller, "Some problems in interval estimation", 1954).
With h(r) = k·sd(r) it is the solution of a quadratic inequality; k is taken at each of its two ends. No
average of real rows lies outside the range of the values, so the interval is cut off there.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.answer import Answers
from dpcli.estimate.errors import Errors
from dpcli.query.batch import Batch
from dpcli.strategy.axis import FloatArray

CHUNK = 1 << 21
"""How many weights are held at once; every average has its own."""


class Noise(Protocol):
    """What tells the errors of linear answers."""

    def errors(self, batch: Batch, level: float) -> Errors:
        """Return standard errors and intervals."""

    def standard_errors(self, batch: Batch) -> FloatArray:
        """Return standard errors alone."""


def averages(
    batch: Batch,
    axis: int,
    numbers: FloatArray,
    total: FloatArray,
    count: FloatArray,
    noise: Noise,
    level: float,
) -> Answers:
    """Return total/count for every query, ``numbers`` being what the axis's categories stand for."""
    step = max(1, CHUNK // (len(numbers) * max(1, batch.terms)))
    parts = [
        _averages(batch.part(part), axis, numbers, total[part], count[part], noise, level)
        for part in (slice(k, k + step) for k in range(0, len(batch), step))
    ]
    return Answers.joined(parts) if parts else Answers.bare(np.zeros(0))


def bounds(batch: Batch, axis: int, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the greatest number among the categories that each query counts."""
    asked = (batch.vectors[axis] != 0) & ~np.isnan(numbers)
    least = np.where(asked, numbers, np.inf).min(axis=1)
    greatest = np.where(asked, numbers, -np.inf).max(axis=1)
    which = batch.which[:, :, axis]
    return least[which].min(axis=1, initial=np.inf), greatest[which].max(axis=1, initial=-np.inf)


def _averages(
    batch: Batch,
    axis: int,
    numbers: FloatArray,
    total: FloatArray,
    count: FloatArray,
    noise: Noise,
    level: float,
) -> Answers:
    least, greatest = bounds(batch, axis, numbers)
    asked = least <= greatest
    least, greatest = np.where(asked, least, 0.0), np.where(asked, greatest, 0.0)
    known = asked & (count > 0)
    middle = (least + greatest) / 2
    ratio = np.where(known, total / np.where(known, count, 1.0), middle)
    counted = ~np.isnan(numbers)

    def tilted(r: FloatArray) -> Batch:
        """Return the queries N − rD."""
        return batch.weighted_each(axis, np.where(counted, numbers - r[:, None], 0.0))

    # With values counted from the ratio, N̂ − r̂D̂ = 0 and the quadratic has only small numbers in it.
    around = noise.errors(tilted(ratio), level)
    sd_count = noise.standard_errors(batch.weighted(axis, counted))
    unit = np.where(sd_count > 0, around.stderr / np.where(sd_count > 0, sd_count, 1.0), 0.0)
    sd_both = noise.standard_errors(tilted(ratio - unit))
    covariance = np.where(
        unit > 0,
        (sd_both**2 - around.stderr**2 - (unit * sd_count) ** 2) / (2 * np.where(unit > 0, unit, 1.0)),
        0.0,
    )

    def ends(k: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve (count² − k²v_D)·x² + 2k²c·x − k²v_N <= 0 for x = r − ratio."""
        lead = count**2 - (k * sd_count) ** 2
        linear, constant = k**2 * covariance, (k * around.stderr) ** 2
        bounded = known & (lead > 0)
        root = np.sqrt(np.maximum(linear**2 + lead * constant, 0.0))
        lead = np.where(bounded, lead, 1.0)
        low, high = ratio + (-linear - root) / lead, ratio + (-linear + root) / lead
        return (
            np.where(bounded, np.clip(low, least, greatest), least),
            np.where(bounded, np.clip(high, least, greatest), greatest),
        )

    def multiple(half: FloatArray, sd: FloatArray) -> FloatArray:
        return np.where(sd > 0, half / np.where(sd > 0, sd, 1.0), 0.0)

    low, high = ends(multiple(around.half, around.stderr))
    exact: NDArray[np.bool_] = around.exact
    for end, place in ((low, 0), (high, 1)):
        there = noise.errors(tilted(end), level)
        better = ends(multiple(there.half, there.stderr))[place]
        low, high = (better, high) if place == 0 else (low, better)
        exact = exact & there.exact
    value = np.where(known, np.clip(ratio, least, greatest), np.nan)
    stderr = np.where(known, around.stderr / np.where(known, count, 1.0), np.nan)
    return Answers(
        value,
        stderr,
        np.where(asked, low, np.nan),
        np.where(asked, high, np.nan),
        np.where(asked, np.where(exact, "exact", "normal"), "none"),
    )
