"""Trees of plain counts with least squares (Hay et al.), the baseline that the ISPE paper compares with.

An ordered attribute gets a tree of the given branching with all levels or those asked for; a hierarchy
its own tree; any other attribute its total and its categories.
"""

from __future__ import annotations

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.strategy.axis import Axis
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.tree import Tree


def strategy(domain: Domain, options: Options) -> Strategy:
    """A tree along every attribute."""
    return Strategy(tuple(_tree(attribute, options) for attribute in domain.attributes))


def _tree(attribute: Attribute, options: Options) -> Axis:
    if attribute.ordered:
        if options.levels is None:
            return Tree.kary(attribute.size, options.branching)
        levels = [level for level in options.levels if options.branching**level < attribute.size]
        return Tree.kary(attribute.size, options.branching, levels, root=False)
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        return Tree.from_hierarchy(attribute.hierarchy, attribute.size - attribute.regular)
    return Tree.kary(attribute.size, max(2, attribute.size))
