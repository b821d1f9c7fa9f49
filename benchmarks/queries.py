"""40,000 random ranges on 103.5 million cells against loading the counts: `python benchmarks/queries.py`.

The dpcli command is timed as a whole process, from its start to the Parquet file of answers with intervals.
The floor is what pyarrow takes to load the column of counts, after its import. Then the CPU time of one
question to a release of 50,000 cells, from process start to answer.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from counting import TABLE, make_table
from release import FOLDER, MECHANISMS, timed, write_plans

ROUNDS = 3
QUERIES = 40_000
LOAD = """\
import sys, time
import pyarrow.parquet as pq
start = time.perf_counter()
pq.read_table(sys.argv[1], columns=["count"])
print(time.perf_counter() - start)
"""
SMALL = """\
plan: 1
dataset: benchmark
privacy: {epsilon: 1}
attributes:
  age: {kind: ordinal, range: [0, 99], outside: clamp}
  income: {kind: ordinal, range: [0, 2000000], bin: 4000, outside: clamp}
releases:
  - {name: cube, cube: [age, income], mechanism: privelet}
"""


def dpcli(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dpcli", *map(str, arguments), "--quiet"]


def load(release: Path) -> float:
    """Seconds that pyarrow takes to load the counts."""
    run = subprocess.run(
        [sys.executable, "-c", LOAD, str(release)], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def many(folder: Path) -> None:
    print(
        f"{QUERIES:,} random range queries with intervals on 103,527,424 cells, {ROUNDS} interleaved rounds"
    )
    print(f"{'mechanism':<12}{'loading, s':>12}{'dpcli, s':>10}{'RATIO':>8}{'3 x loading + 2':>18}{'MB':>8}")
    for mechanism in MECHANISMS:
        release, answers = folder / "release.parquet", folder / "answers.parquet"
        plan, ledger = FOLDER / f"{mechanism}.yaml", folder / "ledger.sqlite"
        timed(dpcli("release", plan, TABLE, "-o", release, "--if-exists", "replace", "--ledger", ledger))
        command = dpcli("query", release, "--workload", f"random:{QUERIES}", "-o", answers)
        rounds = [(load(release), *timed(command)) for _ in range(ROUNDS)]
        loading, seconds, memory = (
            min(r[0] for r in rounds),
            min(r[1] for r in rounds),
            max(r[2] for r in rounds),
        )
        assert pq.read_metadata(answers).num_rows == QUERIES
        numbers = (
            f"{loading:>12.2f}{seconds:>10.2f}{seconds / loading:>8.2f}{3 * loading + 2:>18.2f}{memory:>8.0f}"
        )
        print(f"{mechanism:<12}{numbers}")


def one(folder: Path) -> None:
    plan, release = folder / "small.yaml", folder / "small.parquet"
    plan.write_text(SMALL)
    subprocess.run(
        dpcli("release", plan, TABLE, "-o", release, "--ledger", folder / "small.sqlite"),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    command = dpcli("query", release, "age between 30 and 39 and income < 40000")
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(
        f"\none question to 50,000 cells: {min(spent):.2f} s of CPU from process start to answer (best of 5)"
    )


def main() -> None:
    make_table()
    write_plans()
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        many(Path(folder))
        one(Path(folder))


if __name__ == "__main__":
    main()
