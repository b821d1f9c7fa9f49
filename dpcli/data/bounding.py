"""PRIVATE: reads the table. Keeps at most k rows of every person, so that nobody moves the counts by more.

The rule: a row that the domain's rules keep has a cell. Of each person's rows, the k with the smallest
(priority, cell) are counted. A row's priority is the first 64 bits of what AES-256 makes, under a key drawn
for this cube, of the block (64 bits for the id, the cell): the id itself if it is a number, a hash if not.

Proof, for any key: a row's priority depends on its id, its cell and the key. So what is kept of a person
depends on that person's rows and the key, not on other people nor on the order of the rows: rows of one
person with the same (priority, cell) are in the same cell, and it does not matter which of them is kept.
Let x be the counts. Adding a person with all rows adds the at most k rows kept of them and changes nothing
else: x changes by at most k in L1, and likewise if they are removed. Replacing a person by another does both:
at most 2k. That is the sensitivity of :mod:`dpcli.privacy.cost` for k rows per person.

People are told apart by their ids, never by a hash: two people with one hash share priorities, not rows. Two
who share an id are protected as one. If one of them alone is removed, rows of the other may come in for
theirs, so x changes by at most 2k; a person with m ids changes it by at most mk.

Nobody and nothing is preferred: every order of a person's different cells is equally likely.

Memory: rows wait until they fill ``WAITING_BYTES``. Then those that no longer can be among a person's k are
dropped: the k smallest of all are among the k smallest of the rows so far. If many are left, they go to a
temporary file without a name, which the system removes when it is closed, however the program ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpcli.data.ids import Ids
from dpcli.errors import OutputError

WAITING_BYTES = 1 << 28  # 2^24 rows of a number and a cell
PART_BITS = 6
PARTS = 1 << PART_BITS
_CHUNK = 1 << 16
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads numbers that follow each other

Cells = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Unit:
    """Who is one person, and how many of their rows count: what is kept of whom follows from the key."""

    column: str
    max_rows: int
    key: bytes = field(repr=False)
    missing: Literal["error", "drop"] = "error"


class Bounding:
    """Rows with their owners come in; what comes out are the cells of those that count."""

    def __init__(self, unit: Unit) -> None:
        self._resources = ExitStack()
        self._numbers = _Pile(unit, pa.int64(), self._resources)
        self._texts = _Pile(unit, pa.large_string(), self._resources)

    def close(self) -> None:
        """Remove what was written to disk."""
        self._resources.close()

    def add(self, ids: Ids, cells: Cells, kept: Mask | None = None) -> None:
        """Take rows in, of which those count that are ``kept`` and whose owner is known."""
        if ids.missing is not None:
            kept = ~ids.missing if kept is None else kept & ~ids.missing
        if ids.texts is None:
            every = slice(None) if kept is None else kept
            self._numbers.add(pa.array(ids.numbers[every]), cells[every])
            return
        if kept is None and not ids.texts.null_count:
            self._texts.add(ids.texts, cells)
            return
        known = np.ones(len(cells), np.bool_) if kept is None else kept
        named = _array(ids.texts.is_valid()) & known
        others = ~named & known
        self._texts.add(ids.texts.filter(pa.array(named)), cells[named])
        self._numbers.add(pa.array(ids.numbers[others]), cells[others])

    def result(self) -> Iterator[Cells]:
        """Yield the cells of the rows that count, in no order; nothing may be added then."""
        yield from self._numbers.result()
        yield from self._texts.result()


class _Pile:
    """The rows of people whose ids are numbers, or of those whose ids are texts, in parts by the ids' hashes.

    A person is in one part. So the parts are independent, and work on one of them fits the processor's cache.
    """

    def __init__(self, unit: Unit, kind: pa.DataType, resources: ExitStack) -> None:
        self._unit, self._resources = unit, resources
        self._schema = pa.schema({"id": kind, "cell": pa.int64()})
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in range(PARTS)]
        self._bytes = 0
        self._spill: _Spill | None = None

    def add(self, ids: pa.Array, cells: Cells) -> None:
        """Put rows into their parts."""
        if not len(cells):
            return
        rows = pa.record_batch([ids, pa.array(cells)], schema=self._schema)
        part = (_hashes(ids) * _SPREAD >> np.uint64(64 - PART_BITS)).astype(np.uint8)
        rows = rows.take(pa.array(np.argsort(part, kind="stable")))
        ends = np.cumsum(np.bincount(part, minlength=PARTS)).tolist()
        for waiting, start, end in zip(self._waiting, [0, *ends], ends, strict=False):
            if end > start:
                waiting.append(rows.slice(start, end - start))
        self._bytes += rows.nbytes
        if self._bytes >= WAITING_BYTES:
            self._settle()

    def result(self) -> Iterator[Cells]:
        """Yield the cells of the rows that count, part by part."""
        for part, waiting in enumerate(self._waiting):
            found = [*(self._spill.read(part) if self._spill else ()), *waiting]
            if found:
                yield _cells(_counting(found, self._unit))

    def _settle(self) -> None:
        """Drop what no longer can count; if that makes little room, write the rest to disk."""
        for part, waiting in enumerate(self._waiting):
            self._waiting[part] = [_counting(waiting, self._unit)] if waiting else []
        self._bytes = sum(rows.nbytes for waiting in self._waiting for rows in waiting)
        if self._bytes > WAITING_BYTES // 2:
            if self._spill is None:
                self._spill = self._resources.enter_context(closing(_Spill(self._schema)))
            for part, waiting in enumerate(self._waiting):
                self._spill.write(part, waiting)
                waiting.clear()
            self._bytes = 0


class _Spill:
    """Rows in a temporary file without a name, in parts."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(PARTS)]
        self._file: IO[bytes] = _on_disk(tempfile.TemporaryFile, prefix="dpcli-")

    def close(self) -> None:
        """Let the system remove the file."""
        with suppress(OSError):  # of a last piece that does not fit: nobody wants it any more
            self._file.close()

    def write(self, part: int, found: list[pa.RecordBatch]) -> None:
        """Append rows to a part."""
        for rows in found:
            content = rows.serialize()
            self._places[part].append((self._file.tell(), content.size))
            _on_disk(self._file.write, content)

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        for start, size in self._places[part]:
            _on_disk(self._file.seek, start)
            content = pa.py_buffer(_on_disk(self._file.read, size))
            yield pa.ipc.read_record_batch(content, self._schema)


