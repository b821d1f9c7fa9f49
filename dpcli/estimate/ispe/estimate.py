"""Estimates of all cells of an ISPE release, and answers to linear queries with intervals from them.

The cells are x̂ = F (y − c h) + a shift of each region to its total T. F is the filter of the neighbourhood
reference and c h the noise that sorting moved through the borders (see ``sorting``). Let q be a query and
f_R = Σ_{i in R} q_i / n. As F's rows and columns add up to one, an answer has with K from ``local`` the
variance

    V = qᵀ K q − Σ_R f_R² (n v1 − Var T_R) + Var(c) (Σ q h − Σ_R f_R b_R Σ_{i in R} h_i)² + D,

b being the count's weight in T and D what sets the answer apart from the plain sum of the noisy cells, beyond
noise. That cells across borders have their say too, by c h, is not counted in V, so cells at borders and
small regions are mostly known better than it says.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dpcli.estimate.answer import Answers
from dpcli.estimate.ispe import local, reference, sorting
from dpcli.estimate.ispe.laws import checked, whole_multiples
from dpcli.estimate.ispe.mmse import Removed, least_squares, mmse
from dpcli.estimate.ispe.regions import Regions, SummedArea, added_up, run_of_ones
from dpcli.estimate.law import cumulant, weighted_half_width
from dpcli.estimate.matched import half_widths
from dpcli.partition.neighbours import Groups
from dpcli.query.batch import Batch
from dpcli.strategy.axis import FloatArray, IntArray

Estimator = Literal["least-squares", "mmse"]
Reference = Literal["off", "printed", "weighted"]

MOST_EXACT = 200
MOST_DIRECT = 1 << 23
"""Up to so many weights (queries times cells) each answer's law is worked out from all of its noises."""
RUN = 1000
LEAST_SCALE = Fraction(1, 50)
"""Noise of a smaller scale is taken for this one, so that variances stay above 0; a draw of it differs from 0
with probability 4e-22."""
_POWERS = (2, 4, 6)


class Moments(NamedTuple):
    """Of each answer's error: the variance, and the fourth and sixth cumulants."""

    second: FloatArray
    fourth: FloatArray
    sixth: FloatArray


class Totals(NamedTuple):
    """The region totals T, and how the noise enters them: T − x_R = (1 − b) Σ z_i + b z_Y, b = ``weight``."""

    value: FloatArray
    weight: FloatArray
    variance: FloatArray


