"""Workloads in the form that strategies are chosen by: per attribute, which categories a query may ask for.

For unit noise the variance of a product-form query is Π_k q_kᵀ V_k q_k, so the expected variance over
independent choices per attribute needs only each axis's mean form E = E[qᵀVq] where the attribute is
restricted and F = 1ᵀV1 where it is not. No data is touched, so weighing strategies costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.strategy.axis import Axis, FloatArray
from dpcli.strategy.identity import Identity

T = TypeVar("T")
Kind = Literal["random", "ranges", "prefixes"]
KINDS: tuple[Kind, ...] = ("random", "ranges", "prefixes")
MOST_CUTS = 512
MOST_NUMBERS = 1 << 22
"""Longer axes are weighed by ranges between so many of their cuts, so that a matrix of them stays small."""


@dataclass(frozen=True)
class Family:
    """The queries that may restrict one attribute.

    ``cuts`` stands for all ranges between any two of them: all equally likely or, if ``widths`` tells the
    longest, every width equally likely and then every place. Otherwise ``spans`` lists (start, stop) pairs.
    """

    size: int
    cuts: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    widths: int = 0

    def mean(self, axis: Axis) -> float:
        """Return E[qᵀVq] over the family.

        For ranges between n cuts with prefix responses r_i it is 2/(n(n−1))·(n Σ|r_i|² − |Σ r_i|²). With
        unequal probabilities P_ij = P_ji, Σ_{i<j} P_ij = 1, it is Σ_i |r_i|² Σ_j P_ij − Σ_ij P_ij r_i·r_j.
        """
        if isinstance(axis, Identity) and not self.widths:
            return self._mean_length()
        if not self.cuts:
            return float((self._responses(axis) ** 2).sum(axis=1).mean())
        prefixes, n = self._responses(axis), len(self.cuts)
        if self.widths:
            cuts = np.array(self.cuts)
            chance = 1 / (self.widths - np.abs(cuts - cuts[:, None]) + 1.0)
            np.fill_diagonal(chance, 0)
            chance *= 2 / chance.sum()
            own = (prefixes**2).sum(axis=1) @ chance.sum(axis=1)
            return float(own - np.vdot(prefixes, chance @ prefixes))
        return float(2 / (n * (n - 1)) * (n * (prefixes**2).sum() - (prefixes.sum(axis=0) ** 2).sum()))

    def worst(self, axis: Axis) -> tuple[float, tuple[int, int]]:
        """Return the largest qᵀVq of the family, and its span."""
        responses = self._responses(axis)
        if not self.cuts:
            forms = (responses**2).sum(axis=1)
            return float(forms.max()), self._asked()[int(forms.argmax())]
        inner = responses @ responses.T
        forms = np.diag(inner)[:, None] + np.diag(inner)[None, :] - 2 * inner
        start, stop = sorted(divmod(int(forms.argmax()), len(self.cuts)))
        return float(forms.max()), (self.cuts[start], self.cuts[stop])

    def sample(self, most: int) -> Family:
        """Return a family of at most ``most`` of the cuts or spans, spread at random, to weigh by roughly."""
        if len(self.cuts) > most:
            return Family(self.size, tuple(_spread(self.cuts, most)), widths=self.widths)
        return Family(self.size, spans=tuple(_spread(self.spans, most))) if self.spans else self

    def _mean_length(self) -> float:
        """Return the mean number of cells of a span: between n cuts, 2/(n(n−1))·Σ_i (2i − n + 1)·c_i."""
        if not self.cuts:
            return sum(stop - start for start, stop in self.spans) / len(self.spans)
        n = len(self.cuts)
        return float((2 * np.arange(n) - n + 1) @ np.array(self.cuts, float)) * 2 / (n * (n - 1))

    def _responses(self, axis: Axis) -> FloatArray:
        return axis.response(indicators(self.size, self._asked()))

    def _asked(self) -> list[tuple[int, int]]:
        """Return the prefixes up to the cuts, or the spans, as many as are weighed."""
        return [(0, cut) for cut in self.cuts] or _spread(self.spans, _most(self.size))


def _most(size: int) -> int:
    return min(MOST_CUTS, max(8, MOST_NUMBERS // size))


def _spread(cuts: Sequence[T], most: int) -> list[T]:
    """Return at most so many of the cuts or spans, at random: a pattern would favour trees that follow it."""
    if len(cuts) <= most:
        return list(cuts)
    places = np.random.default_rng(0).choice(len(cuts), most, replace=False)
    return [cuts[place] for place in sorted(places.tolist())]


def indicators(size: int, spans: Sequence[tuple[int, int]]) -> FloatArray:
    """Return one row per span, 1 within it and 0 outside."""
    bounds = np.asarray(spans).reshape(-1, 2)
    places = np.arange(size)
    return ((bounds[:, :1] <= places) & (places < bounds[:, 1:])).astype(np.float64)


def family(attribute: Attribute, kind: Kind) -> Family:
    """Return the queries on an attribute: ranges or prefixes, a hierarchy's nodes, or single categories."""
    regular, size = attribute.regular, attribute.size
    if attribute.ordered and regular > 1:
        cuts = _spread(range(regular + 1), _most(size))
        if kind == "prefixes":
            return Family(size, spans=tuple((0, cut) for cut in cuts[1:]))
        return Family(size, tuple(cuts), widths=regular if kind == "ranges" else 0)
    spans = [(place, place + 1) for place in range(regular)]
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        spans += [(node.start, node.stop) for node in attribute.hierarchy.nodes[1:]]
    return Family(size, spans=tuple(spans))


