"""Which cells of a cube are neighbours: Euclidean distance along each axis, never across groups.

``groups`` holds for each axis None, or one whole number per category. Categories that follow each other with
the same number form a run, and a step along the axis must stay within one run:

- an ordered axis has None, a single run. Categories outside the order, such as missing or other, get a number
  of their own;
- a nominal axis with a hierarchy has one number per parent, so that only siblings are neighbours. They are
  neighbours in the order in which they are listed;
- a nominal axis without a hierarchy has a different number for each category, so that its slices are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Groups = Sequence[Sequence[int] | NDArray[np.integer[Any]] | None]

ROUNDING = 1e-9
"""So that the square of √2 or √3, rounded, still reaches 2 or 3."""


def runs_of_axes(shape: Sequence[int], groups: Groups | None) -> list[IntArray]:
    """Return for each axis the number of each category's run: 0, 1, ... from the first category on."""
    if groups is None:
        groups = [None] * len(shape)
    if len(groups) != len(shape):
        raise ValueError(f"the groups name {len(groups)} axes, but the cells have {len(shape)}")
    return [_runs(axis, size, group) for axis, (size, group) in enumerate(zip(shape, groups, strict=True))]


def _runs(axis: int, size: int, group: Sequence[int] | NDArray[np.integer[Any]] | None) -> IntArray:
    if group is None:
        return np.zeros(size, np.int64)
    numbers = np.asarray(group)
    if numbers.shape != (size,) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(f"the groups of axis {axis} must be {size} whole numbers, one for each category")
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers[1:] != numbers[:-1])])


def longest_run(runs: IntArray) -> int:
    """Return how many categories the longest run holds."""
    return int(np.bincount(runs).max())


def steps(runs: Sequence[IntArray], distance: float) -> list[tuple[int, ...]]:
    """Return the steps s ≠ 0 from a cell to its neighbours, ‖s‖₂ ≤ distance, in C order.

    ISPE Definition 3.1 with the Euclidean distance: 1 reaches the cells that share a face, √2 (or 1.5) those
    that share an edge too. A step that no run is long enough for is left out.
    """
    if not (isfinite(distance) and distance >= 1):
        raise ValueError(f"the distance between neighbours must be a number of at least 1, not {distance!r}")
    furthest = distance**2 + ROUNDING
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for each in runs:
        reach = min(int(distance + ROUNDING), longest_run(each) - 1)
        found = [
            ((*step, further), squared + further**2)
            for step, squared in found
            for further in range(-reach, reach + 1)
            if squared + further**2 <= furthest
        ]
    return [step for step, squared in found if squared > 0]
