"""The identity axis: every category is measured by itself."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axis import Axis, FloatArray, IntArray, whole


@dataclass(frozen=True)
class Identity(Axis):
    """A = I, norm 1, V = I. Identity axes cut a cube into blocks that can be measured one by one."""

    kind: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        whole(self.size, "the size of an axis", least=1)

    def summary(self) -> str:
        return "cells"

    @property
    def rows(self) -> int:
        return self.size

    @property
    def weights(self) -> IntArray:
        return np.ones(self.size, np.int64)

    @property
    def norm(self) -> Fraction:
        return Fraction(1)

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        return counts

    def inverse(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        return values

    def response(self, queries: NDArray[Any]) -> FloatArray:
        return queries.astype(np.float64)
