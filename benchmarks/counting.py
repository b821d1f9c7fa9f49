"""Counting 10 million rows in 103.5 million cells against numpy and pandas: `python benchmarks/counting.py`.

Every measurement runs in a process of its own, so that its peak memory is its own. The time starts after
the imports and ends when the counts are there.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 10_000_000
ROUNDS = 7
JOBS = [f"occupation {number:03d}" for number in range(512)]
SHAPE = (101, 2, len(JOBS), 1001)
COLUMNS = ("age", "sex", "occupation", "income")
TABLE = Path(tempfile.gettempdir()) / "dpcli-benchmarks" / f"counting-{ROWS}.parquet"

FLOOR = """\
plain numpy: pyarrow reads the four columns whole (ages and incomes as int64, texts as dictionaries, as ours
  are read); dictionary indices go through a table of codes; ids = ((age·2 + sex)·512 + occupation)·1001 +
  income // 1000; np.bincount over all 103.5 million cells. No check of any value, nothing missing or outside.
plain pandas: the same ids, then pd.Series(ids).value_counts(sort=False), whose cells are not in order.
ours: open_table and count, with all checks, in batches; the result holds only the cells that have rows."""


def make_table() -> None:
    """Write the table once: ages and incomes skewed as in a census, occupations by a power law."""
    if TABLE.exists():
        return
    TABLE.parent.mkdir(exist_ok=True)
    random = np.random.default_rng(2026)
    weights = 1 / np.arange(1, len(JOBS) + 1) ** 0.7
    job = random.choice(len(JOBS), ROWS, p=weights / weights.sum())
    table = pa.table(
        {
            "age": (random.beta(1.6, 2.2, ROWS) * 101).astype(np.int64).clip(0, 100),
            "sex": pa.array(["F", "M"]).take(pa.array(random.integers(0, 2, ROWS))),
            "occupation": pa.array(JOBS).take(pa.array(job)),
            "income": random.lognormal(11.5, 0.9, ROWS).astype(np.int64).clip(0, 1_000_999),
        }
    )
    unfinished = TABLE.with_suffix(".part")
    pq.write_table(table, unfinished, row_group_size=1 << 20)
    unfinished.rename(TABLE)


def plain(library: str) -> tuple[float, int]:
    """Count in the plainest way; return the seconds and the number of cells that have rows."""
    if library == "pandas":
        import pandas as pd
    start = time.perf_counter()
    table = pq.read_table(TABLE, columns=list(COLUMNS), read_dictionary=["sex", "occupation"])

    def codes(name: str, labels: list[str]) -> np.ndarray:
        column = table[name].unify_dictionaries().combine_chunks()
        place = np.array([labels.index(label) for label in column.dictionary.to_pylist()])
        return place[column.indices.to_numpy()]

    ids = table["age"].to_numpy() * SHAPE[1] + codes("sex", ["F", "M"])
    ids = ids * SHAPE[2] + codes("occupation", JOBS)
    ids = ids * SHAPE[3] + table["income"].to_numpy() // 1000
    if library == "pandas":
        counts = pd.Series(ids).value_counts(sort=False).to_numpy()
    else:
        counts = np.bincount(ids, minlength=int(np.prod(SHAPE)))
    return time.perf_counter() - start, np.count_nonzero(counts)


def ours() -> tuple[float, int]:
    """Count with dpcli; return the seconds and the number of cells that have rows."""
    from dpcli.data.attributes import Binned, Integers, Nominal
    from dpcli.data.counting import count
    from dpcli.data.domain import Domain
    from dpcli.data.tables import open_table

    domain = Domain(
        COLUMNS,
        (
            Integers(range=(0, 100)),
            Nominal(values=("F", "M")),
            Nominal(values=tuple(JOBS)),
            Binned(range=("0", "1001000"), bin="1000"),
        ),
    )
    assert domain.shape == SHAPE
    start = time.perf_counter()
    cube = count(domain, open_table(TABLE, COLUMNS))
    return time.perf_counter() - start, len(cube.cells)


def measure(which: str) -> tuple[float, float, int]:
    """Run one of them in a fresh process; return seconds, peak memory in MB and cells."""
    command = [sys.executable, __file__, which]
    seconds, memory, cells = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.split()
    return float(seconds), float(memory), int(cells)


def main() -> None:
    make_table()
    if len(sys.argv) > 1:
        seconds, cells = ours() if sys.argv[1] == "ours" else plain(sys.argv[1])
        print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, cells)
        return
    names = {"numpy": "plain numpy", "pandas": "plain pandas", "ours": "ours"}
    rounds = [[measure(which) for which in names] for _ in range(ROUNDS)]
    (found,) = {cells for results in rounds for _, _, cells in results}  # all agree
    print(
        f"{ROWS:,} rows, {np.prod(SHAPE):,} cells, {found:,} of them with rows; Parquet, 4 columns\n{FLOOR}\n"
    )
    print(f"{f'{ROUNDS} interleaved rounds':<30}{'best, s':>10}{'median, s':>12}{'peak memory, MB':>18}")
    best, middle = {}, {}
    for (which, name), results in zip(names.items(), zip(*rounds, strict=True), strict=True):
        times = [seconds for seconds, _, _ in results]
        best[which], middle[which] = min(times), median(times)
        memory = max(memory for _, memory, _ in results)
        print(f"{name:<30}{best[which]:>10.2f}{middle[which]:>12.2f}{memory:>18.0f}")
    for which in ("numpy", "pandas"):
        ratios = [times["ours"] / times[which] for times in (best, middle)]
        print(f"{f'RATIO ours / {names[which]}':<30}{ratios[0]:>10.2f}{ratios[1]:>12.2f}")


if __name__ == "__main__":
    main()
