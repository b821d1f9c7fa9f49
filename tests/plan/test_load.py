"""Loading a plan: from files and from Python, with exact numbers, and errors that name file and line."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpcli.data.attributes import Nominal
from dpcli.errors import PlanError
from dpcli.plan.load import load_plan, parse_plan

GOOD = """\
plan: 1
dataset: census-2026
table: people.csv
privacy:
  epsilon: 1.0
  neighbors: add-remove
  budget: "10"
attributes:
  age: {kind: ordinal, range: [0, 100]}
  sex: {kind: nominal, values: [F, M]}
  job:
    kind: nominal
    hierarchy: jobs.yaml
  income: {kind: ordinal, range: [0, 200000], bin: 1000}
  moved: {kind: date, range: [2020-01-01, 2025-12-31], period: year}
  married: {kind: boolean, missing: own-category}
releases:
  - name: cube
    cube: [age, sex, job]
  - name: money
    cube: [income, moved, married]
    epsilon: 0.25
"""
JOBS = "Health: [Nurse, Physician]\nTrades:\n  - Painter\nRetired:\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with the hierarchy that GOOD names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(JOBS, encoding="utf-8")
    return tmp_path


def error_of(text: str) -> str:
    """Load a plan from p.yaml in the current folder and return the error's message."""
    Path("p.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        load_plan("p.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    return text


def test_a_good_plan(folder: Path) -> None:
    plan = parse_plan(GOOD)
    assert plan.dataset == "census-2026"
    assert plan.privacy.epsilon == 1
    assert list(plan.attributes) == ["age", "sex", "job", "income", "moved", "married"]
    assert plan.attributes["job"].labels() == ["Nurse", "Physician", "Painter", "Retired"]
    assert [attribute.size for attribute in plan.attributes.values()] == [101, 2, 4, 200, 6, 3]
    assert plan.shares() == {"cube": Fraction(3, 4), "money": Fraction(1, 4)}


def test_files_lie_beside_the_plan(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "p.yaml").write_text(GOOD.replace("jobs.yaml", "../jobs.yaml"), encoding="utf-8")
    plan = load_plan("sub/p.yaml")
    assert plan.table == str(Path("sub/people.csv"))
    assert plan == load_plan(folder / "sub" / "p.yaml").model_copy(update={"table": plan.table})


def test_a_table_elsewhere_keeps_its_address(folder: Path) -> None:
    assert (
        parse_plan(changed(("people.csv", "s3://bucket/people.parquet"))).table
        == "s3://bucket/people.parquet"
    )
    assert parse_plan(changed(("people.csv", "/data/people.csv")), folder).table == "/data/people.csv"


def test_from_python() -> None:
    content = {
        "plan": 1,
        "dataset": "d",
        "privacy": {"epsilon": "0.1"},
        "attributes": {"a": {"kind": "ordinal", "range": [0, 9]}},
        "releases": [{"name": "r", "cube": ["a"]}],
    }
    assert parse_plan(content).privacy.epsilon == Fraction(1, 10)
    content["privacy"] = {"epsilon": 0.1}
    with pytest.raises(PlanError) as caught:
        parse_plan(content)
    assert str(caught.value) == "privacy.epsilon: must be a decimal written as text, such as '0.5'"


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        ('"0.1"', Fraction(1, 10)),
        ("'0.1'", Fraction(1, 10)),
        ("0.30000000000000004", Fraction(30000000000000004, 10**17)),
        ("1e-3", Fraction(1, 1000)),
        ("+2.50", Fraction(5, 2)),
        ("3", Fraction(3)),
    ],
)
def test_epsilon_is_the_digits_written(folder: Path, written: str, exact: Fraction) -> None:
    text = changed(("epsilon: 1.0", f"epsilon: {written}"), ("    epsilon: 0.25\n", ""))
    assert parse_plan(text).privacy.epsilon == exact


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("0", "must be above 0"),
        ("0.00", "must be above 0"),
        ("-1", "must be above 0, not -1"),
        ("1/3", "must be a decimal such as 0.5, not '1/3'"),
        ("one", "must be a decimal such as 0.5, not 'one'"),
        (".inf", "must be a decimal such as 0.5, not '.inf'"),
        ("nan", "must be a decimal such as 0.5, not 'nan'"),
        ("''", "must be a decimal such as 0.5, not ''"),
        ("", "must be a decimal written as text, such as '0.5'"),
        ("[1]", "must be a decimal written as text, such as '0.5'"),
        ("1e-10", "must lie between 1e-9 and 1000000"),
        ("1e999", "must lie between 1e-9 and 1000000"),
    ],
)
def test_bad_epsilon(folder: Path, written: str, words: str) -> None:
    text = changed(("epsilon: 1.0", f"epsilon: {written}"))
    assert error_of(text) == f"p.yaml, line 5: privacy.epsilon: {words}"


# --- files ------------------------------------------------------------------------------------------------


