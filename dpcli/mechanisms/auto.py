"""The best mix of all axis transforms for a workload, chosen before any data is read."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations
from math import isqrt

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.mechanisms.choice import best_mix, workload_of
from dpcli.mechanisms.optimized import with_fitted
from dpcli.mechanisms.privelet import wavelet
from dpcli.strategy import cache
from dpcli.strategy.axis import Axis
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.tree import Tree
from dpcli.strategy.workloads import ListedWorkload

MOST_CELLS_TO_FIT = 1 << 27
"""Above this a fitted axis would cost more time in transforms than it is worth."""


LONG = 1 << 14
"""On longer axes only a few trees are tried: they differ little there, and weighing one takes long."""

VERSION = 2
"""Part of the cache's key: to be raised whenever the search would find something else."""


def strategy(domain: Domain, options: Options) -> Strategy:
    """Return the best mix, from the cache if it was found before."""
    name = f"mix-{_key(domain, options)}"
    try:
        known = Strategy.from_description(cache.read(name))
        if known.shape == domain.shape:
            return known
    except (TypeError, ValueError, KeyError):
        pass  # there is none, or it is damaged
    found = search(domain, options)
    cache.write(name, found.describe())
    return found


def _key(domain: Domain, options: Options) -> str:
    workload = options.workload
    if isinstance(workload, ListedWorkload):
        workload = [
            [[None if mask is None else mask.tolist() for mask in term] for term in query]
            for query in workload.queries
        ]
    what = json.dumps([VERSION, domain.describe(), workload, options.scale_per_norm], sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()


def search(domain: Domain, options: Options) -> Strategy:
    """Enumerate identity, wavelet, trees and, for cubes of moderate size, a fitted axis per attribute."""
    workload = workload_of(domain, options)
    candidates = [candidates_for(attribute) for attribute in domain.attributes]
    if domain.size <= MOST_CELLS_TO_FIT:
        candidates = with_fitted(domain, options, candidates)
    return best_mix(candidates, workload, options.scale_per_norm)


def candidates_for(attribute: Attribute) -> list[Axis]:
    """Return the transforms worth trying on an attribute."""
    size = attribute.size
    found: list[Axis] = [Identity(size)]
    if size == 1:
        return found
    found.append(wavelet(attribute))
    if attribute.ordered:
        found += _trees(size)
    elif isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        extra = size - attribute.regular
        found += [Tree.from_hierarchy(attribute.hierarchy, extra, root=root) for root in (True, False)]
    else:
        found.append(Tree.kary(size, size))
    return list(dict.fromkeys(found))


def _trees(size: int) -> list[Axis]:
    """Return k-ary trees with up to three levels above the cells, with and without the root."""
    found: list[Axis] = []
    widest = max(2, min(64, 2 * isqrt(size)))
    choices = (*range(2, 21), 24, 28, 32, 40, 48, 64) if size <= LONG else (16, 24, 32)
    for branching in [b for b in choices if b <= widest]:
        heights = [height for height in range(1, 12) if branching**height < size]
        for count in range(min(3 if branching > 2 else 2, len(heights)) + 1):
            for levels in combinations(heights, count):
                found += [Tree.kary(size, branching, levels, root=root) for root in (True, False)]
    return found
