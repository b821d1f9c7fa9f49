"""Counting several views in one pass: against pandas, and what one person can change at most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.data.attributes import Integers, Nominal
from dpcli.data.bounding import Unit
from dpcli.data.counting import SparseCube, count_views
from dpcli.data.domain import Domain
from dpcli.data.tables import open_table
from dpcli.data.view import View

AGE = Integers(range=(0, 4), outside="drop")
SEX = Nominal(values=("F", "M", "X"), missing="drop")
AGES, BOTH = Domain(("age",), (AGE,)), Domain(("age", "sex"), (AGE, SEX))


def where(*sexes: str) -> tuple[dict[str, np.ndarray], ...]:
    return ({"sex": np.isin(np.array(["F", "M", "X"]), sexes)},)


VIEWS = (View(AGES, where("F"), {"sex": SEX}), View(BOTH, where("M", "X"), {"sex": SEX}))
Row = tuple[int, int, str | None]
rows_of_people = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-1, 5), st.sampled_from(["F", "M", "X", None])), max_size=25
)


def counted(
    folder: Path, rows: Sequence[Row], views: Sequence[View], max_rows: int | None
) -> list[SparseCube]:
    frame = pd.DataFrame(list(rows), columns=pd.Index(["id", "age", "sex"]))
    path = folder / "t.parquet"
    frame.astype({"id": "int64", "age": "int64", "sex": "str"}).assign(
        sex=[row[2] for row in rows] or pd.Series([], dtype="str")
    ).to_parquet(path)
    unit = None if max_rows is None else Unit("id", max_rows, bytes(32))
    return count_views(views, open_table(path, ["age", "sex", "id"]), unit=unit, allow_empty=True)


def dense(cube: SparseCube) -> np.ndarray:
    return cube.dense(0, cube.domain.size)


@given(rows_of_people)
@settings(max_examples=60, deadline=None)
def test_each_view_counts_its_rows(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    women, others = counted(tmp_path_factory.mktemp("v"), rows, VIEWS, None)
    expected = np.zeros(5, np.int64), np.zeros((5, 3), np.int64)
    for _, age, sex in rows:
        if 0 <= age <= 4 and sex == "F":
            expected[0][age] += 1
        elif 0 <= age <= 4 and sex is not None:
            expected[1][age, "FMX".index(sex)] += 1
    assert dense(women).tolist() == expected[0].tolist()
    assert dense(others).tolist() == expected[1].reshape(-1).tolist()


@given(rows_of_people, st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_removing_a_person_changes_all_views_by_at_most_max_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], most: int, random: np.random.Generator
) -> None:
    folder = tmp_path_factory.mktemp("v")
    whole = counted(folder, rows, VIEWS, most)
    shuffled = list(rows)
    random.shuffle(shuffled)
    for person in {row[0] for row in rows}:
        less = counted(folder, [row for row in shuffled if row[0] != person], VIEWS, most)
        change = sum(
            int(np.abs(dense(one) - dense(other)).sum()) for one, other in zip(whole, less, strict=True)
        )
        assert change <= most


def test_a_row_counts_once_even_where_filters_overlap(tmp_path: Path) -> None:
    views = (View(AGES), View(AGES, where("F"), {"sex": SEX}))
    found = counted(tmp_path, [(1, 2, "F"), (1, 3, "M")], views, None)
    assert sum(cube.total for cube in found) == 2
