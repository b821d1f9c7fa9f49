"""Counting agrees with counting by hand, in every form of a table and with batches of every size."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.data import counting
from dpcli.data.attributes import Attribute, Binned, Boolean, Dates, Integers, Nominal
from dpcli.data.counting import SparseCube, count
from dpcli.data.domain import Domain
from dpcli.data.tables import Table, open_table
from dpcli.errors import DataError

DOMAIN = Domain(("age", "sex"), (Integers(range=(0, 9)), Nominal(values=("F", "M"))))


def cube_of(domain: Domain, path: Path, **options: Any) -> SparseCube:
    return count(domain, open_table(path, domain.names), **options)


def same(one: SparseCube, other: SparseCube) -> bool:
    return np.array_equal(one.cells, other.cells) and np.array_equal(one.counts, other.counts)


@pytest.fixture
def people(tmp_path: Path) -> Callable[..., Path]:
    def write(*rows: str, header: str = "age,sex", name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{row}\n" for row in (header, *rows)))
        return path

    return write


def test_cells_are_numbered_in_c_order(people: Callable[..., Path]) -> None:
    cube = cube_of(DOMAIN, people("3,F", "0,M", "3,F", "9,M"))
    assert cube.domain is DOMAIN
    assert cube.cells.tolist() == [1, 6, 19]
    assert cube.counts.tolist() == [1, 2, 1]
    assert cube.cells.dtype == cube.counts.dtype == np.int64
    assert cube.total == 4


def test_dense_blocks_put_together_are_the_whole_cube(people: Callable[..., Path]) -> None:
    cube = cube_of(DOMAIN, people("3,F", "0,M", "3,F", "9,M"))
    whole = cube.dense(0, 20)
    assert whole.tolist() == [0, 1, 0, 0, 0, 0, 2, *[0] * 12, 1]
    assert whole.dtype == np.int64
    for width in (1, 3, 7, 20):
        blocks = [cube.dense(start, min(start + width, 20)) for start in range(0, 20, width)]
        assert np.array_equal(np.concatenate(blocks), whole)
    assert cube.dense(5, 5).tolist() == []


def test_a_column_may_have_another_name_than_its_attribute(people: Callable[..., Path]) -> None:
    path = people("3,F", "9,M", header="years,sex")
    cube = count(DOMAIN, open_table(path, ["years", "sex"]), columns={"age": "years"})
    assert cube.cells.tolist() == [6, 19]
    with pytest.raises(DataError, match=r"^Column 'years': 1 row .* for 'age' in the plan\.$"):
        count(
            DOMAIN, open_table(people("10,F", header="years,sex"), ["years", "sex"]), columns={"age": "years"}
        )


def test_rules_drop_rows_and_add_categories(people: Callable[..., Path]) -> None:
    path = people("3,F", "12,F", ",F", "4,X", "5,", "12,X")
    drop = Domain(
        ("age", "sex"),
        (
            Integers(range=(0, 9), outside="drop", missing="drop"),
            Nominal(values=("F", "M"), outside="other", missing="own-category"),
        ),
    )
    cube = cube_of(drop, path)
    assert drop.shape == (10, 4)
    assert dict(zip(cube.cells.tolist(), cube.counts.tolist(), strict=True)) == {12: 1, 18: 1, 23: 1}
    clamp = Domain(("age",), (Integers(range=(0, 9), outside="clamp", missing="own-category"),))
    assert cube_of(clamp, path).dense(0, 11).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 1]


def test_progress_is_told(people: Callable[..., Path]) -> None:
    seen: list[float] = []
    cube_of(DOMAIN, people("3,F"), progress=seen.append)
    assert seen[-1] == 1


# --- what is refused --------------------------------------------------------------------------------------


def refusal(domain: Domain, path: Path) -> str:
    with pytest.raises(DataError) as caught:
        cube_of(domain, path)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_values_outside_and_missing_are_counted_to_the_end(people: Callable[..., Path]) -> None:
    rows = ["1,F"] * 16 + ["4711,F", ",", "x,secret", "-1,F", "1,F", ",F"]
    assert refusal(DOMAIN, people(*rows)) == (
        "Column 'age': 3 rows hold a value outside its domain (first at row 17). Correct the table, or set"
        " 'outside: drop', 'clamp' or 'other' for 'age' in the plan.\n"
        "Column 'age': 2 rows have no value (first at row 18). Correct the table, or set"
        " 'missing: drop' or 'own-category' for 'age' in the plan.\n"
        "Column 'sex': 1 row holds a value outside its domain (at row 19). Correct the table, or set"
        " 'outside: drop' or 'other' for 'sex' in the plan.\n"
        "Column 'sex': 1 row has no value (at row 18). Correct the table, or set"
        " 'missing: drop' or 'own-category' for 'sex' in the plan."
    )


def test_what_cannot_be_clamped(people: Callable[..., Path]) -> None:
    domain = Domain(("age",), (Integers(range=(0, 9), outside="clamp"),))
    assert refusal(domain, people("99,F", "secret,F", "3.5,F")) == (
        "Column 'age': 2 rows hold a value that 'outside: clamp' cannot place (first at row 2). Correct the"
        " table, or set 'outside: drop' or 'other' for 'age' in the plan."
    )


def test_rows_are_numbered_across_batches_and_within_files(
    people: Callable[..., Path], tmp_path: Path
) -> None:
    people(*["1,F"] * 90, name="parts/a.csv")
    people(*["1,F"] * 50, "10,F", "1,F", "11,F", name="parts/b.csv")
    table = replace(open_table(tmp_path / "parts", DOMAIN.names), batch_rows=4)
    with pytest.raises(DataError) as caught:
        count(DOMAIN, table)
    assert str(caught.value) == (
        "Column 'age': 2 rows hold a value outside its domain (first at row 51 of b.csv). Correct the table, or"
        " set 'outside: drop', 'clamp' or 'other' for 'age' in the plan."
    )


def test_a_table_without_rows(people: Callable[..., Path], tmp_path: Path) -> None:
    path = people()
    assert refusal(DOMAIN, path) == f"Table {path} has no rows. If that is right, pass --allow-empty."
    pq.write_table(
        pa.table({"age": pa.array([], pa.int8()), "sex": pa.array([], pa.string())}), tmp_path / "t.pq"
    )
    for empty in (path, tmp_path / "t.pq"):
        cube = cube_of(DOMAIN, empty, allow_empty=True)
        assert cube.total == 0
        assert cube.cells.tolist() == cube.counts.tolist() == []
        assert cube.dense(3, 6).tolist() == [0, 0, 0]


def test_a_table_of_which_all_rows_are_dropped_is_not_empty(people: Callable[..., Path]) -> None:
    domain = Domain(("age",), (Integers(range=(0, 9), outside="drop"),))
    assert cube_of(domain, people("10,F")).total == 0


def test_a_domain_must_fit_64_bits(people: Callable[..., Path]) -> None:
    huge = Integers(range=(0, 2**53 - 2))
    path = people("5,7", header="a,b")
    assert cube_of(Domain(("a", "b"), (huge, Integers(range=(0, 1000)))), path).cells.tolist() == [
        5 * 1001 + 7
    ]
    with pytest.raises(AssertionError, match="64 bits"):
        cube_of(Domain(("a", "b"), (huge, huge)), path)


# --- against counting by hand -----------------------------------------------------------------------------

RULES = [
    {"outside": outside, "missing": missing}
    for outside, missing in product(("drop", "other"), ("drop", "own-category"))
]
DAYS = [dt.date(2025, 11, 1) + dt.timedelta(days=17 * step) for step in range(40)]
LABELS = ("a", "B b", "ç", "1")


def kinds(rules: dict[str, Any]) -> st.SearchStrategy[tuple[Attribute, st.SearchStrategy[Any]]]:
    """Attributes with strategies for the values of their column, inside the domain and outside."""
    return st.sampled_from(
        [
            (Integers(range=(-2, 5), **rules), st.integers(-4, 7)),
            (Binned(range=("-6", "6"), bin="3", **rules), st.integers(-8, 8)),
            (Binned(edges=("0", "0.5", "2.25"), **rules), st.integers(-2, 12).map(lambda n: n / 4)),
            (Dates(range=("2026-01-01", "2026-12-31"), period="quarter", **rules), st.sampled_from(DAYS)),
            (Nominal(values=LABELS, **rules), st.sampled_from([*LABELS, "b", "A"])),
            (Nominal(hierarchy={"x": ["a", "ç"], "1": None}, **rules), st.sampled_from(LABELS)),
            (Boolean(**rules), st.booleans()),
        ]
    )


def by_hand(attribute: Attribute, value: Any) -> int | None:
    """Return the category of one value by plain comparison, or None if its row is dropped."""
    if value is None:
        return attribute.missing_code
    place: int | None = None
    if isinstance(attribute, Integers):
        place = value - attribute.range[0] if attribute.range[0] <= value <= attribute.range[1] else None
    elif isinstance(attribute, Binned):
        number, cuts = Decimal(value), attribute.cuts
        for bin_number in range(attribute.regular):
            if cuts[bin_number] <= number < cuts[bin_number + 1]:
                place = bin_number
        if number == cuts[-1]:
            place = attribute.regular - 1
    elif isinstance(attribute, Dates):
        place = (value.month - 1) // 3 if value.year == 2026 else None
    elif isinstance(attribute, Boolean):
        place = int(value)
    elif value in attribute.regular_labels:
        place = attribute.regular_labels.index(value)
    return attribute.other_code if place is None else place


@st.composite
def tables(draw: st.DrawFn) -> tuple[Domain, list[tuple[Any, ...]]]:
    rules = st.sampled_from(RULES)
    parts = draw(st.lists(rules.flatmap(kinds), min_size=1, max_size=3))
    names = tuple(f"column {number}" for number in range(len(parts)))
    row = st.tuples(*(st.one_of(st.none(), values) for _, values in parts))
    rows = draw(st.lists(row, min_size=1, max_size=40))
    return Domain(names, tuple(attribute for attribute, _ in parts)), rows


def write_table(path: Path, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    if path.name.endswith(".parquet"):
        pq.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}), path)
        return
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([names, *rows])


def write_forms(folder: Path, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Iterator[Path]:
    """Write the rows as CSV, compressed CSV and Parquet, each in one file and in a folder of two."""
    for ending in ("csv", "csv.gz", "parquet"):
        write_table(folder / f"all.{ending}", names, rows)
        write_table(folder / ending / f"a.{ending}", names, rows[::2])
        write_table(folder / ending / f"b.{ending}", names, rows[1::2])
        yield folder / f"all.{ending}"
        yield folder / ending


@settings(max_examples=100, deadline=None)
@given(case=tables(), batch_rows=st.sampled_from([8, 30, 1 << 17]), waiting=st.sampled_from([1, 5, 1 << 21]))
def test_every_form_and_batch_size_agrees_with_counting_by_hand(
    case: tuple[Domain, list[tuple[Any, ...]]], batch_rows: int, waiting: int
) -> None:
    domain, rows = case
    expected: Counter[int] = Counter()
    for row in rows:
        codes = [by_hand(attribute, value) for attribute, value in zip(domain.attributes, row, strict=True)]
        if None not in codes:
            expected[int(np.ravel_multi_index(codes, domain.shape))] += 1
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WAITING_ROWS", waiting)
        for path in write_forms(Path(folder), domain.names, rows):
            table: Table = replace(open_table(path, domain.names), batch_rows=batch_rows)
            cube = count(domain, table)
            assert cube.cells.tolist() == sorted(expected)
            assert cube.counts.tolist() == [expected[cell] for cell in sorted(expected)]


def test_memory_is_bounded_by_the_cells_and_not_by_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "WAITING_ROWS", 100)
    tally = counting._Tally()
    random = np.random.default_rng(3)
    for _ in range(300):
        tally.add(random.integers(0, 1000, 50))
        held = sum(map(len, tally._waiting)) + sum(len(cells) for cells, _ in tally._slabs)
        assert held <= 1000 + max(100, 1000 // 2) + 50
    cells, counts = tally.result()
    assert len(cells) == 1000
    assert counts.sum() == 300 * 50


@pytest.mark.parametrize("waiting", [1, 1000, 1 << 21])
@pytest.mark.parametrize("size", [3, 1000, 10**15])
def test_many_merges_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waiting: int, size: int
) -> None:
    monkeypatch.setattr(counting, "WAITING_ROWS", waiting)
    random = np.random.default_rng(size)
    values = (random.random(20_000) ** 3 * size).astype(np.int64)
    pq.write_table(pa.table({"n": values}), tmp_path / "t.parquet")
    domain = Domain(("n",), (Integers(range=(0, size - 1)),))
    cube = count(domain, replace(open_table(tmp_path / "t.parquet", ["n"]), batch_rows=700))
    cells, counts = np.unique(values, return_counts=True)
    assert same(cube, SparseCube(domain, cells, counts))


def test_the_sample_census_is_the_same_in_both_forms() -> None:
    folder = Path(__file__).parents[2] / "sample_data"
    domain = Domain(
        ("age", "sex", "income", "married", "moved_in"),
        (
            Integers(range=(0, 100)),
            Nominal(values=("F", "M")),
            Binned(range=("0", "200000"), bin="10000"),
            Boolean(),
            Dates(range=("1970-01-01", "2026-06-30"), period="quarter"),
        ),
    )
    from_csv, from_parquet = (cube_of(domain, folder / f"census.{ending}") for ending in ("csv", "parquet"))
    assert from_csv.total == 50_000
    assert same(from_csv, from_parquet)
