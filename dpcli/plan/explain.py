"""What each mechanism would give for a release: the table behind ``dpcli plan explain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod, sqrt

import numpy as np

from dpcli.data.domain import Domain
from dpcli.mechanisms import NAMES, OPTIONS, Options, strategy_of
from dpcli.mechanisms.choice import noise_variance, workload_of
from dpcli.plan.design import options_of, working_memory
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.cost import scale_for
from dpcli.privacy.exact import exact_text
from dpcli.query.parse import parse_condition
from dpcli.query.words import span_phrase
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.workloads import ListedWorkload, RandomWorkload, Workload

WRITE_NS = 75
TRANSFORM_NS = {"identity": 0, "haar": 25, "nominal": 35, "tree": 30, "optimized": 200}
"""Rough: nanoseconds a cell to draw and write, and a coefficient to transform along an axis and back."""
GROW_NS, GROW_BYTES = 600, 100
"""Rough: what a cell takes besides, to grow ispe's regions."""


REGIONS = "; then regions"
"""What ispe measures besides its cells."""


@dataclass(frozen=True)
class Prospect:
    """What one mechanism would give for a release."""

    release: str
    mechanism: str
    planned: bool
    strategy: Strategy
    measures: str
    epsilon: Fraction
    scale: Fraction
    rmse: float
    worst: float
    worst_query: str

    def record(self) -> dict[str, object]:
        """Return the prospect as the fields that are printed."""
        return {
            "release": self.release,
            "mechanism": self.mechanism,
            "planned": self.planned,
            "measures": self.measures,
            "expected_rmse": self.rmse,
            "worst_stderr": self.worst,
            "worst_query": self.worst_query,
            "epsilon": exact_text(self.epsilon),
            "noise_scale": exact_text(self.scale),
            "memory_mb": self.memory,
            "seconds": self.seconds,
        }

    @property
    def memory(self) -> int:
        """An estimate in MB, besides 16 bytes for every distinct cell of the table."""
        cells = working_memory(self.strategy.reordered(self.strategy.identity_first()))
        grown = GROW_BYTES * prod(self.strategy.shape) if self.mechanism == "ispe" else 0
        return round(250 + (cells + grown) / 1e6)

    @property
    def seconds(self) -> float:
        """An estimate, besides reading and counting the table."""
        cells = prod(self.strategy.shape)
        transforms = sum(TRANSFORM_NS[axis.kind] * axis.rows / axis.size for axis in self.strategy.axes)
        grown = GROW_NS if self.mechanism == "ispe" else 0
        return round(0.3 + cells * (WRITE_NS + transforms + grown) / 1e9, 1)


def explain(plan: Plan) -> list[Prospect]:
    """Return for each release what every mechanism would give, best first."""
    found = []
    for spec in plan.releases:
        named = [name for name in NAMES if name != "ispe" or spec.mechanism == "ispe"]
        prospects = [_prospect(plan, spec, name) for name in named]
        found += sorted(prospects, key=lambda p: (float(f"{p.rmse:.3g}"), not p.planned, p.mechanism))
    return found


def verdict(prospects: list[Prospect]) -> list[str]:
    """Say for each release which mechanism is the best, and why."""
    sentences = []
    for name in dict.fromkeys(prospect.release for prospect in prospects):
        ranked = [prospect for prospect in prospects if prospect.release == name]
        best, planned = ranked[0], next(prospect for prospect in ranked if prospect.planned)
        if planned.rmse <= best.rmse * 1.01:
            best = planned
            text = (
                f"{planned.mechanism}, as planned, has the least expected error of all, or within 1 % of it"
            )
        else:
            times = (planned.rmse / best.rmse) ** 2
            text = (
                f"{best.mechanism} would be best: its mean variance is {times:.3g} times lower than that of"
                f" {planned.mechanism}, which is planned, at the same epsilon"
            )
        if planned.mechanism == "ispe":
            text += ". Of ispe only the cells are counted here: what its regions gain depends on the data"
        sentences.append(
            f"Release '{name}': {text}. {best.mechanism} measures {best.measures}. Its worst query:"
            f" {best.worst_query}."
        )
    return sentences


def _prospect(plan: Plan, spec: CubeRelease, mechanism: str) -> Prospect:
    """Weigh a mechanism, with the release's own options where it takes them, by the release's workload."""
    domain = plan.domain_of(spec)
    asked = options_of(plan, spec, domain)
    taken = {name: getattr(asked, name) for name in (*OPTIONS[mechanism], "scale_per_norm")}
    epsilon = plan.shares()[spec.name]
    if mechanism != "ispe":  # which alone keeps some of epsilon for another measurement
        taken["scale_per_norm"] *= float(spec.cell_share)
    strategy = strategy_of(mechanism, domain, Options(**taken))
    workload = workload_of(domain, asked)
    cells = plan.cell_epsilon(spec) if mechanism == "ispe" else epsilon
    scale = scale_for(strategy, cells, plan.privacy.neighbors, plan.privacy.rows_per_person)
    worst, query = worst_query(workload, strategy, domain, _conditions(spec, domain))
    unit = noise_variance(strategy.axes, float(scale))
    return Prospect(
        release=spec.name,
        mechanism=mechanism,
        planned=mechanism == spec.mechanism,
        strategy=strategy,
        measures=strategy.summary(domain.names) + (REGIONS if mechanism == "ispe" else ""),
        epsilon=epsilon,
        scale=scale,
        rmse=sqrt(unit * workload.expected(strategy.axes)),
        worst=sqrt(unit * worst),
        worst_query=query,
    )


def worst_query(
    workload: Workload, strategy: Strategy, domain: Domain, conditions: Sequence[str] = ()
) -> tuple[float, str]:
    """Return the largest variance of a workload's query for unit noise, and that query as a condition.

    A listed workload's query is told by the condition that it was written as, or else by its number.
    """
    if isinstance(workload, ListedWorkload):
        each = [ListedWorkload((terms,)).expected(strategy.axes) for terms in workload.queries]
        place = int(np.argmax(each))
        return max(each), conditions[place] if conditions else f"condition {place + 1}"
    assert isinstance(workload, RandomWorkload)
    free = [workload.forms(place, axis)[1] for place, axis in enumerate(strategy.axes)]
    restricted = [workload.families[place].worst(axis) for place, axis in enumerate(strategy.axes)]
    gain = [value / whole for (value, _), whole in zip(restricted, free, strict=True)]
    chosen = [k for k in range(len(gain)) if not workload.some or gain[k] > 1] or [int(np.argmax(gain))]
    total = prod(restricted[k][0] if k in chosen else free[k] for k in range(len(gain)))
    words = [span_phrase(domain.names[k], domain.attributes[k], *restricted[k][1]) for k in chosen]
    return total, " and ".join(words)


def _conditions(spec: CubeRelease, domain: Domain) -> list[str]:
    """Return the conditions of a release's own workload that count some cell, as it lists them."""
    listed = spec.workload if isinstance(spec.workload, tuple) else ()
    return [condition for condition in listed if parse_condition(condition, domain).terms]
