"""The experiments of the Privelet paper (§8) with dpcli: `python benchmarks/reproduce_privelet.py [--quick]`.

An invented census of the dimensions of the paper's Brazil stands in for the real one. Every release is a
seeded fixture, so that the run can be repeated: NOT PRIVATE. Each is made in a process of its own, whose time
from start to end and peak memory are measured. The full run takes up to 20 minutes and 6 GB of memory, and
rewrites the tables in docs/privelet.md; `--quick` takes half a minute and only prints.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcli import api
from dpcli.data.domain import Domain
from dpcli.estimate.boxes import box_variances
from dpcli.query.workload import random_ranges

REPORT = Path(__file__).parents[1] / "docs" / "privelet.md"
MARK = "<!-- From here on benchmarks/reproduce_privelet.py writes. -->\n"
QUERIES, SEED = 40_000, 2010
NO_NOISE = "1000000"  # an epsilon at which the counts are exact
METHODS: dict[str, dict[str, Any]] = {
    "Basic": {"mechanism": "laplace"},
    "Privelet+": {"mechanism": "privelet", "direct": ["age", "sex"]},
    "Privelet*": {"mechanism": "privelet", "direct": ["age", "sex"], "refine": ["threshold"]},
    "hierarchical": {"mechanism": "hierarchical", "branching": "16"},
    "optimized": {"mechanism": "optimized"},
    "auto": {"mechanism": "auto"},
}
BASIC, PLUS, STAR, _, _, AUTO = METHODS
TIMED = {name: METHODS[name] for name in (BASIC, PLUS, STAR, AUTO)}
TIMED |= {name: {**METHODS[name], "direct": "none"} for name in (PLUS, STAR)}
CHILD = """\
import sys
from pathlib import Path
from dpcli import api
plan, table, output, seed = sys.argv[1:]
api.release(plan, table, output=output, ledger=output + ".ledger", seed=int(seed), if_exists="replace")
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])  # ru_maxrss may be the parent's
"""

Floats = NDArray[np.float64]
Attributes = dict[str, dict[str, Any]]
Codes = dict[str, NDArray[np.int32]]
Key = tuple[str, str]  # a method and an epsilon


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    shape: tuple[int, int, int, int]
    groups: int
    epsilons: tuple[str, ...]
    timed_rows: tuple[int, ...]
    sides: tuple[int, ...]
    rounds: int


EPSILONS, MILLIONS = ("0.5", "0.75", "1", "1.25"), tuple(n * 1_000_000 for n in range(1, 6))
FULL = Size(10_000_000, (101, 2, 512, 1001), 16, EPSILONS, MILLIONS, (45, 54, 64, 76, 91), rounds=3)
BRIEF = replace(FULL, epsilons=("0.5", "1"), timed_rows=MILLIONS[::2], sides=(45, 64, 91), rounds=1)
QUICK = Size(200_000, (101, 2, 32, 101), 4, ("1",), (50_000, 100_000), (16, 23), rounds=1)


@dataclass(frozen=True)
class Cost:
    """What making a release takes."""

    seconds: float
    megabytes: float

    @classmethod
    def best(cls, costs: Sequence[Cost]) -> Cost:
        """Return the least time and the most memory."""
        return cls(min(cost.seconds for cost in costs), max(cost.megabytes for cost in costs))


@dataclass(frozen=True)
class Boxes:
    """Queries as boxes ``starts[n, k] <= c_k < stops[n, k]`` over named axes."""

    names: tuple[str, ...]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def random(cls, domain: Domain) -> Boxes:
        """Draw the paper's random queries."""
        starts = np.zeros((QUERIES, len(domain.shape)), np.int64)
        stops = starts + domain.shape
        for place, query in enumerate(random_ranges(domain, QUERIES, SEED)):
            for axis, mask in query.terms[0].items():
                cells = np.flatnonzero(mask)
                starts[place, axis], stops[place, axis] = cells[0], cells[-1] + 1
        return cls(domain.names, starts, stops)

    def over(self, names: tuple[str, ...]) -> Boxes:
        """Return the same boxes with the axes in another order."""
        places = [self.names.index(name) for name in names]
        return Boxes(names, self.starts[:, places], self.stops[:, places])

    def sums(self, counts: NDArray[Any]) -> Floats:
        """Add up the counts in each box, from the sums up to its corners; the counts are used up."""
        for axis in range(counts.ndim):
            np.cumsum(counts, axis=axis, out=counts)
        total = np.zeros(len(self.starts))
        for upper in product((False, True), repeat=counts.ndim):
            corner = np.where(upper, self.stops, self.starts) - 1
            total += (-1) ** upper.count(False) * counts[tuple(corner.T)] * (corner >= 0).all(axis=1)
        return total


