"""Conditions as a tree over choices of categories, and the disjoint terms that such a tree stands for.

A cut inside a category splits it into pieces. The algebra is done with masks of pieces, and a piece then
counts with its share of the category's width.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from math import ceil, floor

import numpy as np

from dpcli.data.domain import Domain
from dpcli.query.product import Mask, Term, Weights, conjunction, disjunction

Place = int | Fraction  # a cut: so many categories, or shares of one, lie below it


@dataclass(frozen=True)
class Choice:
    """Some categories of one attribute, ``start <= place < stop`` for every span, or all others.

    The categories ``unknown`` are in neither: they make a comparison neither true nor false.
    """

    axis: int
    spans: frozenset[tuple[Place, Place]]
    negated: bool = False
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True)
class Joined:
    """All of some conditions (``and``), or any of them (``or``)."""

    every: bool
    parts: tuple[Tree, ...]


Tree = Choice | Joined | bool


def terms_of(tree: Tree, domain: Domain) -> list[Term]:
    """Return the disjoint terms of the cells, or shares of cells, for which a condition is true."""
    cuts: dict[int, set[Fraction]] = {}
    pending = [tree]
    while pending:
        match pending.pop():
            case Choice(axis, spans):
                inside = {p for span in spans for p in map(Fraction, span) if p.denominator > 1}
                cuts.setdefault(axis, set()).update(inside)
            case Joined(_, parts):
                pending += parts
    pieces = {axis: Pieces(domain.shape[axis], tuple(sorted(found))) for axis, found in cuts.items()}
    return [
        {axis: pieces[axis].weights(mask) for axis, mask in term.items()} for term in _terms(tree, pieces)
    ]


def _terms(tree: Tree, pieces: dict[int, Pieces]) -> list[Term]:
    """Return the terms of a condition, as masks of pieces."""
    match tree:
        case Choice():
            mask = pieces[tree.axis].mask(tree)
            return [{tree.axis: mask}] if mask.any() else []
        case Joined():
            parts = (_terms(part, pieces) for part in tree.parts)
            return reduce(conjunction, parts) if tree.every else disjunction(*parts)
    return [{}] if tree else []


@dataclass(frozen=True)
class Pieces:
    """The categories of one attribute, those with cuts inside split there; ``cuts`` increase."""

    size: int
    cuts: tuple[Fraction, ...]

    def index(self, place: Place) -> int:
        """Return how many pieces lie below a place that cuts none: its categories, and one more per cut."""
        return ceil(place) + bisect_left(self.cuts, place)

    def mask(self, choice: Choice) -> Mask:
        """Return the pieces that are chosen."""
        mask = np.zeros(self.size + len(self.cuts), np.bool_)
        for start, stop in choice.spans:
            mask[self.index(start) : self.index(stop)] = True
        if choice.negated:
            mask = ~mask
            mask[[self.index(code) for code in choice.unknown]] = False
        return mask

    @cached_property
    def split(self) -> dict[int, list[Fraction]]:
        """The ends of the pieces of every category that is cut, its own two included."""
        ends: dict[int, list[Fraction]] = {}
        for cut in self.cuts:
            ends.setdefault(floor(cut), [Fraction(floor(cut))]).append(cut)
        return {category: [*inner, Fraction(category + 1)] for category, inner in ends.items()}

    def weights(self, mask: Weights) -> Weights:
        """Return how much of each category a mask of pieces holds; a mask where it holds all or nothing."""
        if not self.cuts:
            return mask
        whole = np.arange(self.size)
        first = whole + np.searchsorted([floor(cut) for cut in self.cuts], whole)
        found: Weights = mask[first]
        shares = found.astype(np.float64)
        for category, ends in self.split.items():
            chosen = mask[first[category] : first[category] + len(ends) - 1]
            parts = zip(ends, ends[1:], chosen, strict=False)
            shares[category] = float(sum(stop - start for start, stop, held in parts if held))
        return found if np.array_equal(found, shares) else shares
