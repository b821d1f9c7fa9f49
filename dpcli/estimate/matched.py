"""Intervals for thousands of answers at once, from laws that are matched to the noise's cumulants.

The noise in an answer is a sum of many Laplace draws of different widths. It is replaced by a normal of
variance v plus n equal Laplace draws of scale b, (n, b, v) such that the second, fourth and sixth cumulants
are right: b² = κ6/(20 κ4), n = κ4/(12 b⁴), v = κ2 − 2nb². For Laplace draws always n >= 1 and v >= 0
(Cauchy–Schwarz), so the replacement exists; n need not be whole. Where one draw, or many equal ones, carry
everything it is the law itself; where very many do, it is the normal one.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import log, log1p, sinh, sqrt
from statistics import NormalDist

import numpy as np

from dpcli.estimate.law import cumulant
from dpcli.estimate.tails import clipped_rate
from dpcli.strategy.axis import FloatArray

MOST_TABLE = 1 - 1e-10
"""The highest level that an FFT can tell from one."""
RISE = 1.013
_GRID, _REACH = 1 << 13, 40.0


def half_widths(second: FloatArray, fourth: FloatArray, sixth: FloatArray, level: float) -> FloatArray:
    """Return h such that noise with these cumulants lies within ±h with probability ``level``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        square = sixth / (20 * fourth)
        draws = np.maximum(fourth / (12 * square**2), 1.0)
        normal = np.clip(1 - 2 * draws * square / second, 0.0, 1.0)
    table = _table(min(level, MOST_TABLE))
    rows, columns = (np.linspace(0, 1, length) for length in table.shape)
    found = _interpolated(table, np.sqrt(1 / draws) * (len(rows) - 1), normal * (len(columns) - 1))
    return np.where(second > 0, found * np.sqrt(second), 0.0)


def widest(level: float) -> float:
    """Return the most standard deviations that any sum of Laplace draws needs to be held with ``level``.

    Far out that is what one draw needs, log(1/α)/√2.
    """
    return max(float(_table(min(level, MOST_TABLE)).max()), -log1p(-level) / sqrt(2))


def far_half_widths(
    second: FloatArray, fourth: FloatArray, sixth: FloatArray, scale: Fraction, level: float
) -> FloatArray:
    """Return h for levels close to one, where a few wide draws decide and matched laws are too narrow.

    The noise is Σ a_i z_i with z_i of scale λw_i, w_i >= 1, and all cumulants are positive. With a such that
    κ6 = a⁶ κ6(z), every later one is at most that of a·z, z a draw of scale λ: a_i^2m sums are at most the
    m/3-th power of Σ a_i⁶, and κ2m^(1/2m)/κ6^(1/6) of one draw falls with its scale, or rises by less than
    1.3 %, by which a is widened. So

        K(θ) <= κ2 θ²/2 + κ4 θ⁴/24 + K_z(aθ) − κ2(z) (aθ)²/2 − κ4(z) (aθ)⁴/24.

    For narrow noise, which comes in steps, h is Chernoff's bound from that. Otherwise it is the saddlepoint
    approximation of Barndorff-Nielsen (r* = r + log(u/r)/r is about normal; "Approximate interval
    probabilities", 1990), and as that may be off by some percent, of a tail that is a tenth smaller.
    """
    rate, one = clipped_rate(scale), [cumulant(scale, order) for order in (2, 4, 6)]
    share = RISE * (sixth / one[2]) ** (1 / 6)
    share = np.where(share > 0, share, 1.0)
    second, fourth = second / share**2, fourth / share**4  # in units of a
    proven = scale < 1
    target = sqrt(2 * (log(2) - log1p(-level))) if proven else -NormalDist().inv_cdf((1 - level) / 2.2)
    low, high = np.full(len(second), -25.0), np.full(len(second), 25.0)
    for _ in range(40):
        middle = (low + high) / 2
        theta = rate / (1 + np.exp(-middle))
        size, mean, variance = _generating(theta, rate, second, fourth, one)
        r = np.sqrt(np.maximum(2 * (theta * mean - size), 1e-300))
        found = r if proven else r + np.log(theta * np.sqrt(variance) / r) / r
        low, high = np.where(found < target, middle, low), np.where(found < target, high, middle)
    theta = rate / (1 + np.exp(-high))
    size, mean, _ = _generating(theta, rate, second, fourth, one)
    half = (size + log(2) - log1p(-level)) / theta if proven else mean
    return np.where(second > 0, half * share, 0.0)


def _generating(
    theta: FloatArray, rate: float, second: FloatArray, fourth: FloatArray, one: list[float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the bound of K and its first two derivatives, where a = 1."""
    unit = 2 * sinh(rate / 2) ** 2
    left = 1 - 2 * np.sinh(theta / 2) ** 2 / unit
    slope = np.sinh(theta) / unit / left
    k2, k4 = second - one[0], fourth - one[1]
    size = -np.log(left) + k2 * theta**2 / 2 + k4 * theta**4 / 24
    mean = slope + k2 * theta + k4 * theta**3 / 6
    return size, mean, np.cosh(theta) / unit / left + slope**2 + k2 + k4 * theta**2 / 2


def _interpolated(table: FloatArray, row: FloatArray, column: FloatArray) -> FloatArray:
    """Look up a table between its entries."""
    row, column = np.nan_to_num(row), np.nan_to_num(column)
    i = np.minimum(row.astype(np.intp), table.shape[0] - 2)
    j = np.minimum(column.astype(np.intp), table.shape[1] - 2)
    y, x = row - i, column - j
    upper = table[i, j] * (1 - x) + table[i, j + 1] * x
    lower = table[i + 1, j] * (1 - x) + table[i + 1, j + 1] * x
    found: FloatArray = upper * (1 - y) + lower * y
    return found


@lru_cache(maxsize=8)
def _table(level: float) -> FloatArray:
    """Return h for variance 1, by √(1/n) along the rows and by the normal's share v along the columns.

    The characteristic function e^(−vt²/2) (1 + b²t²)^(−n), 2nb² = 1 − v, is inverted by FFT. A narrow normal
    on top, two steps of the grid wide, lets it fade out.
    """
    t = np.pi / _REACH * np.arange(_GRID // 2 + 1)
    step = 2 * _REACH / _GRID
    share = np.linspace(0, 1, 33)[:, None]
    rows = []
    for inverse in np.linspace(0, 1, 65) ** 2:
        laplace = (1 - share) * t**2 / 2  # n·b²t²
        logarithm = -laplace if inverse == 0 else -np.log1p(laplace * inverse) / inverse
        mass = np.fft.irfft(np.exp(logarithm - (share + (2 * step) ** 2) * t**2 / 2), _GRID, axis=1)
        within = mass[:, :1] + 2 * np.cumsum(np.pad(mass[:, 1 : _GRID // 2], ((0, 0), (1, 0))), axis=1)
        # Mass at a grid point stands for a step around it, so P(|X| <= h) is reached half a step later.
        rows.append([np.interp(level, row, step * (np.arange(len(row)) + 0.5)) for row in within])
    return np.array(rows)
