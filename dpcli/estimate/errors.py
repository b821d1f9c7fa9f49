"""Standard errors and intervals of many linear answers.

Answers whose noise is alike share one computation from the exact law of the noise. Where too many kinds are
left for that, laws are matched to the exact cumulants instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.law import cumulant, sum_half_width, weighted_half_width
from dpcli.estimate.matched import far_half_widths, half_widths, widest
from dpcli.estimate.tails import NARROWEST, ONE_BY_ONE, chernoff, half_widths_of_sums
from dpcli.estimate.variance import BatchNoise
from dpcli.parallel import in_order
from dpcli.query.batch import Batch
from dpcli.strategy.axis import FloatArray
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy

MOST_EXACT = 200
FAR = 0.998
"""The level above which matched laws alone are too narrow."""
MOST_SUMS, DIGITS = 4096, 9
"""Above so many numbers of cells, only so many binary digits of each are told apart."""


@dataclass(frozen=True)
class Errors:
    """For each answer its standard deviation, its interval's half-width, and whether that is exact."""

    stderr: FloatArray
    half: FloatArray
    exact: NDArray[np.bool_]


def errors(batch: Batch, strategy: Strategy, scale: Fraction, level: float) -> Errors:
    """Return the errors of a batch's answers, with intervals that cover with probability >= level."""
    scale = max(scale, Fraction(1, NARROWEST))
    if batch.terms == 0:
        nothing = np.zeros(len(batch))
        return Errors(nothing, nothing, np.ones(len(batch), np.bool_))
    batch = batch.compact()
    if all(isinstance(axis, Identity) for axis in strategy.axes) and _plain(batch):
        return _whole_cells(batch, scale, level)
    noise = BatchNoise(batch, strategy, scale)
    variances = noise.variances()
    first, alike = noise.alike()
    if len(first) > MOST_EXACT:
        return Errors(np.sqrt(variances), _matched(noise, variances, level), np.zeros(len(batch), np.bool_))

    def interval(place: int) -> tuple[float, str]:
        carriers = noise.carriers(place, variances[place])
        return weighted_half_width(scale, carriers.shares, carriers.weights, carriers.rest, level)

    found = list(in_order(interval, first))
    half, exact = np.array([h for h, _ in found]), np.array([how == "exact" for _, how in found])
    return Errors(np.sqrt(variances), half[alike], exact[alike])


def _matched(noise: BatchNoise, variances: FloatArray, level: float) -> FloatArray:
    """Return half-widths from matched laws; for queries of several terms, those of the widest law there is.

    Noise that comes in steps can miss half a step, and narrow noise, which is little else, a whole one. No
    step is wider than the largest share a, and a^6 <= Σ a_i^6, a² <= Σ a_i². Far out, tails decide.
    """
    scale = noise.scale
    steps = 0.5 if scale >= 1 else 1.0
    if noise.batch.terms == 1:
        second, fourth, sixth = noise.cumulants()
        largest = (sixth / cumulant(scale, 6)) ** (1 / 6)
        half = half_widths(second, fourth, sixth, level)
        if level > FAR:
            half = np.maximum(half, far_half_widths(second, fourth, sixth, scale, level))
        return half + steps * largest
    largest = np.sqrt(variances / cumulant(scale, 2))
    one = float(chernoff(scale, np.ones(1), level)[0][0]) if level > FAR and scale < 1 else 0.0
    one = max(one, sum_half_width(scale, 1, level)[0])
    return np.maximum(widest(level) * np.sqrt(variances), one * largest) + steps * largest


def standard_errors(batch: Batch, strategy: Strategy, scale: Fraction) -> FloatArray:
    """Return the exact standard deviations of a batch's answers alone."""
    return np.sqrt(BatchNoise(batch.compact(), strategy, scale).variances())


def _plain(batch: Batch) -> bool:
    return all(vectors.dtype == np.bool_ for vectors in batch.vectors)


def _whole_cells(batch: Batch, scale: Fraction, level: float) -> Errors:
    """Return the errors of sums of single cells: only their number matters, terms being disjoint."""
    cells = np.ones(batch.which.shape[:2], np.int64)
    for axis, vectors in enumerate(batch.vectors):
        cells *= vectors.sum(axis=1)[batch.which[:, :, axis]]
    numbers, places = np.unique(cells.sum(axis=1), return_inverse=True)
    half, exact = _of_sums(scale, numbers, level)
    places = places.reshape(-1)
    return Errors(np.sqrt(numbers * cumulant(scale, 2))[places], half[places], exact[places])


def _of_sums(
    scale: Fraction, numbers: NDArray[np.int64], level: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return half-widths of sums of so many cells, and which are exactly those.

    Draws and their sums are symmetric and fall off to both sides, so that P(|S + z| <= h) <= P(|S| <= h): the
    half-width grows with the number. Where there are very many numbers, each is rounded up to one of fewer.
    """
    small = numbers <= ONE_BY_ONE
    asked = numbers[~small]
    if len(asked) > MOST_SUMS:
        unit = 2.0 ** np.maximum(0, np.frexp(asked.astype(np.float64))[1] - DIGITS)
        asked = (np.ceil(asked / unit) * unit).astype(np.int64)
    sums, places = np.unique(asked, return_inverse=True)
    half = np.zeros(len(numbers))
    half[small] = [sum_half_width(scale, int(n), level)[0] for n in numbers[small]]
    half[~small] = half_widths_of_sums(scale, sums, level)[places.reshape(-1)]
    exact = small.copy()
    exact[~small] = asked == numbers[~small]
    return half, exact
