"""Answers from a released cube: sums of its noisy counts, with the noise law that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.answer import Answer
from dpcli.estimate.intervals import half_width, unit_variance
from dpcli.query.product import Mask, Query, Term
from dpcli.release.file import Release
from dpcli.strategy.kronecker import Strategy


def answer(release: Release, queries: Sequence[Query], level: float) -> list[Answer]:
    """Answer each query with its standard error and an interval that covers with probability >= level."""
    counts = release.counts
    strategy, scale = release.metadata.strategy, release.metadata.noise.exact_scale
    answers = []
    for query in queries:
        value = sum((_total(counts, term) for term in query.terms), 0)
        half, how = half_width(scale, query.cells(counts.shape), level)
        error = standard_error(query, strategy, scale)
        answers.append(Answer(query.text, value, error, value - half, value + half, how, query.warnings))
    return answers


def standard_error(query: Query, strategy: Strategy, scale: Fraction) -> float:
    """Return the exact standard deviation √(v · Σ_s Σ_t Π_k q_skᵀ V_k q_tk) of an answer's noise."""
    factors = [query.factors(term, strategy.shape) for term in query.terms]
    form = sum(strategy.covariance(one, other) for one in factors for other in factors)
    return sqrt(form * unit_variance(scale))


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