def _on_disk(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call what reads or writes the temporary file, and say in plain words why it failed."""
    try:
        return call(*arguments, **options)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise OutputError(
            f"Rows cannot be kept in the folder for temporary files: {reason}."
            " Free some space there, or name another folder in the environment variable TMPDIR."
        ) from None


# --- the rows that count ----------------------------------------------------------------------------------


def _counting(found: list[pa.RecordBatch], unit: Unit) -> pa.RecordBatch:
    """Return the rows that count: of each person the k with the smallest (priority, cell)."""
    rows = pa.concat_batches(found)
    ids = rows.column("id")
    owners = _owners(ids)
    order = np.argsort(owners)
    owners = owners[order]
    starts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
    sizes = np.diff(starts, append=len(owners))
    many = sizes > unit.max_rows
    if not many.any():
        return rows
    hashes = _hashes(ids.take(pa.array(order[starts[many]])))  # who has no more than k rows has no choice
    order, sizes = order[np.repeat(many, sizes)], sizes[many]
    cells = _cells(rows)[order]
    priorities = _priorities(unit.key, np.repeat(hashes, sizes), cells)
    order = order[_ranking(sizes, priorities, cells)]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    counting = np.ones(len(rows), np.bool_)
    counting[order[rank >= unit.max_rows]] = False
    return rows.filter(pa.array(counting))


def _owners(ids: pa.Array) -> npt.NDArray[Any]:
    """Return for each row a number that says whose it is: the same if, and only if, the ids are."""
    return _array(ids if pa.types.is_integer(ids.type) else ids.dictionary_encode().indices)


def _hashes(ids: pa.Array) -> Words:
    """Return 64 bits for each id: a number itself, of a text SipHash-2-4 with a fixed key."""
    if pa.types.is_integer(ids.type):
        return _array(ids).view(np.uint64)
    from pandas.util import hash_array

    pieces = [ids.slice(start, _CHUNK) for start in range(0, len(ids), _CHUNK)]
    return np.concatenate([hash_array(_array(piece), categorize=False) for piece in pieces])


def _priorities(key: bytes, hashes: Words, cells: Cells) -> Words:
    """Return the first 64 bits of AES-256 of each (hash, cell), both written little-endian."""
    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    found = np.empty(len(cells), np.uint64)
    for start in range(0, len(cells), _CHUNK):
        part = slice(start, start + _CHUNK)
        blocks = np.stack((hashes[part], cells[part].view(np.uint64)), axis=1).astype("<u8")
        found[part] = np.frombuffer(cipher.update(blocks.tobytes()), "<u8")[::2]
    return found


def _ranking(sizes: npt.NDArray[np.intp], priorities: Words, cells: Cells) -> npt.NDArray[np.intp]:
    """Sort rows by (person, priority, cell); each person has a run of rows, of the sizes given.

    One sort by 64 bits does it, of which the first tell the person: unless two priorities of a person agree
    in the others and the cells differ, which is as unlikely as 2^-40. Then all three are compared.
    """
    person = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    bits = np.uint64(len(sizes).bit_length())
    short = person << (np.uint64(64) - bits) | priorities >> bits
    order = np.argsort(short)
    short, ranked = short[order], cells[order]
    if np.any((short[1:] == short[:-1]) & (ranked[1:] != ranked[:-1])):
        return np.lexsort((cells, priorities, person))
    return order


def _cells(rows: pa.RecordBatch) -> Cells:
    return _array(rows.column("cell"))


def _array(values: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))
