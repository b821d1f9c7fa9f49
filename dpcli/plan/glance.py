"""PRIVATE: reads the table. A glance at what the columns of its first rows hold."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from dpcli.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.,]\d+)?)? ?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)


@dataclass(frozen=True)
class Column:
    """What a column holds in the rows looked at: its distinct values, in how many rows, and any blanks."""

    name: str
    values: list[Any]
    filled: int
    blanks: bool


def first_rows(path: Path, rows: int) -> list[Column]:
    """Return what the columns of a CSV or Parquet table hold in its first rows.

    Raises ``DataError`` for a table that can't be read; no message holds a value.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name[0] not in "._" and _reader(file))
        if not files:
            raise DataError(f"{path}: the folder holds no table ({', '.join(SUFFIXES)})")
        path = files[0]
    reader = _reader(path)
    if reader is None:
        raise DataError(f"{path}: a table must be a file of one of these kinds: {', '.join(SUFFIXES)}")
    return reader(path, rows)


def _reader(path: Path) -> Callable[[Path, int], list[Column]] | None:
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        return _read_parquet
    return _read_csv if name.removesuffix(".gz").endswith((".csv", ".tsv")) else None


def _read_csv(path: Path, rows: int) -> list[Column]:
    """Read the first rows of a CSV file with a header; a blank field is a missing value."""
    number = 1
    try:
        zipped = path.suffix.lower() == ".gz"
        tabs = ".tsv" in path.name.lower()
        with (gzip.open if zipped else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t" if tabs else ",")
            header = next(reader, [])
            _check_header(header, path)
            distinct: list[dict[str, int]] = [{} for _ in header]
            for row in islice(filter(None, reader), rows):
                number = reader.line_num
                if len(row) != len(header):
                    raise DataError(f"{path}, line {number}: the row has not as many fields as the header")
                for found, text in zip(distinct, row, strict=True):
                    found[text.strip()] = found.get(text.strip(), 0) + 1
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: the file is not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise DataError(f"{path}: the file can't be read ({reason})") from None
    except csv.Error:
        raise DataError(f"{path}, line {number + 1}: the row can't be read as CSV") from None
    columns = []
    for name, found in zip(header, distinct, strict=True):
        blanks = found.pop("", 0) > 0
        columns.append(Column(name, _typed(list(found)), sum(found.values()), blanks))
    return columns


def _read_parquet(path: Path, rows: int) -> list[Column]:
    """Read the first rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    try:
        table = ds.dataset(path, format="parquet").head(rows)
        _check_header(table.column_names, path)
        columns = []
        for name in table.column_names:
            values = table[name]
            if pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.date32(), safe=False)
            filled = values.drop_null()
            try:
                distinct = filled.unique().to_pylist()
            except (pa.ArrowNotImplementedError, ValueError, OverflowError):  # lists, days after 9999, …
                distinct = []
            trimmed = dict.fromkeys(v.strip() if isinstance(v, str) else v for v in distinct)
            real = [value for value in trimmed if value != "" and value == value]  # blank texts and NaN go
            blanks = len(filled) < len(values) or len(real) < len(trimmed)
            columns.append(Column(name, _typed(real), len(filled), blanks))
    except (pa.ArrowException, OSError, ValueError):
        raise DataError(f"{path}: the file can't be read as Parquet") from None
    return columns


def _check_header(names: list[str], path: Path) -> None:
    if not names:
        raise DataError(f"{path}: the table is empty; it needs a header with the columns' names")
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if first.setdefault(name, place) != place:  # not named: without a header these are a person's values
            raise DataError(f"{path}: columns {first[name]} and {place} have the same name in the header")


def _typed(texts: list[Any]) -> list[Any]:
    """Return texts as whole numbers, decimals or days where all of them are written as such."""
    if not all(isinstance(text, str) for text in texts):
        return texts
    if all(map(_WHOLE.fullmatch, texts)):
        return [int(text) for text in texts]
    if all(map(_NUMBER.fullmatch, texts)):
        return [Decimal(text) for text in texts]
    if all(map(_DAY.fullmatch, texts)):
        try:
            return [dt.date.fromisoformat(text[:10]) for text in texts]
        except ValueError:
            return texts
    return texts