@dataclass(frozen=True)
class Accuracy:
    """The errors of each release's answers, and what is known of the queries."""

    rows: int
    coverage: Floats
    truth: Floats
    errors: dict[Key, Floats]
    variances: dict[Key, Floats]
    """What each answer's variance should be exactly; thresholded answers have none."""
    expected: dict[Key, float]
    """The mean variance over all random queries, as `dpcli plan explain` has it."""
    costs: dict[Key, Cost]


def ordinal(size: int) -> dict[str, Any]:
    return {"kind": "ordinal", "range": ["0", str(size - 1)]}


def nominal(size: int, groups: int) -> dict[str, Any]:
    """Declare a nominal attribute of height 3: the root, so many groups, the leaves."""
    parts = np.array_split(np.arange(size), groups)
    return {"kind": "nominal", "hierarchy": {f"group {g}": [*map(str, part)] for g, part in enumerate(parts)}}


def census(size: Size) -> tuple[Attributes, Codes]:
    """Invent people: most are young; age says who works, age and sex what as, and all of it for how much."""
    random, rows = np.random.default_rng(SEED), size.rows
    ages, _, jobs, incomes = size.shape
    age = (random.beta(1.3, 2.4, rows) * ages).astype(np.int32)
    sex = random.integers(0, 2, rows, np.int32)
    works = (age >= 14) & (random.random(rows) < 0.7)
    group = (random.beta(1 + 0.7 * sex, 3 - 2 * age / ages) * size.groups).astype(np.int32)
    job = group * (jobs // size.groups) + (random.power(0.4, rows) * (jobs // size.groups)).astype(np.int32)
    mean = 1.5 + 1.5 * group / size.groups + 0.3 * sex + np.sin(np.pi * age / ages)
    income = (random.lognormal(mean) * incomes / 1001).clip(0, incomes - 1).astype(np.int32)
    attributes = {
        "age": ordinal(ages),
        "sex": {"kind": "nominal", "values": ["0", "1"]},
        "occupation": nominal(jobs, size.groups),
        "income": ordinal(incomes),
    }
    return attributes, {"age": age, "sex": sex, "occupation": job * works, "income": income * works}


def uniform(rows: int, side: int) -> tuple[Attributes, Codes]:
    """Return the data of §8.2: two ordinal and two nominal attributes with √side groups, all values alike."""
    long, deep, random = ordinal(side), nominal(side, round(side**0.5)), np.random.default_rng(SEED)
    attributes = {"a": long, "b": long, "c": deep, "d": deep}
    return attributes, {name: random.integers(0, side, rows, np.int32) for name in attributes}


def write_table(path: Path, attributes: Attributes, codes: Codes) -> Path:
    """Write a table: ordinal attributes as numbers, nominal ones as text."""
    columns: dict[str, pa.Array] = {name: pa.array(column) for name, column in codes.items()}
    for name in [name for name in columns if attributes[name]["kind"] == "nominal"]:
        labels = pa.array([str(code) for code in range(codes[name].max() + 1)])
        columns[name] = pa.DictionaryArray.from_arrays(columns[name], labels)
    pq.write_table(pa.table(columns), path, row_group_size=1 << 20)
    return path


def write_plan(path: Path, attributes: Attributes, release: dict[str, Any], epsilon: str) -> Path:
    """Write a plan (JSON is YAML) of one cube. As in the paper, neighbours differ in one row's values."""
    plan = {
        "plan": "1",
        "dataset": "invented",
        "privacy": {"epsilon": epsilon, "neighbors": "replace-one"},
        "attributes": attributes,
        "releases": [{"name": "cube", "cube": [*attributes], **release}],
    }
    path.write_text(json.dumps(plan))
    return path


def release(plan: Path, table: Path, output: Path, seed: int = SEED) -> Cost:
    """Make a fixture in a fresh process, which finds dpcli's cache of strategies empty."""
    command = [sys.executable, "-c", CHILD, *map(str, (plan, table, output, seed))]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"DPCLI_CACHE": cache}
        start = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        return Cost(time.perf_counter() - start, int(done.stdout) / 1024)


