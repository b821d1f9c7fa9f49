"""Choosing one transform per attribute: the mix with the least expected variance over a workload."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import exp, expm1, prod

from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.strategy.axis import Axis
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.workloads import Family, ListedWorkload, RandomWorkload, Workload, random_workload

MOST_MIXES = 20_000
SHORT, SAMPLE = 32, 64


def workload_of(domain: Domain, options: Options) -> Workload:
    """Return the workload that a release asks to be weighed by."""
    if isinstance(options.workload, ListedWorkload):
        return options.workload
    return random_workload(domain, options.workload)


def expected_variance(axes: Sequence[Axis], workload: Workload, scale_per_norm: float | None = None) -> float:
    """Return the workload's mean variance: the form for unit noise times 2q/(1−q)², q = e^(−1/λ).

    Without a known scale, λ² stands for the noise, which is what it is proportional to when wide.
    """
    norm = float(prod(axis.norm for axis in axes))
    if scale_per_norm is None:
        return norm**2 * workload.expected(axes)
    return noise_variance(axes, norm * scale_per_norm) * workload.expected(axes)


def noise_variance(axes: Sequence[Axis], scale: float) -> float:
    """Return the variance by which a form for unit noise is multiplied: 2q/(1−q)², q = e^(−1/λ).

    With weights w the variance of scale λw is between w² times this and 2w²λ²: then 2λ² is the safe number.
    """
    if any(isinstance(axis, NominalWavelet) for axis in axes):
        return 2 * scale**2
    return 2 * exp(-1 / scale) / expm1(-1 / scale) ** 2


def best_mix(
    candidates: Sequence[Sequence[Axis]], workload: Workload, scale_per_norm: float | None = None
) -> Strategy:
    """Return the mix of one candidate per attribute that has the least expected variance.

    Under a random workload the objective is linear in an axis's (norm²·E, norm²·F), so a candidate that is
    beaten in both can be left out; what remains is enumerated if it is little, and else searched axis by
    axis until nothing improves.
    """
    score = partial(expected_variance, workload=workload, scale_per_norm=scale_per_norm)
    kept = [
        _undominated(place, options, workload) if isinstance(workload, RandomWorkload) else list(options)
        for place, options in enumerate(candidates)
    ]
    if prod(map(len, kept)) <= (MOST_MIXES if isinstance(workload, RandomWorkload) else 50):
        return Strategy(min(product(*kept), key=score))
    chosen = [options[0] for options in kept]
    best = score(chosen)
    while True:
        for place, options in enumerate(kept):
            mixes = [[*chosen[:place], axis, *chosen[place + 1 :]] for axis in options]
            chosen = min(mixes, key=score)
        reached = score(chosen)
        if reached >= best * (1 - 1e-12):
            return Strategy(tuple(chosen))
        best = reached


def _shortlist(family: Family, options: Sequence[Axis]) -> list[Axis]:
    """Return the candidates that look best on a sample of the family, restricted or free."""
    if len(options) <= SHORT:
        return list(options)
    rough = RandomWorkload((family.sample(SAMPLE),), some=False)
    scores = {axis: [float(axis.norm) ** 2 * form for form in rough.forms(0, axis)] for axis in options}
    by_range = sorted(options, key=lambda axis: scores[axis][0])[: SHORT // 2]
    by_total = sorted(options, key=lambda axis: (scores[axis][1], scores[axis][0]))[: SHORT // 4]
    return list(dict.fromkeys([*by_range, *by_total]))


def _undominated(place: int, options: Sequence[Axis], workload: RandomWorkload) -> list[Axis]:
    """Return the candidates that no other beats both where the attribute is restricted and free."""
    scored = []
    for axis in _shortlist(workload.families[place], options):
        restricted, free = workload.forms(place, axis)
        scored.append((float(axis.norm) ** 2 * restricted, float(axis.norm) ** 2 * free, axis))
    kept: list[tuple[float, float, Axis]] = []
    for restricted, free, axis in sorted(scored, key=lambda item: item[:2]):
        if not kept or free < kept[-1][1] * (1 - 1e-12):
            kept.append((restricted, free, axis))
    cells = [axis for axis in options if isinstance(axis, Identity)]  # which narrow noise favours
    return list(dict.fromkeys([*(axis for *_, axis in kept), *cells]))
