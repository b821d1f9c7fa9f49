"""What a release will say about itself, worked out from its plan. No data."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from dpcli import __version__
from dpcli.data.domain import Domain
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.cost import scale_for
from dpcli.release.guarantee import sentences
from dpcli.release.metadata import MeasuredRegions, Metadata, Noise, Privacy, RowGroup
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.partition import Partition


def claim_of(
    plan: Plan, spec: CubeRelease, release_id: str, domain: Domain, strategy: Strategy, *, private: bool
) -> Metadata:
    """Describe a release before it is paid for; what is returned was read back as a reader will read it."""
    epsilon = plan.shares()[spec.name]
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    promise, unit = plan.privacy, plan.privacy.unit
    cells = plan.cell_epsilon(spec)
    scale = scale_for(strategy, cells, promise.neighbors, promise.rows_per_person)
    regions = None
    if spec.mechanism == "ispe":
        regions = MeasuredRegions(scale=_region_scale(plan, spec))  # how many is not known yet
    claim = Metadata(
        id=release_id,
        tool=f"dpcli {__version__}",
        created=now if private else None,  # a fixture is the same file every time
        randomness="operating-system" if private else "seeded",
        dataset=plan.dataset,
        name=spec.name,
        mechanism=spec.mechanism,
        steps=list(spec.refine),
        domain=domain.describe(),
        where=spec.where,
        strategy=strategy.describe(),
        noise=Noise(scale=scale),
        regions=regions,
        privacy=Privacy(
            epsilon=epsilon,
            neighbors=promise.neighbors,
            rows_per_person=promise.rows_per_person,
            unit=unit.column if unit else None,
            parallel=spec.parallel,
        ),
    )
    claim = claim.model_copy(update={"guarantee": sentences(claim)})
    whole = claim.model_copy(update={"blocks": [RowGroup(rows=domain.size, sha256="")]})
    read_back = Metadata.from_json(whole.to_json().encode(), spec.name)
    return read_back.model_copy(update={"blocks": []})


def made_as_planned(plan: Plan, spec: CubeRelease, claim: Metadata) -> bool:
    """Whether a release is what a plan would make now: the same cube and rows, mechanism and promise."""
    promise, unit = plan.privacy, plan.privacy.unit
    by_name = {str(item["name"]): item for item in claim.domain_description}
    wanted = {str(item["name"]): item for item in plan.domain_of(spec).describe()}
    return (
        by_name == wanted
        and (claim.where, claim.mechanism, claim.steps) == (spec.where, spec.mechanism, list(spec.refine))
        and (claim.privacy.epsilon, claim.privacy.neighbors) == (plan.shares()[spec.name], promise.neighbors)
        and (claim.privacy.rows_per_person, claim.privacy.unit)
        == (promise.rows_per_person, unit.column if unit else None)
        and (claim.regions is None or claim.regions.scale == _region_scale(plan, spec))
    )


def _region_scale(plan: Plan, spec: CubeRelease) -> Fraction:
    """Return the noise on ispe's regions, for what epsilon its cells leave."""
    rest = plan.shares()[spec.name] - plan.cell_epsilon(spec)
    return scale_for(Partition, rest, plan.privacy.neighbors, plan.privacy.rows_per_person)
