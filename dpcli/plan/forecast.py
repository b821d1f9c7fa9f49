"""What a plan will cost and how exact its releases will be, known before any data is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from dpcli.data.domain import Domain
from dpcli.estimate.cube import error_of
from dpcli.mechanisms.choice import noise_variance, workload_of
from dpcli.plan.design import design, options_of
from dpcli.plan.explain import worst_query
from dpcli.plan.schema import Plan
from dpcli.privacy.cost import scale_for
from dpcli.privacy.exact import exact_text
from dpcli.query.product import Query


@dataclass(frozen=True)
class Forecast:
    """The cost and the expected error of one release.

    ``cell_*`` is about a single cell; ``range_*`` about the release's workload.
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


def _first_cell(domain: Domain) -> Query:
    return Query("first cell", ({k: np.arange(size) == 0 for k, size in enumerate(domain.shape)},))


def forecast(plan: Plan, level: float = 0.95) -> list[Forecast]:
    """Return the forecast of each release of a plan."""
    found = []
    for spec in plan.releases:
        domain, strategy = design(plan, spec)
        epsilon = plan.shares()[spec.name]
        cells = plan.cell_epsilon(spec)
        scale = scale_for(strategy, cells, plan.privacy.neighbors, plan.privacy.rows_per_person)
        workload = workload_of(domain, options_of(plan, spec, domain))
        unit = noise_variance(strategy.axes, float(scale))
        cell, half, _ = error_of(_first_cell(domain), strategy, scale, level)
        found.append(
            Forecast(
                name=spec.name,
                mechanism=spec.mechanism,
                cells=domain.size,
                epsilon=epsilon,
                scale=scale,
                cell_stderr=cell,
                cell_half_width=half,
                range_rmse=sqrt(unit * workload.expected(strategy.axes)),
                range_worst=sqrt(unit * worst_query(workload, strategy, domain)[0]),
            )
        )
    return found
