"""The ledger: exact, durable, and never over a budget."""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcli.errors import BudgetError, BusyError, OutputError
from dpcli.privacy import lock as lock_module
from dpcli.privacy.ledger import Budget, Debit, Ledger


def debit(release_id: str, epsilon: str, dataset: str = "town", **fields: Any) -> Debit:
    return Debit(
        release_id=release_id,
        dataset=dataset,
        release="cube",
        epsilon=Fraction(epsilon),
        neighbors="add-remove",
        **{"plan_digest": "d", **fields},
    )


def budget(total: str, per: Any = None) -> Budget:
    return Budget(Fraction(total), per)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self) -> dt.datetime:
        return dt.datetime.fromisoformat(self.text).replace(tzinfo=dt.UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock("2026-01-31T12:00:00")


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", clock)


ONE = [budget("1")]


def test_a_mistyped_folder_does_not_start_a_new_ledger(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        Ledger(tmp_path / "typo" / "ledger.sqlite").reserve([debit("a", "1")], [])
    assert (
        str(caught.value) == f"There is no folder {tmp_path}/typo for the ledger. Create it, or use --ledger."
    )


def test_an_unused_ledger_is_empty_and_not_created(ledger: Ledger) -> None:
    assert ledger.debits() == []
    assert ledger.budgets("town") == []
    assert ledger.spent("town") == 0
    assert list(ledger.entries()) == []
    assert ledger.verify() is None
    assert ledger.reserve([], ONE) == []
    assert not ledger.path.exists()


def test_three_tenths_and_seven_tenths_fill_a_cap_of_one(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.3")], ONE)
    ledger.reserve([debit("b", "0.7")], ONE)
    with pytest.raises(BudgetError) as caught:
        ledger.reserve([debit("c", "0.000000001")], ONE)
    assert str(caught.value) == (
        "Dataset 'town' has a budget of epsilon 1 and has spent 1; this release asks for 0.000000001, and only"
        " 0 is left. Nothing was spent. Lower the plan's epsilon, or, if what people were promised allows it,"
        " raise the one in the ledger with 'dpcli ledger set-budget town EPSILON'."
    )
    assert [d.release_id for d in ledger.debits("town")] == ["a", "b"]


def test_thirds_add_up_exactly(ledger: Ledger) -> None:
    for name in "abc":
        ledger.reserve([debit(name, "1/3")], ONE)
    assert ledger.spent("town") == 1
    with pytest.raises(BudgetError):
        ledger.reserve([debit("d", "1/1000000000000")], ONE)


def test_several_debits_are_all_taken_or_none(ledger: Ledger) -> None:
    with pytest.raises(BudgetError):
        ledger.reserve([debit("a", "0.6"), debit("b", "0.6")], ONE)
    assert ledger.debits() == []
    assert ledger.budgets("town") == []
    assert [account.epsilon for account in ledger.reserve([debit("a", "0.6"), debit("b", "0.4")], ONE)] == [
        Fraction(3, 5),
        Fraction(2, 5),
    ]


def test_failed_and_reserved_debits_stay_spent(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.5")], ONE)
    ledger.settle("a", "failed")
    ledger.reserve([debit("b", "0.5")], ONE)
    assert [(d.release_id, d.state) for d in ledger.debits()] == [("a", "failed"), ("b", "reserved")]
    with pytest.raises(BudgetError):
        ledger.reserve([debit("c", "0.1")], ONE)


def test_datasets_do_not_share_a_budget_and_a_recorded_one_holds(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "1")], ONE)
    ledger.reserve([debit("b", "1", dataset="city")], [])
    assert ledger.budgets("town") == ONE
    assert ledger.budgets("city") == []
    with pytest.raises(BudgetError):
        ledger.reserve([debit("c", "1")], [])


def test_a_release_id_is_debited_once(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.5")], [])
    for debits in ([debit("a", "0.5")], [debit("b", "0.1"), debit("b", "0.1")]):
        with pytest.raises(OutputError, match=r"has a debit for release . already"):
            ledger.reserve(debits, ONE)
    assert ledger.spent("town") == Fraction(1, 2)
    assert ledger.budgets("town") == []


@pytest.mark.parametrize("epsilon", ["0", "-1"])
def test_nothing_is_given_back(ledger: Ledger, epsilon: str) -> None:
    with pytest.raises(ValueError):
        ledger.reserve([debit("a", "1"), debit("b", epsilon)], [])
    with pytest.raises(ValueError):
        budget(epsilon)


def test_one_reservation_is_for_one_dataset(ledger: Ledger) -> None:
    with pytest.raises(ValueError):
        ledger.reserve([debit("a", "1"), debit("b", "1", dataset="city")], [])


def test_entries_are_on_disk_when_reserve_returns(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.25", unit="person", parallel="p")], ONE)
    with closing(sqlite3.connect(ledger.path)) as database:
        rows = database.execute("SELECT kind, body FROM entries").fetchall()
    assert [(kind, json.loads(body)) for kind, body in rows] == [
        ("budget", {"dataset": "town", "epsilon": "1", "per": None}),
        (
            "debit",
            {
                "release_id": "a",
                "dataset": "town",
                "release": "cube",
                "epsilon": "0.25",
                "neighbors": "add-remove",
                "unit": "person",
                "plan_digest": "d",
                "parallel": "p",
                "file": None,
                "group": 2,
            },
        ),
    ]
    assert ledger.debits()[0].record() == {
        "release_id": "a",
        "dataset": "town",
        "release": "cube",
        "epsilon": "0.25",
        "neighbors": "add-remove",
        "unit": "person",
        "plan_digest": "d",
        "parallel": "p",
        "file": None,
        "time": "2026-01-31T12:00:00+00:00",
        "state": "reserved",
        "content": None,
        "group": 2,
    }


def _race(path: Path, worker: int) -> int:
    granted = 0
    for attempt in range(50):
        try:
            Ledger(path).reserve([debit(f"{worker}-{attempt}", "1/37")], ONE)
            granted += 1
        except BudgetError:
            pass
    return granted


def test_racing_processes_never_overspend(ledger: Ledger) -> None:
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        granted = sum(pool.starmap(_race, [(ledger.path, worker) for worker in range(8)]))
    assert granted == 37
    assert ledger.spent("town") == 1
    last = ledger.verify()
    assert last is not None
    assert last.number == 38  # the budget and the debits


def test_a_plan_can_lower_a_budget_but_not_raise_it(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "1")], [budget("5")])
    ledger.reserve([debit("b", "1")], [budget("3"), budget("2"), budget("4")])
    assert ledger.budgets("town") == [budget("2")]
    with pytest.raises(BudgetError):
        ledger.reserve([debit("c", "1")], [budget("10")])
    ledger.set_budget("town", budget("3"))
    ledger.reserve([debit("c", "1")], [budget("10")])
    assert ledger.budgets("town") == [budget("3")]
    assert [entry.kind for entry in ledger.entries()].count("budget") == 3


def test_an_entry_of_a_newer_dpcli_is_not_passed_over(ledger: Ledger) -> None:
    with ledger._chain.appending(create=True) as chain:
        chain.append("refund", {"dataset": "town", "epsilon": "1"})
    for use in (ledger.debits, ledger.verify, lambda: ledger.reserve([debit("a", "1")], [])):
        with pytest.raises(OutputError) as caught:
            use()
        assert str(caught.value) == (
            f"Entry 1 of the ledger {ledger.path} cannot be understood. If a newer dpcli wrote it, use that."
        )


class TestSettling:
    def test_released_once_and_never_set_back(self, ledger: Ledger) -> None:
        ledger.reserve([debit("a", "0.5")], [])
        ledger.settle("a", "released")
        with pytest.raises(BudgetError) as caught:
            ledger.settle("a", "released")
        assert str(caught.value) == (
            "By the ledger, release 'cube' (a) was published or may have been, and its epsilon pays for nothing"
            " more. Release anew, which spends again."
        )
        ledger.settle("a", "failed")
        assert [d.state for d in ledger.debits()] == ["released"]
        assert [entry.kind for entry in ledger.entries()] == ["debit", "settle"]

    def test_only_known_releases_and_real_ends(self, ledger: Ledger) -> None:
        with pytest.raises(OutputError):
            ledger.settle("a", "failed")
        assert not ledger.path.exists()
        ledger.reserve([debit("a", "0.5")], [])
        with pytest.raises(BudgetError, match="no debit for release b"):
            ledger.settle("b", "released")
        with pytest.raises(ValueError):
            ledger.settle("a", "reserved")

    def test_a_failed_release_can_be_resumed_until_it_is_released(self, ledger: Ledger) -> None:
        plan = {"plan_digest": "p"}
        ledger.reserve([debit(name, "0.25", **plan) for name in "abc"], ONE)
        ledger.reserve([debit("d", "0.25", plan_digest="q")], ONE)
        ledger.settle("a", "released")
        ledger.settle("b", "failed")
        ledger.settle("b", "failed")
        assert [(d.release_id, d.state) for d in ledger.resumable("town", "p")] == [
            ("b", "failed"),
            ("c", "reserved"),
        ]
        assert ledger.resumable("city", "p") == []
        for name in ("b", "c", "b"):
            assert ledger.resume([name])[0].epsilon == Fraction(1, 4)
        assert [d.state for d in ledger.debits()] == ["released", *["reserved"] * 3]
        assert ledger.spent("town") == 1  # resuming costs nothing, and no budget can refuse it
        ledger.settle("b", "released")
        for name in ("a", "b", "x"):
            with pytest.raises(BudgetError):
                ledger.resume([name])
        assert [d.release_id for d in ledger.resumable("town", "p")] == ["c"]

    def test_of_two_that_resume_one_publishes(self, ledger: Ledger) -> None:
        ledger.reserve([debit("a", "1")], ONE)
        ledger.resume(["a"])
        ledger.resume(["a"])
        ledger.settle("a", "released")
        with pytest.raises(BudgetError):
            ledger.settle("a", "released")


class TestParallel:
    def test_a_group_costs_its_largest(self, ledger: Ledger) -> None:
        group = [debit(name, eps, parallel="regions") for name, eps in (("a", "0.2"), ("b", "0.5"))]
        ledger.reserve([*group, debit("c", "0.25")], ONE)
        assert ledger.spent("town") == Fraction(3, 4)
        with pytest.raises(BudgetError, match=r"has spent 0\.75; this release asks for 0\.3, and only 0\.25"):
            ledger.reserve([debit(name, "0.3", parallel="regions") for name in "de"], [])
        ledger.reserve([debit(name, "0.25", parallel="regions") for name in "de"], [])
        assert ledger.spent("town") == 1
        assert [d.parallel for d in ledger.debits()] == ["regions", "regions", None, "regions", "regions"]

    def test_two_runs_of_a_plan_add_up(self, ledger: Ledger) -> None:
        for run in range(3):
            ledger.reserve([debit(f"{run}{name}", "0.5", parallel="x") for name in "ab"], [])
        assert ledger.spent("town") == Fraction(3, 2)

    def test_other_names_other_plans_and_no_name_add_up(self, ledger: Ledger) -> None:
        debits = [
            debit("a", "1", parallel="x"),
            debit("b", "1", parallel="y"),
            debit("c", "1", parallel="x", plan_digest="other"),
            debit("d", "1"),
            debit("e", "1"),
            debit("f", "0.5", parallel="x"),
            debit("g", "1", parallel=""),
        ]
        ledger.reserve(debits, [])
        assert ledger.spent("town") == 6

    def test_a_group_is_resumed_as_a_whole_or_not_at_all(self, ledger: Ledger) -> None:
        accounts = ledger.reserve([debit(name, "0.5", parallel="x") for name in "ab"], [])
        assert [each.release_id for each in ledger.resumable("town", "d")] == ["a", "b"]
        with pytest.raises(BudgetError, match="or others of its parallel group 'x' were"):
            ledger.resume(["b"])
        resumed = ledger.resume(["a", "b"])
        assert ledger.spent("town") == Fraction(1, 2)
        for name, account in zip("ab", accounts, strict=True):  # a run that was overtaken publishes nothing
            with pytest.raises(BudgetError, match="pays for nothing more"):
                ledger.settle(name, "released", ticket=account.ticket)
            ledger.settle(name, "failed", ticket=account.ticket)
        assert [each.state for each in ledger.debits()] == ["reserved", "reserved"]
        ledger.settle("a", "released", ticket=resumed[0].ticket)
        assert ledger.resumable("town", "d") == []
        with pytest.raises(BudgetError, match="or others of its parallel group 'x' were"):
            ledger.resume(["a", "b"])
        ledger.settle("b", "released", ticket=resumed[1].ticket)


class TestPeriods:
    def test_each_month_has_its_own(self, ledger: Ledger, clock: Clock) -> None:
        monthly = [budget("1", "month")]
        clock.text = "2026-01-31T23:59:59"
        ledger.reserve([debit("a", "0.8")], monthly)
        with pytest.raises(BudgetError) as caught:
            ledger.reserve([debit("b", "0.3")], monthly)
        assert str(caught.value) == (
            "Dataset 'town' has a budget of epsilon 1 per month and has spent 0.8 in 2026-01; this release asks"
            " for 0.3, and only 0.2 is left until the next month begins on 2026-02-01 (UTC). Nothing was spent."
            " Lower the plan's epsilon, wait, or, if what people were promised allows it, raise the one in the"
            " ledger with 'dpcli ledger set-budget town EPSILON --per month'."
        )
        clock.text = "2026-02-01T00:00:00"
        assert ledger.spent("town", "month") == 0
        ledger.reserve([debit("b", "1")], monthly)
        assert (ledger.spent("town"), ledger.spent("town", "month")) == (Fraction("1.8"), 1)
        assert ledger.spent("town", "year") == Fraction("1.8")
        with pytest.raises(BudgetError, match=r"in 2026-02; .* begins on 2026-03-01"):
            ledger.reserve([debit("c", "1e-9")], monthly)

    @pytest.mark.parametrize(
        ("per", "last", "first", "words"),
        [
            ("day", "2024-02-28T23:59:59", "2024-02-29T00:00:00", "on 2024-02-28"),
            ("week", "2026-01-04T23:59:59", "2026-01-05T00:00:00", "in 2026-W01"),
            ("month", "2024-02-29T23:59:59", "2024-03-01T00:00:00", "in 2024-02"),
            ("quarter", "2026-03-31T23:59:59", "2026-04-01T00:00:00", "in 2026-Q1"),
            ("year", "2026-12-31T23:59:59", "2027-01-01T00:00:00", "in 2026"),
        ],
    )
    def test_borders(self, ledger: Ledger, clock: Clock, per: Any, last: str, first: str, words: str) -> None:
        clock.text = last
        ledger.reserve([debit("a", "1")], [budget("1", per)])
        with pytest.raises(BudgetError) as caught:
            ledger.reserve([debit("b", "1")], [])
        assert f"has spent 1 {words}; this" in str(caught.value)
        assert f"0 is left until the next {per} begins on {first[:10]} (UTC)" in str(caught.value)
        clock.text = first
        ledger.reserve([debit("b", "1")], [])

    def test_all_budgets_hold(self, ledger: Ledger, clock: Clock) -> None:
        budgets = [budget("1", "month"), budget("2.5"), budget("2", "year")]
        ledger.reserve([debit("a", "1")], budgets)
        assert ledger.budgets("town") == [budget("2.5"), budget("1", "month"), budget("2", "year")]
        for month, allowed in (("2026-02", True), ("2026-03", False), ("2027-01", False)):
            clock.text = f"{month}-15T00:00:00"
            if allowed:
                ledger.reserve([debit(month, "1")], [])
            else:
                with pytest.raises(BudgetError):
                    ledger.reserve([debit(month, "1")], [])
        ledger.reserve([debit("z", "0.5")], [])  # what the lifetime has left
        ledger.set_budget("town", budget("9"))
        with pytest.raises(BudgetError, match=r"1 per month and has spent 0\.5 in 2027-01"):
            ledger.reserve([debit("y", "0.6")], [budget("7", "month")])

    def test_a_lower_one_touches_its_own_period_only(self, ledger: Ledger) -> None:
        ledger.set_budget("town", budget("5", "month"))
        ledger.set_budget("town", budget("9"))
        ledger.reserve([debit("a", "1")], [budget("3", "month")])
        assert ledger.budgets("town") == [budget("9"), budget("3", "month")]
        assert [str(b.budget) for b in ledger.balances("town", [budget("2"), budget("4", "week")])] == [
            "2",
            "4 per week",
            "3 per month",
        ]

    def test_a_clock_set_back_reopens_nothing(self, ledger: Ledger, clock: Clock) -> None:
        clock.text = "2026-02-10T00:00:00"
        ledger.reserve([debit("a", "1")], [budget("1", "month")])
        clock.text = "2026-01-10T00:00:00"
        assert ledger.spent("town", "month") == 1
        with pytest.raises(BudgetError, match="in 2026-02"):
            ledger.reserve([debit("b", "1")], [])
        assert [d.time[:10] for d in ledger.debits()] == ["2026-02-10"]

    def test_a_clock_that_jumps_forward_grants_no_period_twice(self, ledger: Ledger, clock: Clock) -> None:
        granted = []
        days = ["2026-01-31", "2026-06-01", "2026-01-31", "2026-03-01", "2026-06-30", "2026-07-01"]
        for number, day in enumerate(days):
            clock.text = f"{day}T00:00:00"
            try:
                ledger.reserve([debit(str(number), "1")], [budget("1", "month")])
                granted.append(ledger.debits()[-1].time[:7])
            except BudgetError:
                pass
        assert granted == ["2026-01", "2026-06", "2026-07"]

    def test_a_resumed_release_counts_when_it_was_reserved(self, ledger: Ledger, clock: Clock) -> None:
        ledger.reserve([debit("a", "1")], [budget("1", "month")])
        clock.text = "2026-02-01T00:00:00"
        ledger.resume(["a"])
        ledger.settle("a", "released")
        assert (ledger.spent("town"), ledger.spent("town", "month")) == (1, 0)


def test_a_ledger_of_the_first_format_keeps_its_sums_and_resumes_nothing(ledger: Ledger) -> None:
    """The first dpcli noted a release after its file had appeared: nobody knows what a crash left out."""
    with closing(sqlite3.connect(ledger.path)) as database:
        database.executescript(
            "CREATE TABLE caps (dataset TEXT PRIMARY KEY, epsilon TEXT NOT NULL);"
            "CREATE TABLE debits (release_id TEXT PRIMARY KEY, dataset TEXT, release TEXT, epsilon TEXT,"
            " neighbors TEXT, plan_digest TEXT, time TEXT, state TEXT);"
            "INSERT INTO caps VALUES ('town', '1');"
            "INSERT INTO debits VALUES"
            " ('a', 'town', 'cube', '0.3', 'add-remove', 'd', '2026-01-01T00:00:00+00:00', 'released'),"
            " ('b', 'town', 'cube', '0.3', 'add-remove', 'd', '2026-01-02T00:00:00+00:00', 'failed'),"
            " ('c', 'town', 'cube', '0.3', 'add-remove', 'd', '2026-01-03T00:00:00+00:00', 'reserved');"
        )
    assert [(d.release_id, d.state, d.time[:10], d.unit, d.parallel) for d in ledger.debits()] == [
        ("a", "released", "2026-01-01", "row", None),
        ("b", "failed", "2026-01-02", "row", None),
        ("c", "reserved", "2026-01-03", "row", None),
    ]
    assert ledger.budgets("town") == ONE
    assert ledger.resumable("town", "d") == []
    with pytest.raises(BudgetError, match="may have been"):
        ledger.resume(["b"])
    with pytest.raises(BudgetError, match=r"only 0\.1 is left"):
        ledger.reserve([debit("d", "0.2")], [])
    ledger.reserve([debit("d", "0.1")], [])
    assert ledger.verify() is not None


HOLD = """
import sys, time
from pathlib import Path
from dpcli.privacy.ledger import Ledger
with Ledger(Path(sys.argv[1])).lock("town", 0):
    print("held", flush=True)
    time.sleep(30)
"""


class TestLock:
    def test_one_run_at_a_time_and_a_killed_one_lets_go(self, ledger: Ledger, tmp_path: Path) -> None:
        with subprocess.Popen([sys.executable, "-c", HOLD, ledger.path], stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"held\n"
            start = time.monotonic()
            with pytest.raises(BusyError) as caught, ledger.lock("town", 0.3):
                pass
            assert time.monotonic() - start >= 0.3
            path = tmp_path / "ledger.sqlite.town.lock"
            assert str(caught.value) == (
                f"Another run for dataset 'town' holds the lock {path}; nothing was spent. Try again when it"
                " has ended, or wait longer with --wait."
            )
            with ledger.lock("city", 0):
                pass
            run.kill()
        with ledger.lock("town", 5):
            pass
        assert path.exists()

    def test_waiting_is_rewarded(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        with ledger.lock("town", 0):
            held = ledger.lock("town", 0)
            with pytest.raises(BusyError):
                held.__enter__()
        first = ledger.lock("town", 0)
        first.__enter__()
        monkeypatch.setattr(lock_module.time, "sleep", lambda seconds: first.__exit__(None, None, None))
        with ledger.lock("town", 60):
            pass

    def test_it_ends_with_its_block_also_by_an_error(self, ledger: Ledger) -> None:
        with pytest.raises(ZeroDivisionError), ledger.lock("town", 0):
            raise ZeroDivisionError
        with ledger.lock("town", 0):
            pass

    def test_another_name_for_the_ledger_is_the_same_lock(self, ledger: Ledger, tmp_path: Path) -> None:
        (tmp_path / "other").symlink_to(ledger.path)
        with ledger.lock("town", 0), pytest.raises(BusyError), Ledger(tmp_path / "other").lock("town", 0):
            pass

    @pytest.mark.parametrize("name", ["", "../town", "a/b", "a b"])
    def test_names_that_no_dataset_has(self, ledger: Ledger, name: str) -> None:
        with pytest.raises(ValueError), ledger.lock(name, 0):
            pass

    def test_a_folder_that_cannot_be_written(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        def read_only(*_: object) -> int:
            raise OSError(30, os.strerror(30))

        monkeypatch.setattr(lock_module.os, "open", read_only)
        with pytest.raises(OutputError) as caught, ledger.lock("town", 0):
            pass
        assert str(caught.value) == (
            f"Cannot make a lock for dataset 'town' beside the ledger {ledger.path} (Read-only file system). Make"
            " the ledger's folder writable, or name another ledger with --ledger."
        )

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError) as caught, Ledger(tmp_path / "typo" / "l").lock("town", 0):
            pass
        assert (
            str(caught.value)
            == f"There is no folder {tmp_path}/typo for the ledger. Create it, or use --ledger."
        )

    def test_a_disk_without_locks(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        def unsupported(*_: object) -> None:
            raise OSError(37, "No locks available")

        monkeypatch.setattr(lock_module.fcntl, "flock", unsupported)
        with pytest.raises(OutputError, match="No locks available"), ledger.lock("town", 0):
            pass
