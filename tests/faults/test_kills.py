"""Kill -9 at every stage and at any moment: no half file, no file without a debit, never over budget."""

from __future__ import annotations

import errno
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpcli.privacy.ledger import Ledger

Sound = Callable[..., dict[str, Path]]
WritePlan = Callable[..., Path]
KILLED = -signal.SIGKILL

BLOCKS = {"at": "dpcli.release.file:ROW_GROUP", "do": "set", "value": 50}
"""Makes the cube of 120 cells three blocks."""

RESERVE = "dpcli.privacy.ledger:Ledger.reserve"
SETTLE = "dpcli.privacy.ledger:Ledger.settle"
APPEND = "dpcli.privacy.chain:Appending.append"
WRITE = "pyarrow.parquet:ParquetWriter.write_batch"
CLOSE = "pyarrow.parquet:ParquetWriter.close"
SYNC = "dpcli.release.whole:_sync"

# Where, before or after it; which call that is for one release, and for the second of three; what becomes of
# that release's debit (none, reserved or released); and whether its file is there.
STAGES = {
    "while the folder is tried": ("pathlib:Path.unlink", "before", 1, 2, None, False),
    "before counting": ("dpcli.publish:count_views", "before", 1, 2, None, False),
    "after counting": ("dpcli.publish:count_views", "after", 1, 2, None, False),
    "before reserve": (RESERVE, "before", 1, 1, None, False),
    "while reserving, at the budget": (APPEND, "after", 1, 1, None, False),
    "while reserving, at the debit": (APPEND, "after", 2, 3, None, False),
    "after reserve": (RESERVE, "after", 1, 1, "reserved", False),
    "before the transform": ("dpcli.strategy.kronecker:Strategy.forward", "before", 1, 2, "reserved", False),
    "after the transform": ("dpcli.strategy.kronecker:Strategy.forward", "after", 1, 2, "reserved", False),
    "after the noise": ("dpcli.privacy.gate:_add_noise", "after", 1, 2, "reserved", False),
    "before the way back": ("dpcli.strategy.kronecker:Strategy.inverse", "before", 1, 2, "reserved", False),
    "before the first block": (WRITE, "before", 1, 2, "reserved", False),
    "after the first block": (WRITE, "after", 1, 2, "reserved", False),
    "after the second block": (WRITE, "after", 2, 3, "reserved", False),
    "before the footer": (CLOSE, "before", 1, 2, "reserved", False),
    "after the footer": (CLOSE, "after", 1, 2, "reserved", False),
    "before the file is synced": (SYNC, "before", 1, 3, "reserved", False),
    "after the file is synced": (SYNC, "after", 1, 3, "reserved", False),
    "before settle": (SETTLE, "before", 1, 2, "reserved", False),
    "while settling": (APPEND, "after", 3, 6, "reserved", False),
    "after settle": (SETTLE, "after", 1, 2, "released", False),
    "before the file has its name": ("os:link", "before", 1, 2, "released", False),
    "after the file has its name": ("os:link", "after", 1, 2, "released", True),
    "before the folder is synced": (SYNC, "before", 2, 4, "released", True),
    "after the folder is synced": (SYNC, "after", 2, 4, "released", True),
}


def killed(at: str, when: str, call: int) -> dict[str, Any]:
    return {"at": at, "do": f"kill {when}", "call": call}


def parts(folder: Path) -> list[Path]:
    """Return what killed runs left, and see that it does not look like a release."""
    left = [path for path in folder.iterdir() if path.suffix == ".part"]
    assert all(path.name.startswith(".") for path in left)
    assert not {path.name for path in folder.glob("*.parquet")} & {path.name for path in left}
    return left


