"""A strategy: the Kronecker product A = A_1 ⊗ … ⊗ A_d of one axis transform per attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axes import axis_from
from dpcli.strategy.axis import Axis, IntArray
from dpcli.strategy.identity import Identity

MOST_WEIGHT = 1 << 40
BLOCK_CELLS = 1 << 20
"""How many cells are worked on at once, where slabs are not larger."""


@dataclass(frozen=True)
class Strategy:
    """What is measured on a cube: one coefficient per combination of the axes' rows.

    Leading identity axes cut the cube into slabs that do not touch each other, so a cube is measured block
    by block, a block being a run of whole slabs and so a run of cells in C order.
    """

    axes: tuple[Axis, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The cube's number of categories per axis."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def norm(self) -> Fraction:
        """The largest weighted L1 norm of a column: Π_k norm(A_k)."""
        return prod((axis.norm for axis in self.axes), start=Fraction(1))

    @cached_property
    def leading(self) -> int:
        """The number of leading identity axes."""
        return len(list(takewhile(lambda axis: isinstance(axis, Identity), self.axes)))

    @cached_property
    def inner(self) -> tuple[Axis, ...]:
        """The axes after the leading identity ones: those that a slab spans."""
        return self.axes[self.leading :]

    @cached_property
    def slab(self) -> int:
        """The number of cells of a slab."""
        return prod(axis.size for axis in self.inner)

    def blocks(self, most_cells: int) -> Iterator[tuple[int, int]]:
        """Yield the cells ``(start, stop)`` of each block: whole slabs, up to ``most_cells`` if one fits.

        Blocks hold all categories of as many of the last axes as fit, so that readers can leave blocks out.
        """
        whole = self.slab
        for axis in reversed(self.axes[: self.leading]):
            if whole * axis.size > most_cells:
                break
            whole *= axis.size
        step, total = max(1, most_cells // whole) * whole, prod(self.shape)
        for start in range(0, total, step):
            yield start, min(start + step, total)

    def forward(self, counts: IntArray) -> IntArray:
        """Return the integer coefficients of one block of dense counts, one row per slab."""
        coefficients = counts.reshape(-1, *(axis.size for axis in self.inner))
        for place, axis in enumerate(self.inner, start=1):
            coefficients = axis.forward(coefficients, place)
        return coefficients.reshape(len(coefficients), -1)

    def inverse(self, coefficients: NDArray[Any]) -> NDArray[Any]:
        """Return the (least-squares) counts of one block of coefficients, in C order."""
        counts = coefficients.reshape(-1, *(axis.rows for axis in self.inner))
        for place, axis in enumerate(self.inner, start=1):
            counts = axis.inverse(counts, place)
        return counts.reshape(-1)

    @cached_property
    def largest_weight(self) -> int:
        """The largest weight of a coefficient; ``ValueError`` where 64 bits might not hold it."""
        largest = prod(int(axis.weights.max()) for axis in self.axes)
        if largest > MOST_WEIGHT:
            raise ValueError(f"a coefficient's weight of {largest} is above {MOST_WEIGHT}")
        return largest

    @cached_property
    def coefficients(self) -> int:
        """The number of coefficients of a slab."""
        return prod(axis.rows for axis in self.inner)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The distinct weights of coefficients, increasing."""
        assert self.largest_weight <= MOST_WEIGHT  # so that products of weights cannot wrap around
        per_axis = [np.unique(axis.weights) for axis in self.inner]
        return tuple(np.unique(reduce(np.multiply.outer, per_axis, np.ones((), np.int64))).tolist())

    def noise_classes(self, start: int, stop: int) -> list[tuple[int, IntArray | None]]:
        """Return each weight among a slab's coefficients from ``start`` to ``stop``, with its places there.

        Places are counted from ``start``; ``None`` stands for all of them.
        """
        if len(self.weights) == 1:
            return [(self.weights[0], None)]
        places = np.unravel_index(np.arange(start, stop), [axis.rows for axis in self.inner])
        product = prod(axis.weights[place] for axis, place in zip(self.inner, places, strict=True))
        kinds = np.searchsorted(self.weights, product).astype(np.uint16)  # narrow, so that sorting is quick
        order = np.argsort(kinds, kind="stable")
        ends = np.cumsum(np.bincount(kinds, minlength=len(self.weights)))
        runs = zip(self.weights, np.split(order, ends[:-1]), strict=True)
        return [(weight, run) for weight, run in runs if len(run)]

    def identity_first(self) -> list[int]:
        """Return the axes in an order with the identity ones first, so that they cut the cube into slabs."""
        return sorted(range(len(self.axes)), key=lambda k: not isinstance(self.axes[k], Identity))

    def reordered(self, order: Sequence[int]) -> Strategy:
        """Return the same strategy for a cube with its axes in another order."""
        return Strategy(tuple(self.axes[k] for k in order))

    def covariance(self, left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]) -> float:
        """Return Π_k left_kᵀ V_k right_k: the covariance of two product-form answers for unit noise."""
        return prod(
            axis.covariance(one, other) for axis, one, other in zip(self.axes, left, right, strict=True)
        )

    def summary(self, names: Sequence[str]) -> str:
        """Return in words what is measured along each attribute."""
        return "; ".join(f"{name}: {axis.summary()}" for name, axis in zip(names, self.axes, strict=True))

    def describe(self) -> dict[str, Any]:
        """Return what a release file must keep to rebuild this strategy."""
        return {"axes": [axis.describe() for axis in self.axes]}

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Strategy:
        """Invert :meth:`describe`."""
        return cls(tuple(axis_from(axis) for axis in description["axes"]))
