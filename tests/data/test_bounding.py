"""Bounding: nobody moves the counts by more than max_rows, whatever the order, the batches and the files."""

from __future__ import annotations

import csv
import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.util import hash_array
from scipy.stats import chisquare

from dpcli.data import bounding
from dpcli.data.attributes import Integers
from dpcli.data.bounding import Bounding, Unit
from dpcli.data.counting import SparseCube, count
from dpcli.data.domain import Domain
from dpcli.data.ids import Ids
from dpcli.data.tables import open_table
from dpcli.errors import DataError, OutputError

Row = tuple[Any, int]  # whose it is, and its cell
DOMAIN = Domain(("cell",), (Integers(range=(0, 9)),))
NUMBERS = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)])
TEXTS = st.sampled_from(["a", "b", "Zoë", "person 12", "x" * 40])


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def unit(max_rows: int = 1, number: int = 0, **options: Any) -> Unit:
    return Unit("who", max_rows, key(number), **options)


def write(path: Path, rows: Sequence[Row]) -> Path:
    owners, cells = [owner for owner, _ in rows], [cell for _, cell in rows]
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("who", "cell"), *rows])
    else:
        pq.write_table(pa.table({"who": owners, "cell": pa.array(cells, pa.int64())}), path)
    return path


def count_in(path: Path, who: Unit, batch_rows: int = 1 << 17, domain: Domain = DOMAIN) -> SparseCube:
    table = replace(open_table(path, [*domain.names, who.column]), batch_rows=batch_rows)
    return count(domain, table, unit=who)


@contextmanager
def waiting(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "WAITING_BYTES", size)
        yield


def counted(rows: Sequence[Row], who: Unit, size: int = 1 << 28) -> Counter[int]:
    """Count rows through a Parquet file."""
    with tempfile.TemporaryDirectory() as folder, waiting(size):
        cube = count_in(write(Path(folder) / "t.parquet", rows), who)
    return Counter(dict(zip(cube.cells.tolist(), cube.counts.tolist(), strict=True)))


def by_hand(rows: Iterable[Row], who: Unit) -> Counter[int]:
    """Apply the rule as it is written, one person and one row at a time."""
    cipher = Cipher(algorithms.AES256(who.key), modes.ECB()).encryptor()
    cells_of: dict[Any, list[int]] = defaultdict(list)
    for owner, cell in rows:
        cells_of[owner].append(cell)
    kept: Counter[int] = Counter()
    for owner, cells in cells_of.items():
        number = owner % 2**64 if isinstance(owner, int) else int(hash_array(np.array([owner], object))[0])
        blocks = {cell: number.to_bytes(8, "little") + cell.to_bytes(8, "little") for cell in cells}
        ranked = sorted((int.from_bytes(cipher.update(blocks[cell])[:8], "little"), cell) for cell in cells)
        kept.update(cell for _, cell in ranked[: who.max_rows])
    return kept


def distance(one: Counter[int], other: Counter[int]) -> int:
    return sum(abs(one[cell] - other[cell]) for cell in one | other)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Tables of few people and few cells; ids are numbers or texts."""
    owners = draw(st.sampled_from([NUMBERS, TEXTS]))
    return draw(st.lists(st.tuples(owners, st.integers(0, 9)), min_size=1, max_size=30))


sizes = st.sampled_from([1, 200, 1 << 28])


# --- the guarantee ----------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(rows=tables(), max_rows=st.integers(1, 3), number=st.integers(0, 10**6), size=sizes)
def test_the_rule_is_kept_and_one_person_changes_max_rows_at_most(
    rows: list[Row], max_rows: int, number: int, size: int
) -> None:
    who = unit(max_rows, number)
    whole = counted(rows, who, size)
    assert whole == by_hand(rows, who)
    owned = Counter(owner for owner, _ in rows)
    assert sum(whole.values()) == sum(min(max_rows, own) for own in owned.values())
    for person, own in owned.items():
        others = [row for row in rows if row[0] != person]
        if others:
            without = counted(others, who, size)
            assert distance(whole, without) == min(max_rows, own)
            assert not without - whole  # nobody else's rows come in
    changed = [(owner, 9 - cell) if owner == rows[0][0] else (owner, cell) for owner, cell in rows]
    assert distance(whole, counted(changed, who, size)) <= 2 * max_rows


@settings(max_examples=60, deadline=None)
@given(
    rows=tables(),
    data=st.data(),
    max_rows=st.integers(1, 3),
    ending=st.sampled_from(["csv", "parquet"]),
    batch_rows=st.sampled_from([4, 7, 1 << 17]),
    size=sizes,
)
def test_order_files_batches_and_disk_change_nothing(
    rows: list[Row], data: st.DataObject, max_rows: int, ending: str, batch_rows: int, size: int
) -> None:
    expected = by_hand(rows, unit(max_rows))
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    with tempfile.TemporaryDirectory() as folder, waiting(size):
        for name, part in (("a", shuffled[:cut]), ("b", shuffled[cut:])):
            if part:
                write(Path(folder) / f"{name}.{ending}", part)
        cube = count_in(Path(folder), unit(max_rows), batch_rows)
    assert dict(zip(cube.cells.tolist(), cube.counts.tolist(), strict=True)) == expected


def test_a_hash_that_two_people_share_does_not_make_them_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounding, "_hashes", lambda ids: np.full(len(ids), 42, np.uint64))
    for people in (range(50), [f"p{number}" for number in range(50)]):
        kept = counted([(person, cell) for person in people for cell in (1, 5, 7)], unit())
        assert list(kept.values()) == [50]  # they choose alike, but each has a row of their own


@pytest.mark.parametrize("shared", [0, 2**64 - 1])
def test_equal_priorities_are_settled_by_the_cell(monkeypatch: pytest.MonkeyPatch, shared: int) -> None:
    monkeypatch.setattr(
        bounding, "_priorities", lambda key, hashes, cells: np.full(len(cells), shared, np.uint64)
    )
    rows = [(person, cell) for person in range(9) for cell in (7, 3, 3, 8, 1)]
    assert counted(rows, unit(2)) == {1: 9, 3: 9}
    assert counted(rows, unit(3)) == {1: 9, 3: 18}


def test_priorities_that_differ_in_their_last_bit_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sort looks at the first bits only; what it cannot tell is looked at whole."""
    monkeypatch.setattr(
        bounding, "_priorities", lambda key, hashes, cells: np.uint64(2**40) - cells.astype(np.uint64)
    )
    rows = [(person, cell) for person in range(5000) for cell in (2, 9, 4)]
    assert counted(rows, unit(1)) == {9: 5000}
    assert counted(rows, unit(2)) == {9: 5000, 4: 5000}


