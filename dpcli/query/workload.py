"""Workloads: many queries at once, to weigh a plan before any data is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.query.product import Mask, Query, Term


def random_ranges(domain: Domain, count: int, seed: int = 0) -> list[Query]:
    """Return random range-count queries as in the Privelet experiments (§8.1).

    A query restricts between one and all of the attributes, each number being as likely as any other. A
    restricted attribute that has an order gets one of its ranges, all equally likely; a hierarchy one of
    its nodes below the root, leaves included; any other attribute one of its categories.
    """
    generator = np.random.default_rng(seed)
    spans = [_random_spans(attribute, count, generator) for attribute in domain.attributes]
    order = generator.random((count, len(spans))).argsort(axis=1)
    restricted = generator.integers(1, len(spans) + 1, size=count)
    queries = []
    for place in range(count):
        axes = sorted(order[place, : restricted[place]])
        term: Term = {int(axis): _mask(domain.attributes[axis].size, *spans[axis][place]) for axis in axes}
        queries.append(Query("random range", (term,)))
    return queries


def _random_spans(attribute: Attribute, count: int, generator: np.random.Generator) -> Any:
    """Return ``count`` random (start, stop) pairs of an attribute's regular categories."""
    size = attribute.regular
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        nodes = [(node.start, node.stop) for node in attribute.hierarchy.nodes[1:]]
        choices = np.array(nodes + [(leaf, leaf + 1) for leaf in range(size)])
        return choices[generator.integers(len(choices), size=count)]
    if not attribute.ordered:
        return generator.integers(size, size=(count, 1)) + np.array([0, 1])
    # A range is a pair of different cuts among size + 1; draw the second among those that are left.
    first, second = generator.integers(size + 1, size=count), generator.integers(size, size=count)
    return np.sort(np.stack([first, second + (second >= first)], axis=1), axis=1)


def _mask(size: int, start: int, stop: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[start:stop] = True
    return mask
