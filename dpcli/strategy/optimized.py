"""The optimised axis: every cell, plus a few overlapping weighted sums fitted to a workload.

The idea is the p-identity strategy of HDMM (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018): A = [I; Θ]·D,
Θ ≥ 0 with p rows and D scaling every column to the same L1 norm. Here Θ is described at g knots and linear in
between, which keeps long axes small, and everything is an integer. :mod:`dpcli.strategy.fit` finds Θ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcli.strategy.axis import Axis, FloatArray, IntArray, along, integers, whole

LARGEST_UNIT = 1 << 20
MOST_SUMS = 2048
CHUNK = 1 << 20


def knot_positions(size: int, knots: int) -> IntArray:
    """Return the cells of g equally spread knots, x_k = ⌊k·(m−1)/(g−1)⌋; all of them for g = m."""
    return np.arange(knots, dtype=np.int64) * (size - 1) // max(knots - 1, 1)


def segments(size: int, knots: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return for every cell the knot k at its left, its distance from x_k, and the gap x_{k+1} − x_k."""
    places = knot_positions(size, knots)
    cells = np.arange(size, dtype=np.int64)
    if knots == 1:
        return np.zeros_like(cells), np.zeros_like(cells), np.ones_like(cells)
    left = np.minimum(np.searchsorted(places, cells, side="right") - 1, knots - 2)
    return left, cells - places[left], places[left + 1] - places[left]


