"""PRIVATE: reads the table. Counts its rows in the cells of a domain, keeping only cells that have rows.

Memory is bounded by some batches and a small multiple of the number of distinct cells, whatever the number
of rows and the size of the domain. If a unit bounds the rows of each person, see also
:mod:`dpcli.data.bounding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcli.data.attributes import Attribute
from dpcli.data.bounding import Bounding, Unit
from dpcli.data.domain import Domain
from dpcli.data.encoding import MISSING, OUTSIDE, Codes, Mask, encode
from dpcli.data.ids import Ids, read_ids
from dpcli.data.tables import Batch, Table
from dpcli.data.view import View
from dpcli.errors import DataError
from dpcli.progress import Progress

Cells = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
WAITING_ROWS = 1 << 21
SLABS = 256
NO_VALUE = ("row has no value", "rows have no value")


@dataclass(frozen=True)
class SparseCube:
    """The counts of a domain's cells, those that are zero left out.

    ``cells`` are distinct cell numbers in C order, increasing; ``counts`` are their counts, all above zero.
    """

    domain: Domain
    cells: Cells
    counts: Counts

    @property
    def total(self) -> int:
        """The number of rows counted."""
        return int(self.counts.sum())

    def dense(self, start: int, stop: int) -> Counts:
        """Return the counts of the cells ``start <= cell < stop``, zeros included."""
        first, last = np.searchsorted(self.cells, (start, stop))
        block = np.zeros(stop - start, np.int64)
        block[self.cells[first:last] - start] = self.counts[first:last]
        return block


def count(domain: Domain, table: Table, **options: Any) -> SparseCube:
    """Count a table's rows in the cells of a domain; see :func:`count_views` for the options."""
    return count_views([View(domain)], table, **options)[0]


def count_views(
    views: Sequence[View],
    table: Table,
    *,
    columns: Mapping[str, str] | None = None,
    unit: Unit | None = None,
    progress: Progress | None = None,
    allow_empty: bool = False,
) -> list[SparseCube]:
    """Count a table's rows in the cells of each view, in one pass; a row counts in one view at most.

    In a view, a row with the categories (c_1, …, c_d) is counted in cell Σ_i c_i · Π_{j>i} size_j. The cells
    of all views are numbered one view after the other, and a row gets one number: if filters overlapped, it
    would count in the last of them only. With a ``unit``, of the rows that share a value of its column and
    count in any view, at most ``unit.max_rows`` are counted, in all views together.

    ``columns`` gives the column of an attribute where it has another name. A value that an attribute's rules
    don't allow raises ``DataError``, after the whole table was read, with the number of such rows in every
    column, also where a filter leaves them out.
    """
    starts = list(accumulate((view.domain.size for view in views), initial=0))
    assert starts[-1] < 2**63, "a cell's number must fit 64 bits"
    attributes = {name: attribute for view in views for name, attribute in view.attributes.items()}
    axes = {
        name: _Axis((columns or {}).get(name, name), name, attribute)
        for name, attribute in attributes.items()
    }
    owner = _Owner(unit) if unit else None
    tally = _Tally()
    rows = 0
    with ExitStack() as resources:
        bounding = resources.enter_context(closing(Bounding(unit))) if unit else None
        for batch in table.batches(progress):
            rows += batch.columns.num_rows
            cells, kept = _cells(views, starts, axes, batch, table)
            if owner and bounding:
                bounding.add(owner.read(batch, table), cells, kept)
            else:
                tally.add(cells if kept is None else cells[kept])
        faults = [text for axis in axes.values() for text in axis.faults()]
        faults += owner.faults() if owner else []
        if faults:
            raise DataError("\n".join(faults))
        if not rows and not allow_empty:
            raise DataError(f"Table {table.path} has no rows. If that is right, pass --allow-empty.")
        if bounding:
            for cells in bounding.result():
                tally.add(cells)
    cells, counts = tally.result()
    cuts = np.searchsorted(cells, starts)
    return [
        SparseCube(view.domain, cells[first:last] - start, counts[first:last])
        for view, start, (first, last) in zip(views, starts, pairwise(cuts), strict=False)
    ]


def _cells(
    views: Sequence[View], starts: list[int], axes: Mapping[str, _Axis], batch: Batch, table: Table
) -> tuple[Cells, Mask | None]:
    """Return the number of each row's cell among those of all views, and which rows count."""

    @cache
    def codes(name: str) -> Codes:
        axis = axes[name]
        found = encode(axis.column, axis.attribute, batch.columns.column(axis.column))
        if found.min(initial=0) < 0:
            axis.note(found, batch, table)
        return found

    rows = batch.columns.num_rows
    cells, kept = views[0].place(codes, rows)
    for view, start in zip(views[1:], starts[1:], strict=False):
        others, counted = view.place(codes, rows)
        cells = others + start if counted is None else np.where(counted, others + start, cells)
        kept = None if kept is None or counted is None else kept | counted
    return cells, kept


