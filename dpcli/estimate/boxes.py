"""The exact variances of many ranges at once, as look-ups in tables of each axis's prefixes."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.law import unit_variance
from dpcli.strategy.axis import Axis, FloatArray
from dpcli.strategy.kronecker import Strategy


def box_variances(
    strategy: Strategy, scale: Fraction, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> FloatArray:
    """Return the variances of many boxes ``starts[n, k] <= c_k < stops[n, k]`` by look-ups.

    For an axis and a weight class let P_ij = Σ a(prefix i) a(prefix j); a range [i, j) has the form
    P_jj − 2 P_ij + P_ii.
    """
    by_class = []
    for place, axis in enumerate(strategy.axes):
        forms = []
        for weight, table in _prefix_tables(axis):
            i, j = starts[:, place], stops[:, place]
            diagonal = np.diagonal(table)
            forms.append((weight, diagonal[j] - 2 * table[i, j] + diagonal[i]))
        by_class.append(forms)
    total = np.zeros(len(starts))
    for combination in product(*by_class):
        total += prod((form for _, form in combination), start=np.ones(())) * unit_variance(
            scale * prod(w for w, _ in combination)
        )
    return total


@lru_cache(maxsize=32)
def _prefix_tables(axis: Axis) -> list[tuple[int, FloatArray]]:
    """Return P for each weight class of an axis."""
    prefixes = np.tri(axis.size + 1, axis.size, -1)
    shares = axis.response(prefixes) / axis.weights
    classes = [(int(w), shares[:, axis.weights == w]) for w in np.unique(axis.weights)]
    return [(w, part @ part.T) for w, part in classes]
