"""The mechanism ispe against laplace on 1,000 × 1,000 cells: `python benchmarks/ispe.py`.

The dpcli command releases 2 million rows of an invented table, and answers 10,000 random ranges with
intervals from the release, each as a whole process from its start to its file. laplace does the same in the
same run.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from queries import dpcli
from release import timed

ROWS, SIDE, QUERIES = 2_000_000, 1000, 10_000
ROUNDS = 3
MECHANISMS = ("laplace", "ispe")
PLAN = """\
plan: 1
dataset: benchmark
privacy: {{epsilon: 1}}
attributes:
  x: {{kind: ordinal, range: [0, {last}], outside: clamp}}
  y: {{kind: ordinal, range: [0, {last}], outside: clamp}}
releases:
  - {{name: cube, cube: [x, y], mechanism: {mechanism}}}
"""


def write_table(path: Path) -> None:
    """Write points that lie around four centres."""
    random = np.random.default_rng(0)
    which = random.integers(0, 4, ROWS)
    centres, widths = random.uniform(0.2, 0.8, (2, 4)) * SIDE, random.uniform(0.1, 0.25, 4) * SIDE
    columns = (random.normal(centre[which], widths[which]).astype(np.int64) for centre in centres)
    pq.write_table(pa.table(dict(zip("xy", columns, strict=True))), path)


def main() -> None:
    costs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="dpcli-ispe-") as folder:
        table, answers = Path(folder) / "table.parquet", Path(folder) / "answers.parquet"
        write_table(table)
        for _ in range(ROUNDS):
            for mechanism in MECHANISMS:
                plan, release = Path(folder) / "plan.yaml", Path(folder) / f"{mechanism}.parquet"
                plan.write_text(PLAN.format(last=SIDE - 1, mechanism=mechanism))
                ledger = Path(folder) / "ledger.sqlite"
                made = dpcli(
                    "release", plan, table, "-o", release, "--if-exists", "replace", "--ledger", ledger
                )
                asked = dpcli("query", release, "--workload", f"random:{QUERIES}", "-o", answers)
                for step, command in (("release", made), ("query", asked)):
                    costs.setdefault((step, mechanism), []).append(timed(command))
                assert pq.read_metadata(answers).num_rows == QUERIES

    print(
        f"{ROWS:,} rows to {SIDE:,} × {SIDE:,} cells, then {QUERIES:,} ranges, {ROUNDS} interleaved rounds\n"
    )
    print(f"{'':<10}{'mechanism':<12}{'best, s':>10}{'peak memory, MB':>18}{'RATIO to laplace':>19}")
    for (step, mechanism), found in costs.items():
        best, memory = min(seconds for seconds, _ in found), max(peak for _, peak in found)
        floor = min(seconds for seconds, _ in costs[step, "laplace"])
        print(f"{step:<10}{mechanism:<12}{best:>10.2f}{memory:>18.0f}{best / floor:>19.2f}")


if __name__ == "__main__":
    main()
