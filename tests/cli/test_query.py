"""dpcli query and inspect, as they are used."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]


@pytest.fixture
def released(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> Cli:
    assert dpcli("release", write_plan(epsilon="1000000"), table, "-o", "exact.parquet").exit_code == 0
    assert dpcli("release", write_plan(epsilon="0.5"), table, "-o", "noisy.parquet").exit_code == 0
    return dpcli


def test_json_has_the_documented_keys(released: Cli) -> None:
    result = released("query", "noisy.parquet", "age = 3 and sex = 'F'", "job = 'Health'", "--format", "json")
    assert result.exit_code == 0, result.stderr
    answers = json.loads(result.stdout)
    assert [list(answer) for answer in answers] == [["query", "value", "stderr", "low", "high", "how"]] * 2
    assert [answer["query"] for answer in answers] == ["age = 3 and sex = 'F'", "job = 'Health'"]
    first = answers[0]
    assert isinstance(first["value"], int)
    assert first["how"] == "exact"
    assert first["low"] < first["value"] < first["high"]
    assert first["stderr"] == pytest.approx(2.7993 * 6**0.5, abs=1e-2)


def test_answers_are_the_true_counts_when_there_is_no_noise(released: Cli) -> None:
    questions = {
        "true": 176,
        "age = 3 and sex = 'F'": 40,
        "job = 'Health'": 75,
        "job in ('Nurse', 'Trade')": 106,
        "age between 4 and 5 and sex <> 'M'": 17,
        "age < 4 or job = 'Retired'": 126,
        "not (sex = 'F' or job = 'Nurse')": 34,
    }
    result = released("query", "exact.parquet", *questions, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {row["query"]: int(row["value"]) for row in rows} == questions


def test_without_a_condition_everything_is_counted(released: Cli) -> None:
    assert json.loads(released("query", "exact.parquet", "--format", "json").stdout)[0]["value"] == 176


def test_a_wider_interval_for_more_certainty(released: Cli) -> None:
    widths = []
    for level in ("0.5", "0.95", "0.999"):
        (answer,) = json.loads(
            released("query", "noisy.parquet", "age = 3", "--interval", level, "--format", "json").stdout
        )
        widths.append(answer["high"] - answer["low"])
    assert widths == sorted(set(widths))


def test_a_table_for_people(released: Cli) -> None:
    result = released("query", "exact.parquet", "job = 'Health'")
    header, _, row = result.stdout.splitlines()
    assert header.split() == ["query", "value", "stderr", "low", "high", "how"]
    assert row.split()[:4] == ["job", "=", "'Health'", "75"]


def test_warnings_go_to_stderr_also_when_quiet(released: Cli) -> None:
    for options in ([], ["--quiet"]):
        result = released("query", "exact.parquet", "age > 50", *options)
        assert result.stderr == "Warning: No category of 'age' fulfils age > 50.\n"


def test_of_several_conditions_the_wrong_one_is_named(released: Cli) -> None:
    result = released("query", "exact.parquet", "age = 3", "agee = 3")
    assert result.stderr == (
        "Error: In the condition 'agee = 3': The release has no attribute 'agee'. Did you mean 'age'?"
        " It has: age, sex, job.\n"
    )


@pytest.mark.parametrize("level", ["0", "1", "1.5", "-1", "nan"])
def test_a_level_outside_0_and_1(released: Cli, level: str) -> None:
    result = released("query", "noisy.parquet", "--interval", level)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: The interval's level must lie between 0 and 0.999999, as 0.95 does; {float(level)} does not.\n",
    )


def test_a_bad_condition_and_a_bad_file(released: Cli, tmp_path: Path) -> None:
    result = released("query", "noisy.parquet", "agee = 3")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: The release has no attribute 'agee'. Did you mean 'age'? It has: age, sex, job.\n",
    )
    result = released("query", "people.csv", "age = 3")
    assert (result.exit_code, result.stderr) == (
        5,
        "Error: people.csv cannot be read as Parquet: it is damaged, cut short, or not a release file.\n",
    )


def test_inspect_tells_the_guarantee(released: Cli) -> None:
    text = released("inspect", "noisy.parquet", "--verify").output
    assert "epsilon      0.5, add-remove neighbours (recomputed from strategy and noise: 0.5)" in text
    assert "- Pure differential privacy with epsilon = 0.5" in text
    assert "Every count matches its digest, and every label is in its place." in text
    document = json.loads(released("inspect", "noisy.parquet", "--format", "json").stdout)
    assert document["privacy"] == {
        "epsilon": "0.5",
        "neighbors": "add-remove",
        "rows_per_person": 1,
        "unit": None,
        "parallel": None,
    }
    assert document["noise"] == {"law": "discrete-laplace", "scale": "2"}
    rows = list(csv.DictReader(io.StringIO(released("inspect", "noisy.parquet", "--format", "csv").stdout)))
    assert [(row["attribute"], row["categories"]) for row in rows] == [
        ("age", "10"),
        ("sex", "2"),
        ("job", "6"),
    ]


def test_a_pipe_that_closes_early_is_no_error(released: Cli, tmp_path: Path) -> None:
    conditions = ["true"] * 3000
    command = [sys.executable, "-m", "dpcli", "query", "exact.parquet", *conditions, "--format", "csv"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()
