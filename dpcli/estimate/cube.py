"""Answers from a released cube: sums of its noisy counts, with the noise law that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.answer import Answer, How
from dpcli.estimate.law import sum_half_width, weighted_half_width
from dpcli.estimate.variance import noise_in_answer
from dpcli.query.product import Mask, Query, Term
from dpcli.release.file import Release
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy


def answer(release: Release, queries: Sequence[Query], level: float) -> list[Answer]:
    """Answer each query with its standard error and an interval that covers with probability >= level.

    Thresholded counts are biased: their answers have no interval.
    """
    counts, metadata = release.counts, release.metadata
    answers = []
    for query in queries:
        value = sum((_total(counts, term) for term in query.terms), 0)
        if metadata.steps:
            answers.append(Answer(query.text, value, None, None, None, "none", query.warnings))
            continue
        error, half, how = error_of(query, metadata.strategy, metadata.noise.scale, level)
        answers.append(Answer(query.text, value, error, value - half, value + half, how, query.warnings))
    return answers


def error_of(query: Query, strategy: Strategy, scale: Fraction, level: float) -> tuple[float, float, How]:
    """Return an answer's exact standard deviation, the half-width of its interval, and how that is known."""
    noise = noise_in_answer(query, strategy, scale)
    if all(isinstance(axis, Identity) for axis in strategy.axes):
        half, how = sum_half_width(scale, query.cells(strategy.shape), level)
    else:
        half, how = weighted_half_width(scale, noise.shares, noise.weights, noise.rest, level)
    return sqrt(max(noise.variance, 0.0)), half, how  # rounding may leave less than nothing


def _total(counts: NDArray[Any], term: Term) -> int | float:
    """Return the sum of the cells of one term."""
    for axis, mask in term.items():
        counts = _restricted(counts, axis, mask)
    total = counts.sum()
    return int(total) if np.issubdtype(total.dtype, np.integer) else float(total)


def _restricted(counts: NDArray[Any], axis: int, mask: Mask) -> NDArray[Any]:
    """Keep the categories of ``mask`` along ``axis``: a view where they are a run, a copy where not."""
    places = np.flatnonzero(mask)
    if places[-1] - places[0] + 1 == len(places):
        return counts[(slice(None),) * axis + (slice(places[0], places[-1] + 1),)]
    return np.compress(mask, counts, axis)
