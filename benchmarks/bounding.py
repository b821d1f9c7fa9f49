"""What bounding the rows per person adds to counting 10 million rows: `python benchmarks/bounding.py`.

Three million people in no order. Every measurement runs in a process of its own, so that its peak memory is
its own. The time starts after the imports and ends when the counts are there.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS, PEOPLE, ROUNDS = 10_000_000, 3_000_000, 5
TABLE = Path(tempfile.gettempdir()) / "dpcli-benchmarks" / f"bounding-{ROWS}.parquet"
CASES = {
    "no unit": (None, 1, 28),
    "numbers, 1 row a person": ("number", 1, 28),
    "numbers, 2 rows a person": ("number", 2, 28),
    "numbers, 100 rows a person": ("number", 100, 28),
    "numbers, 2 rows, 16 MB in memory": ("number", 2, 24),
    "digits as text, 2 rows a person": ("digits", 2, 28),
    "texts, 2 rows a person": ("text", 2, 28),
    "texts, 2 rows, 16 MB in memory": ("text", 2, 24),
    "one person owns all rows": ("alone", 2, 28),
}


def make_table() -> None:
    """Write the table once."""
    if TABLE.exists():
        return
    TABLE.parent.mkdir(exist_ok=True)
    random = np.random.default_rng(2026)
    numbers = random.integers(0, PEOPLE, ROWS) * 1009
    digits = pa.array(numbers).cast(pa.string())
    table = pa.table(
        {
            "number": numbers,
            "digits": digits,
            "text": pc.binary_join_element_wise("person", digits, "-"),
            "alone": np.zeros(ROWS, np.int64),
            "age": random.integers(0, 101, ROWS),
            "pay": random.integers(0, 1000, ROWS),
        }
    )
    unfinished = TABLE.with_suffix(".part")
    pq.write_table(table, unfinished, row_group_size=1 << 20)
    unfinished.rename(TABLE)


def ours(column: str | None, max_rows: int, memory: int) -> tuple[float, int]:
    """Count with dpcli; return the seconds and the number of rows that count."""
    from dpcli.data import bounding
    from dpcli.data.attributes import Integers
    from dpcli.data.counting import count
    from dpcli.data.domain import Domain
    from dpcli.data.tables import open_table

    bounding.WAITING_BYTES = 1 << memory
    domain = Domain(("age", "pay"), (Integers(range=(0, 100)), Integers(range=(0, 999))))
    unit = bounding.Unit(column, max_rows, bytes(32)) if column else None
    start = time.perf_counter()
    cube = count(domain, open_table(TABLE, [*domain.names, *([column] if column else [])]), unit=unit)
    return time.perf_counter() - start, cube.total


def measure(name: str) -> tuple[float, float, int]:
    """Run one case in a fresh process; return seconds, peak memory in MB and rows that count."""
    done = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
    seconds, memory, rows = done.stdout.split()
    return float(seconds), float(memory), int(rows)


def main() -> None:
    make_table()
    if len(sys.argv) > 1:
        seconds, rows = ours(*CASES[sys.argv[1]])
        print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows)
        return
    rounds = [[measure(name) for name in CASES] for _ in range(ROUNDS)]
    print(f"{ROWS:,} rows, {PEOPLE:,} people, 101,000 cells; Parquet; best of {ROUNDS} interleaved rounds")
    print(f"{'':<36}{'seconds':>8}{'ns a row':>10}{'peak memory, MB':>17}{'rows that count':>17}")
    for name, results in zip(CASES, zip(*rounds, strict=True), strict=True):
        seconds = min(seconds for seconds, _, _ in results)
        memory, rows = max(memory for _, memory, _ in results), results[0][2]
        print(f"{name:<36}{seconds:>8.2f}{seconds * 1e9 / ROWS:>10.0f}{memory:>17.0f}{rows:>17,}")


if __name__ == "__main__":
    main()
