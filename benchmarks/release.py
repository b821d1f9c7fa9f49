"""Releasing 103.5 million cells from 10 million rows against plain numpy: `python benchmarks/release.py`.

Every measurement is a process of its own, so that its peak memory is its own; the time is the process's whole
wall time, imports included. Needs about 3 GB of memory and 2 GB of disk.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from counting import COLUMNS, JOBS, SHAPE, TABLE, make_table

ROUNDS = 3
FOLDER = TABLE.parent
MECHANISMS = {
    "laplace": "laplace",
    "Privelet+": "privelet\n    direct: [age, sex]",
    "auto": "auto",
}
PLAN = """\
plan: 1
dataset: benchmark
privacy: {{epsilon: 1}}
attributes:
  age: {{kind: ordinal, range: [0, 100]}}
  sex: {{kind: nominal, values: [F, M]}}
  occupation: {{kind: nominal, hierarchy: {hierarchy}}}
  income: {{kind: ordinal, range: [0, 1001000], bin: 1000}}
releases:
  - name: cube
    cube: [age, sex, occupation, income]
    mechanism: {mechanism}
"""


def plain(target: Path) -> None:
    """The floor: read, count, add float Laplace noise to every cell, write one column without labels."""
    table = pq.read_table(TABLE, columns=list(COLUMNS), read_dictionary=["sex", "occupation"])

    def codes(name: str, labels: list[str]) -> np.ndarray:
        column = table[name].unify_dictionaries().combine_chunks()
        place = np.array([labels.index(label) for label in column.dictionary.to_pylist()])
        return place[column.indices.to_numpy()]

    ids = table["age"].to_numpy() * SHAPE[1] + codes("sex", ["F", "M"])
    ids = (ids * SHAPE[2] + codes("occupation", JOBS)) * SHAPE[3] + table["income"].to_numpy() // 1000
    counts = np.bincount(ids, minlength=int(np.prod(SHAPE)))
    noisy = counts + np.random.default_rng().laplace(0, 1, len(counts))
    pq.write_table(pa.table({"count": noisy}), target)


def write_plans() -> None:
    groups = ", ".join(f"g{g}: [{', '.join(JOBS[32 * g : 32 * g + 32])}]" for g in range(16))
    for name, mechanism in MECHANISMS.items():
        (FOLDER / f"{name}.yaml").write_text(PLAN.format(mechanism=mechanism, hierarchy=f"{{{groups}}}"))


def measure(name: str) -> tuple[float, float]:
    """Run one of them in a fresh process; return wall seconds and peak memory in MB."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        target = Path(folder) / "out.parquet"
        if name == "plain numpy":
            command = [sys.executable, __file__, str(target)]
        else:
            plan, ledger = FOLDER / f"{name}.yaml", Path(folder) / "ledger.sqlite"
            command = [sys.executable, "-m", "dpcli", "release", str(plan), str(TABLE), "-o", str(target)]
            command += ["--quiet", "--ledger", str(ledger)]
        return timed(command)


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command; return wall seconds and peak memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return seconds, peak


def resident(process: int) -> float:
    """The peak memory of a running process so far, in MB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return 0.0


def main() -> None:
    if len(sys.argv) > 1:
        plain(Path(sys.argv[1]))
        return
    make_table()
    write_plans()
    names = ["plain numpy", *MECHANISMS]
    rounds = [[measure(name) for name in names] for _ in range(ROUNDS)]
    print(
        "10,000,000 rows of Parquet to 103,527,424 noisy cells of Parquet, from process start to process end"
    )
    print("plain numpy: read, np.bincount, rng.laplace on every cell, write the counts alone, without labels")
    print("ours: the dpcli command: checks, exact noise, transforms and back, labels, digests, ledger\n")
    print(f"{f'{ROUNDS} interleaved rounds':<24}{'best, s':>10}{'peak memory, MB':>18}{'RATIO to numpy':>17}")
    floor = min(results[0][0] for results in rounds)
    for place, name in enumerate(names):
        best = min(results[place][0] for results in rounds)
        memory = max(results[place][1] for results in rounds)
        print(f"{name:<24}{best:>10.2f}{memory:>18.0f}{best / floor:>17.2f}")


if __name__ == "__main__":
    main()
