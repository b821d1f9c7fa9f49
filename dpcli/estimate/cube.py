"""Answers from a released cube: sums of its noisy counts, with the noise law that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from dpcli.estimate.answer import Answers, How
from dpcli.estimate.average import Noise, averages
from dpcli.estimate.errors import Errors, errors, standard_errors
from dpcli.estimate.totals import Totals
from dpcli.query.batch import Batch, batches
from dpcli.query.product import Query
from dpcli.release.file import Release
from dpcli.strategy.axis import FloatArray
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

    def averages(
        self, release: Release, total: FloatArray, count: FloatArray, noise: Noise, level: float
    ) -> Answers:
        """Return the averages, from the sums and counts that they are made of."""
        assert self.axis is not None
        numbers = release.domain.attributes[self.axis].numbers()
        return averages(self.batch, self.axis, numbers, total, count, noise, level)


class Source(Protocol):
    """What answers batches of questions."""

    def answers(self, asked: Sequence[Asked], level: float) -> list[Answers]:
        """Answer each batch, with intervals that cover with probability >= level."""


@dataclass(frozen=True)
class CubeNoise:
    """The errors of sums of a cube's noisy counts."""

    strategy: Strategy
    scale: Fraction

    def errors(self, batch: Batch, level: float) -> Errors:
        """Return standard errors and intervals."""
        return errors(batch, self.strategy, self.scale, level)

    def standard_errors(self, batch: Batch) -> FloatArray:
        """Return standard errors alone."""
        return standard_errors(batch, self.strategy, self.scale)


@dataclass(frozen=True)
class CubeSource:
    """Answers that are sums of a cube's noisy counts."""

    release: Release

    def answers(self, asked: Sequence[Asked], level: float) -> list[Answers]:
        """Answer each batch, from one pass over the file. Thresholded counts are biased: no interval."""
        metadata = self.release.metadata
        linear = [question.linear(self.release) for question in asked]
        totals = Totals(self.release, [batch for batches in linear for batch in batches])
        noise = CubeNoise(metadata.strategy, metadata.noise.scale)
        found = []
        for question, parts in zip(asked, linear, strict=True):
            values = [totals.values(batch) for batch in parts]
            if question.function == "avg":
                made = question.averages(self.release, values[0], values[1], noise, level)
            else:
                error = noise.errors(parts[0], level)
                made = Answers.within(values[0], error.stderr, error.half, error.exact)
            found.append(Answers.bare(made.value) if metadata.steps else made)
        return found


def answer(source: Source, queries: Sequence[Query], shape: tuple[int, ...], level: float) -> Answers:
    """Answer each query, in their order."""
    places, parts = zip(*batches(queries, shape), strict=True)
    joined = Answers.joined(source.answers([Asked(batch) for batch in parts], level))
    return joined.part(np.argsort(np.concatenate(places)))


def error_of(query: Query, strategy: Strategy, scale: Fraction, level: float) -> tuple[float, float, How]:
    """Return an answer's exact standard deviation, the half-width of its interval, and how that is known."""
    ((_, batch),) = batches([query], strategy.shape)
    error = errors(batch, strategy, scale, level)
    return float(error.stderr[0]), float(error.half[0]), "exact" if error.exact[0] else "normal"
