"""Reading CSV and Parquet: the same rows from every form, and a plain sentence for every broken file."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcli.data.tables import Table, open_table
from dpcli.errors import DataError

ENDINGS = (
    "Tables are read from files that end in .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .pq,"
    " or from a folder of such files."
)
ROWS = [("36", "F"), ("45", "M"), (None, "F"), ("7", None), ("36", "M")]


def csv_text(rows: list[tuple[Any, ...]], header: str = "age,sex") -> str:
    return header + "\n" + "".join(",".join(field or "" for field in row) + "\n" for row in rows)


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    last: dict[Path, int] = {}
    for batch in table.batches():
        assert batch.first_row == last.get(batch.file, 0) + 1
        last[batch.file] = batch.first_row + batch.columns.num_rows - 1
        assert batch.columns.schema.names == list(table.columns)
        rows += zip(*(column.to_pylist() for column in batch.columns.columns), strict=True)
    return rows


def refusal(path: Path, *columns: str) -> str:
    """Return the message with which a table is refused, at opening or while it is read."""
    with pytest.raises(DataError) as caught:
        rows_of(open_table(path, columns or ("age",)))
    assert caught.value.exit_code == 3
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def parquet(path: Path, rows: list[tuple[Any, ...]] = ROWS, **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    age, sex = zip(*rows, strict=True)
    pq.write_table(pa.table({"age": age, "unused": age, "sex": sex}), path, **options)
    return path


# --- the same rows from every form ------------------------------------------------------------------------


def test_every_form_gives_the_same_rows(write: Any, tmp_path: Path) -> None:
    text = csv_text(ROWS)
    forms = [
        write("t.csv", text),
        write("u.CSV", text),
        write("t.csv.gz", gzip.compress(text.encode())),
        write("t.tsv", text.replace(",", "\t")),
        write("t.tsv.gz", gzip.compress(text.replace(",", "\t").encode())),
        parquet(tmp_path / "t.parquet"),
        parquet(tmp_path / "t.pq", row_group_size=2),
        parquet(tmp_path / "plain.parquet", use_dictionary=False),
    ]
    for path in forms:
        assert rows_of(open_table(path, ["age", "sex"])) == ROWS
        assert rows_of(open_table(str(path), ["sex"])) == [(sex,) for _, sex in ROWS]
        assert open_table(path, ["sex", "age", "sex"]).columns == ("sex", "age")
        assert open_table(path, ["sex"]).size == path.stat().st_size


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + csv_text(ROWS),
        csv_text(ROWS).replace("\n", "\r\n"),
        csv_text(ROWS).replace("\n", "\r"),
        csv_text(ROWS).rstrip("\n"),
        "\n\n" + csv_text(ROWS) + "\n\n",
        csv_text(ROWS).replace("45,M", "\n45,M"),
        csv_text(ROWS, "age , sex"),
        csv_text(ROWS, '\ufeff"age","sex"'),
        csv_text(ROWS).replace("45,M", '"45","M"'),
        csv_text(ROWS).replace("7,", '7,""'),
    ],
)
def test_dialects_of_csv(write: Any, text: str) -> None:
    assert rows_of(open_table(write("t.csv", text), ["age", "sex"])) == ROWS


def test_every_field_is_text(write: Any) -> None:
    path = write("t.csv", 'a,b,c\n1,true,NA\n"2\n3","x, ""y""",2026-01-31\n 4 ,5" pipe,null\n')
    assert rows_of(open_table(path, ["a", "b", "c"])) == [
        ("1", "true", "NA"),
        ("2\n3", 'x, "y"', "2026-01-31"),
        (" 4 ", '5" pipe', "null"),
    ]


def test_a_folder_is_read_in_the_order_of_its_names(write: Any, tmp_path: Path) -> None:
    write("f/b.csv", csv_text(ROWS[2:4]))
    write("f/a.csv.gz", gzip.compress(csv_text(ROWS[:2]).encode()))
    write("f/c.tsv", csv_text(ROWS[4:], "sex,age").replace(",", "\t").replace("36\tM", "M\t36"))
    for ignored in ("_SUCCESS", ".d.csv", "_e.csv", "README.md"):
        write(f"f/{ignored}", "nothing")
    table = open_table(tmp_path / "f", ["age", "sex"])
    assert rows_of(table) == ROWS
    assert [file.name for file in table.files] == ["a.csv.gz", "b.csv", "c.tsv"]
    parquet(tmp_path / "g" / "2.pq", ROWS[3:])
    parquet(tmp_path / "g" / "1.parquet", ROWS[:3])
    assert rows_of(open_table(tmp_path / "g", ["age", "sex"])) == ROWS


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("batch_rows", [2, 3, 7, 1000])
def test_batches_of_any_size_give_the_same_rows(
    write: Any, tmp_path: Path, name: str, batch_rows: int
) -> None:
    rows = ROWS * 50
    if name == "t.parquet":
        path = parquet(tmp_path / name, rows, row_group_size=30)
    else:
        text = csv_text(rows).encode()
        path = write(name, gzip.compress(text) if name.endswith("gz") else text)
    table = replace(open_table(path, ["age", "sex"]), batch_rows=batch_rows)
    assert rows_of(table) == rows
    assert rows_of(table) == rows, "a table can be read twice"


