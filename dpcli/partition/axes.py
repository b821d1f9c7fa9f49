"""Which categories of a cube's attributes are neighbours, for growing regions; no data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.partition.neighbours import Groups, IntArray


@dataclass(frozen=True)
class Neighbourhood:
    """For each axis the groups within which categories are neighbours, and whether they have an order.

    Along an ordered attribute all regular categories are one group; what counts as other or missing stands
    apart. The leaves of a hierarchy are neighbours, in their order, if they have the same parent. Categories
    without order or hierarchy are never neighbours.
    """

    groups: Groups
    ordered: tuple[bool, ...]

    @classmethod
    def of(cls, domain: Domain) -> Neighbourhood:
        attributes = domain.attributes
        return cls([_groups(each) for each in attributes], tuple(each.ordered for each in attributes))


def _groups(attribute: Attribute) -> IntArray | None:
    apart = np.arange(attribute.size)
    if attribute.ordered:
        if attribute.size == attribute.regular:
            return None
        return np.maximum(apart, attribute.regular - 1)
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        groups = apart + attribute.size  # the extra categories, and leaves right below the root, stand apart
        for number, node in enumerate(attribute.hierarchy.nodes):  # parents come before their children
            if node.path:
                groups[node.start : node.stop] = number
        return groups
    return apart
