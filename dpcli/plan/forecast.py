"""What a plan will cost and how exact its releases will be, known before any data is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dpcli.estimate.cube import standard_error
from dpcli.estimate.intervals import half_width, unit_variance
from dpcli.mechanisms import strategy_of
from dpcli.plan.schema import Plan
from dpcli.privacy.cost import ROWS_PER_PERSON, scale_for
from dpcli.privacy.exact import exact_text
from dpcli.query.workload import random_ranges

RANGES = 1000


@dataclass(frozen=True)
class Forecast:
    """The cost and the expected error of one release.

    ``cell_*`` is about a single cell; ``range_*`` about random range queries that restrict some or all attributes.
    """

    name: str
    mechanism: str
    cells: int
    epsilon: Fraction
    scale: Fraction
    cell_stderr: float
    cell_half_width: float
    range_rmse: float
    range_worst: float

    def record(self) -> dict[str, object]:
        """Return the forecast as the fields that are printed."""
        return {
            "release": self.name,
            "mechanism": self.mechanism,
            "cells": self.cells,
            "epsilon": exact_text(self.epsilon),
            "noise_scale": exact_text(self.scale),
            "cell_stderr": self.cell_stderr,
            "cell_95": self.cell_half_width,
            "range_rmse": self.range_rmse,
            "range_worst": self.range_worst,
        }


def forecast(plan: Plan, level: float = 0.95) -> list[Forecast]:
    """Return the forecast of each release of a plan."""
    found = []
    for spec in plan.releases:
        domain = plan.domain_of(spec)
        strategy = strategy_of(spec.mechanism, domain)
        epsilon = plan.shares()[spec.name]
        scale = scale_for(strategy, epsilon, plan.privacy.neighbors, ROWS_PER_PERSON)
        errors = [standard_error(query, strategy, scale) for query in random_ranges(domain, RANGES)]
        found.append(
            Forecast(
                name=spec.name,
                mechanism=spec.mechanism,
                cells=domain.size,
                epsilon=epsilon,
                scale=scale,
                cell_stderr=sqrt(unit_variance(scale)),
                cell_half_width=half_width(scale, 1, level)[0],
                range_rmse=sqrt(sum(error**2 for error in errors) / len(errors)),
                range_worst=max(errors),
            )
        )
    return found
