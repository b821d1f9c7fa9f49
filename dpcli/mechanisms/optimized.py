"""A strategy fitted to the workload along every attribute: see strategy/optimized.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dpcli.data.attributes import Attribute
from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.mechanisms.choice import best_mix, workload_of
from dpcli.strategy import grams
from dpcli.strategy.axis import Axis, FloatArray
from dpcli.strategy.fit import fit_optimized, unit_for
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.workloads import Family, ListedWorkload, RandomWorkload, Workload

SHORTEST = 8
"""On shorter axes there is nothing to gain over the cells themselves."""
MOST_LISTED = 4096
"""Longer axes are fitted to ranges only: a matrix of their categories would be too large."""


def strategy(domain: Domain, options: Options) -> Strategy:
    """Fitted sums along every attribute, or the cells themselves where those are better."""
    cells: list[list[Axis]] = [[Identity(size)] for size in domain.shape]
    return best_mix(with_fitted(domain, options, cells), workload_of(domain, options), options.scale_per_norm)


def with_fitted(domain: Domain, options: Options, candidates: list[list[Axis]]) -> list[list[Axis]]:
    """Add to each attribute's candidates one that is fitted to what the workload asks of it.

    How much an attribute's restricted and its free form weigh depends on the other axes: they are taken
    from the best mix of the candidates so far.
    """
    workload = workload_of(domain, options)
    mix = best_mix(candidates, workload, options.scale_per_norm)
    ranges = isinstance(workload, RandomWorkload)
    long = [
        place
        for place, attribute in enumerate(domain.attributes)
        if attribute.size >= SHORTEST and (attribute.size <= MOST_LISTED or (ranges and attribute.ordered))
    ]
    fit = partial(fit_optimized, unit=unit_for(len(long)))
    found = [list(axes) for axes in candidates]
    for place in long:
        attribute = domain.attributes[place]
        gram = _gram(place, attribute, workload, mix)
        spans: tuple[tuple[int, int], ...] = ()
        if isinstance(workload, RandomWorkload) and not attribute.ordered:
            spans = workload.families[place].spans
        found[place].append(fit(attribute.size, gram, spans=spans))
    return found


def _gram(place: int, attribute: Attribute, workload: Workload, mix: Strategy) -> FloatArray:
    """Return what queries on one attribute look like: α E[qqᵀ] where it is restricted, β 11ᵀ where not."""
    if isinstance(workload, ListedWorkload):
        return _listed_gram(place, attribute.size, workload)
    assert isinstance(workload, RandomWorkload)
    forms: list[Any] = [workload.forms(k, axis) for k, axis in enumerate(mix.axes)]
    restricted = workload.combine([*forms[:place], (1.0, 0.0), *forms[place + 1 :]])
    free = workload.combine([*forms[:place], (0.0, 1.0), *forms[place + 1 :]])
    gram = _family_gram(attribute, workload.families[place])
    return restricted * gram + free * np.ones_like(gram)


def _family_gram(attribute: Attribute, family: Family) -> FloatArray:
    order = min(attribute.regular, grams.MOST_ORDER)
    if family.cuts:
        gram = grams.random_ranges(order) if family.widths else grams.all_ranges(order)
    elif attribute.ordered and attribute.regular > 1:
        gram = grams.prefixes(order)
    else:
        gram = grams.spans(attribute.regular, family.spans)
    return grams.padded(gram, attribute.size) if len(gram) == attribute.regular < attribute.size else gram


def _listed_gram(place: int, size: int, workload: ListedWorkload) -> FloatArray:
    gram = np.full((size, size), 1e-6) + 1e-3 * np.eye(size)  # so that no cell is left without any weight
    for terms in workload.queries:
        for term in terms:
            mask = np.ones(size) if term[place] is None else np.asarray(term[place], np.float64)
            gram += np.outer(mask, mask) / len(terms)
    return gram
