"""dpcli ledger: show, set-budget, verify and export."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import Result

from dpcli import api
from dpcli.privacy.ledger import Budget, Debit, Ledger

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]
NONE = "0" * 64


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def released(dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path) -> Path:
    """A release file, paid for by the ledger."""
    path = tmp_path / "out.parquet"
    assert dpcli("release", write_plan(), table, "-o", path).exit_code == 0
    return path


def debit(release_id: str, epsilon: str = "1", parallel: str | None = None) -> Debit:
    return Debit(
        release_id=release_id,
        dataset="town",
        release="cube",
        epsilon=Fraction(epsilon),
        neighbors="add-remove",
        plan_digest="d",
        parallel=parallel,
    )


def tamper(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for name in ("no_update", "no_delete"):
            database.execute(f"DROP TRIGGER {name}")
        database.execute(statement)
        database.commit()


class TestShow:
    def test_it_adds_up(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        for epsilon in ("0.1", "0.2", "1e-9"):
            plan = write_plan(epsilon=epsilon)
            assert dpcli("release", plan, table, "-o", "o.parquet", "--if-exists", "replace").exit_code == 0
        debits = json.loads(dpcli("ledger", "show", "--format", "json").stdout)
        assert sum(Fraction(debit["epsilon"]) for debit in debits) == Fraction("0.300000001")
        assert {debit["state"] for debit in debits} == {"released"}
        assert json.loads(dpcli("ledger", "show", "--dataset", "city", "--format", "json").stdout) == []
        assert "town" in dpcli("ledger", "show").stdout

    def test_all_columns(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a", parallel="regions"), debit("b", "1/3", parallel="regions")], [])
        result = dpcli("ledger", "show", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        names = "time dataset release epsilon neighbors unit parallel group state release_id"
        assert list(rows[0]) == names.split()
        assert [(row["epsilon"], row["unit"], row["parallel"]) for row in rows] == [
            ("1", "row", "regions"),
            ("1/3", "row", "regions"),
        ]
        assert "Dataset 'town' has spent epsilon 1, and it has no budget.\n" in result.stderr
        assert len(dpcli("ledger", "show", "--format", "jsonl").stdout.splitlines()) == 2
        assert "parallel" in dpcli("ledger", "show").stdout

    def test_balances_name_periods(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a")], [Budget(Fraction(2), "year")])
        year = ledger.debits()[0].time[:4]
        assert dpcli("ledger", "show").stderr.startswith(
            f"Dataset 'town' has spent epsilon 1; in {year} it has spent 1 of its budget of 2 per year.\n"
        )
        ledger.set_budget("town", Budget(Fraction(5)))
        assert dpcli("ledger", "show").stderr.startswith(
            "Dataset 'town' has spent epsilon 1 of its budget of 5;"
            f" in {year} it has spent 1 of its budget of 2 per year.\n"
        )

    def test_a_ledger_that_is_none(self, dpcli: Cli, table: Path) -> None:
        for words in (["show"], ["verify"], ["export"], ["set-budget", "town", "1"]):
            result = dpcli("ledger", *words, "--ledger", table)
            assert result.exit_code == 5
            assert result.stdout == ""
            assert result.stderr.startswith(
                f"Error: The ledger {table} cannot be used (file is not a database)."
            )


class TestSetBudget:
    def test_a_budget_per_month_holds_and_can_be_raised(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        result = dpcli("ledger", "set-budget", "town", "1", "--per", "month")
        assert result.exit_code == 0
        assert result.stderr.startswith("Nothing was ever spent on a dataset 'town'. Is the name right?\n")
        assert (
            "The budget of dataset 'town' is epsilon 1 per month now, of which 0 is spent in "
            in result.stderr
        )
        assert dpcli("release", write_plan(), table, "-o", "a.parquet").exit_code == 0
        for words in (["-o", "b.parquet"], ["--dry-run"]):
            result = dpcli("release", write_plan(), table, *words)
            assert result.exit_code == 4
            assert "1 per month" in result.stderr
            assert "until the next month begins on " in result.stderr
        assert (
            "--seed is not private"
            in dpcli("release", write_plan(), table, "-o", "c.parquet", "--seed", 1).stderr
        )
        assert dpcli("ledger", "set-budget", "town", "2", "--per", "month").exit_code == 0
        assert dpcli("release", write_plan(), table, "-o", "b.parquet").exit_code == 0

    def test_below_what_is_spent(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a")], [])
        result = dpcli("ledger", "set-budget", "town", "0.5")
        assert result.stderr == (
            "More than that is spent already: every further release will be refused.\n"
            f"The budget of dataset 'town' is epsilon 0.5 now, of which 1 is spent, by the ledger {ledger.path}.\n"
        )
        result = dpcli("ledger", "set-budget", "town", "0.5", "--per", "year")
        assert "every further release until the next year begins on " in result.stderr

    @pytest.mark.parametrize("words", [["0"], ["1", "--per", "decade"], ["1e-12"]])
    def test_no_budgets(self, dpcli: Cli, tmp_path: Path, words: list[str]) -> None:
        assert dpcli("ledger", "set-budget", "town", *words).exit_code == 2
        assert not (tmp_path / "ledger.sqlite").exists()


class TestVerify:
    def test_a_whole_chain(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a"), debit("b")], [])
        ledger.settle("a", "failed")
        last = ledger.verify()
        assert last is not None
        result = dpcli("ledger", "verify", "--format", "json")
        assert (result.exit_code, result.stderr) == (0, f"The ledger {ledger.path} is whole.\n")
        assert json.loads(result.stdout) == [{"entries": 3, "head": last.digest, "time": last.time}]
        assert last.digest in dpcli("ledger", "verify").stdout

    def test_no_ledger_yet(self, dpcli: Cli, ledger: Ledger) -> None:
        for words in ([], ["--head", NONE], ["out.parquet"]):
            result = dpcli("ledger", "verify", *words)
            assert (result.exit_code, result.stderr) == (
                5,
                f"Error: There is no ledger {ledger.path}, or nothing in it. Name the right one with"
                " --ledger.\n",
            )
        assert not ledger.path.exists()

    @pytest.mark.parametrize(
        ("statement", "what"),
        [
            (
                "UPDATE entries SET body = replace(body, '\"1\"', '\"0.1\"') WHERE number = 2",
                "entry 2 does not",
            ),
            ("DELETE FROM entries WHERE number = 1", "entry 1 is missing"),
        ],
    )
    def test_tampering_stops_everything(
        self, dpcli: Cli, ledger: Ledger, write_plan: WritePlan, table: Path, statement: str, what: str
    ) -> None:
        ledger.reserve([debit("a"), debit("b"), debit("c")], [])
        tamper(ledger.path, statement)
        for words in (
            ["ledger", "verify"],
            ["ledger", "show"],
            ["ledger", "export"],
            ["ledger", "set-budget", "town", "9"],
            ["release", write_plan(), table, "-o", "out.parquet"],
        ):
            result = dpcli(*words)
            assert result.exit_code == 5
            assert result.stdout == ""
            assert f"Error: The ledger {ledger.path} is damaged or was altered: {what}" in result.stderr
        assert not Path("out.parquet").exists()

    def test_a_noted_head_shows_that_the_end_was_cut_off(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a"), debit("b")], [])
        heads = [entry.digest for entry in ledger.entries()]
        ledger.reserve([debit("c")], [])
        for head in heads:
            assert dpcli("ledger", "verify", "--head", head).exit_code == 0
        assert dpcli("ledger", "verify", "--head", f" {heads[1].upper()}").exit_code == 0
        tamper(ledger.path, "DELETE FROM entries WHERE number > 1")
        assert dpcli("ledger", "verify", "--head", heads[0]).exit_code == 0
        result = dpcli("ledger", "verify", "--head", heads[1])
        assert (result.exit_code, result.stdout, result.stderr) == (
            5,
            "",
            f"Error: The ledger {ledger.path} has no entry with the digest {heads[1]}: its end was cut off, or all"
            " of it was replaced. Look for the copy that has it.\n",
        )


class TestVerifyReleases:
    def test_paid_for(self, dpcli: Cli, released: Path) -> None:
        result = dpcli("ledger", "verify", released, released)
        assert result.exit_code == 0
        assert result.stderr.endswith("It has paid for 2 files. Each holds what was published.\n")

    def test_a_refined_copy_is_paid_for_by_its_parent(
        self, dpcli: Cli, write_plan: WritePlan, table: Path
    ) -> None:
        plan = write_plan(mechanism="privelet\n    direct: none")
        assert dpcli("release", plan, table, "-o", "out.parquet").exit_code == 0
        assert dpcli("refine", "out.parquet", "--threshold", "-o", "fine.parquet").exit_code == 0
        result = dpcli("ledger", "verify", "fine.parquet")
        assert result.exit_code == 0
        assert result.stderr.endswith(
            "It has paid for 1 file. 1 says that it was refined from what was published, which cannot be"
            " checked.\n"
        )

    def test_another_ledger(self, dpcli: Cli, released: Path) -> None:
        Ledger(Path("other.sqlite")).set_budget("town", Budget(Fraction(1)))
        result = dpcli("ledger", "verify", released, "--ledger", "other.sqlite")
        name = api.open_release(released).metadata.id
        assert (result.exit_code, result.stdout, result.stderr) == (
            5,
            "",
            f"Error: {released} has the id {name}, for which the ledger other.sqlite has no debit.\n",
        )

    @pytest.mark.parametrize(
        ("dataset", "epsilon", "state", "what"),
        [
            ("town", "1", "released", ""),
            ("town", "0.5", "released", "says epsilon 1 of dataset 'town', but the ledger"),
            ("city", "1", "released", "has debited 1 of 'city' for it"),
            ("town", "1", "failed", "has a debit that is failed, not released"),
            ("town", "1", "", "has a debit that is reserved, not released"),
        ],
    )
    def test_another_debit(
        self, dpcli: Cli, released: Path, dataset: str, epsilon: str, state: str, what: str
    ) -> None:
        other = Ledger(Path("other.sqlite"))
        name = api.open_release(released).metadata.id
        entry = Debit(**{**vars(debit(name, epsilon)), "dataset": dataset})
        other.reserve([entry], [])
        if state:
            other.settle(name, state)  # type: ignore[arg-type]
        result = dpcli("ledger", "verify", released, "--ledger", "other.sqlite")
        assert result.exit_code == (5 if what else 0)
        assert what in result.stderr

    def test_a_fixture_was_paid_for_by_nobody(
        self, dpcli: Cli, released: Path, write_plan: WritePlan, table: Path
    ) -> None:
        assert dpcli("release", write_plan(), table, "-o", "f.parquet", "--seed", 1).exit_code == 0
        result = dpcli("ledger", "verify", released, "f.parquet")
        assert (result.exit_code, result.stderr) == (
            5,
            "Error: f.parquet was made with --seed: it is NOT PRIVATE, and no ledger has paid for it.\n",
        )

    def test_what_is_no_release(self, dpcli: Cli, released: Path, table: Path) -> None:
        assert dpcli("ledger", "verify", table).exit_code == 5
        assert dpcli("ledger", "verify", "nowhere.parquet").exit_code == 5


class TestExport:
    def test_lines_can_be_checked_without_dpcli(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a", "1/3", parallel="ü"), debit("b", parallel="ü")], [Budget(Fraction(2))])
        ledger.settle("a", "released")
        lines = dpcli("ledger", "export").stdout.splitlines()
        before = "dpcli ledger"
        for line in lines:
            entry = json.loads(line)
            body = json.dumps(entry["body"], sort_keys=True, separators=(",", ":"))
            content = [before, entry["number"], entry["time"], entry["kind"], body]
            before = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
            assert entry["digest"] == before
        assert [json.loads(line)["kind"] for line in lines] == ["budget", "debit", "debit", "settle"]
        assert json.loads(dpcli("ledger", "verify", "--format", "jsonl").stdout)["head"] == before

    def test_to_a_new_file(self, dpcli: Cli, ledger: Ledger) -> None:
        ledger.reserve([debit("a")], [])
        result = dpcli("ledger", "export", "-o", "copy.jsonl")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"Wrote 1 entry of the ledger {ledger.path} to copy.jsonl.\n"
        assert Path("copy.jsonl").read_text() == dpcli("ledger", "export").stdout
        before = ledger.path.read_bytes()
        for existing in ("copy.jsonl", ledger.path):
            result = dpcli("ledger", "export", "-o", existing)
            assert result.exit_code == 2
            assert "it exists already" in result.stderr
        assert ledger.path.read_bytes() == before

    def test_an_empty_ledger(self, dpcli: Cli) -> None:
        result = dpcli("ledger", "export")
        assert (result.exit_code, result.stdout) == (0, "")
