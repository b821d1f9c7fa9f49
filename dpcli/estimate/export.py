"""Answers in files: CSV, JSON, JSON lines or Parquet, written in chunks, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dpcli.errors import OutputError, UsageError, listed
from dpcli.estimate.answer import COLUMNS
from dpcli.estimate.table import QUERY, Table
from dpcli.release.whole import check_writable, whole_file

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = b"[]\n"


def check_export(path: Path) -> None:
    """Raise a ``UsageError`` if answers could not be written to ``path``."""
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(f"Answers can't be written to {path}: its name must end in {listed(_WRITERS)}.")
    check_writable(path)
    if os.path.lexists(path) and not _holds_answers(path):
        raise OutputError(
            f"{path} is there already and holds no answers, so it is left alone. Choose another name."
        )


def export(path: Path, tables: Iterable[Table]) -> int:
    """Write all rows of the tables, which have the same columns, and return how many there are."""
    check_export(path)
    with whole_file(path, replace=True) as temporary:
        return _WRITERS[path.suffix.lower()](temporary, tables)


def _holds_answers(path: Path) -> bool:
    """Tell whether a file is one that was written here, or empty; a JSON array may be empty, too."""
    if path.is_file() and path.stat().st_size <= len(_NOTHING):
        content = path.read_bytes()
        return not content or (path.suffix.lower() == ".json" and content.strip() == _NOTHING.strip())
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            names = pq.read_schema(path).names
        else:
            with path.open(encoding="utf-8") as file:
                line = file.readline(1 << 20)
            names = next(csv.reader([line])) if path.suffix.lower() == ".csv" else list(_object(line))
    except (OSError, ValueError, StopIteration, csv.Error):
        return False
    return tuple(names[-len(COLUMNS) - 1 :]) == (QUERY, *COLUMNS)


def _object(line: str) -> dict[str, object]:
    """Read the first object of JSON lines, or of an array with one object a line."""
    found = json.loads(line.strip().removeprefix("[").removesuffix(",").removesuffix("]"))
    return found if isinstance(found, dict) else {}


def _write_csv(path: Path, tables: Iterable[Table]) -> int:
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for table in tables:
            if not rows:
                writer.writerow(table.columns)
            for chunk in table.chunks():
                writer.writerows(zip(*chunk.values(), strict=True))
            rows += len(table)
    return rows


def _write_lines(path: Path, tables: Iterable[Table]) -> int:
    return _write_objects(path, tables, "", "\n", "\n")


def _write_json(path: Path, tables: Iterable[Table]) -> int:
    return _write_objects(path, tables, "[", ",\n ", "]\n")


def _write_objects(path: Path, tables: Iterable[Table], start: str, between: str, end: str) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        for table in tables:
            for record in table.records():
                file.write((between if rows else start) + json.dumps(record, ensure_ascii=False))
                rows += 1
        file.write(end if rows else start + end.strip("\n") + "\n" if start else "")
    return rows


def _write_parquet(path: Path, tables: Iterable[Table]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, writer = 0, None
    try:
        for table in tables:
            schema = _schema(table)
            writer = writer or pq.ParquetWriter(path, schema, compression="zstd")
            for chunk in table.chunks():
                writer.write_batch(pa.record_batch(list(chunk.values()), schema=schema))
            rows += len(table)
    finally:
        if writer is not None:
            writer.close()
    return rows


def _schema(table: Table) -> pa.Schema:
    """Return the columns' types: labels as whole numbers where all are, values where all counts are."""
    import pyarrow as pa

    whole = [all(not isinstance(label, str) for label in column) for column in table.groups.values()]
    labels = [pa.int64() if numbers else pa.string() for numbers in whole]
    value = pa.int64() if table.answers.value.dtype.kind == "i" else pa.float64()
    kinds = [*labels, pa.string(), value, *[pa.float64()] * (len(COLUMNS) - 2), pa.string()]
    return pa.schema(list(zip(table.columns, kinds, strict=True)))


_WRITERS: dict[str, Callable[[Path, Iterable[Table]], int]] = {
    ".csv": _write_csv,
    ".json": _write_json,
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
}
