"""From a release of a plan to what will be measured: its domain and its strategy. No data is read."""

from __future__ import annotations

from dataclasses import replace

from dpcli.data.domain import Domain
from dpcli.errors import PlanError, QueryError
from dpcli.mechanisms import Options, strategy_of
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.cost import ROWS_PER_PERSON, scale_for
from dpcli.query.parse import parse_condition
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.workloads import ListedWorkload


def design(plan: Plan, spec: CubeRelease) -> tuple[Domain, Strategy]:
    """Return a release's domain and strategy, identity axes first, as the file's columns will be."""
    domain = plan.domain_of(spec)
    strategy = strategy_of(spec.mechanism, domain, options_of(plan, spec, domain))
    order = strategy.identity_first()
    return domain.reordered(order), strategy.reordered(order)


def options_of(plan: Plan, spec: CubeRelease, domain: Domain) -> Options:
    """Return what a release asks of its mechanism, its workload's conditions turned into queries."""
    cells = Strategy(tuple(map(Identity, domain.shape)))
    scale = scale_for(cells, plan.shares()[spec.name], plan.privacy.neighbors, ROWS_PER_PERSON)
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
