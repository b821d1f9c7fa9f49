"""Trees of plain counts with least squares (Hay et al.), the baseline that the ISPE paper compares with.

An ordered attribute gets a tree of the given branching with all levels or those asked for; a hierarchy
its own tree; any other attribute its total and its categories.
"""

from __future__ import annotations

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.tree import MOST_WEIGHT, Tree


def strategy(domain: Domain, options: Options) -> Strategy:
    """A tree along every attribute."""
    trees = [_tree(attribute, options) for attribute in domain.attributes]
    return Strategy(tuple(_halved(tree) if options.split == "geometric" else tree for tree in trees))


def _halved(tree: Tree) -> Tree:
    """Give each level half of the epsilon of the next finer one (ISPE §5: α·2^(h−L−1) on level h of L)."""
    last = len(tree.levels) - 1
    weights = tuple(min(2 ** (last - level), MOST_WEIGHT) for level in range(len(tree.levels)))
    return Tree(tree.size, tree.levels, weights)


def _tree(attribute: Attribute, options: Options) -> Tree:
    if attribute.ordered:
        if options.levels is None:
            return Tree.kary(attribute.size, options.branching)
        levels = [level for level in options.levels if options.branching**level < attribute.size]
        return Tree.kary(attribute.size, options.branching, levels, root=False)
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        return Tree.from_hierarchy(attribute.hierarchy, attribute.size - attribute.regular)
    return Tree.kary(attribute.size, max(2, attribute.size))
