"""Workloads: many queries at once, to weigh a plan before any data is read."""

from __future__ import annotations

import numpy as np

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.query.product import Mask, Query


def random_ranges(domain: Domain, count: int, seed: int = 0) -> list[Query]:
    """Return random queries that restrict every attribute, as in the Privelet experiments (§7).

    An ordered attribute gets a range whose two ends are uniform, a hierarchy one of its nodes below the
    root (leaves included), any other attribute one of its categories.
    """
    generator = np.random.default_rng(seed)
    masks = [_random_masks(attribute, count, generator) for attribute in domain.attributes]
    return [Query("random range", (dict(enumerate(term)),)) for term in zip(*masks, strict=True)]


def _random_masks(attribute: Attribute, count: int, generator: np.random.Generator) -> list[Mask]:
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        spans = [(node.start, node.stop) for node in attribute.hierarchy.nodes[1:]]
        spans += [(leaf, leaf + 1) for leaf in range(attribute.regular)]
        chosen = np.array(spans)[generator.integers(len(spans), size=count)]
    elif attribute.ordered:
        ends = generator.integers(attribute.regular, size=(count, 2))
        chosen = np.sort(ends, axis=1) + np.array([0, 1])
    else:
        chosen = generator.integers(attribute.regular, size=(count, 1)) + np.array([0, 1])
    positions = np.arange(attribute.size)
    return [(start <= positions) & (positions < stop) for start, stop in chosen]
