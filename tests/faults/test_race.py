"""Eight processes race for the last of a budget: what is granted never exceeds it, and is what files claim."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dpcli.errors import BudgetError
from dpcli.privacy.ledger import Budget, Debit, Ledger

Sound = Callable[..., dict[str, Path]]
PROCESSES = 8
NO_LOCK = {"at": "dpcli.privacy.ledger:dataset_lock", "do": "no lock"}
PLAN = """\
plan: 1
dataset: town
privacy: {epsilon: "0.05", neighbors: add-remove, budget: "1.9"}
attributes:
  sex: {kind: nominal, values: [F, M]}
releases:
  - {name: cube, cube: [sex], mechanism: laplace}
"""
EPSILON, GRANTED = Fraction(1, 20), 38


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan for which the budget has 38 times its epsilon."""
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path


def attempts(
    plan: Path, table: Path, ledger: Ledger, process: int, count: int, faults: list[dict[str, Any]]
) -> dict[str, Any]:
    """One process that tries so many releases, each to a name of its own."""
    return {
        "runs": [
            {
                "folder": str(table.parent),
                "words": ["release", str(plan), str(table), "-o", name, "--ledger", str(ledger.path), "-q"],
                "faults": faults,
            }
            for name in (f"{process}-{number}.parquet" for number in range(count))
        ]
    }


class TestReleases:
    @pytest.mark.parametrize("faults", [[], [NO_LOCK]], ids=["in turn", "without the dataset's lock"])
    def test_what_is_granted_is_what_the_files_claim(
        self, driver: Any, plan: Path, table: Path, ledger: Ledger, sound: Sound, faults: list[dict[str, Any]]
    ) -> None:
        """Without the lock, which only keeps runs from waiting in vain, the ledger alone must do."""
        before = set(os.listdir(table.parent))
        ended = driver.children(
            [attempts(plan, table, ledger, process, 50, faults) for process in range(PROCESSES)]
        )
        runs = {
            f"{process}-{number}.parquet": run
            for process, child in enumerate(ended)
            for number, run in enumerate(child["runs"])
        }
        assert len(runs) == PROCESSES * 50
        assert {run["code"] for run in runs.values()} == {0, 4}
        granted = {name for name, run in runs.items() if run["code"] == 0}
        files = sound(ledger)
        assert {path.name for path in files.values()} == granted
        assert len(granted) == GRANTED
        assert ledger.spent("town") == len(files) * EPSILON == Fraction(19, 10)
        assert {debit.release_id for debit in ledger.debits()} == set(files)
        for run in runs.values():
            refused = "this release asks for 0.05, and only 0 is left. Nothing was spent."
            overtaken = faults and "and its epsilon pays for nothing more" in run["told"]
            assert (run["code"] == 4) == (refused in run["told"] or bool(overtaken))
        locks = {"ledger.sqlite", *([] if faults else ["ledger.sqlite.town.lock"])}
        assert set(os.listdir(table.parent)) == before | granted | locks  # refused ones leave nothing
        shown = driver.run(table.parent, "ledger", "verify", *sorted(granted), "--ledger", ledger.path)
        assert shown["code"] == 0, shown

    @pytest.mark.parametrize("faults", [[], [NO_LOCK]], ids=["in turn", "without the dataset's lock"])
    def test_racers_that_are_killed(
        self, driver: Any, plan: Path, table: Path, ledger: Ledger, sound: Sound, faults: list[dict[str, Any]]
    ) -> None:
        """Half of the racers are killed at some moment; the others go on until nothing is left."""
        draw = random.Random(8)
        children = [attempts(plan, table, ledger, process, 20, faults) for process in range(PROCESSES)]
        for child in children[::2]:
            child["kill_after"] = draw.uniform(0, 0.5)
        ended = driver.children(children)
        assert {child["code"] for child in ended[1::2]} <= {0, 4}
        assert {child["code"] for child in ended[::2]} <= {0, 4, -signal.SIGKILL}
        files = sound(ledger)
        names = {path.name for path in files.values()}
        told = {
            f"{process}-{number}.parquet"
            for process, child in enumerate(ended)
            for number, run in enumerate(child["runs"])
            if run["code"] == 0
        }
        assert told <= names  # whoever was told of a success has the file
        assert len(names - told) <= PROCESSES // 2  # one more for each that was killed
        assert ledger.spent("town") == Fraction(19, 10)  # and what the killed ones reserved is spent
        assert len(ledger.debits()) == GRANTED

    def test_one_name_for_all(
        self, driver: Any, plan: Path, table: Path, ledger: Ledger, sound: Sound
    ) -> None:
        """Without the lock some pay for nothing, but one has the name, and the others are told why not."""
        children = [attempts(plan, table, ledger, 0, 1, [NO_LOCK]) for _ in range(PROCESSES)]
        ended = driver.children(children)
        codes = [child["code"] for child in ended]
        assert codes.count(0) == 1
        assert set(codes) <= {0, 2, 4}
        assert len(sound(ledger)) == 1
        why = {0: "", 2: "exists already", 4: "its epsilon pays for nothing more"}  # 4: overtaken by another
        for child in ended:
            told = child["runs"][0]["told"]
            assert why[child["code"]] in told or "No such file" in told  # another took it for a leftover
        assert ledger.spent("town") == len(ledger.debits()) * EPSILON <= PROCESSES * EPSILON


