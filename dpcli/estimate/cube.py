"""Answers from a released cube: sums of its noisy counts, with the noise law that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpcli.estimate.answer import Answers, How
from dpcli.estimate.average import averages
from dpcli.estimate.errors import errors
from dpcli.estimate.totals import Totals
from dpcli.query.batch import Batch, batches
from dpcli.query.product import Query
from dpcli.release.file import Release
from dpcli.strategy.kronecker import Strategy

Function = Literal["count", "sum", "avg"]


@dataclass(frozen=True)
class Asked:
    """A batch of questions: how many rows, or the sum or average of an axis's numbers over them."""

    batch: Batch
    function: Function = "count"
    axis: int | None = None

    def linear(self, release: Release) -> list[Batch]:
        """Return the linear queries that the answers are made of."""
        if self.axis is None:
            return [self.batch]
        attribute = release.domain.attributes[self.axis]
        if self.function == "count":
            there = np.arange(attribute.size) != (
                -1 if attribute.missing_code is None else attribute.missing_code
            )
            return [self.batch.weighted(self.axis, there)]
        numbers = attribute.numbers()
        total = self.batch.weighted(self.axis, np.nan_to_num(numbers))
        return (
            [total] if self.function == "sum" else [total, self.batch.weighted(self.axis, ~np.isnan(numbers))]
        )


def answers(release: Release, asked: Sequence[Asked], level: float) -> list[Answers]:
    """Answer each batch, with intervals that cover with probability >= level, from one pass over the file.

    Thresholded counts are biased: their answers have no interval.
    """
    metadata = release.metadata
    linear = [question.linear(release) for question in asked]
    totals = Totals(release, [batch for batches in linear for batch in batches])
    strategy, scale = metadata.strategy, metadata.noise.scale
    found = []
    for question, parts in zip(asked, linear, strict=True):
        values = [totals.values(batch) for batch in parts]
        if question.function == "avg":
            assert question.axis is not None
            numbers = release.domain.attributes[question.axis].numbers()
            made = averages(
                question.batch, question.axis, numbers, values[0], values[1], strategy, scale, level
            )
        else:
            error = errors(parts[0], strategy, scale, level)
            made = Answers.within(values[0], error.stderr, error.half, error.exact)
        found.append(Answers.bare(made.value) if metadata.steps else made)
    return found


def answer(release: Release, queries: Sequence[Query], level: float) -> Answers:
    """Answer each query, in their order."""
    places, parts = zip(*batches(queries, release.domain.shape), strict=True)
    joined = Answers.joined(answers(release, [Asked(batch) for batch in parts], level))
    return joined.part(np.argsort(np.concatenate(places)))


def error_of(query: Query, strategy: Strategy, scale: Fraction, level: float) -> tuple[float, float, How]:
    """Return an answer's exact standard deviation, the half-width of its interval, and how that is known."""
    ((_, batch),) = batches([query], strategy.shape)
    error = errors(batch, strategy, scale, level)
    return float(error.stderr[0]), float(error.half[0]), "exact" if error.exact[0] else "normal"
