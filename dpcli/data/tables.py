"""PRIVATE: reads the table. Opens CSV and Parquet tables and yields them batch by batch.

Only the columns asked for are read. Every column of a CSV file is read as text: no type is guessed, so
Arrow has no value to complain about. Arrow's own messages may quote a row and are never passed on.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dpcli.errors import DataError, did_you_mean, listed
from dpcli.progress import Progress

BATCH_ROWS = 1 << 17  # a batch's codes and cells stay in the processor's cache
_BYTES_PER_ROW = 32  # of CSV text: a guess, to read about as many rows at a time
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_PARQUET = (".parquet", ".pq")
_ENDINGS = (*_SEPARATORS, *_PARQUET)
_READ_FROM = f"Tables are read from files that end in {listed(_ENDINGS)}, or from a folder of such files."


@dataclass(frozen=True)
class Batch:
    """Some rows of a table. ``first_row`` is the number in ``file`` of the first; 1 follows the header."""

    columns: pa.RecordBatch
    file: Path
    first_row: int


@dataclass(frozen=True)
class Table:
    """A table that was found to have the columns asked for. ``size`` is in bytes."""

    path: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    size: int
    batch_rows: int = BATCH_ROWS

    def batches(self, progress: Progress | None = None) -> Iterator[Batch]:
        """Yield the rows in the order of the files; tell the fraction of bytes read after each batch."""
        before = 0
        for file in self.files:
            row, size = 1, file.stat().st_size
            read = _csv_batches if _separator(file) else _parquet_batches
            for columns, fraction in read(file, self.columns, self.batch_rows):
                yield Batch(columns, file, row)
                row += columns.num_rows
                if progress:
                    progress(min((before + fraction * size) / self.size, 1.0))
            before += size
        if progress:
            progress(1.0)


def open_table(path: str | Path, columns: Sequence[str]) -> Table:
    """Find a table's files and check that they have the columns; raise ``DataError`` if not."""
    path = Path(path)
    files = _files(path)
    wanted = tuple(dict.fromkeys(columns))
    for file in files:
        if _separator(file):
            _check_columns(file, _csv_header(file), wanted, sure=False)
        else:
            _check_columns(file, _parquet_names(file), wanted, sure=True)
    return Table(path, files, wanted, sum(file.stat().st_size for file in files))


def _files(path: Path) -> tuple[Path, ...]:
    """Return the files that make up a table, in the order of their names."""
    files = [path]
    try:
        if path.is_dir():
            inside = sorted(item for item in path.iterdir() if item.name[0] not in "._")
            folder = next((item.name for item in inside if item.is_dir()), None)
            if folder is not None:
                raise DataError(
                    f"Folder {path} has subfolders, and a table's files must be in one folder."
                    " Move them into one, or name a subfolder."
                )
            files = [item for item in inside if item.name.lower().endswith(_ENDINGS)]
            if not files:
                raise DataError(f"Folder {path} holds no table. {_READ_FROM}")
            if len({_separator(file) is None for file in files}) > 1:
                raise DataError(
                    f"Folder {path} mixes CSV and Parquet files. Keep a table's files in one folder"
                    " of their own, all of one format."
                )
        for file in files:
            with file.open("rb") as stream:
                if not file.name.lower().endswith(_ENDINGS):
                    raise DataError(f"Table {file} is of an unknown format. {_READ_FROM}")
                if not stream.read(1):
                    raise DataError(f"Table {file} is empty: it has 0 bytes. Write it again.")
    except FileNotFoundError:
        raise DataError(f"Table {path} does not exist. Check the path.") from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise DataError(f"Table {path} cannot be opened: {reason}. Check who may read it.") from None
    return tuple(files)


def _separator(file: Path) -> str | None:
    """Return what separates the fields of a CSV file, or ``None`` for a Parquet file."""
    return next((sign for ending, sign in _SEPARATORS.items() if file.name.lower().endswith(ending)), None)


def _check_columns(file: Path, names: list[str], wanted: Sequence[str], *, sure: bool) -> None:
    """Refuse a table in which a wanted column is missing or stands twice.

    Unless it is ``sure`` that the names are names, they are never told: the first line of a CSV file without
    a header is a person's row.
    """
    missing = [name for name in wanted if name not in names]
    if missing:
        problem = f"Table {file} has no column {listed(map(repr, missing))}."
        if sure:
            near = did_you_mean(missing[0], names) if len(missing) == 1 else ""
            raise DataError(f"{problem}{near} It has: {listed(names)}.")
        if len(names) == 1 and ";" in names[0]:
            raise DataError(f"{problem} Its fields seem to be separated by semicolons; use commas.")
        raise DataError(f"{problem} Its first line must hold the names of the columns that the plan uses.")
    for name in wanted:
        if names.count(name) > 1:
            raise DataError(f"Table {file} has {names.count(name)} columns '{name}'. Rename all but one.")


# --- Parquet ----------------------------------------------------------------------------------------------


def _parquet_names(file: Path) -> list[str]:
    try:
        with pq.ParquetFile(file) as parquet:
            if b"dpcli" in (parquet.metadata.metadata or {}):
                raise DataError(
                    f"Table {file} is a release made by dpcli, not a table of people. Name the table."
                )
            return list(parquet.schema_arrow.names)
    except (pa.ArrowException, OSError):
        raise _damaged(file, "Parquet") from None


