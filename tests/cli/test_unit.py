"""dpcli release with a unit, as it is used: people with several rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from dpcli.privacy.ledger import Ledger
from dpcli.release.file import open_release

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]
UNIT = "  unit: {column: person_id, max_rows: 2}"
JOBS = ("Nurse", "Dentist", "Mason", "Plumber", "Roofer", "Retired")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A table of 60 people, of whom person n has n % 7 + 1 rows, in no order."""
    rows = [
        (f"person {n}", (n + visit) % 10, "FM"[n % 2], JOBS[visit % 6])
        for n in range(60)
        for visit in range(n % 7 + 1)
    ]
    random = np.random.default_rng(4)
    frame = pd.DataFrame([rows[place] for place in random.permutation(len(rows))])
    frame.columns = pd.Index(["person_id", "age", "sex", "job"])
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def cells(path: str) -> Counter[tuple[object, ...]]:
    frame = pd.read_parquet(path)
    frame = frame[frame["count"] != 0]
    return Counter({tuple(row[:-1]): row[-1] for row in frame.astype(object).itertuples(index=False)})


def test_at_most_so_many_rows_of_each_person_count(
    dpcli: Cli, write_plan: WritePlan, visits: Path, tmp_path: Path
) -> None:
    plan = write_plan(epsilon="1000000", privacy=UNIT)
    result = dpcli("release", plan, visits, "-o", "out.parquet")
    assert result.exit_code == 0, result.stderr
    assert sum(cells("out.parquet").values()) == sum(min(2, n % 7 + 1) for n in range(60))
    metadata = open_release("out.parquet").metadata
    assert (metadata.privacy.unit, metadata.privacy.rows_per_person) == ("person_id", 2)
    assert metadata.noise.scale == Fraction(2, 10**6)
    assert metadata.spent() == 10**6
    assert b"person 1" not in Path("out.parquet").read_bytes()
    assert [debit.epsilon for debit in Ledger(tmp_path / "ledger.sqlite").debits()] == [10**6]
    text = dpcli("inspect", "out.parquet", "--verify").output
    assert (
        "- One person is whoever shares a value of column 'person_id'. Of each person at most 2 rows" in text
    )
    frame = pd.read_csv(visits).query("person_id != 'person 6'")
    frame.to_csv("without.csv", index=False)
    for name, table in (("a", visits), ("b", "without.csv")):
        assert dpcli("release", plan, table, "-o", f"{name}.parquet", "--seed", 3).exit_code == 0
    gone = cells("a.parquet") - cells("b.parquet")
    assert not cells("b.parquet") - cells("a.parquet")
    assert sum(gone.values()) == 2


def test_the_same_table_in_another_order_and_form(dpcli: Cli, write_plan: WritePlan, visits: Path) -> None:
    plan = write_plan(privacy=UNIT)
    frame = pd.read_csv(visits).iloc[::-1]
    frame.to_parquet("visits.parquet", index=False)
    frame["person_id"] = frame["person_id"].astype("category")
    frame.to_parquet("categories.parquet", index=False)
    for name, table in (("a", visits), ("b", "visits.parquet"), ("c", "categories.parquet"), ("d", visits)):
        result = dpcli("release", plan, table, "-o", f"{name}.parquet", "--seed", 5 if name != "d" else 6)
        assert result.exit_code == 0, result.stderr
    a, b, c, d = (Path(f"{name}.parquet").read_bytes() for name in "abcd")
    assert a == b == c
    assert a != d


def test_releases_choose_by_keys_of_their_own(dpcli: Cli, write_plan: WritePlan, visits: Path) -> None:
    again = "releases:\n  - {name: again, cube: [age, sex, job]}\n"
    plan = write_plan(epsilon="1000000", privacy=UNIT, replace=("releases:\n", again))
    assert dpcli("release", plan, visits, "-o", "out").exit_code == 0
    cube, other = cells("out/cube.parquet"), cells("out/again.parquet")
    assert sum(cube.values()) == sum(other.values())
    assert cube != other


def test_the_forecast_knows_of_the_rows(dpcli: Cli, write_plan: WritePlan) -> None:
    result = dpcli("release", write_plan(privacy=UNIT), "--dry-run", "--format", "json")
    assert json.loads(result.stdout)[0]["noise_scale"] == "2"


def test_nobodys_rows(dpcli: Cli, write_plan: WritePlan, visits: Path, tmp_path: Path) -> None:
    visits.write_text(visits.read_text() + ",3,F,Nurse\n")
    result = dpcli("release", write_plan(privacy=UNIT), visits, "-o", "out.parquet")
    rows = sum(n % 7 + 1 for n in range(60))
    assert (result.exit_code, result.stderr) == (
        3,
        f"Error: Column 'person_id': 1 row has no value (at row {rows + 1}). Correct the table, or set 'missing: drop'"
        " under 'unit' in the plan.\nNothing was spent.\n",
    )
    assert not Ledger(tmp_path / "ledger.sqlite").debits()
    plan = write_plan(privacy="  unit: {column: person_id, max_rows: 2, missing: drop}")
    assert dpcli("release", plan, visits, "-o", "out.parquet").exit_code == 0


def test_a_column_that_is_not_there(dpcli: Cli, write_plan: WritePlan, visits: Path) -> None:
    plan = write_plan(privacy="  unit: {column: personid, max_rows: 2}")
    pd.read_csv(visits).to_parquet("visits.parquet")
    result = dpcli("release", plan, "visits.parquet", "-o", "out.parquet")
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: Table visits.parquet has no column 'personid'. Did you mean 'person_id'? It has: person_id, age, sex,"
        " job.\nNothing was spent.\n",
    )
    result = dpcli("release", plan, visits, "-o", "out.parquet")
    assert result.exit_code == 3
    assert "person_id" not in result.stderr