class Workload(Protocol):
    """What a strategy is weighed by."""

    def expected(self, axes: Sequence[Axis]) -> float:
        """Return the mean over the workload of the query's variance, for unit noise and scale 1."""


@dataclass(frozen=True)
class RandomWorkload:
    """Random queries: each restricts some attributes, independently, by a member of their family.

    ``some``: between one and all attributes, each number equally likely (Privelet §8.1); otherwise all.
    """

    families: tuple[Family, ...]
    some: bool

    def expected(self, axes: Sequence[Axis]) -> float:
        return self.combine([self.forms(place, axis) for place, axis in enumerate(axes)])

    def forms(self, place: int, axis: Axis) -> tuple[float, float]:
        """Return (E, F) of an axis."""
        return _forms(self.families[place], axis)

    def combine(self, forms: Sequence[tuple[float, float]]) -> float:
        """Return the mean over queries of Π_k E_k or F_k.

        Π_k (F_k + E_k t) = Σ_j c_j t^j sorts the products by the number j of restricted attributes; c_j is
        the sum over C(d, j) choices of them.
        """
        if not self.some:
            return float(np.prod([restricted for restricted, _ in forms]))
        polynomial = np.ones(1)
        for restricted, free in forms:
            polynomial = np.convolve(polynomial, [free, restricted])
        d = len(forms)
        return float(sum(polynomial[j] / comb(d, j) for j in range(1, d + 1)) / d)


@lru_cache(maxsize=4096)
def _forms(family: Family, axis: Axis) -> tuple[float, float]:
    free = axis.response(np.ones((1, axis.size)))[0]
    return family.mean(axis), float(free @ free)


@dataclass(frozen=True)
class ListedWorkload:
    """Given queries, each a sum of product-form terms: per term and axis a mask, or ``None`` for all."""

    queries: tuple[tuple[tuple[NDArray[np.bool_] | None, ...], ...], ...]

    def expected(self, axes: Sequence[Axis]) -> float:
        total = 0.0
        responses = [self._responses(place, axis) for place, axis in enumerate(axes)]
        start = 0
        for terms in self.queries:
            inner = np.ones((len(terms), len(terms)))
            for response in responses:
                part = response[start : start + len(terms)]
                inner *= part @ part.T
            total += inner.sum()
            start += len(terms)
        return total / len(self.queries)

    def _responses(self, place: int, axis: Axis) -> FloatArray:
        masks = [term[place] for terms in self.queries for term in terms]
        rows = [np.ones(axis.size) if mask is None else mask.astype(np.float64) for mask in masks]
        return axis.response(np.stack(rows))


def random_workload(domain: Domain, kind: Kind = "random") -> RandomWorkload:
    """Return the workload of a kind over a domain."""
    return RandomWorkload(tuple(family(attribute, kind) for attribute in domain.attributes), kind == "random")