def _parquet_batches(
    file: Path, columns: Sequence[str], batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield the rows of a Parquet file and the fraction of it that was read; texts come as dictionaries."""
    done = 0
    try:
        texts = [name for name in columns if pa.types.is_string(pq.read_schema(file).field(name).type)]
        with pq.ParquetFile(file, read_dictionary=texts) as parquet:
            for batch in parquet.iter_batches(batch_rows, columns=list(columns)):
                done += batch.num_rows
                yield batch, done / parquet.metadata.num_rows
    except (pa.ArrowException, OSError):
        raise _damaged(file, "Parquet") from None


def _damaged(file: Path, kind: str) -> DataError:
    return DataError(
        f"Table {file} is not a readable {kind} file: it is damaged or was cut short. Write it again."
    )


# --- CSV --------------------------------------------------------------------------------------------------


class _Marked:
    """A CSV file's text, and after it a line with one field too many.

    Arrow takes a quoted field that is never closed for a long last field. If it does not report the mark as
    a bad row, the mark was swallowed by such a field, and rows may have been too.

    Arrow reads ahead, one block for each batch; ``fractions`` are what was read of the file after each.
    """

    def __init__(self, file: Path, raw: pa.NativeFile, fields: int) -> None:
        self.text = (_separator(file) or ",") * fields + "\x03"
        self.seen = False
        self.closed = False
        self.fractions: list[float] = []
        self._raw = raw
        self._stream = _opened(file, raw)
        self._rest = f"\n{self.text}\n".encode()

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size - len(self._rest)) if self._rest else b""
        if len(data) < size - len(self._rest):
            data, self._rest = data + self._rest, b""
        self.fractions.append(self._raw.tell() / self._raw.size())
        return data

    def close(self) -> None:
        self.closed = True


def _opened(file: Path, raw: pa.NativeFile) -> pa.NativeFile:
    return pa.CompressedInputStream(raw, "gzip") if file.name.lower().endswith(".gz") else raw


def _csv_header(file: Path) -> list[str]:
    """Return the column names in the first line that is not blank."""
    try:
        with pa.OSFile(str(file)) as raw:
            head = _opened(file, raw).read(1 << 20)
    except OSError:
        raise _damaged(file, "gzip") from None
    text = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode(head)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(file) or ",")
        header = [name.strip() for name in next(filter(None, rows), [])]
        "".join(header).encode()
    except csv.Error:
        header = []
    except UnicodeEncodeError:
        raise _not_utf8(file) from None
    if not any(header):
        raise DataError(f"Table {file} has no header. Its first line must hold the column names.")
    return header


def _csv_batches(
    file: Path, columns: Sequence[str], batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield the rows of a CSV file, all columns as dictionaries of text, and the fraction of it read.

    Blank lines are no rows, and blank fields are missing values.
    """
    header = _csv_header(file)
    separator = _separator(file) or ","
    rows = -1  # the header is read as a row, and cut off
    bad: list[Any] = []
    with pa.OSFile(str(file)) as raw:
        marked = _Marked(file, raw, len(header))

        def on_bad_row(row: Any) -> str:
            marked.seen = row.text == marked.text
            if not marked.seen:
                bad.append(row)
            return "skip" if marked.seen else "error"

        # Not threaded, and no slower: only so does a bad row come with its number.
        reading = pa_csv.ReadOptions(
            block_size=batch_rows * _BYTES_PER_ROW, column_names=header, use_threads=False
        )
        parsing = pa_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=on_bad_row
        )
        converting = pa_csv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.dictionary(pa.int32(), pa.string())),
            null_values=[""],
            strings_can_be_null=True,
        )
        try:
            with pa_csv.open_csv(marked, reading, parsing, converting) as reader:
                for number, batch in enumerate(reader):
                    yield batch.slice(0 if number else 1), (marked.fractions[number:] or [1.0])[0]
                    rows += batch.num_rows
        except pa.ArrowInvalid as error:
            raise _csv_error(file, str(error), bad, len(header), max(rows, 0)) from None
        except OSError:
            raise _damaged(file, "gzip") from None
    if not marked.seen:
        raise DataError(
            f"Table {file} ends inside a quoted field: a double quote is never closed. Correct the table."
        )


def _csv_error(file: Path, message: str, bad: list[Any], fields: int, rows: int) -> DataError:
    """Say in our own words what Arrow found wrong; its message may quote the table."""
    if bad:
        sign = "tab" if _separator(file) == "\t" else "comma"
        found = bad[0].actual_columns
        return DataError(
            f"Table {file}, row {bad[0].number - 1}: it has {found} field{'s' * (found > 1)}, the header has"
            f" {fields}. Correct the row; a field that holds a {sign} must stand in double quotes."
        )
    if "UTF8" in message:
        return _not_utf8(file)
    return DataError(
        f"Table {file} cannot be read as CSV after row {rows}. Check the rows that follow, above all for a"
        " double quote that is never closed."
    )


def _not_utf8(file: Path) -> DataError:
    return DataError(f"Table {file} holds text that is not UTF-8. Save it again as UTF-8.")
