"""dpcli release, as it is used: real files, the real command line, every option, every refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from dpcli.errors import OutputError
from dpcli.privacy.ledger import Ledger
from dpcli.release.file import open_release

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]


def spent(tmp_path: Path) -> Fraction:
    return sum((debit.epsilon for debit in Ledger(tmp_path / "ledger.sqlite").debits()), Fraction(0))


def test_release_writes_a_private_file_and_debits_it(
    dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
) -> None:
    result = dpcli("release", write_plan(), table, "-o", "out.parquet", "--format", "json")
    assert result.exit_code == 0, result.stderr
    ledger = tmp_path / "ledger.sqlite"
    assert json.loads(result.stdout) == [
        {
            "release": "cube",
            "file": "out.parquet",
            "status": "released",
            "cells": 120,
            "epsilon": "1",
            "private": True,
            "release_id": Ledger(ledger).debits()[0].release_id,
        }
    ]
    assert result.stderr == (
        f"By the ledger {ledger}, dataset 'town' has spent epsilon 1, and it has no budget.\n"
    )
    (debit,) = Ledger(tmp_path / "ledger.sqlite").debits()
    metadata = open_release(tmp_path / "out.parquet").metadata
    assert (debit.release_id, debit.epsilon, debit.state) == (metadata.id, 1, "released")
    assert sorted(os.listdir(tmp_path)) == [
        "ledger.sqlite",
        "ledger.sqlite.town.lock",
        "out.parquet",
        "people.csv",
        "plan.yaml",
    ]


def test_with_next_to_no_noise_the_counts_are_those_of_pandas(
    dpcli: Cli, write_plan: WritePlan, table: Path
) -> None:
    dpcli("release", write_plan(epsilon="1000000"), table, "-o", "out.parquet")
    released = pd.read_parquet("out.parquet")
    released = released[released["count"] != 0].astype({"age": int, "sex": str, "job": str})
    expected = pd.read_csv(table).value_counts(["age", "sex", "job"]).reset_index(name="count")
    columns = ["age", "sex", "job", "count"]
    assert sorted(released[columns].to_records(index=False).tolist()) == sorted(
        expected[columns].to_records(index=False).tolist()
    )


def test_two_runs_draw_different_noise(dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
    plan = write_plan(epsilon="0.1")
    for name in ("a.parquet", "b.parquet"):
        assert dpcli("release", plan, table, "-o", name).exit_code == 0
    assert not pd.read_parquet("a.parquet")["count"].equals(pd.read_parquet("b.parquet")["count"])


def test_the_file_holds_nothing_that_depends_on_the_table(
    dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
) -> None:
    """Two tables, even one without rows: apart from id, time and noise the files say the same."""
    empty = tmp_path / "nobody.csv"
    empty.write_text("age,sex,job\n")
    documents = []
    for name, source in (("a", table), ("b", empty)):
        result = dpcli("release", write_plan(), source, "-o", f"{name}.parquet", "--allow-empty")
        assert result.exit_code == 0, result.stderr
        document = json.loads(pq.read_metadata(f"{name}.parquet").metadata[b"dpcli"])
        for key in ("id", "created", "digest"):
            document.pop(key)
        for block in document["blocks"]:
            block.pop("sha256")
        documents.append(document)
        raw = Path(f"{name}.parquet").read_bytes()
        assert b"people.csv" not in raw
        assert str(tmp_path).encode() not in raw
    assert documents[0] == documents[1]


RESUME = "When the cause is mended, run again: what is missing is not paid for twice."


class TestDryRun:
    def test_cost_and_error_without_a_table(self, dpcli: Cli, write_plan: WritePlan, tmp_path: Path) -> None:
        result = dpcli("release", write_plan(epsilon="0.5"), "--dry-run", "--format", "json")
        assert result.exit_code == 0, result.stderr
        (forecast,) = json.loads(result.stdout)
        assert forecast["cells"] == 120
        assert forecast["epsilon"] == "0.5"
        assert forecast["noise_scale"] == "2"
        assert forecast["cell_stderr"] == pytest.approx(2.7993, abs=1e-3)  # √(2q/(1−q)²), q = e^(−1/2)
        assert forecast["cell_95"] == 6
        # A restricted age has 4 cells in the mean, a sex 1, a job 11/8; unrestricted they have 10, 2 and 6.
        one, two, three = (4 * 12 + 60 + 20 * 11 / 8) / 3, (4 * 6 + 8 * 11 / 8 + 10 * 11 / 8) / 3, 4 * 11 / 8
        assert forecast["range_rmse"] == pytest.approx(2.7993 * ((one + two + three) / 3) ** 0.5, rel=1e-3)
        assert os.listdir(tmp_path) == ["plan.yaml"]

    def test_replace_one_doubles_the_scale(self, dpcli: Cli, write_plan: WritePlan) -> None:
        result = dpcli(
            "release",
            write_plan(neighbors="replace-one"),
            "no-such-table.csv",
            "--dry-run",
            "--format",
            "csv",
        )
        assert result.stdout.splitlines()[1].split(",")[:5] == ["cube", "laplace", "120", "1", "2"]


class TestIfExists:
    def test_fail_is_the_default(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        Path("out.parquet").write_text("precious")
        result = dpcli("release", write_plan(), table, "-o", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: out.parquet exists already, and nothing was spent. Choose another name, or say with --if-exists"
            " what to do.\n",
        )
        assert Path("out.parquet").read_text() == "precious"
        assert spent(tmp_path) == 0

    def test_skip_reads_and_spends_nothing(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 0
        before = Path("out.parquet").read_bytes()
        skip = ["-o", "out.parquet", "--if-exists", "skip", "--format", "json"]
        result = dpcli("release", write_plan(epsilon="3"), "gone.csv", *skip)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)[0]["status"] == "skipped"
        assert json.loads(result.stdout)[0]["epsilon"] == "1"  # what the file claims, not what the plan asks
        assert Path("out.parquet").read_bytes() == before
        assert spent(tmp_path) == 1

    def test_skip_tells_a_fixture(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        assert dpcli("release", write_plan(), table, "-o", "out.parquet", "--seed", 1).exit_code == 0
        result = dpcli("release", write_plan(), table, "-o", "out.parquet", "--if-exists", "skip")
        assert "out.parquet, which was skipped, is NOT PRIVATE: it was made with --seed." in result.stderr

    def test_skip_needs_the_same_release(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        Path("out.parquet").write_text("precious")
        skip = ["-o", "out.parquet", "--if-exists", "skip"]
        result = dpcli("release", write_plan(), table, *skip)
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: out.parquet is to be skipped, but is no sound release. out.parquet cannot be read as Parquet:"
            " it is damaged, cut short, or not a release file.\n",
        )
        Path("out.parquet").unlink()
        assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 0
        result = dpcli("release", write_plan(replace=("name: cube", "name: box")), table, *skip)
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: out.parquet is to be skipped, but is release 'cube' of dataset 'town', not 'box' of 'town'."
            " Choose another name.\n",
        )

    def test_replace_spends_again(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        for _ in range(2):
            assert (
                dpcli("release", write_plan(), table, "-o", "out.parquet", "--if-exists", "replace").exit_code
                == 0
            )
        assert spent(tmp_path) == 2


class TestSeed:
    def test_a_fixture_is_reproducible_marked_and_free(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        for name in ("a.parquet", "b.parquet"):
            result = dpcli("release", write_plan(), table, "-o", name, "--seed", 7, "--quiet")
            assert result.exit_code == 0, result.stderr
            assert result.stderr == (
                "NOT PRIVATE: with --seed anyone can recompute the noise. Use it for invented people only.\n"
            )
        assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()
        assert not (tmp_path / "ledger.sqlite").exists()
        assert open_release("a.parquet").metadata.guarantee[0].startswith("NOT PRIVATE")
        for command in (["query", "a.parquet", "--quiet"], ["inspect", "a.parquet", "--quiet"]):
            assert "a.parquet is NOT PRIVATE" in dpcli(*command).stderr

    def test_another_seed_gives_other_noise(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        for seed in (1, 2):
            dpcli("release", write_plan(), table, "-o", f"{seed}.parquet", "--seed", seed)
        assert not pd.read_parquet("1.parquet")["count"].equals(pd.read_parquet("2.parquet")["count"])

    def test_a_dataset_with_a_budget_needs_fixture(
        self, dpcli: Cli, write_plan: WritePlan, table: Path
    ) -> None:
        plan = write_plan(privacy='  budget: "5"')
        refusal = (
            "Error: Dataset 'town' has a privacy budget, and a release with --seed is not private. If its table holds"
            " invented people only, add --fixture; otherwise leave out --seed.\n"
        )
        result = dpcli("release", plan, table, "-o", "out.parquet", "--seed", 1)
        assert result.exit_code == 2
        assert result.stderr.endswith(refusal)
        assert dpcli("release", plan, table, "-o", "real.parquet").exit_code == 0
        without = write_plan(name="without.yaml")  # the ledger remembers that there is a budget
        assert dpcli("release", without, table, "-o", "out.parquet", "--seed", 1).stderr.endswith(refusal)
        assert dpcli("release", plan, table, "-o", "out.parquet", "--seed", 1, "--fixture").exit_code == 0

    def test_fixture_without_seed(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        result = dpcli("release", write_plan(), table, "-o", "out.parquet", "--fixture")
        assert (result.exit_code, result.stderr) == (2, "Error: --fixture only goes with --seed.\n")


class TestBudget:
    def test_the_cap_is_exact(self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path) -> None:
        for name, epsilon in (("a", "0.3"), ("b", "0.7")):
            plan = write_plan(epsilon=epsilon, privacy='  budget: "1"', name=f"{name}.yaml")
            assert dpcli("release", plan, table, "-o", f"{name}.parquet").exit_code == 0
        plan = write_plan(epsilon="1e-9", privacy='  budget: "1"')
        result = dpcli("release", plan, table, "-o", "c.parquet")
        assert result.exit_code == 4
        assert result.stderr == (
            "Error: Dataset 'town' has a budget of epsilon 1 and has spent 1; this release asks for 0.000000001, and"
            " only 0 is left. Nothing was spent. Lower the plan's epsilon, or, if what people were promised allows"
            " it, raise the one in the ledger with 'dpcli ledger set-budget town EPSILON'.\n"
        )
        assert not Path("c.parquet").exists()
        assert spent(tmp_path) == 1

    def test_bad_data_spends_nothing(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        table.write_text(table.read_text() + "99,F,Nurse\n")
        assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 3
        assert spent(tmp_path) == 0

    def test_a_failure_after_the_debit_says_what_is_spent(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(path: Path) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("dpcli.release.whole._sync", full)
        result = dpcli("release", write_plan(), table, "-o", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: Cannot write out.parquet: the disk is full. Free some space or choose another folder."
            f" Epsilon 1 is spent all the same. Not produced: cube. {RESUME}\n",
        )
        assert [debit.state for debit in Ledger(tmp_path / "ledger.sqlite").debits()] == ["failed"]
        assert not Path("out.parquet").exists()
        assert not list(tmp_path.glob(".*"))

    def test_a_file_appears_only_when_the_ledger_has_it_as_released(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def settle(self: Ledger, *arguments: object) -> None:
            assert not Path("out.parquet").exists()
            raise OutputError("The ledger is gone.")

        monkeypatch.setattr(Ledger, "settle", settle)
        result = dpcli("release", write_plan(), table, "-o", "out.parquet")
        assert result.stderr == (
            f"Error: The ledger is gone. Epsilon 1 is spent all the same. Not produced: cube. {RESUME}\n"
        )
        assert not Path("out.parquet").exists()
        assert [debit.state for debit in Ledger(tmp_path / "ledger.sqlite").debits()] == ["reserved"]

    def test_runs_of_one_dataset_come_one_after_the_other(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path
    ) -> None:
        with Ledger(tmp_path / "ledger.sqlite").lock("town", 0):
            result = dpcli("release", write_plan(), table, "-o", "out.parquet", "--wait", "0.2")
            assert result.exit_code == 6
            assert "Another run for dataset 'town'" in result.stderr
            assert not Path("out.parquet").exists()
            seeded = dpcli(
                "release", write_plan(), table, "-o", "seeded.parquet", "--seed", "1", "--wait", "0"
            )
            assert seeded.exit_code == 0
        assert Ledger(tmp_path / "ledger.sqlite").debits() == []
        command = [sys.executable, "-m", "dpcli", "release"]
        runs = [
            subprocess.Popen(
                [*command, write_plan(), table, "-o", "out.parquet", "-q", "--if-exists", "skip"],
                stdout=subprocess.DEVNULL,
            )
            for _ in range(4)
        ]
        assert [run.wait() for run in runs] == [0] * 4
        assert [debit.state for debit in Ledger(tmp_path / "ledger.sqlite").debits()] == ["released"]


class TestSeveralReleases:
    @pytest.fixture
    def plan(self, write_plan: WritePlan) -> Path:
        second = "releases:\n  - name: jobs\n    cube: [job]\n    epsilon: 0.25\n"
        return write_plan(replace=("releases:\n", second))

    def test_one_file_each_and_one_total(self, dpcli: Cli, plan: Path, table: Path, tmp_path: Path) -> None:
        result = dpcli("release", plan, table, "-o", "out", "--format", "json")
        assert result.exit_code == 0, result.stderr
        assert [(r["release"], r["file"], r["epsilon"]) for r in json.loads(result.stdout)] == [
            ("jobs", "out/jobs.parquet", "0.25"),
            ("cube", "out/cube.parquet", "0.75"),
        ]
        assert spent(tmp_path) == 1
        assert [open_release(f"out/{name}.parquet").metadata.spent() for name in ("jobs", "cube")] == [
            Fraction(1, 4),
            Fraction(3, 4),
        ]

    def test_the_output_cannot_be_a_file(self, dpcli: Cli, plan: Path, table: Path, tmp_path: Path) -> None:
        Path("out").write_text("a file")
        result = dpcli("release", plan, table, "-o", "out")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: Cannot make the folder out for the releases (File exists).\n",
        )
        assert spent(tmp_path) == 0

    def test_skip_makes_only_what_is_missing(
        self, dpcli: Cli, plan: Path, table: Path, tmp_path: Path
    ) -> None:
        assert dpcli("release", plan, table, "-o", "out").exit_code == 0
        Path("out/jobs.parquet").unlink()
        result = dpcli("release", plan, table, "-o", "out", "--if-exists", "skip", "--format", "csv")
        statuses = [line.split(",")[2] for line in result.stdout.splitlines()]
        assert statuses == ["status", "released", "skipped"]
        assert spent(tmp_path) == Fraction(5, 4)

    def test_a_name_that_looks_like_a_file(self, dpcli: Cli, plan: Path, table: Path) -> None:
        result = dpcli("release", plan, table, "-o", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: The plan has 2 releases, so -o must name a folder, and out.parquet looks like a file."
            " Or tell the files apart with {release}.\n",
        )

    def test_a_failure_in_between_says_what_there_is(
        self, dpcli: Cli, plan: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dpcli.release import whole

        real = whole._sync

        def full(path: Path) -> None:
            if "cube" in path.name:
                raise OSError(28, "No space left on device")
            real(path)

        monkeypatch.setattr(whole, "_sync", full)
        result = dpcli("release", plan, table, "-o", "out")
        assert result.stderr.endswith(
            f"Epsilon 1 is spent all the same. Not produced: cube. Produced: jobs. {RESUME}\n"
        )
        assert [debit.state for debit in Ledger(tmp_path / "ledger.sqlite").debits()] == [
            "released",
            "failed",
        ]
        assert os.listdir("out") == ["jobs.parquet"]


class TestWrongUse:
    def test_the_table_is_never_overwritten(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        frame = pd.read_csv(table)
        frame.to_parquet("people.parquet")
        result = dpcli(
            "release", write_plan(), "people.parquet", "-o", "./people.parquet", "--if-exists", "replace"
        )
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: people.parquet is, or lies in, the table or the ledger itself. Choose another name for the release.\n",
        )
        assert pd.read_parquet("people.parquet").equals(frame)

    def test_a_release_is_no_csv(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        result = dpcli("release", write_plan(), table, "-o", "out.csv")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: A release file is Parquet; name it out.parquet, not out.csv.\n",
        )

    def test_one_release_into_a_folder(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        assert dpcli("release", write_plan(), table, "-o", "new/").exit_code == 0
        assert os.listdir("new") == ["cube.parquet"]

    def test_an_interrupted_release_says_what_is_spent(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*arguments: object, **options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("dpcli.publish.write_release", stop)
        result = dpcli("release", write_plan(), table, "-o", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            1,
            f"Error: Interrupted. Epsilon 1 is spent all the same. Not produced: cube. {RESUME}\n",
        )

    def test_no_output(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        result = dpcli("release", write_plan(), table)
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: No output is given. Name a file with -o, or use --dry-run.\n",
        )

    def test_no_table(self, dpcli: Cli, write_plan: WritePlan) -> None:
        result = dpcli("release", write_plan(), "-o", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: No table is given. Name it after the plan, or as 'table:' in the plan.\n",
        )

    def test_the_plan_may_name_the_table(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        plan = write_plan(replace=("dataset: town", "dataset: town\ntable: people.csv"))
        assert dpcli("release", plan, "-o", "out.parquet").exit_code == 0

    def test_missing_folder(self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path) -> None:
        result = dpcli("release", write_plan(), table, "-o", "no/where.parquet")
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: Cannot write no/where.parquet: there is no folder no. Create it first.\n",
        )
        assert spent(tmp_path) == 0

    def test_empty_table(self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path) -> None:
        table.write_text("age,sex,job\n")
        result = dpcli("release", write_plan(), table, "-o", "out.parquet")
        assert result.exit_code == 3
        assert "has no rows" in result.stderr
        assert spent(tmp_path) == 0
        assert dpcli("release", write_plan(), table, "-o", "out.parquet", "--allow-empty").exit_code == 0

    def test_an_internal_error_shows_no_values(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*arguments: object, **options: object) -> None:
            raise KeyError("a private value")

        monkeypatch.setattr("dpcli.publish.count_views", broken)
        result = dpcli("release", write_plan(), table, "-o", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            1,
            "Error: Internal error (KeyError). Run again with --debug to see where, and report it.\n",
        )
        shown = dpcli("release", write_plan(), table, "-o", "out.parquet", "--debug")
        assert shown.exit_code == 1
        assert "KeyError: 'a private value'" in shown.stderr

    @pytest.mark.parametrize(
        "option", [["--seed", "-1"], ["--seed", "x"], ["--if-exists", "maybe"], ["--format", "xml"]]
    )
    def test_wrong_options(self, dpcli: Cli, write_plan: WritePlan, table: Path, option: list[str]) -> None:
        result = dpcli("release", write_plan(), table, "-o", "out.parquet", *option)
        assert result.exit_code == 2
        assert f"Invalid value for '{option[0]}'" in result.stderr


class TestWhatAHostileReviewFound:
    def test_equal_shares_that_are_no_decimals(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        more = "releases:\n  - {name: a, cube: [age]}\n  - {name: b, cube: [sex]}\n"
        assert (
            dpcli("release", write_plan(replace=("releases:\n", more)), table, "-o", "thirds").exit_code == 0
        )
        for name in ("a", "b", "cube"):
            assert open_release(f"thirds/{name}.parquet").metadata.privacy.epsilon == Fraction(1, 3)

    @pytest.mark.parametrize("what", ["notes", "dangling"])
    def test_only_a_release_is_replaced(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path, what: str
    ) -> None:
        target = Path("out.parquet")
        if what == "notes":
            target.write_text("precious")
        else:
            target.symlink_to("nowhere")
        for mode in ("fail", "replace"):
            result = dpcli("release", write_plan(), table, "-o", "out.parquet", "--if-exists", mode)
            assert result.exit_code == 2
            assert "out.parquet" in result.stderr
        assert spent(tmp_path) == 0
        assert what == "dangling" or target.read_text() == "precious"

    def test_labels_with_markup(self, dpcli: Cli, write_plan: WritePlan) -> None:
        plan = write_plan(replace=("values: [F, M]", 'values: ["[/a]", "[bold]b"]'))
        Path("odd.csv").write_text("age,sex,job\n1,[/a],Nurse\n2,[bold]b,Mason\n")
        assert dpcli("release", plan, "odd.csv", "-o", "odd.parquet").exit_code == 0
        assert "[/a]" in dpcli("query", "odd.parquet", "sex = '[/a]'").stdout
        assert "[bold]b" in dpcli("inspect", "odd.parquet").stdout

    def test_a_long_axis_is_forecast_in_little_memory(self, dpcli: Cli, write_plan: WritePlan) -> None:
        plan = write_plan(replace=("range: [0, 9]", "range: [0, 3000000]"))
        result = dpcli("release", plan, "--dry-run", "--format", "json")
        assert json.loads(result.stdout)[0]["cells"] == 3_000_001 * 12

    def test_deep_parentheses(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 0
        result = dpcli("query", "out.parquet", "(" * 300 + "age = 1" + ")" * 300)
        assert result.exit_code in (0, 2)
        assert "Internal" not in result.stderr

    def test_budgets_are_raised_by_an_explicit_act_only(
        self, dpcli: Cli, write_plan: WritePlan, table: Path
    ) -> None:
        for number, budget in enumerate(("1", "5")):
            plan = write_plan(privacy=f'  budget: "{budget}"')
            assert dpcli("release", plan, table, "-o", f"{number}.parquet").exit_code == (0, 4)[number]
        assert dpcli("ledger", "set-budget", "town", "x").stderr == (
            "Error: The budget must be a decimal such as 0.5, not 'x'.\n"
        )
        assert dpcli("ledger", "set-budget", "town", "5").exit_code == 0
        assert dpcli("release", plan, table, "-o", "2.parquet").exit_code == 0

    def test_nested_columns_do_not_suit(self, dpcli: Cli, write_plan: WritePlan) -> None:
        pd.DataFrame({"age": [[1, 2]], "sex": ["F"], "job": ["Nurse"]}).to_parquet("nested.parquet")
        result = dpcli("release", write_plan(), "nested.parquet", "-o", "out.parquet")
        assert result.exit_code == 3
        assert "Column 'age' has the type list" in result.stderr