def test_progress_grows_to_one(write: Any, tmp_path: Path) -> None:
    write("f/a.csv", csv_text(ROWS * 200))
    write("f/b.csv.gz", gzip.compress(csv_text(ROWS * 200).encode()))
    for path in (tmp_path / "f", parquet(tmp_path / "t.parquet", ROWS * 200)):
        seen: list[float] = []
        table = replace(open_table(path, ["age"]), batch_rows=8)
        batches = len(list(table.batches(seen.append)))
        assert len(seen) == batches + 1 > 10
        assert seen == sorted(seen)
        assert 0 < seen[0] < 0.3
        assert seen[-1] == 1


def test_tables_without_rows(write: Any, tmp_path: Path) -> None:
    parquet_path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": pa.array([], pa.int64())}), parquet_path)
    for path in (
        write("a.csv", "age,sex\n"),
        write("b.csv", "age"),
        write("c.csv", "\nage\n\n"),
        parquet_path,
    ):
        seen: list[float] = []
        assert sum(batch.columns.num_rows for batch in open_table(path, ["age"]).batches(seen.append)) == 0
        assert seen[-1] == 1


def test_a_wanted_column_may_have_any_name(write: Any, tmp_path: Path) -> None:
    name = "a.b, c"
    pq.write_table(pa.table({name: [1, 2], "a": [3, 4]}), tmp_path / "t.parquet")
    assert rows_of(open_table(tmp_path / "t.parquet", [name])) == [(1,), (2,)]
    assert rows_of(open_table(write("t.csv", f'"{name}",a\n1,3\n2,4\n'), [name])) == [("1",), ("2",)]


# --- what is refused, in full -----------------------------------------------------------------------------


def test_no_such_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "people.csv") == "Table people.csv does not exist. Check the path."
    assert refusal(tmp_path / "no" / "t.csv") == "Table t.csv does not exist. Check the path."


def test_not_allowed(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("t.csv", "age\n1\n")
    path.chmod(0)
    if os.geteuid() == 0:  # whom no permission stops

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
    assert refusal(path) == "Table t.csv cannot be opened: permission denied. Check who may read it."


def test_unknown_endings(write: Any) -> None:
    assert refusal(write("t.xlsx", "x")) == f"Table t.xlsx is of an unknown format. {ENDINGS}"
    assert refusal(write("table", "x")) == f"Table table is of an unknown format. {ENDINGS}"


def test_folders(write: Any, tmp_path: Path) -> None:
    folder = write("f/notes.txt", "x").parent
    assert refusal(folder) == f"Folder f holds no table. {ENDINGS}"
    write("f/a.csv", "age\n1\n")
    parquet(folder / "b.parquet")
    assert refusal(folder) == (
        "Folder f mixes CSV and Parquet files. Keep a table's files in one folder of their own, all of one"
        " format."
    )
    (tmp_path / "g" / "year=2026").mkdir(parents=True)
    assert refusal(tmp_path / "g") == (
        "Folder g has subfolders, and a table's files must be in one folder."
        " Move them into one, or name a subfolder."
    )


def test_nothing_inside(write: Any) -> None:
    assert refusal(write("t.csv", "")) == "Table t.csv is empty: it has 0 bytes. Write it again."
    assert refusal(write("t.parquet", "")) == "Table t.parquet is empty: it has 0 bytes. Write it again."
    for content in ("\n\n", " , \n1,2\n", "\ufeff\n", '"' + "x" * 200_000):
        assert refusal(write("t.csv", content)) == (
            "Table t.csv has no header. Its first line must hold the column names."
        )


def test_missing_columns(write: Any, tmp_path: Path) -> None:
    path = write("people.csv", "age,sex\n1,F\n")
    remedy = "Its first line must hold the names of the columns that the plan uses."
    assert refusal(path, "agee", "sex") == f"Table people.csv has no column 'agee'. {remedy}"
    assert refusal(path, "sex", "a", "b") == f"Table people.csv has no column 'a', 'b'. {remedy}"
    assert refusal(parquet(tmp_path / "t.parquet"), "agee") == (
        "Table t.parquet has no column 'agee'. Did you mean 'age'? It has: age, unused, sex."
    )
    assert refusal(parquet(tmp_path / "t.parquet"), "job") == (
        "Table t.parquet has no column 'job'. It has: age, unused, sex."
    )


def test_a_row_in_the_place_of_the_header_is_not_told(write: Any) -> None:
    assert refusal(write("people.csv", "36,F,Nurse\n45,M,Mason\n"), "age", "sex") == (
        "Table people.csv has no column 'age', 'sex'."
        " Its first line must hold the names of the columns that the plan uses."
    )


def test_semicolons(write: Any) -> None:
    assert refusal(write("people.csv", "age;sex\n1;F\n"), "age", "sex") == (
        "Table people.csv has no column 'age', 'sex'. Its fields seem to be separated by semicolons; use commas."
    )


def test_a_row_that_looks_like_a_header_is_not_told_either(write: Any) -> None:
    for wanted in (["married"], ["Married", "hiv"]):
        text = refusal(write("people.csv", "Jane Doe,34,Married,52000,HIV+\nJohn,3,Single,1,none\n"), *wanted)
        assert not any(value in text for value in ("Jane", "34", "52000", "HIV+", "Did you mean"))


def test_a_release_is_no_table(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "r.parquet", pa.schema([("age", pa.int64())])) as writer:
        writer.add_key_value_metadata({"dpcli": "{}"})
    assert refusal(tmp_path / "r.parquet") == (
        "Table r.parquet is a release made by dpcli, not a table of people. Name the table."
    )


def test_a_nested_column_is_read_as_it_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [[1, 2], [3]]}), tmp_path / "t.parquet")
    (batch,) = open_table(tmp_path / "t.parquet", ["age"]).batches()
    assert pa.types.is_list(batch.columns.column("age").type)


