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
    found = _Disjoint()
    for one in left:
        for other in right:
            both = dict(one)
            for axis, mask in other.items():
                both[axis] = both[axis] & mask if axis in both else mask
            if all(mask.any() for mask in both.values()):
                found.add(both)
    return found.terms()


def disjunction(*sides: list[Term]) -> list[Term]:
    """Return disjoint terms of *one or other or …*: the first, and what each of the others adds."""
    found = _Disjoint()
    for side in sides:
        known = found.terms()
        for term in side:
            rest = [term]
            for other in known:
                rest = [part for piece in rest for part in difference(piece, other)]
            for part in rest:
                found.add(part)
    return found.terms()


def difference(term: Term, other: Term) -> list[Term]:
    """Return disjoint terms of *term and not other*.

    Outside a product m_1 × … × m_k lie the disjoint products m_1 × … × m_(j−1) × ¬m_j, for j = 1 … k; each
    is cut with the term.
    """
    if any(axis in term and not (term[axis] & mask).any() for axis, mask in other.items()):
        return [term]
    found, inside = [], dict(term)
    for axis, mask in other.items():
        outside = inside[axis] & ~mask if axis in inside else ~mask
        if outside.any():
            found.append({**inside, axis: outside})
        inside[axis] = inside[axis] & mask if axis in inside else mask
    return found


class _Disjoint:
    """Disjoint terms, of which those that differ on one axis only are joined."""

    def __init__(self) -> None:
        self._kept: dict[int, Term] = {}
        self._places: dict[object, int] = {}  # a kept term by all of its axes but one
        self._next = 0

    def add(self, term: Term) -> None:
        """Add a term that is disjoint from the others; axes that it does not restrict are dropped."""
        term = {axis: mask for axis, mask in term.items() if not mask.all()}
        for axis in term:
            place = self._places.get(_key(term, axis))
            if place is not None:
                other = self._kept.pop(place)
                for each in other:
                    del self._places[_key(other, each)]
                self.add({**term, axis: term[axis] | other[axis]})
                return
        self._kept[self._next] = term
        self._places.update({_key(term, axis): self._next for axis in term})
        self._next += 1
        if len(self._kept) > MOST_TERMS:
            raise QueryError(
                f"The condition falls into more than {MOST_TERMS:,} separate boxes; ask it as several"
                " questions."
            )

    def terms(self) -> list[Term]:
        return list(self._kept.values())


def _key(term: Term, axis: int) -> object:
    return axis, frozenset((other, mask.tobytes()) for other, mask in term.items() if other != axis)
