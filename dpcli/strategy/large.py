"""Slabs that are large beside the memory: transformed in place, part by part, on all cores.

A = A_1 ⊗ R, A_1 along the slab's first axis and R along the others, is applied as R on each slice of the
first axis and then A_1 on each run of columns, in one array of max(m_1, rows_1) × rows(R) 64-bit numbers.
On the way back the same memory holds the real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.parallel import in_order
from dpcli.strategy.axis import IntArray
from dpcli.strategy.kronecker import BLOCK_CELLS, Strategy


def is_large(strategy: Strategy) -> bool:
    """Tell whether slabs are worth the trouble."""
    return strategy.slab > 2 * BLOCK_CELLS and len(strategy.inner) > 1


def forward_in_place(strategy: Strategy, dense: Callable[[int, int], IntArray]) -> IntArray:
    """Return the coefficients of one slab; ``dense(start, stop)`` gives the counts of a run of its cells."""
    first, rest = strategy.inner[0], Strategy(strategy.inner[1:])
    cells, columns = prod(rest.shape), prod(axis.rows for axis in rest.axes)
    whole = np.empty((max(first.size, first.rows), columns), np.int64)

    def transform_slice(place: int) -> None:
        counts = dense(place * cells, (place + 1) * cells).reshape(1, *rest.shape)
        for k, axis in enumerate(rest.axes, start=1):
            counts = axis.forward(counts, k)
        whole[place] = counts.reshape(-1)

    def transform_columns(run: slice) -> None:
        whole[: first.rows, run] = first.forward(np.ascontiguousarray(whole[: first.size, run]), 0)

    for _ in in_order(transform_slice, range(first.size)):
        pass
    for _ in in_order(transform_columns, _runs(columns, len(whole))):
        pass
    return whole[: first.rows].reshape(1, -1)


def inverse_in_place(strategy: Strategy, coefficients: IntArray) -> Iterator[NDArray[np.float64]]:
    """Yield the counts of one slab in C order, slice by slice; the coefficients' memory is used up."""
    first, rest = strategy.inner[0], Strategy(strategy.inner[1:])
    whole = coefficients.reshape(first.rows, -1)
    real = whole.view(np.float64)
    columns = whole.shape[1]

    def restore_columns(run: slice) -> None:
        real[: first.size, run] = first.inverse(np.ascontiguousarray(whole[:, run]), 0)

    def restore_slice(place: int) -> NDArray[Any]:
        counts: NDArray[Any] = real[place].reshape(1, *(axis.rows for axis in rest.axes))
        for k, axis in enumerate(rest.axes, start=1):
            counts = axis.inverse(counts, k)
        return counts.reshape(-1)

    for _ in in_order(restore_columns, _runs(columns, len(whole))):
        pass
    yield from in_order(restore_slice, range(first.size))


def _runs(columns: int, rows: int) -> Iterator[slice]:
    step = max(64, BLOCK_CELLS // rows)
    return (slice(start, min(start + step, columns)) for start in range(0, columns, step))
