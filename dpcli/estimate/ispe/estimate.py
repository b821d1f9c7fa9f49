"""Estimates of all cells of an ISPE release, and answers to linear queries with intervals from them.

Let P take a region's mean away and q be a query, f_R = Σ_{i in R} q_i / n. The cells are x̂ = P F y + T/n (+ a
lean), T being the region totals, so with K from ``local`` the variance of an answer is

    qᵀ P K P q + Σ_R f_R² Var(T_R) + what the selection of regions adds.

As the filter's weights add up to one, the two parts are uncorrelated. The first is qᵀ K q − 2 Σ f_R h_R +
Σ f_R² H_R, where h_R is the sum of K's row sums over the query's cells in R and H_R that over all of R.

For the selection there is added: the largest part of what regions' sums have too much noise; a share of the
answer's lean squared; for a region with a doubtful border that is cut, OPEN·v1·16 n (f(1−f))³; and what sets
the answer apart from the plain sum of the noisy cells, beyond noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.answer import Answers
from dpcli.estimate.ispe import local, reference
from dpcli.estimate.ispe.laws import checked, whole_multiples
from dpcli.estimate.ispe.mmse import Removed, least_squares, mmse
from dpcli.estimate.ispe.regions import Regions, SummedArea, added_up, run_of_ones
from dpcli.estimate.ispe.selection import inflation, lean, openness, settled
from dpcli.estimate.law import cumulant, weighted_half_width
from dpcli.estimate.matched import half_widths
from dpcli.query.batch import Batch
from dpcli.strategy.axis import FloatArray, IntArray

Estimator = Literal["least-squares", "mmse"]
Reference = Literal["off", "printed", "weighted"]

MOST_EXACT = 200
MOST_DIRECT = 1 << 23
"""Up to so many weights (queries times cells) each answer's law is worked out from all of its noises."""
RUN = 1000
_POWERS = (2, 2, 2, 4, 4, 6)
LEANING, OPEN = 0.25, 2.0
"""How much of a lean's square, and of the low waves of a region's noise, is uncertain (set by simulation)."""


class Moments(NamedTuple):
    """Of each answer's error: the variance, and the fourth and sixth cumulants."""

    second: FloatArray
    fourth: FloatArray
    sixth: FloatArray


@dataclass(frozen=True)
class Totals:
    """The region totals T, and how the noise enters them: T − x_R = (1 − b) Σ z_i + b z_Y, b = ``weight``."""

    value: FloatArray
    weight: FloatArray
    variance: FloatArray
    extra: FloatArray
    """What sorting of noise adds to the variance of one region; in sums over regions it cancels out."""