def test_unreadable_plans(folder: Path) -> None:
    for path, words in [
        ("none.yaml", "there is no such file"),
        (".", "the file can't be read (Is a directory)"),
        ("a\0b", "the file can't be read (not a file name)"),
    ]:
        with pytest.raises(PlanError) as caught:
            load_plan(path)
        assert str(caught.value) == f"{path}: {words}"
    (folder / "latin.yaml").write_bytes("dataset: é".encode("latin-1"))
    with pytest.raises(PlanError) as caught:
        load_plan("latin.yaml")
    assert str(caught.value) == "latin.yaml: the file is not UTF-8 text"


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null\n"])
def test_empty_plans(folder: Path, text: str) -> None:
    assert error_of(text) == "p.yaml: the plan is empty; 'dpcli plan init TABLE' writes a first one"


@pytest.mark.parametrize("text", ["- plan: 1\n", "plan\n", "# x\n'plan'\n"])
def test_plans_that_are_no_mapping(folder: Path, text: str) -> None:
    line = 2 if text.startswith("#") else 1
    assert error_of(text) == (
        f"p.yaml, line {line}: a plan must be a mapping of keys to values, not a list or a text"
    )


def test_a_byte_order_mark_is_no_matter(folder: Path) -> None:
    Path("p.yaml").write_text(GOOD, encoding="utf-8-sig")
    Path("jobs.yaml").write_text(JOBS, encoding="utf-8-sig")
    assert load_plan("p.yaml") == parse_plan(GOOD)


def test_a_hierarchy_in_csv_and_in_yaml_is_the_same(folder: Path) -> None:
    (folder / "jobs.csv").write_text(
        "group,job\nHealth,Nurse\nHealth,Physician\nTrades,Painter\n,Retired\n", encoding="utf-8"
    )
    (folder / "jobs.YML").write_text(JOBS, encoding="utf-8")
    plan = parse_plan(GOOD)
    assert isinstance(plan.attributes["job"], Nominal)
    assert parse_plan(changed(("jobs.yaml", "jobs.csv"))) == plan
    assert parse_plan(changed(("jobs.yaml", "jobs.YML"))) == plan
    assert (
        parse_plan(changed(("jobs.yaml", "{Health: [Nurse, Physician], Trades: [Painter], Retired: }")))
        == plan
    )


SUFFIXES = "a hierarchy must be a .yaml, .yml or .csv file, or be written out in the plan"
TWICE = "the hierarchy has the leaf 'x' twice; every leaf must stand once"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("none.yaml", None, "none.yaml: there is no such file"),
        ("none.csv", None, "none.csv: there is no such file"),
        ("jobs.txt", JOBS, f"jobs.txt: {SUFFIXES}"),
        ("''", None, f".: {SUFFIXES}"),
        ("h.yaml", " \n", "h.yaml: the file is empty"),
        ("h.yaml", "# nothing\n", "h.yaml: the hierarchy's group 'the top' must hold a list or a mapping"),
        ("h.csv", "", "h.csv: the file is empty"),
        ("h.yaml", "A: [x, y]\nB: [x]\n", f"h.yaml: {TWICE}"),
        ("h.csv", "g,l\nA,x\nB,x\n", f"h.csv: {TWICE}"),
        ("h.csv", "g,l\nA,x\nA,x\n", f"h.csv: {TWICE}"),
        ("h.yaml", "A: [x]\nB: @\n", "h.yaml, line 2: a value can't start with '@'; put the text in quotes"),
        ("h.yaml", "A: [x]\nA: [y]\n", "h.yaml, line 2: the key 'A' is already set on line 1"),
        ("h.csv", "g,l\nA\n", "h.csv: row 2 of the hierarchy has no leaf or not 2 columns"),
        ("h.csv", f"g,l\nA,{'x' * 200_000}\n", "h.csv: field larger than field limit (131072)"),
    ],
)
def test_bad_hierarchy_files(folder: Path, file: str, text: str | None, words: str) -> None:
    if text is not None:
        (folder / file).write_text(text, encoding="utf-8")
    assert error_of(changed(("jobs.yaml", file))) == f"p.yaml, line 13: attributes.job.hierarchy: {words}"


def test_problems_in_files_and_in_the_plan_come_together_by_line(folder: Path) -> None:
    text = changed(("jobs.yaml", "none.yaml"), ("range: [0, 100]", "range: [1, 0]"), ("bin: 1000", "bin: x"))
    assert error_of(text) == (
        "p.yaml, line 9: attributes.age.range: is empty: 1 is above 0\n"
        "p.yaml, line 13: attributes.job.hierarchy: none.yaml: there is no such file\n"
        "p.yaml, line 14: attributes.income.bin: must be a number"
    )


def test_loading_imports_nothing_heavy() -> None:
    code = "import sys, dpcli.plan.load; print({'numpy', 'pandas', 'pyarrow', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
