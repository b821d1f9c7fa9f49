"""Answers from a release by ispe: estimates of its cells from both measurements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpcli.estimate.answer import Answers
from dpcli.estimate.cube import Asked
from dpcli.estimate.errors import Errors
from dpcli.estimate.ispe.estimate import Estimator, Reference, RegionEstimate
from dpcli.partition.axes import Neighbourhood
from dpcli.query.batch import Batch
from dpcli.release.file import Release
from dpcli.strategy.axis import FloatArray

_ANY_LEVEL = 0.5


class RegionSource:
    """Answers that are sums of estimated cells."""

    def __init__(self, release: Release, estimator: Estimator, neighbours: Reference) -> None:
        self.release = release
        self._choice = estimator, neighbours

    @cached_property
    def estimate(self) -> RegionEstimate:
        """The estimate of all cells, made when the first question is asked."""
        metadata, regions = self.release.metadata, self.release.regions
        assert metadata.regions is not None
        return RegionEstimate(
            self.release.counts,
            regions.labels,
            regions.counts,
            metadata.noise.scale,
            metadata.regions.scale,
            *self._choice,
            groups=Neighbourhood.of(self.release.domain).groups,
        )

    def answers(self, asked: Sequence[Asked], level: float) -> list[Answers]:
        """Answer each batch of questions."""
        found = []
        for question in asked:
            parts = question.linear(self.release)
            made = self.estimate.products(parts[0], level)
            if question.function == "avg":
                count = self.estimate.products(parts[1], level)
                made = question.averages(self.release, made.value, count.value, self, level)
                made = Answers(
                    made.value,
                    made.stderr,
                    made.low,
                    made.high,
                    np.where(made.how == "none", "none", "posterior"),
                )
            found.append(made)
        return found

    def errors(self, batch: Batch, level: float) -> Errors:
        """Return standard errors and intervals."""
        found = self.estimate.products(batch, level)
        return Errors(found.stderr, (found.high - found.low) / 2, np.zeros(len(batch), np.bool_))

    def standard_errors(self, batch: Batch) -> FloatArray:
        """Return standard errors alone."""
        return self.estimate.products(batch, _ANY_LEVEL).stderr