class TestEveryStage:
    def recovers(
        self, driver: Any, plan: Path, table: Path, output: Path, ledger: Ledger, sound: Sound
    ) -> None:
        """Check that later runs work, and remove what is old of what the killed one left."""
        folder = table.parent
        options = ["-o", output, "--ledger", ledger.path]
        spent = ledger.spent("town")
        again = driver.run(folder, "release", plan, table, *options, "--if-exists", "skip")
        if again["code"] == 2:
            assert "only lacks its name" in again["told"]
            again = driver.run(folder, "release", plan, table, *options, "--resume")
        assert again["code"] == 0, again
        assert ledger.spent("town") == (spent or 1)  # nothing is paid for twice
        assert parts(output if output.is_dir() else folder) == []
        files = sound(ledger)
        assert len(files) == len(list((output if output.is_dir() else folder).glob("*.parquet")))
        anew = driver.run(folder, "release", plan, table, *options, "--if-exists", "replace")
        assert anew["code"] == 0, anew
        assert parts(output if output.is_dir() else folder) == []
        assert not set(files) & set(sound(ledger))
        verified = driver.run(folder, "ledger", "verify", *sound(ledger).values(), "--ledger", ledger.path)
        assert verified["code"] == 0, verified

    @pytest.mark.parametrize("stage", STAGES)
    def test_one_release(
        self, driver: Any, write_plan: WritePlan, table: Path, ledger: Ledger, sound: Sound, stage: str
    ) -> None:
        at, when, call, _, state, there = STAGES[stage]
        plan, output = write_plan(privacy='  budget: "3"'), table.parent / "out.parquet"
        ended = driver.run(
            table.parent,
            *("release", plan, table, "-o", output, "--ledger", ledger.path),
            faults=[BLOCKS, killed(at, when, call)],
        )
        assert ended["code"] == KILLED, ended
        assert [debit.state for debit in ledger.debits()] == ([state] if state else [])
        assert bool(sound(ledger)) == output.exists() == there
        self.recovers(driver, plan, table, output, ledger, sound)

    @pytest.mark.parametrize("stage", STAGES)
    def test_the_second_of_three(
        self, driver: Any, three: Path, table: Path, ledger: Ledger, sound: Sound, stage: str
    ) -> None:
        at, when, _, call, state, there = STAGES[stage]
        output = table.parent / "out"
        ended = driver.run(
            table.parent,
            *("release", three, table, "-o", output, "--ledger", ledger.path),
            faults=[BLOCKS, killed(at, when, call)],
        )
        assert ended["code"] == KILLED, ended
        after_reserve = stage == "after reserve"
        states = ["reserved" if after_reserve else "released", state, "reserved"] if state else []
        assert [debit.state for debit in ledger.debits()] == states
        expected = {"jobs": bool(state) and not after_reserve, "cube": there, "sexes": False}
        assert {name: (output / f"{name}.parquet").exists() for name in expected} == expected
        assert len(sound(ledger)) == sum(expected.values())
        self.recovers(driver, three, table, output, ledger, sound)

    @pytest.mark.parametrize("stage", STAGES)
    def test_what_was_paid_for_is_resumed(
        self, driver: Any, three: Path, table: Path, ledger: Ledger, sound: Sound, stage: str
    ) -> None:
        """--resume completes all that was paid for and spends nothing, wherever the run was killed."""
        at, when, _, call, state, _ = STAGES[stage]
        output = table.parent / "out"
        words = "release", three, table, "-o", output, "--ledger", ledger.path
        ended = driver.run(table.parent, *words, faults=[BLOCKS, killed(at, when, call)])
        assert ended["code"] == KILLED, ended
        before = sound(ledger)
        resumed = driver.run(table.parent, *words, "--resume")
        files = sound(ledger)
        assert before.items() <= files.items()
        if state is None:
            assert resumed["code"] == 4, resumed
            assert not files
        else:
            assert resumed["code"] == 0, resumed
            assert sorted(path.stem for path in files.values()) == ["cube", "jobs", "sexes"]
            assert [debit.state for debit in ledger.debits()] == ["released"] * 3
            assert ledger.spent("town") == 1
            assert parts(output) == []

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_release_that_is_replaced_is_the_old_or_the_new(
        self, driver: Any, write_plan: WritePlan, table: Path, ledger: Ledger, sound: Sound, when: str
    ) -> None:
        plan, output = write_plan(privacy='  budget: "4"'), table.parent / "out.parquet"
        words = ["release", plan, table, "-o", output, "--ledger", ledger.path, "--if-exists", "replace"]
        assert driver.run(table.parent, *words)["code"] == 0
        (old,) = sound(ledger)
        assert driver.run(table.parent, *words, faults=[killed("os:replace", when, 1)])["code"] == KILLED
        (now,) = sound(ledger)
        assert (now == old) == (when == "before")
        assert [debit.state for debit in ledger.debits()] == ["released", "released"]
        assert driver.run(table.parent, *words, "--resume")["code"] == (0 if when == "before" else 4)
        assert parts(table.parent) == []
        assert list(sound(ledger)) == [ledger.debits()[1].release_id]
        assert ledger.spent("town") == 2

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_disk_without_hard_links(
        self, driver: Any, write_plan: WritePlan, table: Path, ledger: Ledger, sound: Sound, when: str
    ) -> None:
        plan, output = write_plan(), table.parent / "out.parquet"
        no_links = {"at": "os:link", "do": "fail", "value": errno.EPERM}
        ended = driver.run(
            table.parent,
            *("release", plan, table, "-o", output, "--ledger", ledger.path),
            faults=[no_links, killed("os:rename", when, 1)],
        )
        assert ended["code"] == KILLED
        assert bool(sound(ledger)) == output.exists() == (when == "after")
        self.recovers(driver, plan, table, output, ledger, sound)