class RegionEstimate:
    """The cells of an ISPE release, estimated from noisy cells and noisy region counts.

    Least squares without neighbours has the law of its noise ("exact"), supposing that the regions do not
    depend on the noise. Where they were grown from the noisy cells, whole regions and ranges that cut many
    regions are covered less often than it says. The default allows for that.

    ``groups`` are those of :mod:`dpcli.partition.neighbours`: the default compares cells only along steps
    that stay within a run. Give those that the regions were grown with.
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
        groups: Groups | None = None,
    ) -> None:
        self.regions = Regions(region)
        if np.shape(noisy) != self.regions.shape:
            raise ValueError("there must be one label for each cell")
        if np.shape(counts) != (len(self.regions),):
            raise ValueError("there must be one count for each region")
        if estimator not in get_args(Estimator) or neighbours not in get_args(Reference):
            raise ValueError(f"there is no estimator {estimator!r} with the reference {neighbours!r}")
        self.scales = max(checked(cell_scale), LEAST_SCALE), max(checked(region_scale), LEAST_SCALE)
        self.estimator, self.neighbours = estimator, neighbours
        self._v1, self._v2 = (cumulant(scale, 2) for scale in self.scales)
        self._noisy = np.asarray(noisy, np.float64)
        self._residual = self.regions.sums(self._noisy) - np.asarray(counts, np.float64)
        self._filter: reference.Filter | None = None
        self._sorted: sorting.Sorted | None = None
        steps = sorting.allowed(self.regions.shape, groups)
        if neighbours == "printed":
            self._filter = reference.even(self.regions)
        elif neighbours == "weighted":
            shares = sorting.noise_shares(self._noisy, self.scales[0], steps)
            whole = self.regions.sizes.astype(np.float64) * self._v1 + self._v2
            self._filter = reference.weighted(self.regions, shares, self._v1)
            self._sorted = sorting.flowed_back(self.regions, self._noisy, shares, self._residual, whole)
            self._residual -= self._sorted.coefficient * self._sorted.sums
        self._removed = self._remove()
        sizes = self.regions.sizes
        self._totals = Totals(
            self._residual + np.asarray(counts, np.float64) - self._removed.noise,
            sizes * self._v1 / (sizes * self._v1 + self._v2),
            self._removed.total,
        )
        self.cells = self._cells()
        """The estimate of each cell; the answer to a linear query is the sum of these."""

    # -- point estimates ---------------------------------------------------------------------------------

    def _remove(self) -> Removed:
        if self.estimator == "mmse":
            return mmse(self._residual, self.regions.sizes, self.scales)
        return least_squares(self._residual, self.regions.sizes, self._v1, self._v2)

    def _cells(self) -> FloatArray:
        shift = (self._removed.noise / self.regions.sizes)[self.regions.labels]
        if self.neighbours == "off" or self._filter is None:
            return self._noisy - shift
        if self._sorted is None:
            made = reference.printed(self.regions, self._noisy, self._residual, self.scales)
            return self.regions.centred(made) + (self._totals.value / self.regions.sizes)[self.regions.labels]
        return self._filter.apply(self._noisy - self._sorted.coefficient * self._sorted.field) - shift

    # -- tables, made when boxes are first asked for -----------------------------------------------------

    @cached_property
    def _summed(self) -> SummedArea:
        return SummedArea(self.cells)

    @cached_property
    def _moved(self) -> SummedArea:
        return SummedArea(self._noisy - self.cells)

    @cached_property
    def _local(self) -> local.Local:
        if self._filter is None:
            return local.plain(self._removed.cell[self.regions.labels])
        return local.filtered(self._filter, self._v1, self.regions.shape)

    @cached_property
    def _flow(self) -> SummedArea | None:
        """The sums of h − b Σ h/n over boxes."""
        if self._sorted is None:
            return None
        taken = self._totals.weight * self._sorted.sums / self.regions.sizes
        return SummedArea(self._sorted.field - taken[self.regions.labels])

    @cached_property
    def _whole(self) -> list[FloatArray]:
        """What a region adds that lies wholly in a query.

        That is what its total is more certain than its cells, Var T − n v1, and the fourth and sixth
        cumulants of the total; for a query with the share f these count by the powers ``_POWERS`` of f.
        """
        totals, sizes = self._totals, self.regions.sizes
        own = sizes * (self._v1 if self._filter is not None else self._removed.cell)
        cumulants = (
            sizes * (1 - totals.weight) ** p * cumulant(self.scales[0], p)
            + totals.weight**p * cumulant(self.scales[1], p)
            for p in (4, 6)
        )
        return [totals.variance - own, *cumulants]

    @cached_property
    def _tables(self) -> list[SummedArea]:
        """Tables of these, each spread evenly over the region's cells."""
        return [SummedArea((part / self.regions.sizes)[self.regions.labels]) for part in self._whole]

    @cached_property
    def _draws(self) -> float:
        """The number of equal draws that a single cell's error amounts to, on average."""
        if self._filter is None:
            return 1.0
        own = 1 - reference.degrees(self._filter.weights, 1)
        square, fourth = (own**p + reference.degrees(self._filter.weights, p) for p in (2, 4))
        return float((square**2 / fourth).mean())

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
        cuts = self.regions.cuts(starts, stops)
        size = self.regions.sizes[cuts.region].astype(np.float64)
        f = cuts.cells / size
        volume = (stops - starts).prod(axis=1).astype(np.float64)

        def added(values: FloatArray) -> FloatArray:
            return added_up(cuts.box, values, len(starts))

        # A table counts a cut region by its share f; instead it is to count by f², f⁴ or f⁶.
        total, fourth, sixth = (
            table.sums(starts, stops) + added((f**power - f) * part[cuts.region])
            for table, part, power in zip(self._tables, self._whole, _POWERS, strict=True)
        )
        local_part = self._local.sums(starts, stops)
        second = np.maximum(local_part + total, 0.0)
        if self._filter is None:
            b = f * self._totals.weight[cuts.region]
            for p, sums, which in ((4, fourth, 1), (6, sixth, 2)):
                parts = cuts.cells * (1 - b) ** p + (size - cuts.cells) * b**p
                parts = parts * cumulant(self.scales[0], p) + b**p * cumulant(self.scales[1], p)
                sums += added(parts - f**p * self._whole[which][cuts.region])
        else:
            # The cells' own part is taken for as many equal draws as there are cells, a little blurred.
            inside = volume + added((f - 1) * cuts.cells)
            share = np.maximum(local_part / self._v1 - inside, 0.0)
            draws = np.maximum(volume - 1.0, 0.0) + self._draws
            fourth += cumulant(self.scales[0], 4) * share**2 / draws
            sixth += cumulant(self.scales[0], 6) * share**3 / draws**2
        if not self._linear:
            second = second + self._doubt(self._moved.sums(starts, stops), volume)
        if self._flow is not None and self._sorted is not None:
            second = second + self._sorted.variance * self._flow.sums(starts, stops) ** 2
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
        variance = noise + rest if self.estimator == "least-squares" else self._posterior(weights) + rest
        if noise + rest > 0 and not self._linear:
            half *= (variance / (noise + rest)) ** 0.5
        return value, variance, half, how

    def shares(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return how often an answer holds each cell's and each region's noise, and its other variance.

        These are F q − f b and f b. With the printed reference, or MMSE, they are those of the linear
        estimate close to it.
        """
        regions, b = self.regions, self.regions.sums(weights) / self.regions.sizes * self._totals.weight
        rest = 0.0
        if not self._linear:
            moved = float((weights * (self._noisy - self.cells)).sum())
            rest += float(self._doubt(np.array(moved), np.array((weights**2).sum())))
        if self._filter is None:
            return weights - b[regions.labels], b, rest
        rest += reference.energy(self._filter.model, weights)
        if self._sorted is not None:
            flowed = float((weights * self._sorted.field).sum()) - float((b * self._sorted.sums).sum())
            rest += self._sorted.variance * flowed**2
        return self._filter.apply(weights) - b[regions.labels], b, rest

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
        f = regions.sums(weights) / regions.sizes
        if self._filter is None:
            own = float((self._removed.cell * regions.sums(regions.centred(weights) ** 2)).sum())
        else:
            own = self._v1 * float((self._filter.apply(regions.centred(weights)) ** 2).sum())
        return own + float((f**2 * self._totals.variance).sum())


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError("a level is a probability between 0 and 1")
