"""From a release of a plan to what will be measured: its domain and its strategy. No data is read."""

from __future__ import annotations

import os
from dataclasses import replace
from math import prod

from dpcli.data.domain import Domain
from dpcli.errors import PlanError, QueryError
from dpcli.mechanisms import Options, strategy_of
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.cost import WIDEST_SCALE, scale_for
from dpcli.privacy.exact import exact_text
from dpcli.query.parse import parse_condition
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import BLOCK_CELLS, Strategy
from dpcli.strategy.large import is_large
from dpcli.strategy.partition import Partition
from dpcli.strategy.workloads import ListedWorkload


def design(plan: Plan, spec: CubeRelease) -> tuple[Domain, Strategy]:
    """Return a release's domain and strategy, identity axes first, as the file's columns will be."""
    domain = plan.domain_of(spec)
    strategy = strategy_of(spec.mechanism, domain, options_of(plan, spec, domain))
    order = strategy.identity_first()
    strategy = strategy.reordered(order)
    _check_memory(spec, domain, strategy)
    if "threshold" in spec.refine and not strategy.inner:
        raise PlanError(
            f"Release '{spec.name}' has nothing to threshold: no attribute is transformed."
            " Write direct: none, or leave out refine."
        )
    weight = prod(int(axis.weights.max()) for axis in strategy.inner)
    epsilon, privacy = plan.cell_epsilon(spec), plan.privacy
    rest = plan.shares()[spec.name] - epsilon  # for ispe's regions
    scale = scale_for(strategy, epsilon, privacy.neighbors, privacy.rows_per_person) * weight
    if rest:
        scale = max(scale, scale_for(Partition, rest, privacy.neighbors, privacy.rows_per_person))
        epsilon = min(epsilon, rest)
    if scale > WIDEST_SCALE:
        less = "mechanism: laplace, or " if spec.mechanism != "laplace" else ""
        fewer = "a smaller max_rows, or " if privacy.rows_per_person > 1 else ""
        raise PlanError(
            f"Release '{spec.name}': epsilon {exact_text(epsilon)} is too small for what {spec.mechanism}"
            " would measure: the noise would be wider than can be drawn exactly. Use"
            f" {less}{fewer}more epsilon."
        )
    return domain.reordered(order), strategy


def working_memory(strategy: Strategy) -> int:
    """Return an estimate of the bytes that a release needs at once, besides the table's distinct cells."""
    rows = strategy.coefficients
    copies = 1 if is_large(strategy) else 4
    return 8 * (rows * copies + 16 * BLOCK_CELLS)


def _check_memory(spec: CubeRelease, domain: Domain, strategy: Strategy) -> None:
    """Refuse a release whose slabs would not fit into the memory, and say what to do."""
    copies = 2 if "threshold" in spec.refine else 1
    needed, there = (
        copies * working_memory(strategy),
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )
    if needed > 0.8 * there:
        longest = max(domain.names, key=lambda name: domain[name].size)
        raise PlanError(
            f"Release '{spec.name}' would need about {needed / 1e9:,.0f} GB of memory, and there are"
            f" {there / 1e9:,.0f} GB: no direct attribute cuts its {domain.size:,} cells into smaller blocks."
            f" Use mechanism: privelet with direct: [{longest}], or laplace, wider bins or fewer attributes."
        )


def options_of(plan: Plan, spec: CubeRelease, domain: Domain) -> Options:
    """Return what a release asks of its mechanism, its workload's conditions turned into queries."""
    cells = Strategy(tuple(map(Identity, domain.shape)))
    scale = scale_for(cells, plan.cell_epsilon(spec), plan.privacy.neighbors, plan.privacy.rows_per_person)
    options = replace(spec.options(), scale_per_norm=float(scale))
    if isinstance(options.workload, tuple):
        return replace(options, workload=_listed(spec.name, options.workload, domain))
    return options


def _listed(name: str, conditions: tuple[str, ...], domain: Domain) -> ListedWorkload:
    found = []
    for condition in conditions:
        try:
            query = parse_condition(condition, domain)
        except QueryError as error:
            raise PlanError(f"The workload of release '{name}' has a condition in error. {error}") from None
        if query.terms:
            found.append(tuple(tuple(map(term.get, range(len(domain.names)))) for term in query.terms))
    if not found:
        raise PlanError(f"The workload of release '{name}' counts no cell at all.")
    return ListedWorkload(tuple(found))