@pytest.mark.parametrize("times", [50, pytest.param(220, marks=pytest.mark.slow)])
def test_kills_at_random_moments(
    driver: Any, three: Path, table: Path, ledger: Ledger, sound: Sound, times: int
) -> None:
    """One ledger, few outputs that are skipped or replaced, and a kill within almost every run."""
    draw = random.Random(20260401)
    folder = table.parent

    def words(number: int, manner: str) -> Sequence[object]:
        output = folder / f"out{number}"
        how = ["--resume"] if manner == "resume" else ["--if-exists", manner]
        return "release", three, table, "-o", output, "--ledger", ledger.path, *how

    seconds, kills, runs = 0.0, 0, 0
    while kills < times:
        runs += 1
        assert runs < 20 * times
        number, manner = draw.randrange(5), draw.choice(["skip", "replace", "replace", "resume"])
        if runs % 20 == 1:  # how long does it take by now?
            driver.run(folder, *words(number, "resume"))
            whole = driver.run(folder, *words(number, "replace"))
            assert whole["code"] == 0, whole
            seconds = whole["seconds"]
        ended = driver.run(folder, *words(number, manner), kill_after=draw.uniform(0, seconds))
        unnamed = ended["code"] == 2 and "only lacks its name" in ended["told"]
        assert unnamed or ended["code"] in ((0, 4, KILLED) if manner == "resume" else (0, KILLED)), ended
        kills += ended["code"] == KILLED
        if (folder / f"out{number}").exists():
            sound(ledger, folder / f"out{number}")
    for number in range(5):
        assert driver.run(folder, *words(number, "resume"))["code"] in (0, 4)
        assert driver.run(folder, *words(number, "replace"))["code"] == 0
        assert parts(folder / f"out{number}") == []
    files = sound(ledger)
    assert len(files) == 15
    assert driver.run(folder, "ledger", "verify", *files.values(), "--ledger", ledger.path)["code"] == 0
    spent = ledger.spent("town")
    budget = ["ledger", "set-budget", "town", str(float(spent) + 0.5), "--ledger", ledger.path]
    assert driver.run(folder, *budget)["code"] == 0
    assert driver.run(folder, *words(0, "replace"))["code"] == 4
    assert ledger.spent("town") == spent
    assert sound(ledger) == files