@dataclass(frozen=True)
class Optimized(Axis):
    """A = [diag(a); F], F the integer interpolation of sums given at g knots, every column adding up to N.

    A sum with the integer b_k at knot k has, at distance t into the gap h after it, the entry
    F_j = ⌊(b_k·(h − t) + b_{k+1}·t) / h⌋. The cells get what is left: a_j = N − Σ_i F_ij ≥ 1, so that the
    norm is N. A factor on A scales norm and noise alike, so N is only the precision of the integers.

    With K = AᵀA = diag(a²) + FᵀF, A⁺ = K⁻¹Aᵀ and V = K⁻¹. Woodbury's identity gives
    K⁻¹ = a⁻² − a⁻²Fᵀ(I + F a⁻² Fᵀ)⁻¹F a⁻²: one small factorisation, then O(non-zeros of F) per fibre.

    A coefficient is at most N·Σ|x|, so with N ≤ 2^20 one axis is exact in int64 for 2^42 rows. Over several
    axes the bounds multiply (a coefficient is at most the strategy's norm times the rows):
    :func:`dpcli.strategy.fit.unit_for` keeps the product at 2^30, exact for 2^32 rows. The counts themselves
    are not checked, since a refusal would tell something about them. Beyond the bound int64 wraps around,
    which spoils the answer but, being a function of exact coefficient plus noise, not the privacy.
    """

    kind: ClassVar[str] = "optimized"

    unit: int
    """N, the L1 norm of every column."""

    knots: int
    """g, the number of places where the sums are given."""

    near: tuple[int, ...]
    """Per knot the height of a tent around it that ends at its neighbours; empty for no tents."""

    far: tuple[tuple[int, ...], ...]
    """The further sums, each with its entry at every knot."""

    def __post_init__(self) -> None:
        """Take lists as a file has them, and refuse what is not such a strategy."""
        whole(self.size, "the size of an axis", least=1)
        whole(self.unit, "the unit of an optimised axis", least=1, most=LARGEST_UNIT)
        whole(self.knots, "the number of knots of an optimised axis", least=1, most=self.size)
        object.__setattr__(self, "near", _entries(self.near))
        if not isinstance(self.far, list | tuple):
            raise ValueError("the further sums of an optimised axis must be a list of sums")
        object.__setattr__(self, "far", tuple(_entries(row) for row in self.far))
        if self.sums > MOST_SUMS:
            raise ValueError(f"an optimised axis has at most {MOST_SUMS} sums, not {self.sums}")
        rows = [self.near or (0,) * self.knots, *self.far]
        if any(len(row) != self.knots for row in rows):
            raise ValueError(f"every sum of an optimised axis needs one number per knot, {self.knots} in all")
        if any(min(row) < 0 for row in rows) or max(map(sum, zip(*rows, strict=True))) >= self.unit:
            raise ValueError("an optimised axis has sums of 0 or more that add up to less than its unit")

    def summary(self) -> str:
        return f"fitted with {self.sums} sum{'s' * (self.sums != 1)}"

    @property
    def sums(self) -> int:
        """The number of rows beside the cells."""
        return len(self.near) + len(self.far)

    @property
    def rows(self) -> int:
        return self.size + self.sums

    @property
    def weights(self) -> IntArray:
        return np.ones(self.rows, np.int64)

    @cached_property
    def norm(self) -> Fraction:
        return Fraction(int(abs(self._matrix).sum(axis=0).max()))

    @cached_property
    def _matrix(self) -> Any:
        """A as a sparse matrix of int64."""
        from scipy import sparse

        left, distance, gap = segments(self.size, self.knots)
        right, cells = np.minimum(left + 1, self.knots - 1), np.arange(self.size)
        far = np.array(self.far, np.int64).reshape(len(self.far), self.knots)
        far = (far[:, left] * (gap - distance) + far[:, right] * distance) // gap
        parts = [far]
        if self.near:
            height = np.array(self.near, np.int64)
            down, up = height[left] * (gap - distance) // gap, height[right] * distance // gap
            where = (np.concatenate([left, right]), np.tile(cells, 2))
            tents = sparse.coo_array((np.concatenate([down, up]), where), shape=(self.knots, self.size))
            parts.insert(0, tents)
        sums = sparse.vstack([sparse.csr_array(part) for part in parts], format="csr", dtype=np.int64)
        sums.eliminate_zeros()
        rest = self.unit - np.asarray(sums.sum(axis=0), np.int64).reshape(-1)
        diagonal = sparse.coo_array((rest, (cells, cells)), shape=(self.size, self.size))
        return sparse.vstack([diagonal, sums], format="csr", dtype=np.int64)

    @cached_property
    def _factors(self) -> tuple[FloatArray, Any, Any, Any]:
        """a⁻² as a column, F, Fᵀ, and the factorised I + F a⁻² Fᵀ."""
        from scipy.linalg import cho_factor

        matrix = self._matrix.astype(np.float64)
        inverse = matrix[: self.size].diagonal()[:, None] ** -2
        sums = matrix[self.size :]
        across = sums.T.tocsr()
        core = np.eye(self.sums) + (sums.multiply(inverse.T) @ across).toarray()
        return inverse, sums, across, cho_factor(core) if self.sums else None

    def _solve(self, values: FloatArray) -> FloatArray:
        """Return K⁻¹z for every column z."""
        from scipy.linalg import cho_solve

        inverse, sums, across, core = self._factors
        if core is None:
            return inverse * values
        return np.asarray(inverse * (values - across @ cho_solve(core, sums @ (inverse * values))))

    def forward(self, counts: IntArray, axis: int) -> IntArray:
        apply = _fibres(lambda fibres: self._matrix @ fibres, self.rows, np.int64)
        return along(axis, self.size, integers(counts), apply)

    def inverse(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        transposed = self._matrix.T.tocsr().astype(np.float64)
        apply = _fibres(lambda fibres: self._solve(transposed @ fibres), self.size, np.float64)
        return along(axis, self.rows, values, apply)

    def response(self, queries: NDArray[Any]) -> FloatArray:
        apply = _fibres(lambda fibres: self._matrix @ self._solve(fibres), self.rows, np.float64)
        return along(1, self.size, queries, apply)


def _fibres(
    apply: Callable[[NDArray[Any]], NDArray[Any]], rows: int, dtype: type[Any]
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Turn a map of a matrix's columns into one of the middle axis, about ``CHUNK`` cells at a time."""

    def transform(slabs: NDArray[Any]) -> NDArray[Any]:
        count, size, width = slabs.shape
        result: NDArray[Any] = np.empty((count, rows, width), dtype)
        down, across = max(1, CHUNK // max(1, size * width)), max(1, CHUNK // size)
        for start, first in product(range(0, count, down), range(0, width, across)):
            here = (slice(start, start + down), slice(None), slice(first, first + across))
            slab = slabs[here].transpose(1, 0, 2)
            columns = apply(np.ascontiguousarray(slab.reshape(size, -1), dtype))
            result[here] = columns.reshape(rows, *slab.shape[1:]).transpose(1, 0, 2)
        return result

    return transform


def _entries(row: object) -> tuple[int, ...]:
    if not isinstance(row, list | tuple) or any(type(entry) is not int for entry in row):
        raise ValueError("the sums of an optimised axis must be lists of whole numbers")
    return tuple(row)
