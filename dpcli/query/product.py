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
    found = _Disjoint(left, right)
    others = [_packed(term) for term in right]
    for one in map(_packed, left):
        for other in others:
            both = dict(one)
            for axis, bits in other.items():
                both[axis] = both.get(axis, bits) & bits
            if all(both.values()):
                found.add(both)
    return found.terms()


def disjunction(*sides: list[Term]) -> list[Term]:
    """Return disjoint terms of *one or other or …*: the first, and what each of the others adds."""
    found = _Disjoint(*sides)
    for side in sides:
        known = found.kept()
        for term in map(_packed, side):
            rest = [term]
            for other in known:
                if _meets(term, other):
                    rest = [part for piece in rest for part in _difference(piece, other, found.full)]
            for part in rest:
                found.add(part)
    return found.terms()


# --- with the bits of whole numbers in place of masks, which are slow to handle one by one -----------------

_Packed = dict[int, int]  # by axis: bit c is set where the mask holds category c


def _packed(term: Term) -> _Packed:
    return {
        axis: int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
        for axis, mask in term.items()
    }


def _mask(bits: int, size: int) -> Mask:
    content = np.frombuffer(bits.to_bytes(-(-size // 8), "little"), np.uint8)
    return np.unpackbits(content, count=size, bitorder="little").view(np.bool_)


def _meets(term: _Packed, other: _Packed) -> bool:
    """Tell whether two terms have a cell in common."""
    return all(axis not in term or term[axis] & bits for axis, bits in other.items())


def _difference(term: _Packed, other: _Packed, full: _Packed) -> list[_Packed]:
    """Return disjoint terms of *term and not other*.

    Outside a product m_1 × … × m_k lie the disjoint products m_1 × … × m_(j−1) × ¬m_j, for j = 1 … k; each
    is cut with the term.
    """
    if not _meets(term, other):
        return [term]
    found, inside = [], dict(term)
    for axis, bits in other.items():
        here = inside.get(axis, full[axis])
        if here & ~bits:
            found.append({**inside, axis: here & ~bits})
        inside[axis] = here & bits
    return found


class _Disjoint:
    """Disjoint terms, of which those that differ on one axis only are joined."""

    def __init__(self, *sides: list[Term]) -> None:
        self._sizes = {axis: len(mask) for side in sides for term in side for axis, mask in term.items()}
        self.full = {axis: (1 << size) - 1 for axis, size in self._sizes.items()}
        self._kept: dict[int, _Packed] = {}
        self._places: dict[object, int] = {}  # a kept term by all of its axes but one
        self._next = 0

    def add(self, term: _Packed) -> None:
        """Add a term that is disjoint from the others; axes that it does not restrict are dropped."""
        term = {axis: bits for axis, bits in term.items() if bits != self.full[axis]}
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

    def kept(self) -> list[_Packed]:
        return list(self._kept.values())

    def terms(self) -> list[Term]:
        return [{axis: _mask(bits, self._sizes[axis]) for axis, bits in term.items()} for term in self.kept()]


def _key(term: _Packed, axis: int) -> object:
    return axis, frozenset((other, bits) for other, bits in term.items() if other != axis)
