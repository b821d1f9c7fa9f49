"""What dpcli query prints and replaces when things are not as usual: closed or narrow outputs, precious files."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]
LABELS = ["F", "Ünï☃𝄞"]


@pytest.fixture
def released(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> Cli:
    plan = write_plan(epsilon="1000000", replace=("values: [F, M]", f"values: [F, '{LABELS[1]}']"))
    plan.write_text(plan.read_text(), encoding="utf-8")
    table.write_text(table.read_text().replace(",M,", f",{LABELS[1]},"), encoding="utf-8")
    assert dpcli("release", plan, table, "-o", "cube.parquet").exit_code == 0
    return dpcli


def run(
    folder: Path, *arguments: str, before: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, through a shell that may close its outputs."""
    command = [sys.executable, "-m", "dpcli", *arguments]
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {before}', "bash", *command],
        cwd=folder,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )


# --- outputs that are closed or have few characters ---------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--by", "sex"], ["--format", "csv"], ["--by", "sex", "--plot"]])
def test_a_closed_output_is_told(released: Cli, tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, "query", "cube.parquet", *arguments, before=">&-")
    assert (done.returncode, done.stderr.decode()) == (
        2,
        "Error: Standard output is closed, so there is nowhere to print to; send it somewhere, if only to"
        " /dev/null.\n",
    )


def test_what_needs_no_output_does_without(released: Cli, tmp_path: Path) -> None:
    assert run(tmp_path, "query", "cube.parquet", "-o", "a.csv", before=">&-").returncode == 0
    assert run(tmp_path, "query", "cube.parquet", "age <", before=">&- 2>&-").returncode == 2
    assert run(tmp_path, "query", "cube.parquet", before="2>&-").returncode == 0


def test_json_escapes_what_ascii_lacks(released: Cli, tmp_path: Path) -> None:
    arguments = ["query", "cube.parquet", "--by", "sex", "--format"]
    done = run(tmp_path, *arguments, "json", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [row["sex"] for row in json.loads(done.stdout.decode("ascii"))] == LABELS
    done = run(tmp_path, *arguments, "jsonl", PYTHONIOENCODING="latin-1")
    assert [json.loads(line)["sex"] for line in done.stdout.decode("latin-1").splitlines()] == LABELS
    done = run(tmp_path, "inspect", "cube.parquet", "--format", "json", PYTHONIOENCODING="ascii")
    assert LABELS[1] in str(json.loads(done.stdout.decode("ascii")))


def test_csv_escapes_what_ascii_lacks_and_says_so(released: Cli, tmp_path: Path) -> None:
    arguments = ["query", "cube.parquet", "--by", "sex", "--format", "csv"]
    done = run(tmp_path, *arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode("ascii"))))
    assert [row["sex"] for row in rows] == ["F", r"\xdcn\xef\u2603\U0001d11e"]
    assert done.stderr.decode() == (
        "Warning: Standard output is ascii, so characters that it lacks are escaped."
        " Set PYTHONIOENCODING=utf-8 to have them.\n"
    )


def test_tables_have_question_marks_for_what_ascii_lacks(released: Cli, tmp_path: Path) -> None:
    done = run(tmp_path, "query", "cube.parquet", "--by", "sex", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    lines = done.stdout.decode("ascii").splitlines()
    assert set(lines[1]) <= {"-", " "}
    assert lines[3].split()[0] == "?n???"
    assert b"characters that it lacks are written as ?" in done.stderr
    done = run(tmp_path, "query", "cube.parquet", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert run(tmp_path, "query", "--help", PYTHONIOENCODING="ascii").returncode == 0


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_bytes_that_are_no_text_are_refused(released: Cli, tmp_path: Path, ending: str) -> None:
    for arguments in (["sex = '\udcff'"], ["--sql", 'select count(*) as "\udcff" from release']):
        done = run(tmp_path, "query", "cube.parquet", *arguments, "-o", f"a.{ending}")
        assert done.returncode == 2
        assert b"that is not UTF-8 text; write it as UTF-8." in done.stderr
        assert not (tmp_path / f"a.{ending}").exists()


# --- files that are there already ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_picture_replaces_pictures_only(released: Cli, ending: str) -> None:
    def draw(name: str) -> Result:
        return released("query", "cube.parquet", "--by", "age", "--plot", name)

    Path(f"empty.{ending}").touch()
    for name in (f"a.{ending}", f"a.{ending}", f"empty.{ending}"):
        assert draw(name).exit_code == 0
    foreign = {
        f"cube.{ending}": Path("cube.parquet").read_bytes(),
        f"notes.{ending}": b"Call the dentist.\n",
        f"foreign.{ending}": Path(f"a.{ending}").read_bytes().replace(b"dpcli", b"other"),
    }
    for name, content in foreign.items():
        Path(name).write_bytes(content)
        result = draw(name)
        assert (result.exit_code, result.stderr) == (
            2,
            f"Error: {name} is there already and is no picture that dpcli drew, so it is left alone."
            " Choose another name.\n",
        )
        assert Path(name).read_bytes() == content
    result = released("query", f"cube.{ending}", "--by", "age", "--plot", f"cube.{ending}")
    assert result.exit_code == 2
    assert Path(f"cube.{ending}").read_bytes() == foreign[f"cube.{ending}"]


def test_a_picture_in_no_folder(released: Cli) -> None:
    result = released("query", "cube.parquet", "--by", "age", "--plot", "nowhere/a.svg")
    assert (result.exit_code, "there is no folder nowhere" in result.stderr) == (2, True)


def test_answers_replace_answers_of_which_there_are_none(released: Cli) -> None:
    for ending in ("json", "jsonl", "csv", "parquet"):
        for _ in range(2):
            result = released("query", "cube.parquet", "age > 200", "--by", "sex", "-o", f"none.{ending}")
            assert result.exit_code == 0, result.stderr
    assert json.loads(Path("none.json").read_text()) == []
    Path("list.json").write_text("[1]")
    Path("list.csv").write_text("[]\n")
    for name in ("list.json", "list.csv"):
        assert released("query", "cube.parquet", "-o", name).exit_code == 2


# --- options that are empty or half written -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "age\nsex"], "--by can't be read from 'age\\nsex'"),
        (["--by", '"age'], "--by can't be read from '\"age'"),
        (["--by", '"age"x'], "--by can't be read"),
        (["--sql", "", "true"], "CONDITION and --sql can't go together"),
        (["--workload", "", "true"], "CONDITION and --workload can't go together"),
        (["--workload", "", "--sql", ""], "--sql and --workload can't go together"),
        (["--workload", "", "--by", "age"], "--by goes with conditions"),
        (["--workload", "", "--plot"], "can't go with --workload"),
        (["--workload", ""], "The workload is empty. A workload is random:N"),
        (["--sql", ""], "The SQL is empty"),
    ],
)
def test_what_is_empty_or_half_is_refused(released: Cli, arguments: list[str], words: str) -> None:
    result = released("query", "cube.parquet", *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr


def test_names_in_quotes(released: Cli) -> None:
    assert released("query", "cube.parquet", "--by", '"age", sex').exit_code == 0


@pytest.mark.parametrize("command", ["query", "inspect"])
def test_a_release_without_a_name(released: Cli, command: str) -> None:
    result = released(command, "")
    assert (result.exit_code, result.stderr) == (
        5,
        "Error: The name of the release file is empty; name the file to read.\n",
    )