def test_choices_are_even_over_keys() -> None:
    pairs: Counter[tuple[int, ...]] = Counter()
    for number in range(3000):
        with closing(Bounding(unit(2, number))) as people:
            people.add(Ids(np.full(6, 12)), np.array([0, 1, 1, 1, 2, 3]))
            (cells,) = people.result()
        pairs[tuple(sorted(cells.tolist()))] += 1
    # Of the cells in a random order: (1, 1) if 1 is first, else the first and the second.
    expected = {(1, 1): 3, **dict.fromkeys([(0, 1), (1, 2), (1, 3)], 1)}
    expected |= dict.fromkeys([(0, 2), (0, 3), (2, 3)], 2)
    assert pairs.keys() == expected.keys()
    shares = np.array(list(expected.values())) / 12
    assert chisquare([pairs[pair] for pair in expected], 3000 * shares).pvalue > 1e-3


def test_choices_are_even_over_people() -> None:
    for people in (range(20_000), [f"person {number}" for number in range(20_000)]):
        cells = counted([(person, cell) for person in people for cell in range(10)], unit(3))
        assert sum(cells.values()) == 60_000
        assert chisquare([cells[cell] for cell in range(10)]).pvalue > 1e-3


# --- how ids may be stored --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        (pa.array([7, 8, 7]), pa.array(["7", "x", " 8 "])),
        (pa.array(["7", "8", "007"]).dictionary_encode(), pa.array([7.0, None, 8.0])),
        (pa.array([7, 8, 7], pa.uint8()), pa.array(["7.0", "x", "+8"], pa.large_string())),
    ],
)
def test_files_that_store_ids_in_different_ways(tmp_path: Path, columns: tuple[pa.Array, pa.Array]) -> None:
    for name, column in zip("ab", columns, strict=True):
        table = pa.table({"who": column, "cell": [0, 1, 2] if name == "a" else [3, 4, 5]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    rows = [(7, 0), (8, 1), (7, 2), (7, 3), (8, 5)]
    rows += [("x", 4)] if "x" in columns[1].to_pylist() else []
    for max_rows in (1, 2):
        who = unit(max_rows, missing="drop")
        cube = count_in(tmp_path, who)
        kept = dict(zip(cube.cells.tolist(), cube.counts.tolist(), strict=True))
        assert kept == by_hand(rows, who)


def test_the_column_may_be_an_attribute(tmp_path: Path) -> None:
    domain = Domain(("who", "cell"), (Integers(range=(1, 3)), Integers(range=(0, 9))))
    path = write(tmp_path / "t.csv", [(1, 4), (1, 5), (3, 4), (1, 4)])
    cube = count_in(path, unit(1), domain=domain)
    assert [int(cube.dense(start, start + 10).sum()) for start in (0, 10, 20)] == [1, 0, 1]


def test_dropped_rows_take_nobodys_place(tmp_path: Path) -> None:
    domain = Domain(("cell",), (Integers(range=(0, 9), outside="drop"),))
    for owner in (5, "five"):
        rows = [(owner, 99)] * 20 + [(owner, 4)] + [(owner, -1)] * 20
        cube = count_in(write(tmp_path / "t.parquet", rows), unit(1), domain=domain)
        assert (cube.cells.tolist(), cube.counts.tolist()) == ([4], [1])


def test_a_table_without_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", [])
    table = open_table(path, ["cell", "who"])
    assert count(DOMAIN, table, unit=unit(), allow_empty=True).total == 0
    with pytest.raises(DataError, match="has no rows"):
        count(DOMAIN, table, unit=unit())


# --- what is refused --------------------------------------------------------------------------------------


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_missing_ids_are_counted_to_the_end(tmp_path: Path) -> None:
    rows = [("a", 1), ("", 2), ("b", 99), (" ", 3), ("c", 4)]
    path = write(tmp_path / "t.csv", rows)
    assert refusal(lambda: count_in(path, unit())) == (
        "Column 'cell': 1 row holds a value outside its domain (at row 3). Correct the table, or set 'outside: drop',"
        " 'clamp' or 'other' for 'cell' in the plan.\n"
        "Column 'who': 2 rows have no value (first at row 2). Correct the table, or set 'missing: drop' under 'unit'"
        " in the plan."
    )
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts" / "a.csv", [("a", 1)])
    write(tmp_path / "parts" / "b.csv", [("a", 1)] * 40 + [("", 2)])
    assert refusal(lambda: count_in(tmp_path / "parts", unit(), batch_rows=4)) == (
        "Column 'who': 1 row has no value (at row 41 of b.csv). Correct the table, or set 'missing: drop' under"
        " 'unit' in the plan."
    )


@pytest.mark.parametrize("owners", [["a", None, "b"], [1, None, 2], ["1", None, "b"]])
def test_rows_of_nobody_can_be_dropped(tmp_path: Path, owners: list[Any]) -> None:
    path = write(tmp_path / "t.parquet", list(zip(owners, [1, 2, 3], strict=True)))
    assert count_in(path, unit(missing="drop")).cells.tolist() == [1, 3]


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"whom": [1], "cell": [2]}), path)
    assert refusal(lambda: count_in(path, unit())) == (
        f"Table {path} has no column 'who'. Did you mean 'whom'? It has: whom, cell."
    )
    path = tmp_path / "t.csv"
    path.write_text("secret,cell\n1,2\n")
    assert refusal(lambda: count_in(path, unit())) == (
        f"Table {path} has no column 'who'. Its first line must hold the names of the columns that the plan uses."
    )


