"""Intervals for thousands of answers at once, from laws that are matched to the noise's cumulants.

The noise in an answer is a sum of many Laplace draws of different widths. It is replaced by a normal of
variance v plus n equal Laplace draws of scale b, (n, b, v) such that the second, fourth and sixth cumulants
are right: b² = κ6/(20 κ4), n = κ4/(12 b⁴), v = κ2 − 2nb². For Laplace draws always n >= 1 and v >= 0
(Cauchy–Schwarz), so the replacement exists; n need not be whole. Where one draw, or many equal ones, carry
everything it is the law itself; where very many do, it is the normal one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpcli.strategy.axis import FloatArray

_GRID, _REACH = 1 << 13, 40.0


def half_widths(second: FloatArray, fourth: FloatArray, sixth: FloatArray, level: float) -> FloatArray:
    """Return h such that noise with these cumulants lies within ±h with probability ``level``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        square = sixth / (20 * fourth)
        draws = np.maximum(fourth / (12 * square**2), 1.0)
        normal = np.clip(1 - 2 * draws * square / second, 0.0, 1.0)
    table = _table(level)
    rows, columns = (np.linspace(0, 1, length) for length in table.shape)
    found = _interpolated(table, np.sqrt(1 / draws) * (len(rows) - 1), normal * (len(columns) - 1))
    return np.where(second > 0, found * np.sqrt(second), 0.0)


def widest(level: float) -> float:
    """Return the most standard deviations that any sum of Laplace draws needs to be held with ``level``."""
    return float(_table(level).max())


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
