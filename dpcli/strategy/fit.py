"""The search for an optimised axis, and the cache that spares repeating it.

Only the public size and workload go in, so it costs no privacy. The objective is that of HDMM's p-identity
(McKenna et al., VLDB 2018), see :class:`dpcli.strategy.grams.Objective`; the starts, the two kinds of sums
(tents at every knot, and far ones) and the integers are our own.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np
from threadpoolctl import threadpool_limits

from dpcli.strategy import cache
from dpcli.strategy.axis import FloatArray
from dpcli.strategy.grams import MOST_ORDER, Objective, random_ranges
from dpcli.strategy.optimized import Optimized

VERSION = 1
"""Part of the cache's key: to be raised whenever the search would find something else."""

LONGEST_DIRECT = 256
"""A longer axis has knots; the search on every cell then takes long and finds hardly anything better."""

MOST_KNOTS = 320
SECONDS = 60.0
SCOUTING, POLISHING = 40, 300
Span = tuple[int, int]


def unit_for(axes: int) -> int:
    """Return the precision N for a strategy with this many optimised axes; their product is at most 2^30."""
    return 1 << min(10, 30 // max(axes, 1))


def tents_and_hump(sums: int, knots: int) -> FloatArray:
    """A start: overlapping tents over the whole axis and one wide hump, near the optimum for ranges."""
    places = np.arange(knots)
    hump = 0.4 * np.sin(np.pi * (places + 0.5) / knots)
    if sums < 3:
        return np.stack([hump * (places >= i * knots / sums) for i in range(sums)])
    centres = np.linspace(0, knots - 1, sums - 1)[:, None]
    tents = 0.7 * np.maximum(0, 1 - np.abs(places - centres) * (sums - 2) / (knots - 1))
    return np.vstack([tents, hump]) + 0.01 * scattered(sums, knots)


def blocks_and_total(spans: Sequence[Span], knots: int) -> FloatArray:
    """A start: these stretches, and the total."""
    places = np.arange(knots)
    blocks = [0.8 * ((places >= start) & (places < stop)) for start, stop in spans]
    return np.vstack([*blocks, np.full(knots, 0.3)]) + 0.05 * scattered(len(spans) + 1, knots)


def scattered(sums: int, knots: int) -> FloatArray:
    """A start without a pattern, the same on every machine: multiples of the golden ratio, modulo 1."""
    return np.asarray(np.arange(1, sums * knots + 1) * 0.6180339887498949 % 1).reshape(sums, knots)


def _candidates(size: int, spans: Sequence[Span]) -> Iterator[tuple[int, bool, list[FloatArray]]]:
    """Yield (knots, whether with tents, starts): a knot per cell, or one per 16 or 20 cells and more."""
    wide = sorted({(a, b) for a, b in spans if b - a > 1}, key=lambda span: (span[0] - span[1], span))[:64]
    if size <= LONGEST_DIRECT or (wide and size <= 2 * LONGEST_DIRECT):
        starts = [blocks_and_total(wide, size)] if wide else []
        for sums in sorted({max(1, round(size / share)) for share in (20, 16, 14)}):
            parts = max(1, sums - 1)
            even = [(i * size // parts, (i + 1) * size // parts) for i in range(parts)]
            starts += [tents_and_hump(sums, size), blocks_and_total(even, size), scattered(sums, size)]
        yield size, False, [*starts, np.zeros((1, size))]
        return
    for knots in sorted({min(MOST_KNOTS, round(size / gap) + 1) for gap in (16, 20)}):
        heights = np.full(knots, 0.7)
        counts = sorted({max(1, round(knots / share)) for share in (24, 16, 12)})
        yield knots, True, [np.vstack([heights, tents_and_hump(sums, knots)]) for sums in counts]


def search(
    size: int, gram: FloatArray, *, unit: int, spans: Sequence[Span] = (), seconds: float = SECONDS
) -> Optimized:
    """Return the best axis found by a short run from every start and a long one from the two best.

    Deterministic (up to the BLAS library's last digits) unless ``seconds`` run out first.
    """
    from scipy.optimize import Bounds, minimize

    deadline = time.monotonic() + seconds
    found: list[tuple[float, int, Objective, bool, FloatArray]] = []

    def stop_when_late(_: object) -> None:
        if time.monotonic() > deadline:
            raise StopIteration

    def improve(objective: Objective, tents: bool, start: FloatArray, rounds: int) -> None:
        if found and time.monotonic() > deadline:
            return
        best = minimize(
            objective,
            start.reshape(-1),
            args=(tents,),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(0, np.inf),
            callback=stop_when_late,
            options={"maxiter": rounds, "maxfun": 4 * rounds, "maxcor": 20, "ftol": 1e-9},
        )
        found.append((float(best.fun), len(found), objective, tents, best.x.reshape(start.shape)))

    with threadpool_limits(1):  # on a busy machine more threads are ten times slower
        for knots, tents, starts in _candidates(size, spans):
            objective = Objective.of(size, knots, gram)
            for start in starts:
                improve(objective, tents, start, SCOUTING)
        for _, _, objective, tents, rows in sorted(found, key=lambda one: one[:2])[:2]:
            improve(objective, tents, rows, POLISHING)
    _, _, objective, tents, rows = min(found, key=lambda one: one[:2])
    return _rounded(size, unit, objective.knots, tents, rows)


def _rounded(size: int, unit: int, knots: int, tents: bool, rows: FloatArray) -> Optimized:
    """Return the rows as integers: scaled so that every column has norm ``unit``, rows of zeros left out."""
    exact = unit * rows / (1 + rows.sum(axis=0))
    entries = np.rint(exact)
    full = entries.sum(axis=0) >= unit
    entries[:, full] = np.floor(exact[:, full])
    if not entries.any():
        return Optimized(size, 1, 1, (), ())
    lists = [tuple(int(entry) for entry in row) for row in entries]
    near = lists.pop(0) if tents else ()
    return Optimized(size, unit, knots, near if any(near) else (), tuple(row for row in lists if any(row)))


def fit_optimized(
    size: int,
    gram: FloatArray,
    *,
    unit: int = unit_for(1),
    spans: Sequence[Span] = (),
    seconds: float = SECONDS,
) -> Optimized:
    """Return an axis of ``size`` cells for queries with E[qqᵀ] ∝ ``gram``, from the cache if it is there.

    A Gram matrix of lower order M stands for M equal stretches of cells that are all alike: enough for
    ranges on a long axis. ``spans`` are stretches, say a hierarchy's nodes, to start the search from as well.

    The cache is not trusted. What is read from it is a public strategy whose norm, and with it the noise, is
    worked out anew from its integers: a forged entry may make answers worse but never less private.
    """
    gram = np.asarray(gram, np.float64)
    order = len(gram) if gram.ndim == 2 else 0
    if gram.shape != (order, order) or not 1 <= order <= size:
        raise ValueError(f"a Gram matrix for {size} cells is square, of order 1 to {size}, not {gram.shape}")
    mean = np.trace(gram) / order
    if not (np.isfinite(gram).all() and mean > 0 and np.diag(gram).min() >= 0 and np.allclose(gram, gram.T)):
        raise ValueError("a Gram matrix is finite, symmetric, and positive or zero on its diagonal")
    gram = gram / mean
    heading = json.dumps([VERSION, size, unit, sorted(spans), seconds, order]).encode()
    rounded = (np.round(gram, 9) + 0.0).astype("<f8")
    key = hashlib.sha256(heading + rounded.tobytes()).hexdigest()
    axis = read_cached(key)
    if axis is None or axis.size != size or axis.unit not in {1, unit}:
        axis = search(size, gram, unit=unit, spans=spans, seconds=seconds)
        write_cached(key, axis)
    return axis


def fit_ranges(size: int, *, unit: int = unit_for(1)) -> Optimized:
    """Return an axis for ranges of random width and place."""
    return fit_optimized(size, random_ranges(min(size, MOST_ORDER)), unit=unit)


def read_cached(key: str) -> Optimized | None:
    """Return the cached axis, or nothing if there is none or it is damaged."""
    try:
        return Optimized(**cache.read(f"axis-{key}"))
    except (TypeError, ValueError):
        return None


def write_cached(key: str, axis: Optimized) -> None:
    """Keep an axis for the next time."""
    cache.write(f"axis-{key}", {field.name: getattr(axis, field.name) for field in fields(axis)})
