"""The sums of the regions of a partition: what an adaptive mechanism measures after its cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axis import IntArray


@dataclass(frozen=True)
class Partition:
    """Regions 0 … R−1, each cell being in exactly one, its label.

    The matrix has a row for each region and in each column, for each cell, a single 1: norm = 1.
    """

    norm: ClassVar[Fraction] = Fraction(1)

    labels: IntArray
    """The region of each cell, in the cube's shape."""

    def __post_init__(self) -> None:
        if self.labels.dtype.kind != "i" or not self.labels.size or self.labels.min() < 0:
            raise ValueError("the region of each cell is a whole number from 0 on")
        if not np.bincount(self.labels.reshape(-1)).all():
            raise ValueError("regions are numbered without gaps")

    @property
    def regions(self) -> int:
        """The number of regions."""
        return int(self.labels.max()) + 1

    def sums(self, cells: NDArray[Any], counts: NDArray[Any]) -> IntArray:
        """Return each region's exact sum of the counts of some cells, given by their numbers in C order."""
        found = np.zeros(self.regions, np.int64)
        np.add.at(found, self.labels.reshape(-1)[cells], counts)
        return found
