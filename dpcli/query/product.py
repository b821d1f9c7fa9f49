"""Product-form queries: sums of terms, each a product of one vector of weights per attribute.

A condition on a cube's attributes is kept as *disjoint* terms, so that its count is the sum of theirs. Its
vectors are masks of categories, or where a cut falls inside a category, shares of it. An attribute that a
term does not mention is unrestricted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.errors import QueryError

Mask = NDArray[np.bool_]
Weights = NDArray[Any]
Term = dict[int, Weights]
MOST_TERMS = 2000


@dataclass(frozen=True)
class Query:
    """A count over the cells of disjoint terms, with the text it was written as."""

    text: str
    terms: tuple[Term, ...]
    warnings: tuple[str, ...] = ()

    def factors(self, term: Term, shape: tuple[int, ...]) -> list[Weights]:
        """Return a term's weights for every axis, all ones where it is not mentioned."""
        return [term.get(axis, np.ones(size, np.bool_)) for axis, size in enumerate(shape)]

    def cells(self, shape: tuple[int, ...]) -> int:
        """Return the number of cells that the query counts."""
        total = 0
        for term in self.terms:
            cells = 1
            for axis, size in enumerate(shape):
                cells *= int(np.count_nonzero(term[axis])) if axis in term else size
            total += cells
        return total


def conjunction(left: list[Term], right: list[Term]) -> list[Term]:
    """Return the terms of *left and right*; disjoint if both sides are."""
    found: list[Term] = []
    for one in left:
        for other in right:
            both = dict(one)
            for axis, mask in other.items():
                both[axis] = both[axis] & mask if axis in both else mask
            if all(mask.any() for mask in both.values()):
                found.append(both)
    return _simplified(found)


def disjunction(left: list[Term], right: list[Term]) -> list[Term]:
    """Return disjoint terms of *left or right*: left, and what right adds to it."""
    return _simplified(left + conjunction(right, complement(left)))


def complement(terms: list[Term]) -> list[Term]:
    """Return disjoint terms that hold exactly the cells outside ``terms``.

    Outside a product m_1 × … × m_k lie the disjoint products m_1 × … × m_(j−1) × ¬m_j, for j = 1 … k.
    """
    found: list[Term] = [{}]
    for term in terms:
        outside: list[Term] = []
        inside: Term = {}
        for axis, mask in term.items():
            if not mask.all():
                outside.append({**inside, axis: ~mask})
            inside[axis] = mask
        found = conjunction(found, outside)
    return found


def _simplified(terms: list[Term]) -> list[Term]:
    """Join disjoint terms that differ on one axis only, and drop axes that are not restricted."""
    kept: list[Term] = []
    for term in ({a: m for a, m in term.items() if not m.all()} for term in terms):
        for place, other in enumerate(kept):
            if other.keys() == term.keys():
                differing = [axis for axis in term if not np.array_equal(term[axis], other[axis])]
                if len(differing) == 1:
                    kept[place] = {**other, differing[0]: other[differing[0]] | term[differing[0]]}
                    break
        else:
            kept.append(term)
    if len(kept) > MOST_TERMS:
        raise QueryError(
            f"The condition falls into more than {MOST_TERMS:,} separate boxes; ask it as several questions."
        )
    return kept
