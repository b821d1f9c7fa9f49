"""The ledger: exact, durable, and never over the cap."""

from __future__ import annotations

import multiprocessing
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from dpcli.errors import BudgetError, OutputError
from dpcli.privacy.ledger import Debit, Ledger


def debit(release_id: str, epsilon: str, dataset: str = "town") -> Debit:
    return Debit(
        release_id=release_id,
        dataset=dataset,
        release="cube",
        epsilon=Fraction(epsilon),
        neighbors="add-remove",
        plan_digest="d",
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_a_mistyped_folder_does_not_start_a_new_ledger(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        Ledger(tmp_path / "typo" / "ledger.sqlite").reserve([debit("a", "1")], None)
    assert (
        str(caught.value) == f"There is no folder {tmp_path}/typo for the ledger. Create it, or use --ledger."
    )


def test_an_unused_ledger_is_empty_and_not_created(ledger: Ledger) -> None:
    assert ledger.debits() == []
    assert ledger.cap("town") is None
    assert not ledger.path.exists()


def test_three_tenths_and_seven_tenths_fill_a_cap_of_one(ledger: Ledger) -> None:
    one = Fraction(1)
    ledger.reserve([debit("a", "0.3")], one)
    ledger.reserve([debit("b", "0.7")], one)
    with pytest.raises(BudgetError) as caught:
        ledger.reserve([debit("c", "0.000000001")], one)
    assert str(caught.value) == (
        "Dataset 'town' has a budget of epsilon 1 and has spent 1; this release asks for 0.000000001, and only"
        " 0 is left. Nothing was spent. Lower the plan's epsilon, or, if what people were promised allows it,"
        " raise the budget with 'dpcli ledger set-budget town'."
    )
    assert [d.release_id for d in ledger.debits("town")] == ["a", "b"]


def test_thirds_add_up_exactly(ledger: Ledger) -> None:
    for name in "abc":
        ledger.reserve([debit(name, "1/3")], Fraction(1))
    assert sum(d.epsilon for d in ledger.debits()) == 1
    with pytest.raises(BudgetError):
        ledger.reserve([debit("d", "1/1000000000000")], Fraction(1))


def test_several_debits_are_all_taken_or_none(ledger: Ledger) -> None:
    with pytest.raises(BudgetError):
        ledger.reserve([debit("a", "0.6"), debit("b", "0.6")], Fraction(1))
    assert ledger.debits() == []


def test_failed_and_reserved_debits_stay_spent(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.5")], Fraction(1))
    ledger.settle("a", "failed")
    ledger.reserve([debit("b", "0.5")], Fraction(1))
    assert [(d.release_id, d.state) for d in ledger.debits()] == [("a", "failed"), ("b", "reserved")]
    with pytest.raises(BudgetError):
        ledger.reserve([debit("c", "0.1")], Fraction(1))


def test_datasets_do_not_share_a_budget_and_a_recorded_cap_holds(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "1")], Fraction(1))
    ledger.reserve([debit("b", "1", dataset="city")], None)
    assert ledger.cap("town") == 1
    with pytest.raises(BudgetError):
        ledger.reserve([debit("c", "1")], None)


def test_a_release_id_is_debited_once(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.5")], None)
    with pytest.raises(OutputError):
        ledger.reserve([debit("a", "0.5")], None)


def test_a_corrupt_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"this is not a database, but somebody's notes" * 100)
    before = path.read_bytes()
    with pytest.raises(OutputError) as caught:
        Ledger(path).reserve([debit("a", "1")], None)
    assert str(caught.value) == (
        f"The ledger {path} cannot be used (file is not a database). Check that it is a dpcli"
        " ledger and that its folder can be written, or name another with --ledger."
    )
    assert path.read_bytes() == before


def test_rows_are_on_disk_when_reserve_returns(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "0.25")], Fraction(1))
    with sqlite3.connect(ledger.path) as database:
        assert database.execute("SELECT epsilon, state FROM debits").fetchall() == [("0.25", "reserved")]
    database.close()


def _race(path: Path, worker: int) -> int:
    granted = 0
    for attempt in range(10):
        try:
            Ledger(path).reserve([debit(f"{worker}-{attempt}", "0.1")], Fraction(1))
            granted += 1
        except BudgetError:
            pass
    return granted


def test_racing_processes_never_overspend(ledger: Ledger) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        granted = sum(pool.starmap(_race, [(ledger.path, worker) for worker in range(4)]))
    assert granted == 10
    assert sum(d.epsilon for d in ledger.debits()) == 1


def test_a_plan_can_lower_the_cap_but_not_raise_it(ledger: Ledger) -> None:
    ledger.reserve([debit("a", "1")], Fraction(5))
    ledger.reserve([debit("b", "1")], Fraction(2))
    with pytest.raises(BudgetError):
        ledger.reserve([debit("c", "1")], Fraction(10))
    ledger.set_cap("town", Fraction(3))
    ledger.reserve([debit("c", "1")], Fraction(10))


def test_an_empty_file_is_an_empty_ledger(ledger: Ledger) -> None:
    ledger.path.touch()
    assert ledger.debits() == []
    assert ledger.cap("town") is None
    ledger.reserve([debit("a", "1")], None)
    assert len(ledger.debits()) == 1
