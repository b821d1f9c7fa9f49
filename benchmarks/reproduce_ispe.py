"""The experiments of the ISPE paper (§5) with dpcli: `python benchmarks/reproduce_ispe.py [--brief]`.

Prints tables in Markdown. The data are invented: smooth bumps ("smooth", the paper's continuous data), random
counts, blocks, sparse spikes, and age × income of sample_data/census.csv. `--data FOLDER` takes age × hours
from FOLDER/adult.csv (columns `age` and `hours-per-week`, whole numbers from 0) for the census instead.

Regions and estimates are the library's own. The noise is dpcli's exact discrete Laplace noise from seeded
keystreams, so that the run can be repeated: NOT PRIVATE. A release's number is its seed for every setting: in
one table all settings see the same data, the same queries and, at the same epsilon, the same noisy cells.
The full run takes about four minutes.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv

from dpcli.data.attributes import Integers
from dpcli.data.domain import Domain
from dpcli.estimate.boxes import box_variances
from dpcli.estimate.ispe.estimate import Estimator, Reference, RegionEstimate
from dpcli.estimate.ispe.mmse import combined
from dpcli.estimate.ispe.regions import SummedArea
from dpcli.estimate.law import unit_variance
from dpcli.mechanisms import Options, strategy_of
from dpcli.partition.axes import Neighbourhood
from dpcli.partition.method import Partitioning
from dpcli.privacy.cost import scale_for
from dpcli.privacy.noise import Keystream, discrete_laplace

SAMPLE = Path(__file__).parents[1] / "sample_data" / "census.csv"
SIDE, LARGE = 32, 128
CELLS, REGIONS = Fraction(15, 100), Fraction(5, 100)
"""The paper's α1 and α2."""
EPSILONS = Fraction(1, 5), Fraction(1)
GOALS = {"smooth": 5.38, "blocks": 5.10, "random": 8.98, "spikes": 6.72}
"""The most that the default's cell RMSE should be."""
INVENTED = tuple(GOALS)
CENSUS = "census"
SHARES = tuple(Fraction(n, 100) for n in (10, 25, 50, 65, 75, 85, 90, 95))
ITERATIONS = (0, 1, 2, 5, 10, 20)
THRESHOLDS = (0.3, 0.45, 0.65, 0.9, 1.3, 1.8, 2.6)
WIDTHS = (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
"""Sides of ranges as shares of the axes; 0 is one cell."""
LEVELS = (0.9, 0.95)
QUERIES = 200

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Chosen = tuple[Estimator, Reference]
AS_USUAL = Partitioning()
DEFAULT: Chosen = ("least-squares", "weighted")
PLAIN: Chosen = ("least-squares", "off")
MMSE: Chosen = ("mmse", "off")
PRINTED: Chosen = ("mmse", "printed")


@dataclass(frozen=True)
class Size:
    """How many releases each number comes from."""

    errors: int
    parameters: int
    ranges: int
    coverage: int
    large: int


FULL = Size(errors=200, parameters=60, ranges=100, coverage=200, large=40)
BRIEF = Size(errors=20, parameters=6, ranges=10, coverage=50, large=8)


# -- data ------------------------------------------------------------------------------------------------


def smooth(random: np.random.Generator, side: int) -> Floats:
    """Four round bumps."""
    place = np.arange(side)
    total = np.zeros((side, side))
    for _ in range(4):
        (row, column), width = random.uniform(0, side, 2), random.uniform(0.15, 0.35) * side
        far = (place[:, None] - row) ** 2 + (place - column) ** 2
        total += random.uniform(20, 60) * np.exp(-far / (2 * width**2))
    return total


def blocks(random: np.random.Generator, side: int) -> Floats:
    """Six rectangles, one over the other, of 0 to 79 rows in each cell."""
    cells = np.zeros((side, side))
    for _ in range(6):
        start = random.integers(0, side, 2)
        stop = start + random.integers(side // 6, side // 2, 2)
        cells[start[0] : stop[0], start[1] : stop[1]] = random.integers(0, 80)
    return cells


def at_random(random: np.random.Generator, side: int) -> Floats:
    """From 0 to 99 rows in each cell, all equally likely."""
    return random.integers(0, 100, (side, side)).astype(np.float64)


def spikes(random: np.random.Generator, side: int) -> Floats:
    """One cell in fifty has 30 to 199 rows, the others none."""
    cells = np.zeros(side * side)
    places = random.choice(cells.size, cells.size // 50, replace=False)
    cells[places] = random.integers(30, 200, len(places))
    return cells.reshape(side, side)


MAKERS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "smooth": smooth,
    "blocks": blocks,
    "random": at_random,
    "spikes": spikes,
}


@lru_cache
def census(folder: Path | None) -> Ints:
    """Return a histogram of two attributes of people."""
    if folder is None:
        table = csv.read_csv(SAMPLE)
        age, other = table["age"].to_numpy(), table["income"].to_numpy() // 5000
        shape = (101, 40)
    else:
        table = csv.read_csv(folder / "adult.csv")
        age, other = table["age"].to_numpy(), table["hours-per-week"].to_numpy()
        shape = (85, 99)
    return np.bincount(age * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape)


def data(kind: str, seed: int, folder: Path | None, side: int = SIDE) -> Ints:
    """Return a cube; the census is the same for every seed."""
    if kind == CENSUS:
        return census(folder)
    return np.rint(MAKERS[kind](np.random.default_rng(seed), side)).astype(np.int64)


# -- releases --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Released:
    """What is released of a cube, and the cube."""

    cube: Ints
    noisy: Ints
    labels: Ints
    counts: Ints
    scales: tuple[Fraction, Fraction]

    @classmethod
    def make(
        cls,
        cube: Ints,
        seed: int,
        cells: Fraction = CELLS,
        regions: Fraction = REGIONS,
        method: Partitioning = AS_USUAL,
    ) -> Released:
        """Release as the mechanism does, with epsilon ``cells`` and then ``regions``, add-remove."""
        stream = Keystream.from_seed(seed)
        first, second = 1 / cells, 1 / regions
        noisy = cube + discrete_laplace(first).sample(stream, cube.size).reshape(cube.shape)
        deviation = unit_variance(first) ** 0.5
        labels = method.regions(noisy, deviation, Neighbourhood([None, None], (True, True)))
        counts = np.bincount(labels.reshape(-1), cube.reshape(-1)).astype(np.int64)
        counts += discrete_laplace(second).sample(stream.spawn(), len(counts))
        return cls(cube, noisy, labels, counts, (first, second))

    def estimate(self, chosen: Chosen = DEFAULT) -> RegionEstimate:
        return RegionEstimate(self.noisy, self.labels, self.counts, *self.scales, *chosen)

    def errors(self, chosen: Chosen = DEFAULT) -> Floats:
        """Return each cell's error."""
        return self.estimate(chosen).cells - self.cube


def random_ranges(shape: Sequence[int], seed: int, count: int = QUERIES) -> tuple[Ints, Ints]:
    """Draw boxes: along each axis every range is equally likely."""
    random = np.random.default_rng(10_000 + seed)
    ends = [np.argwhere(np.tri(size, dtype=np.bool_)) for size in shape]  # last, first
    drawn = [pairs[random.integers(0, len(pairs), count)] for pairs in ends]
    return np.stack([d[:, 1] for d in drawn], axis=1), np.stack([d[:, 0] for d in drawn], axis=1) + 1


def ranges_of(shape: Sequence[int], sides: Ints, seed: int) -> tuple[Ints, Ints]:
    """Draw where boxes of given sides lie, all places being equally likely."""
    random = np.random.default_rng(20_000 + seed)
    starts = (random.random(sides.shape) * (np.array(shape) + 1 - sides)).astype(np.int64)
    return starts, starts + sides


def rms(squares: Iterable[Floats | float]) -> float:
    """Return the root of the mean over releases of mean squares."""
    return float(np.mean([np.mean(each) for each in squares])) ** 0.5


# -- tables ----------------------------------------------------------------------------------------------


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def pair(found: tuple[float, float]) -> str:
    return f"{found[0]:.2f} / {found[1]:.0f}"


@dataclass(frozen=True)
class Run:
    """Where the census comes from, and how much is simulated."""

    folder: Path | None
    size: Size

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*INVENTED, CENSUS)

    def cube(self, kind: str, seed: int, side: int = SIDE) -> Ints:
        return data(kind, seed, self.folder, side)

    def cell_errors(self) -> str:
        """Return the table of cell errors by estimator."""
        header = ["data", "least squares", "mmse", "mmse + printed", "default", "goal", "all on cells"]
        rows = []
        for kind in self.kinds:
            found: dict[Chosen | None, list[Floats]] = {
                each: [] for each in (PLAIN, MMSE, PRINTED, DEFAULT, None)
            }
            for seed in range(self.size.errors):
                cube = self.cube(kind, seed)
                made = Released.make(cube, seed)
                for chosen, squares in found.items():
                    if chosen is not None:
                        squares.append(made.errors(chosen) ** 2)
                everything = discrete_laplace(1 / (CELLS + REGIONS))
                alone = everything.sample(Keystream.from_seed(seed), cube.size)
                found[None].append(alone.astype(np.float64) ** 2)
            numbers = [f"{rms(squares):.2f}" for squares in found.values()]
            goal = f"{GOALS[kind]:.2f}" if kind in GOALS else "–"
            rows.append([kind, *numbers[:4], goal, numbers[4]])
        return markdown(header, rows)

    def measured(
        self,
        kind: str,
        cells: Fraction,
        regions: Fraction,
        method: Partitioning = AS_USUAL,
        chosen: Chosen = DEFAULT,
    ) -> tuple[float, float]:
        """Return the RMSE of cells and of random ranges."""
        of_cells, of_ranges = [], []
        for seed in range(self.size.parameters):
            cube = self.cube(kind, seed)
            errors = Released.make(cube, seed, cells, regions, method).errors(chosen)
            of_cells.append(errors**2)
            of_ranges.append(SummedArea(errors).sums(*random_ranges(cube.shape, seed)) ** 2)
        return rms(of_cells), rms(of_ranges)

    def shares(self) -> str:
        """Return the table of the budget's split (Figs. 7 to 9)."""
        header = ["epsilon", "data", *(f"{float(share):g}" for share in SHARES), "all on cells"]
        rows = []
        for epsilon in EPSILONS:
            for kind in self.kinds:
                found = [self.measured(kind, epsilon * share, epsilon * (1 - share)) for share in SHARES]
                rows.append(
                    [f"{float(epsilon):g}", kind, *map(pair, found), pair(self.unsmoothed(kind, epsilon))]
                )
        return markdown(header, rows)

    def unsmoothed(self, kind: str, epsilon: Fraction) -> tuple[float, float]:
        """Return the exact RMSE of cells and random ranges if all of epsilon goes to the cells."""
        one, sizes = unit_variance(1 / epsilon), []
        for seed in range(self.size.parameters):
            starts, stops = random_ranges(self.cube(kind, seed).shape, seed)
            sizes.append((stops - starts).prod(axis=1) * one)
        return one**0.5, rms(sizes)

    def iterations(self) -> str:
        """Return the table of the number of smoothings (Figs. 10 to 12)."""
        rows = []
        for kind in self.kinds:
            for name, chosen in (("default", DEFAULT), ("mmse + printed", PRINTED)):
                methods = [
                    Partitioning(iterations=n) if n else Partitioning(smoothing="none") for n in ITERATIONS
                ]
                found = [self.measured(kind, CELLS, REGIONS, method, chosen) for method in methods]
                rows.append([kind, name, *map(pair, found)])
        return markdown(["data", "estimator", *map(str, ITERATIONS)], rows)

    def thresholds(self) -> str:
        """Return the table of ξ (Figs. 13 to 15)."""
        rows = []
        for epsilon in EPSILONS:
            cells, regions = epsilon * Fraction(3, 4), epsilon / 4
            deviation = unit_variance(1 / cells) ** 0.5
            rows.append([f"{float(epsilon):g}", "ξ in rows", *(f"{t * deviation:.1f}" for t in THRESHOLDS)])
            for kind in self.kinds:
                methods = [Partitioning(threshold=t) for t in THRESHOLDS]
                found = [self.measured(kind, cells, regions, method) for method in methods]
                rows.append([f"{float(epsilon):g}", kind, *map(pair, found)])
        for kind in self.kinds:
            found = [
                self.measured(kind, CELLS, REGIONS, Partitioning(threshold=t), PRINTED) for t in THRESHOLDS
            ]
            rows.append(["0.2, printed", kind, *map(pair, found)])
        return markdown(["epsilon", "data, by ξ in noise", *(f"{t:g}" for t in THRESHOLDS)], rows)

    def range_sizes(self) -> str:
        """Return the table of RMSE by range size (Figs. 19 to 23)."""
        header = ["data", "method", *("cell" if w == 0 else f"{w:.3g}" for w in WIDTHS)]
        rows = []
        for kind in ("smooth", "random", CENSUS):
            shape = self.cube(kind, 0).shape
            sides = [np.maximum(1, np.rint(w * np.array(shape))).astype(np.int64) for w in WIDTHS]
            named = {"ISPE, default": DEFAULT, "ISPE, least squares": PLAIN, "ISPE, mmse + printed": PRINTED}
            squares: dict[str, list[list[Floats]]] = {name: [[] for _ in WIDTHS] for name in named}
            for seed in range(self.size.ranges):
                made = Released.make(self.cube(kind, seed), seed)
                for name, chosen in named.items():
                    summed = SummedArea(made.errors(chosen))
                    for place, side in enumerate(sides):
                        drawn = ranges_of(shape, np.tile(side, (QUERIES, 1)), seed)
                        squares[name][place].append(summed.sums(*drawn) ** 2)
            for name, columns in squares.items():
                rows.append([kind, name, *(f"{rms(column):.1f}" for column in columns)])
            for name, exact in self.exact(shape, sides).items():
                rows.append([kind, name, *(f"{value:.1f}" for value in exact)])
        return markdown(header, rows)

    def exact(self, shape: tuple[int, ...], sides: Sequence[Ints]) -> dict[str, list[float]]:
        """Return the exact RMSE of the mechanisms that do not look at the data, for the same boxes."""
        domain = Domain(("a", "b"), tuple(Integers(range=(0, size - 1)) for size in shape))
        asked = {
            "laplace": ("laplace", Options()),
            "hierarchical, equal": ("hierarchical", Options(split="equal")),
            "hierarchical, geometric": ("hierarchical", Options(split="geometric")),
            "auto": ("auto", Options(workload="ranges")),
        }
        found = {}
        for name, (mechanism, options) in asked.items():
            strategy = strategy_of(mechanism, domain, options)
            scale = scale_for(strategy, CELLS + REGIONS, "add-remove", 1)
            boxes = [
                [ranges_of(shape, np.tile(side, (QUERIES, 1)), s) for s in range(self.size.ranges)]
                for side in sides
            ]
            found[name] = [rms(box_variances(strategy, scale, *drawn) for drawn in each) for each in boxes]
        return found

    def coverage(self, side: int, releases: int) -> Iterator[str]:
        """Yield the table of how often intervals hold the truth, and how certain it is."""
        header = ["data", "estimator", "regions", *QUERY_KINDS, "whole regions"]
        rows, least = [], 0.0
        for kind in self.kinds if side == SIDE else INVENTED:
            for name, chosen in (("default", DEFAULT), ("least squares", PLAIN)):
                found = [self.hits(kind, seed, side, chosen) for seed in range(releases)]
                shares = np.array([each for each, _ in found])  # release, level, kind of query
                least = max(least, float((shares.std(axis=0, ddof=1) / releases**0.5).max()))
                number = np.mean([regions for _, regions in found])
                columns = shares.mean(axis=0).T
                rows.append(
                    [kind, name, f"{number:.0f}", *(" / ".join(f"{v:.1%}" for v in pair) for pair in columns)]
                )
        yield markdown(header, rows)
        yield f"\nThe standard error of these shares is at most {100 * least:.1f} points."

    def hits(self, kind: str, seed: int, side: int, chosen: Chosen) -> tuple[Floats, int]:
        """Return for each level and kind of query the share of intervals that hold, and how many regions."""
        made = Released.make(self.cube(kind, seed, side), seed)
        estimate, random = made.estimate(chosen), np.random.default_rng(30_000 + seed)
        truth = SummedArea(made.cube.astype(np.float64))
        # All at once, so that they go the way of many queries.
        drawn = [
            ranges_of(
                made.cube.shape, random.integers(*ends(np.array(made.cube.shape)), (QUERIES, 2)), 3 * seed + k
            )
            for k, ends in enumerate(QUERY_KINDS.values())
        ]
        starts, stops = (np.concatenate(column) for column in zip(*drawn, strict=True))
        asked = random.choice(len(made.counts), min(20, len(made.counts)), replace=False)
        wholes = [(made.labels == number).astype(np.float64) for number in asked]
        shares = []
        for level in LEVELS:
            answers = estimate.boxes(starts, stops, level)
            sums = truth.sums(starts, stops)
            inside = ((answers.low <= sums) & (sums <= answers.high)).reshape(len(drawn), -1).mean(axis=1)
            of_regions, sums = (
                estimate.weighted(wholes, level),
                np.array([(w * made.cube).sum() for w in wholes]),
            )
            held = ((of_regions.low <= sums) & (sums <= of_regions.high)).mean()
            shares.append([*inside, held])
        return np.array(shares), len(made.counts)


QUERY_KINDS: dict[str, Callable[[Ints], tuple[Ints | int, Ints | int]]] = {
    "cells": lambda shape: (1, 2),
    "small ranges": lambda shape: (2, 7),
    "large ranges": lambda shape: (10 * shape // 32, shape + 1),
}
"""The least side of a box and one more than the most, by the cube's shape."""


def example() -> str:
    """Return the paper's worked example: x5 + x6 of a region of four cells, α1 = α2 = 0.05."""
    scale = Fraction(20)
    found = combined(25.6289, [(scale, 2)], -52.9904, [(scale, 2), (scale, 1)], 0.95, continuous=True)
    return f"mean {found.mean:.4f}, 95 % interval [{found.low:.2f}, {found.high:.2f}]"


def tables(run: Run) -> Iterator[str]:
    """Run everything, and yield the tables."""
    size, shape = run.size, census(run.folder).shape
    words = ["python", *("FOLDER" if word == str(run.folder) else word for word in sys.argv)]
    yield f"Made by `{' '.join(words)}` on {date.today()}; {os.cpu_count()} cores, Python"
    yield f"{platform.python_version()}, numpy {np.__version__}."
    what = "age × income of the invented census" if run.folder is None else "age × hours of the Adult data"
    yield f"Invented cubes have {SIDE}×{SIDE} cells; census is {what}, {shape[0]}×{shape[1]} cells with"
    yield f"{census(run.folder).sum():,} rows. Errors are in rows (root mean square)."
    yield f"\n## Cells, by estimator ({size.errors} releases, α1 = 0.15, α2 = 0.05)\n"
    yield run.cell_errors()
    yield f"\n## Cells / random ranges, by the share of the cells ({size.parameters} releases; Figs. 7–9)\n"
    yield run.shares()
    yield "\n## Cells / random ranges, by the number of smoothings n_it (α1 = 0.15, α2 = 0.05; Figs. 10–12)\n"
    yield run.iterations()
    yield "\n## Cells / random ranges, by the threshold ξ (share 0.75; Figs. 13–15)\n"
    yield run.thresholds()
    yield f"\n## Ranges, by their sides ({size.ranges} releases, epsilon 0.2; Figs. 19–23)\n"
    yield run.range_sizes()
    for side, releases in ((SIDE, size.coverage), (LARGE, size.large)):
        yield f"\n## Share of 90 % / 95 % intervals that hold, {side}×{side} cells, {releases} releases\n"
        yield from run.coverage(side, releases)
    yield f"\n## The paper's worked example, exactly\n\n{example()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a folder with adult.csv")
    parser.add_argument("--brief", action="store_true", help="few releases: under a minute")
    asked = parser.parse_args()
    start = time.perf_counter()
    for line in tables(Run(asked.data, BRIEF if asked.brief else FULL)):
        print(line, flush=True)
    print(f"{time.perf_counter() - start:.0f} seconds", file=sys.stderr)


if __name__ == "__main__":
    main()