def measure_accuracy(folder: Path, size: Size) -> Accuracy:
    """Release by every method at every epsilon, and compare the answers with the true ones."""
    attributes, codes = census(size)
    table, output = write_table(folder / "table.parquet", attributes, codes), folder / "cube.parquet"
    plan = write_plan(folder / "plan.yaml", attributes, METHODS[BASIC], NO_NOISE)
    release(plan, table, output)
    exact = api.open_release(output)
    assert exact.counts.sum() == size.rows
    boxes = Boxes.random(exact.domain)
    coverage = np.prod((boxes.stops - boxes.starts) / exact.domain.shape, axis=1)
    run = Accuracy(size.rows, coverage, boxes.sums(exact.counts), {}, {}, {}, {})
    del exact, codes
    for (seed, epsilon), method in product(enumerate(size.epsilons), METHODS):
        write_plan(plan, attributes, METHODS[method], epsilon)
        cost = run.costs[method, epsilon] = release(plan, table, output, seed)
        made = api.open_release(output)
        claim, asked = made.metadata, boxes.over(made.domain.names)
        run.errors[method, epsilon] = asked.sums(made.counts) - run.truth
        if not claim.steps:
            variances = box_variances(claim.strategy, claim.noise.scale, asked.starts, asked.stops)
            run.variances[method, epsilon] = variances
            prospects, _ = api.explain(plan)
            run.expected[method, epsilon] = next(p.rmse**2 for p in prospects if p.planned)
        print(f"epsilon {epsilon}, {method}: {cost.seconds:.1f} s", file=sys.stderr)
    return run


