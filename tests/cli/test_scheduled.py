"""What scheduled runs need: names with dates, logs that programs read, and budgets per period."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dpcli.privacy.ledger import Ledger

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]
ROOT = str(Path(__file__).parent.parent.parent)
TWO = ("releases:\n", "releases:\n  - {name: jobs, cube: [job], epsilon: 0.25}\n")


def today(form: str = "%Y-%m-%d") -> str:
    return dt.datetime.now(dt.UTC).strftime(form)


class TestNames:
    def test_of_one_release(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        result = dpcli("release", write_plan(), table, "-o", "{dataset}-{release}-{date:%Y-%m}.parquet")
        assert result.exit_code == 0, result.stderr
        assert Path(f"town-cube-{today('%Y-%m')}.parquet").is_file()

    def test_of_several_in_folders_that_are_made(
        self, dpcli: Cli, write_plan: WritePlan, table: Path
    ) -> None:
        plan = write_plan(replace=TWO)
        result = dpcli("release", plan, table, "-o", "out/{date}/{release}.parquet")
        assert result.exit_code == 0, result.stderr
        assert sorted(p.name for p in Path("out", today()).iterdir()) == ["cube.parquet", "jobs.parquet"]
        result = dpcli("release", plan, table, "-o", "{dataset}/{date}/")
        assert result.exit_code == 0, result.stderr
        assert Path("town", today(), "jobs.parquet").is_file()

    def test_a_rerun_on_the_same_day_is_harmless(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        words = ["release", write_plan(), table, "-o", "{dataset}-{date}.parquet", "--if-exists", "skip"]
        assert dpcli(*words).exit_code == dpcli(*words).exit_code == 0
        assert len(Ledger(tmp_path / "ledger.sqlite").debits()) == 1

    def test_braces_of_ones_own(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        assert dpcli("release", write_plan(), table, "-o", "a{{b}}.parquet").exit_code == 0
        assert Path("a{b}.parquet").is_file()

    @pytest.mark.parametrize(
        ("output", "words"),
        [
            ("{day}.parquet", "a field that does not exist, {day}"),
            ("{}.parquet", "a field that does not exist, {}"),
            ("{date!r}.parquet", "a field that does not exist, {date}"),
            ("{dataset:>9}.parquet", "a field that does not exist, {dataset}"),
            ("{date.parquet", "has a brace without its other"),
            ("date}.parquet", "has a brace without its other"),
            ("{date:%Y-%Q}.parquet", "a date in a form that is not known"),
            ("{date:\\%Y}.parquet", "a date in a form that is not known"),
            ("{date:%Y/%m}.parquet", "a date in a form that is not known"),
            ("{dataset.__class__}.parquet", "a field that does not exist"),
        ],
    )
    def test_wrong_fields(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path, output: str, words: str
    ) -> None:
        result = dpcli("release", write_plan(), table, "-o", output)
        assert result.exit_code == 2
        assert words in result.stderr
        assert "{dataset}, {release} and {date}" in result.stderr or "Use %Y, %m, %d" in result.stderr
        assert not (tmp_path / "ledger.sqlite").exists()


class TestLog:
    def lines(self, result: Result) -> list[dict[str, object]]:
        return [json.loads(line) for line in result.stderr.splitlines()]

    def test_each_line_is_an_object(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        result = dpcli(
            "release", write_plan(), table, "-o", "a.parquet", "--log-format", "json", "--format", "json"
        )
        assert result.exit_code == 0
        lines = self.lines(result)
        assert [line["message"] for line in lines[:4]] == [
            "Choosing what to measure for cube",
            "Counting cube",
            "Epsilon 1 is debited for cube.",
            "Writing cube",
        ]
        assert all(isinstance(lines[k]["seconds"], float) for k in (0, 1, 3))
        assert (lines[2]["dataset"], lines[2]["epsilon"]) == ("town", "1")
        assert len({line["run"] for line in lines}) == 1
        assert {line["level"] for line in lines} == {"info"}
        assert all(dt.datetime.fromisoformat(str(line["time"])).tzinfo for line in lines)
        assert json.loads(result.stdout)[0]["status"] == "released"

    def test_warnings_stay_with_quiet(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        result = dpcli(
            "release", write_plan(), table, "-o", "a.parquet", "--seed", "1", "-q", "--log-format=json"
        )
        (line,) = self.lines(result)
        assert line["level"] == "warning"
        assert str(line["message"]).startswith("NOT PRIVATE")

    def test_errors_have_their_exit_code(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        plan = write_plan(privacy='  budget: "1"')
        words = ["release", plan, table, "-q", "--log-format", "json", "-o"]
        assert dpcli(*words, "a.parquet").exit_code == 0
        result = dpcli(*words, "b.parquet")
        (line,) = self.lines(result)
        assert (result.exit_code, line["exit_code"], line["level"]) == (4, 4, "error")
        assert str(line["message"]).startswith("Dataset 'town' has a budget of epsilon 1 and has spent 1;")

    @pytest.mark.parametrize(
        "words",
        [
            ["release", "--log-format", "json", "--no-such-option"],
            ["release", "p", "--wait", "x", "--log-format", "json"],
            ["nothing", "--log-format", "json"],
        ],
    )
    def test_wrong_usage_too(self, dpcli: Cli, words: list[str]) -> None:
        result = dpcli(*words)
        (line,) = self.lines(result)
        assert (result.exit_code, line["exit_code"], line["level"]) == (2, 2, "error")

    def test_by_the_environment(self, dpcli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DPCLI_LOG_FORMAT", "json")
        for words in (["release", "missing.yaml", "-o", "x.parquet"], ["release", "--wrong"]):
            (line,) = self.lines(dpcli(*words))
            assert line["exit_code"] == 2

    def test_help_is_help(self, dpcli: Cli) -> None:
        result = dpcli("release", "--help", "--log-format", "json")
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: dpcli release")

    def test_an_unknown_format(self, dpcli: Cli) -> None:
        result = dpcli("release", "p", "--log-format", "xml")
        assert result.exit_code == 2
        assert "'xml' is not one of 'text', 'json'" in result.stderr


class TestBudgetsPerPeriod:
    def test_a_plan_may_have_several(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        plan = write_plan(privacy='  budget: [{total: "10"}, {total: "1.5", per: month}]')
        assert dpcli("release", plan, table, "-o", "a.parquet").exit_code == 0
        ledger = Ledger(tmp_path / "ledger.sqlite")
        assert [str(budget) for budget in ledger.budgets("town")] == ["10", "1.5 per month"]
        result = dpcli("release", plan, table, "-o", "b.parquet")
        assert result.exit_code == 4
        assert "a budget of epsilon 1.5 per month and has spent 1" in result.stderr
        dry = dpcli("release", plan, "--dry-run")
        assert dry.exit_code == 4
        assert f"in {today('%Y-%m')} it has spent 1 of its budget of 1.5 per month" in dry.stderr

    def test_one_for_a_period(self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path) -> None:
        plan = write_plan(privacy="  budget: {total: 2, per: year}")
        assert dpcli("release", plan, table, "-o", "a.parquet").exit_code == 0
        assert [str(b) for b in Ledger(tmp_path / "ledger.sqlite").budgets("town")] == ["2 per year"]
        seeded = dpcli("release", plan, table, "-o", "b.parquet", "--seed", "1")
        assert "has a privacy budget" in seeded.stderr

    @pytest.mark.parametrize(
        ("budget", "words"),
        [
            ("{total: 2, per: decade}", "privacy.budget.per: 'decade' is not a choice."),
            ("{per: month}", "privacy.budget.total: this key is missing"),
            ("{total: 2, every: month}", "privacy.budget.every: unknown key."),
            ("{total: 0.5, per: month}", "the budget 0.5 per month is below this plan's epsilon 1"),
            ("[{total: 2}, {total: 3}]", "privacy.budget: has more than one budget for ever; keep one"),
            ("[{total: 2, per: day}, {total: -3}]", "privacy.budget[1].total:"),
            ("[]", "privacy.budget: must not be empty"),
            ("[2, 3]", "privacy.budget[0]: must be a mapping of keys to values, not '2'"),
            ("-1", "privacy.budget:"),
        ],
    )
    def test_wrong_budgets(self, dpcli: Cli, write_plan: WritePlan, budget: str, words: str) -> None:
        result = dpcli("plan", "check", write_plan(privacy=f"  budget: {budget}"))
        assert result.exit_code == 2
        assert words in result.stderr
        assert "line 6" in result.stderr


def test_from_cron_there_is_no_terminal_and_no_home(
    write_plan: WritePlan, table: Path, tmp_path: Path
) -> None:
    """A bare environment, as cron gives: no prompt, nothing but JSON lines on stderr, exit code 0."""
    command = [sys.executable, "-m", "dpcli", "release", write_plan(), table]
    options = ["-o", "out-{date}.parquet", "--if-exists", "skip", "-q", "--log-format", "json"]
    run = subprocess.run(
        [*command, *options, "--ledger", tmp_path / "l.sqlite"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": ROOT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert (tmp_path / f"out-{today()}.parquet").is_file()


@pytest.mark.parametrize("folder", ["", "relative"])
def test_the_ledger_never_lies_in_the_working_folder(
    write_plan: WritePlan, table: Path, tmp_path: Path, folder: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "dpcli", "release", write_plan(), table, "-o", "out.parquet", "-q"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": ROOT, "HOME": str(home), "XDG_CONFIG_HOME": folder},
        stdout=subprocess.DEVNULL,
    )
    assert run.returncode == 0
    assert (home / ".config" / "dpcli" / "ledger.sqlite").is_file()


def test_no_home_for_the_ledger(write_plan: WritePlan, table: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "dpcli", "release", write_plan(), table, "-o", "out.parquet"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": ROOT, "HOME": "/dev/null"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert "Name a ledger with --ledger." in run.stderr


def test_a_log_that_nobody_reads_stops_nothing(write_plan: WritePlan, table: Path, tmp_path: Path) -> None:
    """Stderr is closed by its reader at once: the release is made all the same."""
    command = [sys.executable, "-m", "dpcli", "release", write_plan(replace=TWO), table, "-o", "out"]
    run = subprocess.Popen(
        [*command, "--log-format", "json", "--ledger", tmp_path / "l.sqlite"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert run.stderr is not None
    run.stderr.close()
    assert run.wait() == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cube.parquet", "jobs.parquet"]


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_waiting_for_no_number_of_seconds(
    dpcli: Cli, write_plan: WritePlan, table: Path, seconds: str
) -> None:
    assert dpcli("release", write_plan(), table, "-o", "a.parquet", "--wait", seconds).exit_code == 2


def test_the_ledger_is_no_output(dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
    words = ["-o", "x.parquet", "--ledger", "x.parquet", "--if-exists", "replace"]
    result = dpcli("release", write_plan(), table, *words)
    assert result.exit_code == 2
    assert "is, or lies in, the table or the ledger itself" in result.stderr


def test_balances(dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
    plan = write_plan(privacy='  budget: [{total: "10"}, {total: "1.5", per: month}]')
    assert dpcli("release", plan, table, "-o", "a.parquet").exit_code == 0
    rows = json.loads(dpcli("ledger", "balance", "--format", "json").stdout)
    assert [(row["spent"], row["budget"], row["per"], row["left"]) for row in rows] == [
        ("1", "10", None, "9"),
        ("1", "1.5", "month", "0.5"),
    ]
    assert json.loads(dpcli("ledger", "balance", "--dataset", "city", "--format", "json").stdout) == []
