"""Releases of some of the rows, alone and in parallel groups, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from dpcli.privacy.ledger import Ledger
from dpcli.release.file import open_release

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]
HALVES = """\
releases:
  - {name: women, cube: [age, job], where: "sex = 'F'", parallel: halves}
  - {name: men, cube: [age], where: "sex = 'M'", parallel: halves}
"""
CUBE = """\
releases:
  - name: cube
    cube: [age, sex, job]
    mechanism: laplace
"""
EXACT = "1000000"


@pytest.fixture
def plan_of(write_plan: WritePlan) -> Callable[..., Path]:
    def write(releases: str, **options: str) -> Path:
        return write_plan(replace=(CUBE, releases), **options)

    return write


def test_a_filter_counts_the_rows_that_satisfy_it(dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
    where = "where: \"age >= 4 and (sex = 'F' or job = 'Mason')\""
    plan = write_plan(epsilon=EXACT, replace=("cube: [age, sex, job]", f"cube: [sex]\n    {where}"))
    result = dpcli("release", plan, table, "-o", "out.parquet")
    assert result.exit_code == 0, result.stderr
    rows = pd.read_csv(table)
    kept = rows[(rows.age >= 4) & ((rows.sex == "F") | (rows.job == "Mason"))]
    counts = pd.read_parquet("out.parquet").set_index("sex")["count"].to_dict()
    assert counts == kept.sex.value_counts().to_dict()
    inspected = dpcli("inspect", "out.parquet").output
    assert "Only rows that satisfy a public condition are counted: age >= 4 and (sex = 'F'" in inspected
    asked = dpcli("query", "out.parquet", "sex = 'F'")
    assert "counts only rows where age >= 4" in asked.stderr


def test_a_parallel_group_costs_its_largest_epsilon(
    dpcli: Cli, plan_of: Callable[..., Path], table: Path, tmp_path: Path
) -> None:
    plan = plan_of(HALVES, epsilon=EXACT, privacy=f'  budget: "{EXACT}"')
    checked = dpcli("plan", "check", plan)
    assert checked.exit_code == 0, checked.stderr
    assert f"Together the plan costs epsilon {EXACT}." in checked.stderr
    result = dpcli("release", plan, table, "-o", "out")
    assert result.exit_code == 0, result.stderr
    rows = pd.read_csv(table)
    women = pd.read_parquet("out/women.parquet")
    assert women["count"].sum() == (rows.sex == "F").sum()
    assert pd.read_parquet("out/men.parquet")["count"].sum() == (rows.sex == "M").sum()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert ledger.spent("town") == Fraction(EXACT)
    assert [(d.parallel, d.epsilon) for d in ledger.debits()] == [("halves", Fraction(EXACT))] * 2
    assert open_release("out/women.parquet").metadata.privacy.epsilon == Fraction(EXACT)
    again = dpcli("release", plan, table, "-o", "out", "--if-exists", "replace")
    assert again.exit_code == 4  # a second run adds up
    assert dpcli("ledger", "verify", "out/women.parquet", "out/men.parquet").exit_code == 0


def test_a_unit_bounds_the_rows_of_a_person_over_the_whole_group(
    dpcli: Cli, plan_of: Callable[..., Path], tmp_path: Path
) -> None:
    """Whoever has rows in several filters counts max_rows times in all, not in each."""
    rows = [(f"p{n}", age, sex, "Nurse") for n in range(40) for age, sex in enumerate("FMFMFM")]
    frame = pd.DataFrame(rows, columns=pd.Index(["id", "age", "sex", "job"]))
    frame.to_csv(tmp_path / "visits.csv", index=False)
    unit = "  unit: {column: id, max_rows: 2}"
    plan = plan_of(HALVES, epsilon=EXACT, privacy=unit)
    assert dpcli("release", plan, "visits.csv", "-o", "out").exit_code == 0
    counts = [pd.read_parquet(f"out/{name}.parquet")["count"].sum() for name in ("women", "men")]
    assert sum(counts) == 80
    assert min(counts) > 0
    alone = HALVES.replace(", parallel: halves", "")
    plan = plan_of(alone, epsilon=EXACT, privacy=unit)
    assert dpcli("release", plan, "visits.csv", "-o", "apart").exit_code == 0
    assert pd.read_parquet("apart/women.parquet")["count"].sum() == 80
    assert pd.read_parquet("apart/men.parquet")["count"].sum() == 80
    assert {d.unit for d in Ledger(tmp_path / "ledger.sqlite").debits()} == {"id (at most 2 rows)"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age < 5", "age <= 5"),
        ("sex = 'F'", "age = 3"),
        ("sex = 'F' or job in node('Health')", "sex = 'M'"),
        ("true", "sex = 'M'"),
        ("not (age = 3 and sex = 'F')", "age = 3"),
    ],
)
def test_filters_that_may_share_a_row_are_no_parallel_group(
    dpcli: Cli, plan_of: Callable[..., Path], table: Path, tmp_path: Path, one: str, other: str
) -> None:
    releases = (
        f'releases:\n  - {{name: a, cube: [age], where: "{one}", parallel: g}}\n'
        f'  - {{name: b, cube: [age], where: "{other}", parallel: g}}\n'
    )
    plan = plan_of(releases)
    for words in (["plan", "check", plan], ["release", plan, table, "-o", "out"]):
        result = dpcli(*words)
        assert result.exit_code == 2
        assert (
            "Releases 'a' and 'b' are both in the parallel group 'g', but a row can satisfy" in result.stderr
        )
    assert not (tmp_path / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age < 5", "age >= 5"),
        ("sex = 'F' and age < 5", "sex = 'M' or age > 7"),
        ("job in node('Health')", "job in node('Trade') or job = 'Retired'"),
        ("age = 3 and sex = 'F'", "not (age = 3 and sex = 'F')"),
    ],
)
def test_filters_that_share_no_row_are(
    dpcli: Cli, plan_of: Callable[..., Path], table: Path, one: str, other: str
) -> None:
    releases = (
        f'releases:\n  - {{name: a, cube: [sex], where: "{one}", parallel: g}}\n'
        f'  - {{name: b, cube: [sex], where: "{other}", parallel: g}}\n'
    )
    plan = plan_of(releases, epsilon=EXACT)
    assert dpcli("release", plan, table, "-o", "out").exit_code == 0
    for name, where in (("a", one), ("b", other)):
        whole = dpcli("query", "whole.parquet", where, "--format", "json")
        if whole.exit_code:
            cube = plan_of(CUBE, epsilon=EXACT, name="whole.yaml")
            assert dpcli("release", cube, table, "-o", "whole.parquet").exit_code == 0
            whole = dpcli("query", "whole.parquet", where, "--format", "json")
        counted = pd.read_parquet(f"out/{name}.parquet")["count"].sum()
        assert json.loads(whole.stdout)[0]["value"] == counted


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("agee < 5", "Release 'cube' has a 'where' in error. The release has no attribute 'agee'"),
        ("age < 5 and age > 6", "has a 'where' that no row can satisfy"),
        ("age <", "has a 'where' in error"),
        ("sex = 'X'", "has a 'where' in error"),
    ],
)
def test_filters_in_error(
    dpcli: Cli, write_plan: WritePlan, table: Path, tmp_path: Path, where: str, words: str
) -> None:
    plan = write_plan(replace=("cube: [age, sex, job]", f'cube: [sex]\n    where: "{where}"'))
    for command in (["plan", "check", plan], ["release", plan, table, "-o", "o.parquet"]):
        result = dpcli(*command)
        assert result.exit_code == 2
        assert words in result.stderr
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_bad_value_is_told_also_where_the_filter_leaves_it_out(
    dpcli: Cli, write_plan: WritePlan, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("age,sex,job\n3,F,Nurse\n99,M,Nurse\n")
    plan = write_plan(replace=("cube: [age, sex, job]", "cube: [age]\n    where: \"sex = 'F'\""))
    result = dpcli("release", plan, "t.csv", "-o", "out.parquet")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        3,
        "Error: Column 'age': 1 row holds a value outside its domain (at row 2). Correct the table, or set"
        " 'outside: drop', 'clamp' or 'other' for 'age' in the plan.",
    )


@pytest.mark.parametrize(
    ("where", "counted"),
    [
        ("sex in ('F', 'M')", 3),
        ("sex = 'F' or sex = 'M'", 3),  # satisfied by every category, and by no row without one
        ("age <= 9", 3),
        ("age < 5 or age >= 5", 3),
        ("true", 5),
    ],
)
def test_a_row_without_a_category_satisfies_no_condition_on_it(
    dpcli: Cli, write_plan: WritePlan, tmp_path: Path, where: str, counted: int
) -> None:
    (tmp_path / "t.csv").write_text("age,sex,job\n3,F,Nurse\n4,M,Nurse\n5,F,Mason\n99,,Mason\n,X,Mason\n")
    plan = write_plan(epsilon=EXACT, replace=("cube: [age, sex, job]", f'cube: [job]\n    where: "{where}"'))
    text = plan.read_text().replace("range: [0, 9]", "range: [0, 9], outside: drop, missing: drop")
    plan.write_text(text.replace("values: [F, M]", "values: [F, M], outside: drop, missing: drop"))
    assert dpcli("release", plan, "t.csv", "-o", "out.parquet").exit_code == 0
    assert pd.read_parquet("out.parquet")["count"].sum() == counted
