"""Smoothing noisy counts before a partition is read off them (ISPE §3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import isfinite
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dpcli.partition.method import ITERATIONS, SIGMA, SIZE, Smoothing
from dpcli.partition.neighbours import FloatArray, Groups, IntArray, longest_run, runs_of_axes


def smooth(
    counts: NDArray[np.floating] | NDArray[np.integer],
    *,
    method: Smoothing = "gaussian",
    iterations: int = ITERATIONS,
    sigma: float = SIGMA,
    size: int = SIZE,
    groups: Groups | None = None,
    ordered: Sequence[bool] | None = None,
) -> FloatArray:
    """Return ``counts`` filtered ``iterations`` times with a window of ``size`` categories along each axis.

    - ``gaussian``: the window's weights are g(x) ∝ exp(−x²/2σ²), |x| ≤ size//2, with sum 1 (ISPE Appendix B,
      eq. 10, a product over the axes). The defaults give the mask printed there.
    - ``median``: the median of the window. ``sigma`` plays no part.
    - ``none``: the counts as they are.

    At an edge the cells are mirrored (c b a | a b c). The matrix of the Gaussian filter is then symmetric,
    with rows that sum to 1, so its columns do too: the mean of the counts is kept. A median need not keep it.

    Nothing is mixed across groups (see :mod:`dpcli.partition.neighbours`): each run of an axis has edges of
    its own. Along an axis that ``ordered`` says False for, nothing is mixed at all: siblings of a nominal
    axis stand in no order, so the nearest in the list says no more about a cell than the others.
    """
    check(
        np.shape(counts),
        method=method,
        iterations=iterations,
        sigma=sigma,
        size=size,
        groups=groups,
        ordered=ordered,
    )
    values = np.array(counts, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("the counts to smooth must be finite numbers")
    axes = _smoothed_axes(values.shape, groups, ordered)
    if method == "gaussian":
        return _gaussian(values, axes, _repeated(gaussian_weights(sigma, size), iterations))
    if method == "median":
        return _median(values, axes, size, iterations)
    return values


def check(
    shape: Sequence[int],
    *,
    method: Smoothing = "gaussian",
    iterations: int = ITERATIONS,
    sigma: float = SIGMA,
    size: int = SIZE,
    groups: Groups | None = None,
    ordered: Sequence[bool] | None = None,
) -> None:
    """Raise ValueError unless :func:`smooth` can smooth cells of this shape.

    A window may be no wider than the longest run of any axis it is moved along. The smallest, 3, may be: over
    two categories the mirrored edge is the third.
    """
    if method not in get_args(Smoothing):
        raise ValueError(
            f"the smoothing method must be one of {', '.join(get_args(Smoothing))}, not {method!r}"
        )
    if not all(shape):
        raise ValueError("there are no cells to smooth")
    axes = _smoothed_axes(shape, groups, ordered)
    if method == "none":
        return
    if not _is_whole(iterations) or iterations < 1:
        raise ValueError(f"the iterations of smoothing must be a whole number from 1 on, not {iterations!r}")
    if not _is_whole(size) or size < 3 or size % 2 == 0:
        raise ValueError(f"the size of a smoothing window must be an odd number from 3 on, not {size!r}")
    if method == "gaussian" and not (isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma must be a positive number, not {sigma!r}")
    for axis, runs in axes.items():
        longest = longest_run(runs)
        if size > max(3, longest):
            raise ValueError(
                f"a smoothing window of {size} is larger than axis {axis}, which has {longest} categories in"
                f" a row; choose a window of at most {max(3, longest - 1 + longest % 2)}"
            )


def gaussian_weights(sigma: float, size: int) -> FloatArray:
    """Return g(x) ∝ exp(−x²/2σ²) for |x| ≤ size//2, with sum 1."""
    places = np.arange(-(size // 2), size // 2 + 1)
    with np.errstate(over="ignore"):
        weights = np.exp(-0.5 * (places / sigma) ** 2)
    return np.asarray(weights / weights.sum())


def _smoothed_axes(
    shape: Sequence[int], groups: Groups | None, ordered: Sequence[bool] | None
) -> dict[int, IntArray]:
    """Return the runs of each axis along which cells are mixed: ordered, with neighbours."""
    if ordered is None:
        ordered = [True] * len(shape)
    if len(ordered) != len(shape):
        raise ValueError(f"ordered names {len(ordered)} axes, but the cells have {len(shape)}")
    return {
        axis: runs
        for axis, runs in enumerate(runs_of_axes(shape, groups))
        if ordered[axis] and longest_run(runs) > 1
    }


def _repeated(weights: FloatArray, times: int) -> FloatArray:
    """Return the weights of ``times`` filters in a row.

    A mirrored line stays mirrored under symmetric weights, so that filters in a row are one filter with the
    convolution of their weights. Filters along different axes commute.
    """
    result = np.ones(1)
    for _ in range(times):
        result = np.convolve(result, weights)
    return result


def _gaussian(values: FloatArray, axes: dict[int, IntArray], weights: FloatArray) -> FloatArray:
    from scipy.ndimage import correlate1d

    for axis, runs in axes.items():
        result = values.copy()
        for run in _slices(runs):
            part = (slice(None),) * axis + (run,)
            if run.stop - run.start > 1:
                correlate1d(values[part], weights, axis, output=result[part], mode="reflect")
        values = result
    return values


def _median(values: FloatArray, axes: dict[int, IntArray], size: int, iterations: int) -> FloatArray:
    from scipy.ndimage import median_filter

    window = [size if axis in axes else 1 for axis in range(values.ndim)]
    whole = [slice(None)]
    for part in product(*(_slices(axes[axis]) if axis in axes else whole for axis in range(values.ndim))):
        for _ in range(iterations if axes else 0):
            values[part] = median_filter(values[part], size=window, mode="reflect")
    return values


def _slices(runs: IntArray) -> list[slice]:
    cuts = np.flatnonzero(np.diff(runs, prepend=-1, append=-1)).tolist()
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
