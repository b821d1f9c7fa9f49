"""The invented census in sample_data: reproducible, within its documented domains, and correlated."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

FOLDER = Path(__file__).resolve().parent.parent / "sample_data"
COLUMNS = [
    "person_id",
    "age",
    "sex",
    "education",
    "occupation",
    "region",
    "hours",
    "income",
    "married",
    "moved_in",
]
NOT_IN_WORK = ["Child", "Student", "Homemaker", "Unemployed", "Retired"]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_census", FOLDER / "make_census.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_dates(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(moved_in=pd.to_datetime(frame["moved_in"]).astype("datetime64[s]"))


def read_csv(folder: Path) -> pd.DataFrame:
    return with_dates(pd.read_csv(folder / "census.csv", keep_default_na=False))


def read_parquet(folder: Path) -> pd.DataFrame:
    return with_dates(pq.read_table(folder / "census.parquet").to_pandas())


def occupation_groups(folder: Path = FOLDER) -> dict[str, list[str]]:
    groups = YAML(typ="safe", pure=True).load((folder / "occupation.yaml").read_text(encoding="utf-8"))
    assert isinstance(groups, dict)
    return groups


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load_generator()


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return read_csv(FOLDER)


@pytest.fixture(scope="module")
def workers(people: pd.DataFrame) -> pd.DataFrame:
    return people[~people["occupation"].isin(NOT_IN_WORK)]


def test_regenerating_gives_the_same_files(
    generator: ModuleType, people: pd.DataFrame, tmp_path: Path
) -> None:
    generator.write(tmp_path)
    pd.testing.assert_frame_equal(read_csv(tmp_path), people)
    pd.testing.assert_frame_equal(read_parquet(tmp_path), people)
    for name in ("occupation.yaml", "region.csv"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (FOLDER / name).read_text(encoding="utf-8")


def test_build_depends_only_on_the_seed(generator: ModuleType, people: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(generator.build(), people)
    assert not generator.build(seed=1).equals(people)


def test_csv_and_parquet_agree(people: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(read_parquet(FOLDER), people)


def test_parquet_layout() -> None:
    file = pq.ParquetFile(FOLDER / "census.parquet")
    types = {field.name: str(field.type) for field in file.schema_arrow}
    assert types == {
        **dict.fromkeys(("person_id", "age", "hours", "income"), "int64"),
        **dict.fromkeys(("sex", "education", "occupation", "region"), "string"),
        "married": "bool",
        "moved_in": "date32[day]",
    }
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [10_000] * 5


def test_csv_is_plain_text() -> None:
    raw = (FOLDER / "census.csv").read_bytes()
    assert len(raw) < 4_500_000
    assert b"\r" not in raw
    assert b'"' not in raw
    assert raw.split(b"\n", 1)[0].decode().split(",") == COLUMNS


def test_domains(generator: ModuleType, people: pd.DataFrame) -> None:
    assert list(people.columns) == COLUMNS
    assert len(people) == 50_000
    assert not people.isna().any(axis=None)
    assert not people.eq("").any(axis=None)
    assert sorted(people["person_id"]) == list(range(100_001, 150_001))
    assert people["age"].between(0, 100).all()
    assert people["hours"].between(0, 80).all()
    assert people["income"].between(0, 199_999).all()
    assert set(people["sex"]) == {"F", "M"}
    assert set(people["education"]) == set(generator.EDUCATION)
    assert people["married"].dtype == bool
    assert people["moved_in"].between(pd.Timestamp("1970-01-01"), pd.Timestamp("2026-06-30")).all()


def test_person_id_tells_nothing(people: pd.DataFrame) -> None:
    numbers = people.select_dtypes("number").assign(row=np.arange(len(people)))
    assert numbers.corr()["person_id"].drop("person_id").abs().max() < 0.02


def test_occupations_are_the_leaves_of_their_hierarchy(people: pd.DataFrame) -> None:
    groups = occupation_groups()
    leaves = [leaf for members in groups.values() for leaf in members]
    assert "Health" in groups
    assert (len(groups), len(leaves)) == (9, 48)
    assert len({*groups, *leaves}) == len(groups) + len(leaves)
    assert set(people["occupation"]) == set(leaves)


def test_regions_are_the_leaves_of_their_hierarchy(people: pd.DataFrame) -> None:
    levels = pd.read_csv(FOLDER / "region.csv")
    assert list(levels.columns) == ["region", "province", "district"]
    assert list(levels.nunique()) == [4, 12, 40]
    assert len(levels) == 40
    assert len(set(levels.to_numpy().ravel())) == 4 + 12 + 40
    assert (levels.groupby("province")["region"].nunique() == 1).all()
    assert set(people["region"]) == set(levels["district"])


def test_lives_are_possible(people: pd.DataFrame) -> None:
    born = pd.Timestamp("2026-06-30") - pd.to_timedelta((people["age"] + 1) * 366, unit="D")
    assert (people["moved_in"] > born).all()
    children = people[people["age"] < 16]
    assert set(children["occupation"]) == {"Child", "Student"}
    assert not children[["hours", "income", "married"]].any(axis=None)
    assert set(people.loc[people["age"] < 12, "education"]) == {"none"}
    idle = people["occupation"].isin(["Child", "Homemaker", "Unemployed", "Retired"])
    assert not people.loc[idle, "hours"].any()
    assert (people.loc[~people["occupation"].isin(NOT_IN_WORK), "hours"] > 0).all()


def test_income_follows_education_hours_and_occupation(workers: pd.DataFrame) -> None:
    by_education = workers.groupby("education")["income"].median()
    ladder = ["primary", "secondary", "vocational", "bachelor", "master", "doctorate"]
    assert by_education[ladder].is_monotonic_increasing
    assert by_education["master"] > 1.5 * by_education["primary"]
    by_occupation = workers.groupby("occupation")["income"].median()
    assert by_occupation["Physician"] > 2 * by_occupation["Cleaner"]
    assert workers["income"].corr(workers["hours"]) > 0.3
    young, settled = workers["age"].between(20, 26), workers["age"].between(40, 55)
    assert workers[settled]["income"].median() > 1.2 * workers[young]["income"].median()
    assert (workers["income"] == 199_999).mean() < 0.005


def test_education_marriage_and_moves_follow_age(people: pd.DataFrame) -> None:
    degree = people["education"].isin(["bachelor", "master", "doctorate"])
    assert degree[people["age"].between(30, 45)].mean() > 1.4 * degree[people["age"] >= 70].mean()
    married = people["married"]
    assert married[people["age"].between(40, 60)].mean() > 3 * married[people["age"].between(20, 28)].mean()
    moved = people["moved_in"].dt.year
    assert moved[people["age"].between(22, 30)].median() > moved[people["age"] >= 65].median() + 5


def test_jobs_and_hours_differ_mildly_by_sex(workers: pd.DataFrame) -> None:
    women = workers["sex"].eq("F").groupby(workers["occupation"]).mean()
    assert women["Nurse"] > 0.6 > 0.4 > women["Electrician"]
    assert women.between(0.02, 0.98).all()
    hours = workers.groupby("sex")["hours"].mean()
    assert 0 < hours["M"] - hours["F"] < 8


def test_hours_peak_and_districts_are_skewed(people: pd.DataFrame) -> None:
    counts = people["hours"].value_counts()
    assert set(counts.index[:3]) == {0, 38, 40}
    assert counts[20] > 2 * max(counts[19], counts[21])
    sizes = people["region"].value_counts()
    assert sizes.iloc[0] > 10 * sizes.iloc[-1]
    assert sizes.iloc[-1] >= 100