def test_a_type_that_tells_nobody_apart(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": [[1]], "cell": [2]}), tmp_path / "t.parquet")
    words = refusal(lambda: count_in(tmp_path / "t.parquet", unit()))
    assert words.startswith("Column 'who' has the type list")


def test_the_key_is_not_shown() -> None:
    assert "key" not in repr(unit())


# --- memory and disk --------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_many_people_go_to_a_file_that_has_no_name(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [(f"p{number}", number % 10) for number in range(3000)] + [(n, n % 10) for n in range(3000)]
    random = np.random.default_rng(1)
    rows = [rows[place] for place in random.permutation(np.tile(np.arange(6000), 3))]
    spills: list[Any] = []
    write_to_disk = bounding._Spill.write

    def seen(self: Any, part: int, found: list[pa.RecordBatch]) -> None:
        write_to_disk(self, part, found)
        spills.append(self)
        assert not list(temporary.iterdir())

    monkeypatch.setattr(bounding._Spill, "write", seen)
    with closing(Bounding(unit(2))) as people, waiting(1 << 14):
        for start in range(0, len(rows), 500):
            batch = rows[start : start + 500]
            texts = pa.array([who if isinstance(who, str) else None for who, _ in batch], pa.large_string())
            numbers = np.array([who if isinstance(who, int) else 0 for who, _ in batch])
            people.add(Ids(numbers, texts), np.array([cell for _, cell in batch]))
        kept = Counter(np.concatenate(list(people.result())).tolist())
    assert kept == by_hand(rows, unit(2))
    assert len(set(spills)) == 2  # one of numbers, one of texts
    assert all(spill._file.closed for spill in spills)


def test_few_people_never_reach_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tempfile, "TemporaryFile")
    random = np.random.default_rng(1)
    with closing(Bounding(unit(3))) as people, waiting(20_000):
        for _ in range(100):
            people.add(Ids(random.integers(0, 50, 500)), random.integers(0, 10, 500))
            held = sum(rows.nbytes for part in people._numbers._waiting for rows in part)
            assert held <= 20_000 + 500 * 16
        assert sum(map(len, people.result())) == 150


def test_errors_close_the_file(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Any] = []
    opened = tempfile.TemporaryFile
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **options: files.append(opened(**options)) or files[-1]
    )
    path = write(tmp_path / "t.parquet", [(number, 1) for number in range(100)] + [(0, 99)])
    with waiting(1), pytest.raises(DataError, match="outside its domain"):
        count_in(path, unit(), batch_rows=10)
    assert [file.closed for file in files] == [True]
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("where", ["TemporaryFile", "write"])
def test_a_full_disk(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    class File:
        write = full

        def tell(self) -> int:
            return 0

        def close(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        tempfile, "TemporaryFile", full if where == "TemporaryFile" else lambda **options: File()
    )
    path = write(tmp_path / "t.parquet", [(number, 1) for number in range(100)])
    with waiting(1), pytest.raises(OutputError) as caught:
        count_in(path, unit())
    assert str(caught.value) == (
        "Rows cannot be kept in the folder for temporary files: no space left on device. Free some space there, or"
        " name another folder in the environment variable TMPDIR."
    )