def debit(release_id: str, epsilon: Fraction) -> Debit:
    return Debit(
        release_id=release_id,
        dataset="town",
        release="cube",
        epsilon=epsilon,
        neighbors="add-remove",
        plan_digest="d",
    )


def _spend(path: Path, process: int) -> list[tuple[str, str]]:
    """Try debits of many sizes; return those that were granted."""
    draw, granted = random.Random(process), []
    for attempt in range(50):
        name, epsilon = f"{process}-{attempt}", Fraction(draw.randint(1, 30), 97)
        try:
            Ledger(path).reserve([debit(name, epsilon)], [Budget(Fraction(3))])
        except BudgetError:
            continue
        granted.append((name, str(epsilon)))
        if draw.random() < 0.8:
            Ledger(path).settle(name, draw.choice(["released", "failed"]))
    return granted


def _publish(path: Path, process: int) -> list[str]:
    """Resume and settle what all others try to publish too; return what this one may publish."""
    won = []
    for name in random.Random(process).sample([str(number) for number in range(10)], 10):
        try:
            Ledger(path).resume([name])
            Ledger(path).settle(name, "released")
        except BudgetError:
            continue
        won.append(name)
    return won


class TestTheLedgerAlone:
    def test_debits_of_all_sizes(self, ledger: Ledger) -> None:
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            granted = list(chain(*pool.starmap(_spend, [(ledger.path, k) for k in range(PROCESSES)])))
        assert ledger.verify() is not None
        assert {d.release_id: str(d.epsilon) for d in ledger.debits()} == dict(granted)
        spent = sum((Fraction(epsilon) for _, epsilon in granted), Fraction(0))
        assert ledger.spent("town") == spent <= 3
        if spent < 3:
            ledger.reserve([debit("last", 3 - spent)], [])  # the last of it can still be had
        with pytest.raises(BudgetError):
            ledger.reserve([debit("more", Fraction(1, 10**12))], [])

    def test_of_many_that_resume_one_publishes(self, ledger: Ledger) -> None:
        ledger.reserve([debit(str(number), Fraction(1)) for number in range(10)], [Budget(Fraction(10))])
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            won = list(chain(*pool.starmap(_publish, [(ledger.path, k) for k in range(PROCESSES)])))
        assert sorted(won) == [str(number) for number in range(10)]
        assert {d.state for d in ledger.debits()} == {"released"}
        assert ledger.spent("town") == 10
        assert json.dumps([entry.record() for entry in ledger.entries()]).count('"released"') == 10