def measure_times(folder: Path, size: Size) -> dict[tuple[str, int, int], Cost]:
    """Return each method's best cost by rows and side of the cube; its rounds lie far apart in time."""
    rows, side = size.timed_rows[-1], size.sides[len(size.sides) // 2]
    points = dict.fromkeys([*((n, side) for n in size.timed_rows), *((rows, m) for m in size.sides)])
    found: dict[tuple[str, int, int], list[Cost]] = {(m, *point): [] for m in TIMED for point in points}
    for turn, point in product(range(size.rounds), points):
        attributes, codes = uniform(*point)
        table, plan = write_table(folder / "table.parquet", attributes, codes), folder / "plan.yaml"
        for method, options in TIMED.items():
            write_plan(plan, attributes, options, "1")
            found[method, *point].append(release(plan, table, folder / "cube.parquet"))
        print(f"round {turn + 1}: {point[0]:,} rows in {point[1]}^4 cells", file=sys.stderr)
    return {key: Cost.best(costs) for key, costs in found.items()}


def quintiles(values: Floats, by: Floats) -> Floats:
    """Return the means over five times equally many queries, in the order of some measure."""
    return np.array([values[part].mean() for part in np.array_split(np.argsort(by, kind="stable"), 5)])


def power(x: Iterable[float], y: Iterable[float]) -> float:
    """Return the p of y ~ x^p, by least squares on logarithms."""
    return float(np.polyfit(np.log([*x]), np.log([*y]), 1)[0])


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def accuracy_tables(run: Accuracy) -> Iterator[str]:
    """Yield the tables that stand for Figs. 9 to 12, and the variances behind them."""
    coverage, selectivity = (quintiles(values, values) for values in (run.coverage, run.truth / run.rows))
    by_coverage, by_selectivity = ([f"{value:.2g}" for value in values] for values in (coverage, selectivity))
    absolute = {key: quintiles(np.abs(errors), run.coverage) for key, errors in run.errors.items()}
    floor = np.maximum(run.truth, run.rows / 1000)
    relative = {key: quintiles(np.abs(errors) / floor, run.truth) for key, errors in run.errors.items()}
    roots = {key: np.sqrt(quintiles(values, run.coverage)) for key, values in run.variances.items()}

    def line(values: Floats) -> list[str]:
        return [*(f"{value:,.0f}" for value in values), f"{power(coverage, values):.2f}"]

    yield "\n## Average absolute error by coverage (Fig. 9)\n"
    rows = ([epsilon, method, *line(values)] for (method, epsilon), values in absolute.items())
    yield markdown(["epsilon", "method", *by_coverage, "power"], rows)
    yield "\n## Root of the mean exact variance by coverage, at epsilon 1\n"
    rows = ([method, *line(values)] for (method, epsilon), values in roots.items() if epsilon == "1")
    yield markdown(["method", *by_coverage, "power"], rows)
    yield "\n## Average relative error by selectivity (Fig. 11)\n"
    rows = ([e, method, *(f"{value:.2%}" for value in values)] for (method, e), values in relative.items())
    yield markdown(["epsilon", "method", *by_selectivity], rows)
    yield "\n## Mean squared error\n"
    yield markdown(
        ["epsilon", "method", *MEASURES], ([e, m, *mean_squares(run, m, e)] for m, e in run.errors)
    )
    yield "\n## Making these releases\n"
    costs = {m: Cost.best([cost for (name, _), cost in run.costs.items() if name == m]) for m in METHODS}
    rows = ([method, f"{cost.seconds:.1f}", f"{cost.megabytes:,.0f}"] for method, cost in costs.items())
    yield markdown(["method", "seconds", "peak MB"], rows)


MEASURES = ["measured", "exact", "explain", "measured / exact", "gain, measured", "gain, exact"]


def mean_squares(run: Accuracy, method: str, epsilon: str) -> list[str]:
    """Return a method's measured and expected mean squared error, and how much lower than Privelet+'s."""
    measured, plus = (float(np.mean(run.errors[name, epsilon] ** 2)) for name in (method, PLUS))
    if (method, epsilon) not in run.variances:
        return [f"{measured:.3g}", "–", "–", "–", f"{plus / measured:.3g}", "–"]
    exact, exact_plus = (float(run.variances[name, epsilon].mean()) for name in (method, PLUS))
    numbers = [measured, exact, run.expected[method, epsilon], measured / exact, plus / measured]
    return [f"{number:.3g}" for number in [*numbers, exact_plus / exact]]


def time_table(what: str, millions: list[float], found: dict[str, list[Cost]]) -> str:
    """Return seconds, how they grow, and memory, against millions of something."""
    rows = []
    for method, costs in found.items():
        seconds = [cost.seconds for cost in costs]
        slope, start = np.polyfit(millions, seconds, 1)
        steps = ", ".join(f"{after / before:.2f}" for before, after in pairwise(seconds))
        growth = [f"{start:.2f} + {slope:.3f} x", f"{power(millions, seconds):.2f}", steps]
        memory = ", ".join(f"{cost.megabytes:,.0f}" for cost in costs)
        rows.append([method, *(f"{value:.2f}" for value in seconds), *growth, memory])
    header = [
        f"x million {what}",
        *(f"{value:.3g}" for value in millions),
        "line",
        "power",
        "ratios",
        "peak MB",
    ]
    return markdown(header, rows)


def tables(folder: Path, size: Size) -> Iterator[str]:
    """Run everything, and yield the tables."""
    yield f"Made by `{' '.join(['python', *sys.argv])}` on {date.today()}; {os.cpu_count()} cores, Python"
    yield f"{platform.python_version()}, numpy {np.__version__}, pyarrow {pa.__version__}."
    yield f"{size.rows:,} rows, {'×'.join(map(str, size.shape))} cells, {QUERIES:,} queries."
    yield from accuracy_tables(measure_accuracy(folder, size))
    found = measure_times(folder, size)
    rows, side = size.timed_rows[-1], size.sides[len(size.sides) // 2]
    yield f"\n## Seconds against rows (Fig. 13), in {side}^4 cells, best of {size.rounds}\n"
    costs = {method: [found[method, n, side] for n in size.timed_rows] for method in TIMED}
    yield time_table("rows", [n / 1e6 for n in size.timed_rows], costs)
    yield f"\n## Seconds against cells (Fig. 14), of {rows:,} rows, best of {size.rounds}\n"
    costs = {method: [found[method, rows, m] for m in size.sides] for method in TIMED}
    yield time_table("cells", [m**4 / 1e6 for m in size.sides], costs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, help="rows of the census; 10 million by default")
    parser.add_argument("--quick", action="store_true", help="a small run that only prints")
    parser.add_argument("--brief", action="store_true", help="two epsilons, and fewer points timed once each")
    asked = parser.parse_args()
    size = QUICK if asked.quick else BRIEF if asked.brief else FULL
    with tempfile.TemporaryDirectory(prefix="dpcli-privelet-") as folder:
        os.environ["DPCLI_CACHE"] = folder  # what others have found shall not matter
        text = "\n".join(tables(Path(folder), replace(size, rows=asked.rows or size.rows))) + "\n"
    print(text)
    if not asked.quick:
        before = REPORT.read_text().partition(MARK)[0] if REPORT.exists() else ""
        REPORT.write_text(before + MARK + "\n" + text)


if __name__ == "__main__":
    main()
