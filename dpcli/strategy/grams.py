"""What random queries q on one axis cost: their Gram matrix G = E[qqᵀ], and an objective to minimise.

The expected variance of a random query is norm²·tr(V G), so G is all that a strategy search has to know of
a workload. For ranges [s, e] drawn with probability P(s, e), G_ab with a ≤ b is the probability that a range
covers both cells: Σ_{s ≤ a} Σ_{e ≥ b} P(s, e), a two-way cumulative sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpcli.strategy.axis import FloatArray
from dpcli.strategy.optimized import segments

MOST_ORDER = 2048
"""A longer axis does with the Gram matrix of this many equal stretches of it."""


def random_ranges(size: int) -> FloatArray:
    """Ranges whose width is uniform on 1..m and whose place is then uniform: P(s, e) = 1 / (m·(m − (e − s))).

    The random ranges of the Privelet experiments and of the DPBench queries that this tool is compared on.
    """
    places = np.arange(size, dtype=np.float64)
    ends = np.abs(places - places[:, None])
    np.subtract(size, ends, out=ends)
    np.divide(1 / size, ends, out=ends)
    return from_ends(ends)


def all_ranges(size: int) -> FloatArray:
    """Every range s ≤ e equally likely: G_ab = (a + 1)(m − b) / (m(m + 1)/2) for a ≤ b."""
    places = np.arange(size, dtype=np.float64)
    low, high = np.minimum(places, places[:, None]), np.maximum(places, places[:, None])
    return np.asarray((low + 1) * (size - high) * (2 / (size * (size + 1))))


def two_ends(size: int) -> FloatArray:
    """Two independent uniform ends, sorted: ranges of one cell are half as likely as every other range."""
    places = np.arange(size)
    return from_ends(np.where(places == places[:, None], 1, 2) / size**2)


def prefixes(size: int) -> FloatArray:
    """Prefixes [0, e] with e uniform: G_ab = 1 − max(a, b) / m."""
    places = np.arange(size, dtype=np.float64)
    return np.asarray(1 - np.maximum(places, places[:, None]) / size)


def from_ends(probabilities: FloatArray) -> FloatArray:
    """Return G for ranges [s, e] of probability P(s, e); what stands below the diagonal is not read."""
    gram = np.triu(probabilities).astype(np.float64, copy=False)
    np.cumsum(gram, axis=0, out=gram)
    np.cumsum(gram[:, ::-1], axis=1, out=gram[:, ::-1])
    return np.asarray(np.triu(gram) + np.triu(gram, 1).T)


def spans(size: int, nodes: Iterable[tuple[int, int]], weights: Iterable[float] | None = None) -> FloatArray:
    """Return G for stretches ``(start, stop)`` of cells, such as a hierarchy's nodes: Σ w·1·1ᵀ / Σ w.

    Every stretch is equally likely without ``weights``. O(m²) and O(1) per stretch, by summing up corners.
    """
    listed = list(nodes)
    shares = [1.0] * len(listed) if weights is None else list(weights)
    if len(shares) != len(listed) or not listed or min(shares) < 0 or sum(shares) <= 0:
        raise ValueError(
            "a workload of stretches needs one weight of 0 or more per stretch, not all of them 0"
        )
    corners = np.zeros((size + 1, size + 1))
    for (start, stop), share in zip(listed, shares, strict=True):
        if not 0 <= start < stop <= size:
            raise ValueError(f"the stretch {start}:{stop} does not lie on an axis of {size} cells")
        corners[start, start] += share
        corners[stop, stop] += share
        corners[start, stop] -= share
        corners[stop, start] -= share
    sums = np.cumsum(np.cumsum(corners, axis=0), axis=1)[:size, :size]
    return np.asarray(sums / sum(shares))


def padded(gram: FloatArray, size: int) -> FloatArray:
    """Return G with further cells at the end (missing, other), each asked for alone by one query in m.

    Without this they would get next to no precision, since no query would ask for them.
    """
    order, share = len(gram), 1 / size
    result = np.zeros((size, size))
    result[:order, :order] = gram * (order * share)
    places = np.arange(order, size)
    result[places, places] = share
    return result


@dataclass(frozen=True)
class Objective:
    """tr((AᵀA)⁻¹G) of an optimised axis before rounding, and its gradient; G is reduced once.

    Hats S (g × m, linear between knots, adding up to 1 in every cell), heights γ of tents and far sums Θ make
    A = [I; ΓS; ΘS]·D⁻¹ with Γ = diag(γ), D = diag(d), d = Sᵀβ, β = 1 + γ + Σ_i Θ_i: columns of norm 1. Then
    tr((AᵀA)⁻¹G) = Σ_j d_j²G_jj − tr(Y·C),  Y = (W⁻¹ + R)⁻¹,  W = Γ² + ΘᵀΘ,  R = SSᵀ,  C = S·D·G·D·Sᵀ.
    With g = m knots (S = I) and γ = 0 this is the p-identity of HDMM (McKenna et al., VLDB 2018).

    S_k·D = β_k φ_k + β_{k−1} ψ_{k−1} + β_{k+1} ψ_k with φ_k = S_k∘S_k and ψ_k = S_k∘S_{k+1}, so C = M·Q·Mᵀ,
    Q = [φ; ψ]·G·[φ; ψ]ᵀ and M banded in β. Likewise Σ_j d_j²G_jj = βᵀTβ, and T and R are tridiagonal.
    With J = (I + RW)⁻¹: Y = WJ, and the derivative of tr(Y·C) by W is J·C·Jᵀ.
    """

    knots: int
    hats: tuple[FloatArray, FloatArray]
    """The diagonals 0 and 1 of R."""
    trace: tuple[FloatArray, FloatArray]
    """The diagonals 0 and 1 of T."""
    products: FloatArray
    """Q."""

    @classmethod
    def of(cls, size: int, knots: int, gram: FloatArray) -> Objective:
        """Reduce the Gram matrix of m cells, or of fewer stretches of cells, to ``knots`` hats."""
        left, distance, gap = segments(size, knots)
        right, share = np.minimum(left + 1, knots - 1), distance / gap
        stretch = np.arange(size) * len(gram) // size
        basis = np.zeros((2 * knots - 1, len(gram)))
        np.add.at(basis, (left, stretch), (1 - share) ** 2)
        np.add.at(basis, (right, stretch), share**2)
        np.add.at(basis, (np.minimum(knots + left, 2 * knots - 2), stretch), share * (1 - share))
        hats, trace = basis.sum(axis=1), basis @ np.diag(gram)
        products = basis @ gram @ basis.T
        return cls(knots, (hats[:knots], hats[knots:]), (trace[:knots], trace[knots:]), products)

    def __call__(self, flat: FloatArray, tents: bool) -> tuple[float, FloatArray]:
        """Return value and gradient at ``flat``: one row γ if ``tents``, then the rows of Θ."""
        g = self.knots
        rows = flat.reshape(-1, g)
        far = rows[1:] if tents else rows
        beta = 1 + rows.sum(axis=0)
        MQ = beta[:, None] * self.products[:g]
        MQ[1:] += beta[:-1, None] * self.products[g:]
        MQ[:-1] += beta[1:, None] * self.products[g:]
        C = MQ[:, :g] * beta
        C[:, 1:] += MQ[:, g:] * beta[:-1]
        C[:, :-1] += MQ[:, g:] * beta[1:]
        if tents:
            W = far.T @ far + np.diag(rows[0] ** 2)
            J = np.linalg.inv(np.eye(g) + _band(self.hats, W))
            Y = W @ J
        else:
            Y = far.T @ np.linalg.solve(np.eye(len(far)) + far @ _band(self.hats, far.T), far)
            J = np.eye(g) - _band(self.hats, Y)
        spread = _band(self.trace, beta[:, None])[:, 0]
        by_beta = spread - np.sum(Y * MQ[:, :g], axis=0)
        by_beta[:-1] -= np.sum(Y[:, 1:] * MQ[:, g:], axis=0)
        by_beta[1:] -= np.sum(Y[:, :-1] * MQ[:, g:], axis=0)
        gradient = np.empty_like(rows)
        gradient[len(rows) - len(far) :] = by_beta - far @ J @ C @ J.T
        if tents:
            gradient[0] = by_beta - rows[0] * np.sum((J @ C) * J, axis=1)
        return float(beta @ spread - np.sum(Y * C)), 2 * gradient.reshape(-1)


def _band(diagonals: tuple[FloatArray, FloatArray], matrix: FloatArray) -> FloatArray:
    """Return the symmetric tridiagonal matrix of these diagonals times ``matrix``."""
    product = diagonals[0][:, None] * matrix
    product[1:] += diagonals[1][:, None] * matrix[:-1]
    product[:-1] += diagonals[1][:, None] * matrix[1:]
    return np.asarray(product)
