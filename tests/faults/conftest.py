"""What the fault tests share: the driver, a plan of three releases, and what must hold after every fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcli.privacy.ledger import Ledger
from dpcli.release.file import open_release

DRIVER = Path(__file__).with_name("driver.py")
ROOT = DRIVER.parent.parent.parent


class Driver:
    """A process that forks others; see driver.py."""

    def __init__(self, before: Sequence[str] = ()) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [*before, sys.executable, str(DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self.ready = self._process.stdout.readline() == "ready\n"

    def _task(self, task: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(task), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def children(self, children: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Let children start together; return how each ended."""
        answer: list[dict[str, Any]] = self._task({"children": children})
        return answer

    def run(
        self, folder: Path, *words: object, faults: Sequence[dict[str, Any]] = (), **child: Any
    ) -> dict[str, Any]:
        """Run the command line once; return its exit code, and what it told if it was not killed."""
        run = {"folder": str(folder), "words": [str(word) for word in words], "faults": list(faults)}
        (ended,) = self.children([{"runs": [run], **child}])
        return {**ended, "told": "".join(done["told"] for done in ended["runs"])}

    def call(self, *command: object) -> bool:
        """Run another program in the driver's place; tell whether it ended well."""
        return bool(self._task({"call": [str(word) for word in command]}) == 0)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a kill loses nothing that was handed to the system, disk or not."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            yield Path(folder)


@pytest.fixture(scope="session")
def driver(_own_cache: None) -> Iterator[Driver]:
    driver = Driver()
    assert driver.ready
    yield driver
    driver.close()


@pytest.fixture
def own_mounts(_own_cache: None) -> Iterator[Driver]:
    """A driver that may mount, and whose mounts nobody else sees and end with it."""
    try:
        driver = Driver(["unshare", "--mount", "--map-root-user"])
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if not driver.ready:
        driver.close()
        pytest.skip("mounts of one's own are not allowed here")
    yield driver
    driver.close()


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger of runs in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def three(write_plan: Callable[..., Path]) -> Path:
    """A plan of three releases: one block, then several, then one."""
    more = "releases:\n  - {name: jobs, cube: [job], epsilon: 0.25}\n"
    last = "  - {name: sexes, cube: [sex], epsilon: 0.25}\n"
    plan = write_plan(privacy='  budget: "1000"', replace=("releases:\n", more), name="three.yaml")
    plan.write_text(plan.read_text() + last)
    return plan


@pytest.fixture
def sound() -> Callable[..., dict[str, Path]]:
    """Check what must hold after whatever fault; return the files that there are, by their ids."""

    def check(ledger: Ledger, *folders: Path) -> dict[str, Path]:
        ledger.verify()
        debits = {debit.release_id: debit for debit in ledger.debits()}
        files: dict[str, Path] = {}
        for folder in folders or (ledger.path.parent,):
            for path in sorted(folder.rglob("*.parquet")):
                release = open_release(path)
                release.verify()  # never a half file
                claim = release.metadata
                assert claim.id not in files
                files[claim.id] = path
                debit = debits[claim.id]  # never a file without a debit
                assert (debit.state, debit.epsilon, debit.dataset, debit.release) == (
                    "released",
                    claim.privacy.epsilon,
                    claim.dataset,
                    claim.name,
                )
        for dataset in {debit.dataset for debit in debits.values()}:
            assert ledger.spent(dataset) == sum(
                (debit.epsilon for debit in debits.values() if debit.dataset == dataset), Fraction(0)
            )
            for balance in ledger.balances(dataset):
                assert balance.spent <= balance.budget.total  # never over budget
        return files

    return check