class _Tally:
    """Cells and counts so far, in sorted slabs, and the cells of rows that wait to be sorted into them.

    Rows wait until they are half as many as the cells so far, so that every row takes part in few merges. The
    slabs are merged one by one, so that a merge works in the processor's cache and needs little memory.

    Sorting groups 10 million rows in 7 million cells in 0.1 s; the hash tables of pandas' ``value_counts``
    took 0.6 to 0.9 s in its place (benchmarks/counting.py compares the whole with pandas).
    """

    def __init__(self) -> None:
        nothing = np.zeros(0, np.int64)
        self._slabs: list[tuple[Cells, Counts]] = [(nothing, nothing)] * SLABS
        self._edges = nothing  # the first cells of the slabs after the first
        self._known = 0
        self._waiting: list[Cells] = []
        self._rows = 0

    def add(self, cells: Cells) -> None:
        """Count one row in each of the cells given."""
        self._waiting.append(cells)
        self._rows += len(cells)
        if self._rows >= max(WAITING_ROWS, self._known // 2):
            self._settle()

    def result(self) -> tuple[Cells, Counts]:
        """Return the distinct cells, increasing, and their counts."""
        self._settle()
        cells, counts = zip(*self._slabs, strict=True)
        return np.concatenate(cells), np.concatenate(counts)

    def _settle(self) -> None:
        if not self._rows:
            return
        ids = np.concatenate(self._waiting)
        self._waiting, self._rows = [], 0
        ids.sort()
        starts = _starts(ids)
        cells, counts = ids[starts], np.diff(starts, append=len(ids))
        if not self._known:
            self._edges = cells[np.arange(1, SLABS) * len(cells) // SLABS]
        cuts = np.searchsorted(cells, self._edges)
        for slab, part in enumerate(zip(np.split(cells, cuts), np.split(counts, cuts), strict=True)):
            self._slabs[slab] = _merged(*self._slabs[slab], *part)
        self._known = sum(len(cells) for cells, _ in self._slabs)


def _starts(ids: Cells) -> npt.NDArray[np.intp]:
    """Return where the runs of equal numbers start."""
    return np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))


def _merged(cells: Cells, counts: Counts, more_cells: Cells, more_counts: Counts) -> tuple[Cells, Counts]:
    """Add up two sorted lists of cells and counts."""
    if not len(cells) or not len(more_cells):
        return (cells, counts) if len(cells) else (more_cells, more_counts)
    both = np.concatenate((cells, more_cells))
    order = np.argsort(both, kind="stable")  # which merges two sorted runs in linear time
    both = both[order]
    starts = _starts(both)
    return both[starts], np.add.reduceat(np.concatenate((counts, more_counts))[order], starts)


@dataclass
class _Column:
    """A column, and what was found wrong in it: rows, and where the first is."""

    column: str
    rows: dict[int, int] = field(default_factory=lambda: {OUTSIDE: 0, MISSING: 0}, kw_only=True)
    first: dict[int, str] = field(default_factory=dict, kw_only=True)

    def note(self, codes: Codes, batch: Batch, table: Table) -> None:
        """Remember the rows that are an error."""
        for fault in self.rows:
            found = codes == fault
            if found.any():
                of_file = f" of {batch.file.name}" if len(table.files) > 1 else ""
                self.first.setdefault(fault, f"row {batch.first_row + int(found.argmax())}{of_file}")
                self.rows[fault] += int(found.sum())

    def told(self, fault: int, one: str, many: str, rules: str) -> list[str]:
        """Say in how many rows a fault is, where the first is, and what to do; never the values."""
        rows = self.rows[fault]
        if not rows:
            return []
        found = f"1 {one} (at" if rows == 1 else f"{rows} {many} (first at"
        return [f"Column '{self.column}': {found} {self.first[fault]}). Correct the table, or set {rules}."]


@dataclass
class _Axis(_Column):
    """The column of an attribute."""

    name: str
    attribute: Attribute

    def faults(self) -> list[str]:
        """Say what is wrong."""
        clamp = self.attribute.outside == "clamp"
        beyond = "a value that 'outside: clamp' cannot place" if clamp else "a value outside its domain"
        drop = "'outside: drop', 'clamp'" if self.attribute.ordered and not clamp else "'outside: drop'"
        rules = (f"{drop} or 'other'", "'missing: drop' or 'own-category'")
        outside, missing = (f"{rule} for '{self.name}' in the plan" for rule in rules)
        return [
            *self.told(OUTSIDE, f"row holds {beyond}", f"rows hold {beyond}", outside),
            *self.told(MISSING, *NO_VALUE, missing),
        ]


class _Owner(_Column):
    """The column that tells people apart."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit.column)
        self._required = unit.missing == "error"

    def read(self, batch: Batch, table: Table) -> Ids:
        """Return who owns the rows of a batch."""
        ids = read_ids(self.column, batch.columns.column(self.column))
        if ids.missing is not None and self._required:
            self.note(np.where(ids.missing, MISSING, 0), batch, table)
        return ids

    def faults(self) -> list[str]:
        """Say what is wrong."""
        return self.told(MISSING, *NO_VALUE, "'missing: drop' under 'unit' in the plan")