def test_a_column_that_stands_twice(write: Any, tmp_path: Path) -> None:
    path = write("t.csv", "age,sex,age\n1,F,2\n")
    assert refusal(path) == "Table t.csv has 2 columns 'age'. Rename all but one."
    assert rows_of(open_table(path, ["sex"])) == [("F",)], "nobody asks for the other"
    two = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
    pq.write_table(two, tmp_path / "t.parquet")
    assert refusal(tmp_path / "t.parquet") == "Table t.parquet has 2 columns 'age'. Rename all but one."


def test_damaged_parquet(write: Any, tmp_path: Path) -> None:
    whole = parquet(tmp_path / "whole.parquet", ROWS * 1000).read_bytes()
    overwritten = whole[:4] + b"\xff" * 2000 + whole[2004:]
    for content in (whole[: len(whole) // 2], whole[:-1], b"age,sex\n1,F\n", overwritten):
        assert refusal(write("t.parquet", content)) == (
            "Table t.parquet is not a readable Parquet file: it is damaged or was cut short. Write it again."
        )


def test_damaged_gzip(write: Any) -> None:
    text = csv_text([(str(number), "F") for number in range(400_000)]).encode()
    whole = gzip.compress(text)
    damaged = whole[: len(whole) // 2] + b"\xff" * 64 + whole[len(whole) // 2 + 64 :]
    for content in (whole[: len(whole) // 2], damaged, text, whole[:-8] + b"\0" * 8):
        assert refusal(write("t.csv.gz", content)) == (
            "Table t.csv.gz is not a readable gzip file: it is damaged or was cut short. Write it again."
        )


def test_rows_of_the_wrong_length(write: Any) -> None:
    text = 'age,sex\n1,F\n\n2,"M\nM"\n3,secret,4\n'
    assert refusal(write("t.csv", text)) == (
        "Table t.csv, row 3: it has 3 fields, the header has 2. Correct the row; a field that holds a comma must"
        " stand in double quotes."
    )
    assert refusal(write("t.tsv", "age\tsex\n1\n")) == (
        "Table t.tsv, row 1: it has 1 field, the header has 2. Correct the row; a field that holds a tab must"
        " stand in double quotes."
    )
    late = write("late.csv", csv_text([("1", "F")] * 300_000) + "1\n" + csv_text([("1", "F")] * 10))
    assert refusal(late).startswith("Table late.csv, row 300001: it has 1 field, the header has 2.")


def test_text_that_is_not_utf8(write: Any) -> None:
    message = "Table t.csv holds text that is not UTF-8. Save it again as UTF-8."
    assert refusal(write("t.csv", b"age,sex\nsecret\xff,F\n")) == message
    assert refusal(write("t.csv", "age,größe\n1,2\n".encode("latin-1"))) == message
    assert refusal(write("t.csv", "age,sex\n1,F\n".encode("utf-16"))) == message
    unused = open_table(write("t.csv", b"age,sex\n1,\xff\n"), ["age"])
    assert rows_of(unused) == [("1",)], "a column that nobody asks for"


@pytest.mark.parametrize("text", ['age,sex\n1,F\n2,"M\n3,F\n', 'age\n1\n"2\n3\n'])
def test_a_quote_that_is_never_closed(write: Any, text: str) -> None:
    assert refusal(write("t.csv", text)) == (
        "Table t.csv ends inside a quoted field: a double quote is never closed. Correct the table."
    )


def test_a_quote_that_is_not_closed_for_long(write: Any) -> None:
    text = csv_text([("1", "F")] * 100) + '1,"M\n' + csv_text([("1", "F")] * 100) + '1,"M\n'
    table = open_table(write("t.csv", text), ["age"])
    with pytest.raises(DataError) as caught:
        rows_of(replace(table, batch_rows=4))
    assert str(caught.value) == (
        f"Table {table.path} cannot be read as CSV after row 100. Check the rows that follow, above all for a"
        " double quote that is never closed."
    )