class RegionEstimate:
    """The cells of an ISPE release, estimated from noisy cells and noisy region counts.

    Least squares without neighbours has the law of its noise ("exact"), supposing that the regions do not
    depend on the noise. Where they were grown from the noisy cells, whole regions and ranges that cut many
    regions are covered less often than it says. The default allows for that.
    """

    def __init__(
        self,
        noisy: NDArray[Any],
        region: NDArray[Any],
        counts: NDArray[Any],
        cell_scale: Fraction | float,
        region_scale: Fraction | float,
        estimator: Estimator = "least-squares",
        neighbours: Reference = "weighted",
    ) -> None:
        self.regions = Regions(region)
        if np.shape(noisy) != self.regions.shape:
            raise ValueError("there must be one label for each cell")
        if np.shape(counts) != (len(self.regions),):
            raise ValueError("there must be one count for each region")
        if estimator not in get_args(Estimator) or neighbours not in get_args(Reference):
            raise ValueError(f"there is no estimator {estimator!r} with the reference {neighbours!r}")
        self.scales = checked(cell_scale), checked(region_scale)
        self.estimator, self.neighbours = estimator, neighbours
        self._v1, self._v2 = (cumulant(scale, 2) for scale in self.scales)
        self._noisy = np.asarray(noisy, np.float64)
        self._residual = self.regions.sums(self._noisy) - np.asarray(counts, np.float64)
        self._filter: reference.Filter | None = None
        if neighbours != "off":
            make = reference.weighted if neighbours == "weighted" else reference.even
            self._filter = make(self.regions, self._noisy, self._v1)
        self._removed = self._remove()
        self._totals = self._total()
        self.lean: FloatArray = np.zeros(self.regions.shape)
        self._open = np.zeros(len(self.regions))
        self._settled = np.ones(len(self.regions))
        if neighbours == "weighted" and self._filter is not None:
            level = self._totals.value / self.regions.sizes
            self.lean = lean(self.regions, level, self._v1, self._filter.spread)
            self._open = openness(self.regions, level, self._v1)
            self._settled = settled(self.regions, self._filter, self._noisy, self._v1)
        self.cells = self._cells()
        """The estimate of each cell; the answer to a linear query is the sum of these."""

    # -- point estimates ---------------------------------------------------------------------------------

    def _remove(self) -> Removed:
        if self.estimator == "mmse":
            return mmse(self._residual, self.regions.sizes, self.scales)
        return least_squares(self._residual, self.regions.sizes, self._v1, self._v2)

    def _total(self) -> Totals:
        sizes, v1, v2 = self.regions.sizes.astype(np.float64), self._v1, self._v2
        weight = sizes * v1 / (sizes * v1 + v2)
        observed = self.regions.sums(self._noisy)
        if self.neighbours != "weighted" or self._filter is None:
            return Totals(observed - self._removed.noise, weight, self._removed.total, np.zeros(len(sizes)))
        inflated = inflation(sizes, self._residual, v1, v2, self._filter.spread)
        if self.estimator == "mmse":
            extra = (1 - weight) ** 2 * sizes * v1 * (inflated - 1)
            return Totals(observed - self._removed.noise, weight, self._removed.total, extra)
        weight = sizes * inflated * v1 / (sizes * inflated * v1 + v2)
        variance = (1 - weight) ** 2 * sizes * v1 + weight**2 * v2
        extra = (1 - weight) ** 2 * sizes * v1 * (inflated - 1)
        return Totals(observed - weight * self._residual, weight, variance, extra)

    def _cells(self) -> FloatArray:
        if self.neighbours == "off" or self._filter is None:
            return self._noisy - (self._removed.noise / self.regions.sizes)[self.regions.labels]
        if self.neighbours == "printed":
            made = reference.printed(self.regions, self._noisy, self._residual, self.scales)
        else:
            made = self._filter.apply(self.regions, self._noisy)
        level = (self._totals.value / self.regions.sizes)[self.regions.labels]
        return self.regions.centred(made) + level + self.lean

    # -- tables, made when boxes are first asked for -----------------------------------------------------

    @cached_property
    def _summed(self) -> SummedArea:
        return SummedArea(self.cells)

    @cached_property
    def _leaning(self) -> SummedArea:
        return SummedArea(self.lean)

    @cached_property
    def _moved(self) -> SummedArea:
        return SummedArea(self._noisy - self.cells)

    @cached_property
    def _local(self) -> local.Local:
        if self._filter is None:
            return local.plain(self._removed.cell[self.regions.labels])
        return local.filtered(self.regions, self._filter, self._v1 * self._settled)

    @cached_property
    def _whole(self) -> list[FloatArray]:
        """What a region adds that lies wholly in a query.

        K's sum H, the total's variance, the extra and its square, and the fourth and sixth cumulants of the
        total; for a query with the share f these count by the powers ``_POWERS`` of f.
        """
        totals = self._totals
        cumulants = (
            self.regions.sizes * (1 - totals.weight) ** p * cumulant(self.scales[0], p)
            + totals.weight**p * cumulant(self.scales[1], p)
            for p in (4, 6)
        )
        rows = self.regions.sums(self._local.rows)
        return [rows, totals.variance, totals.extra, totals.extra**2, *cumulants]

    @cached_property
    def _tables(self) -> list[SummedArea]:
        """Tables of these, each spread evenly over the region's cells."""
        return [SummedArea((part / self.regions.sizes)[self.regions.labels]) for part in self._whole]

    @cached_property
    def _draws(self) -> float:
        """The number of equal draws that a single cell's error amounts to, on average."""
        if self._filter is None:
            return 1.0
        own, share, k = self._filter.own, self._filter.share, self._filter.neighbours
        return float(((own**2 + k * share**2) ** 2 / (own**4 + k * share**4)).mean())

    # -- answers -----------------------------------------------------------------------------------------

    def boxes(self, starts: NDArray[Any], stops: NDArray[Any], level: float = 0.95) -> Answers:
        """Answer the sums over boxes ``starts[n, k] <= c_k < stops[n, k]``, with intervals at a level."""
        starts, stops = self._checked_boxes(starts, stops)
        _check_level(level)
        if len(starts) <= MOST_EXACT and len(starts) * self.cells.size <= MOST_DIRECT:
            return self.weighted(map(self._indicator, starts, stops), level)
        value = self._summed.sums(starts, stops)
        runs = range(0, len(starts), RUN)
        parts = [self._box_moments(starts[k : k + RUN], stops[k : k + RUN]) for k in runs]
        moments = Moments(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        half = half_widths(*moments, level)
        if self._linear:
            half = half + np.where(moments.second > 0, 0.5 if self.scales[0] >= 1 else 1.0, 0.0)
        return self._made(value, moments.second, half, np.zeros(len(value), np.bool_))

    def products(self, batch: Batch, level: float = 0.95) -> Answers:
        """Answer product-form queries: as boxes if all are, else each from the weights of all cells."""
        if tuple(v.shape[1] for v in batch.vectors) != self.regions.shape:
            raise ValueError("the queries are of another shape than the cells")
        ranges = [run_of_ones(vectors) for vectors in batch.vectors]
        if batch.terms == 1 and all(each is not None for each in ranges):
            ends = [each[batch.which[:, 0, k]] for k, each in enumerate(ranges) if each is not None]
            return self.boxes(np.stack(ends, axis=2)[:, 0], np.stack(ends, axis=2)[:, 1], level)
        return self.weighted((self._weights(batch, place) for place in range(len(batch))), level)

    def weighted(self, queries: Iterable[FloatArray], level: float = 0.95) -> Answers:
        """Answer queries that give a weight to every cell, with intervals from the exact law of their noise.

        What is not noise (the model's part) is taken as normal.
        """
        _check_level(level)
        found = [self._law(weights, level) for weights in queries]
        value, variance, half = (np.array([each[k] for each in found], np.float64) for k in (0, 1, 2))
        return self._made(value, variance, half, np.array([each[3] == "exact" for each in found], np.bool_))

    @property
    def _linear(self) -> bool:
        return self.estimator == "least-squares" and self.neighbours == "off"

    def _made(
        self, value: FloatArray, variance: FloatArray, half: FloatArray, exact: NDArray[np.bool_]
    ) -> Answers:
        made = Answers.within(value, np.sqrt(variance), half, exact)
        if self._linear:
            return made
        return Answers(made.value, made.stderr, made.low, made.high, np.full(len(value), "posterior"))

    def _checked_boxes(self, starts: NDArray[Any], stops: NDArray[Any]) -> tuple[IntArray, IntArray]:
        starts, stops = np.asarray(starts, np.int64), np.asarray(stops, np.int64)
        wanted = (len(starts), len(self.regions.shape))
        if starts.shape != wanted or stops.shape != wanted:
            raise ValueError("boxes are given by a start and a stop for each axis")
        if (starts < 0).any() or (starts > stops).any() or (stops > self.regions.shape).any():
            raise ValueError("boxes lie within the grid and start before they stop")
        return starts, stops

    def _box_moments(self, starts: IntArray, stops: IntArray) -> Moments:
        """Return the moments of boxes by look-ups and sums over the regions that they cut."""
        cuts = self.regions.cuts(starts, stops, self._local.rows)
        size = self.regions.sizes[cuts.region].astype(np.float64)
        f = cuts.cells / size

        def added(values: FloatArray) -> FloatArray:
            return added_up(cuts.box, values, len(starts))

        # A table counts a cut region by its share f; instead it is to count by f², f⁴ or f⁶.
        rows, total, extra, square, fourth, sixth = (
            table.sums(starts, stops) + added((f**power - f) * part[cuts.region])
            for table, part, power in zip(self._tables, self._whole, _POWERS, strict=True)
        )
        # Σ f h: a region inside has f = 1 and h = H, which its table counts; a cut one has its own h.
        mixed = self._tables[0].sums(starts, stops) + added(f * (cuts.weights - self._whole[0][cuts.region]))
        own = np.maximum(self._local.sums(starts, stops) + rows - 2 * mixed, 0.0)
        if self._filter is None:
            b = f * self._totals.weight[cuts.region]
            for p, sums, power in ((4, fourth, 4), (6, sixth, 5)):
                parts = cuts.cells * (1 - b) ** p + (size - cuts.cells) * b**p
                parts = parts * cumulant(self.scales[0], p) + b**p * cumulant(self.scales[1], p)
                sums += added(parts - f**p * self._whole[power][cuts.region])
        else:
            # The cells' own part is taken for as many equal draws as there are cells, a little blurred.
            draws = np.maximum((stops - starts).prod(axis=1) - 1.0, 0.0) + self._draws
            share = own / self._v1
            fourth += cumulant(self.scales[0], 4) * share**2 / draws
            sixth += cumulant(self.scales[0], 6) * share**3 / draws**2
        waves = 16 * self._v1 * added(self._open[cuts.region] * size * (f * (1 - f)) ** 3)
        bent = self._leaning.sums(starts, stops) ** 2
        second = own + total + _largest(extra, square) + LEANING * bent + OPEN * waves
        if not self._linear:
            moved = self._moved.sums(starts, stops)
            second = second + self._doubt(moved, (stops - starts).prod(axis=1).astype(np.float64))
        some = (stops > starts).all(axis=1)  # where nothing is asked, tables leave rounding errors
        return Moments(*(np.where(some, np.maximum(part, 0.0), 0.0) for part in (second, fourth, sixth)))

    # -- answers from the weights of all cells -----------------------------------------------------------

    def _indicator(self, start: IntArray, stop: IntArray) -> FloatArray:
        weights = np.zeros(self.regions.shape)
        weights[tuple(slice(int(a), int(b)) for a, b in zip(start, stop, strict=True))] = 1.0
        return weights

    def _weights(self, batch: Batch, place: int) -> FloatArray:
        weights: FloatArray = np.zeros(self.regions.shape)
        for term in batch.which[place]:
            factors = [v[k].astype(np.float64) for v, k in zip(batch.vectors, term, strict=True)]
            weights += reduce(np.multiply.outer, factors)
        return weights

    def _law(self, weights: FloatArray, level: float) -> tuple[float, float, float, str]:
        """Return one answer, its variance, its interval's half-width, and how that is known."""
        value = float((weights * self.cells).sum())
        cells, regions, rest = self.shares(weights)
        p1, p2, unit = whole_multiples(*self.scales)
        shares = np.concatenate([cells.reshape(-1), regions])
        multiples = np.concatenate([np.full(cells.size, p1), np.full(len(regions), p2)])
        present = np.abs(shares) > 1e-9 * max(1e-300, float(np.abs(shares).max()))
        noise = self._v1 * float((cells**2).sum()) + self._v2 * float((regions**2).sum())
        half, how = weighted_half_width(unit, shares[present], multiples[present], rest, level)
        if self.estimator == "mmse":
            posterior = self._posterior(weights) + rest
            half *= (posterior / (noise + rest)) ** 0.5 if noise + rest > 0 else 1.0
            return value, posterior, half, how
        return value, noise + rest, half, how

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return how often an answer holds each cell's and each region's noise, and its other variance.

        These are Fᵀ P q + f (1 − b) and f b. With the printed reference, or MMSE, they are those of the
        linear estimate close to it.
        """
        regions, totals = self.regions, self._totals
        f = regions.sums(weights) / regions.sizes
        centred = regions.centred(weights)
        b = f * totals.weight
        energy = regions.sums(centred**2)
        extra = f**2 * totals.extra
        rest = float(_largest(extra.sum(keepdims=True), (extra**2).sum(keepdims=True))[0])
        if not self._linear:
            moved = float((weights * (self._noisy - self.cells)).sum())
            rest += float(self._doubt(np.array([moved]), np.array([(weights**2).sum()]))[0])
        rest += LEANING * float((weights * self.lean).sum()) ** 2
        rest += OPEN * 16 * self._v1 * float((self._open * energy**3 / regions.sizes**2).sum())
        if self._filter is None:
            return centred + (f - b)[regions.labels], b, rest
        rest += float((centred**2 * self._filter.model).sum())
        own = self._filter.apply_transposed(regions, centred) * np.sqrt(self._settled)[regions.labels]
        return own + (f - b)[regions.labels], b, rest

    def _doubt(self, moved: FloatArray, squares: FloatArray) -> FloatArray:
        """Return what is added to a variance where an answer is far from the plain sum of the noisy cells.

        That sum has the variance v1 Σ q² whatever the regions are. If D², D the difference, is more than
        twice that, it speaks against the model, and what it has beyond that is added.
        """
        found: FloatArray = np.maximum(0.0, moved**2 - 2 * self._v1 * squares)
        return found

    def _posterior(self, weights: FloatArray) -> float:
        """Return the noise's part of the variance of an MMSE answer."""
        regions = self.regions
        f, centred = regions.sums(weights) / regions.sizes, regions.centred(weights)
        if self._filter is None:
            own = float((self._removed.cell * regions.sums(centred**2)).sum())
        else:
            taken = self._filter.apply_transposed(regions, centred) ** 2
            own = self._v1 * float((self._settled * regions.sums(taken)).sum())
        return own + float((f**2 * self._totals.variance).sum())


def _largest(total: FloatArray, squares: FloatArray) -> FloatArray:
    """Return Σ e²/Σ e: a part that does not add up, since what one region has more another has less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 1e-6 * np.sqrt(np.maximum(squares, 0.0)) + 1e-9, squares / total, 0.0)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError("a level is a probability between 0 and 1")
