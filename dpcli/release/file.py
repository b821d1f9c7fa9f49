"""The release file: tidy Parquet, one row per cell in C order, self-describing, whole or not there at all.

One dictionary-encoded column per attribute holds its real labels, and ``count`` the noisy count; by ispe
``region`` holds the number of the cell's region and ``region_count`` that region's noisy count. Each block of
cells is one row group.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcli.data.attributes import Attribute, Integers
from dpcli.data.domain import Domain
from dpcli.errors import ReleaseFileError
from dpcli.parallel import in_order
from dpcli.release.metadata import Metadata, RowGroup
from dpcli.release.whole import whole_file

KEY = b"dpcli"
COUNT, REGION, REGION_COUNT = "count", "region", "region_count"
ROW_GROUP = 1 << 20
MOST_COUNT = 2**53
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Regions:
    """What ispe measured second."""

    labels: NDArray[np.int64]
    """The region of each cell, in the cube's shape."""
    counts: NDArray[np.int64]
    """The noisy count of each region."""


@dataclass(frozen=True)
class Release:
    """A release file that was opened and found sound. Counts are read, and checked, when asked for."""

    path: Path
    metadata: Metadata

    @property
    def domain(self) -> Domain:
        return self.metadata.domain

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the counts: whole numbers where every cell was measured by itself."""
        return np.dtype(np.int64 if self.metadata.whole else np.float64)

    @cached_property
    def _footer(self) -> pq.FileMetaData:
        return pq.read_metadata(self.path, memory_map=True)

    def block(self, group: int) -> NDArray[Any]:
        """Return the noisy counts of one row group, checked against their digest. Threads may share this."""
        expected = self.metadata.blocks[group]
        try:
            with pq.ParquetFile(
                self.path, metadata=self._footer, memory_map=True, page_checksum_verification=True
            ) as file:
                column = file.read_row_group(group, columns=[COUNT], use_threads=False).column(0)
            values = np.from_dlpack(column.combine_chunks())  # to_numpy would import pandas
        except (pa.ArrowException, OSError, IndexError):
            raise ReleaseFileError(f"{self.path} is damaged: its counts cannot be read.") from None
        if len(values) != expected.rows or _sha256(values) != expected.sha256:
            raise ReleaseFileError(f"{self.path} is damaged: its counts do not match their digest.")
        if not (values.min() > -MOST_COUNT and values.max() < MOST_COUNT):
            raise ReleaseFileError(f"{self.path} holds counts that no table can have.")
        return values

    @cached_property
    def regions(self) -> Regions:
        """Each cell's region and the regions' noisy counts, of a release by ispe, checked."""
        parts = list(in_order(self._region_block, range(len(self.metadata.blocks))))
        labels, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        number = self.metadata.regions.number if self.metadata.regions else 0
        first = np.unique(labels, return_index=True)
        if len(first[0]) != number or not np.array_equal(first[0], np.arange(number)):
            raise ReleaseFileError(f"{self.path} is damaged: its regions are not numbered as they should be.")
        of_region = counts[first[1]]
        if not np.array_equal(of_region[labels], counts):
            raise ReleaseFileError(f"{self.path} is damaged: cells of one region differ in its count.")
        return Regions(labels.reshape(self.domain.shape), of_region)

    def _region_block(self, group: int) -> tuple[NDArray[Any], NDArray[Any]]:
        try:
            with pq.ParquetFile(self.path, metadata=self._footer, memory_map=True) as file:
                table = file.read_row_group(group, columns=[REGION, REGION_COUNT], use_threads=False)
            values = [np.from_dlpack(column.combine_chunks()) for column in table.itercolumns()]
        except (pa.ArrowException, OSError, IndexError):
            raise ReleaseFileError(f"{self.path} is damaged: its regions cannot be read.") from None
        if _sha256(*values) != self.metadata.blocks[group].regions:
            raise ReleaseFileError(f"{self.path} is damaged: its regions do not match their digest.")
        return values[0], values[1]

    @cached_property
    def counts(self) -> NDArray[Any]:
        """All noisy counts as an array with one axis per attribute."""
        whole, start = np.empty(self.domain.size, self.dtype), 0
        for block in self.blocks():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole.reshape(self.domain.shape)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the noisy counts block by block in C order."""
        return in_order(self.block, range(len(self.metadata.blocks)))

    def verify(self) -> None:
        """Read everything, and check counts against their digests and labels against the domain."""
        start = 0
        if self.metadata.regions is not None:
            _ = self.regions
        labels = _LabelColumns(self.domain)
        try:
            with pq.ParquetFile(self.path, memory_map=True, page_checksum_verification=True) as file:
                for group, counts in enumerate(self.blocks()):
                    table = file.read_row_group(group, columns=list(self.domain.names))
                    expected = labels.rows(start, start + len(counts))
                    if not all(map(_same_labels, table.itercolumns(), expected)):
                        raise ReleaseFileError(f"{self.path} is damaged: its labels are not in their places.")
                    start += len(counts)
        except (pa.ArrowException, OSError):
            raise ReleaseFileError(f"{self.path} is damaged: its labels cannot be read.") from None


def _value_types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return names and types of columns; readers keep a dictionary or its values, as they like."""
    types = [getattr(kind, "value_type", kind) for kind in schema.types]
    return list(zip(schema.names, types, strict=True))


def _same_labels(column: pa.ChunkedArray, expected: pa.DictionaryArray) -> bool:
    """Compare labels, whatever dictionaries they are kept in."""
    kind = expected.type.value_type
    return bool(column.cast(kind).combine_chunks().equals(expected.cast(kind)))


def open_release(path: str | Path) -> Release:
    """Open a release file, checking format, version, shape, digest and the epsilon that it claims."""
    if not str(path).strip():
        raise ReleaseFileError("The name of the release file is empty; name the file to read.")
    path = Path(path)
    if not os.path.exists(path):
        raise ReleaseFileError(f"There is no release file {path}.")
    if path.is_dir():
        raise ReleaseFileError(f"{path} is a folder; name one of the release files in it.")
    try:
        if not path.is_file():
            raise OSError("no regular file")
        with pq.ParquetFile(path, memory_map=True) as file:
            document = (file.metadata.metadata or {}).get(KEY)
            schema, rows, groups = file.schema_arrow, file.metadata.num_rows, file.num_row_groups
    except (pa.ArrowException, OSError, ValueError):
        raise ReleaseFileError(
            f"{path} cannot be read as Parquet: it is damaged, cut short, or not a release file."
        ) from None
    if document is None:
        raise ReleaseFileError(
            f"{path} is a Parquet file, but not a dpcli release: it has no dpcli metadata."
        )
    metadata = Metadata.from_json(document, str(path), rows)
    fits = _value_types(schema) == _value_types(_schema(metadata))
    if not fits or rows != metadata.domain.size or groups != len(metadata.blocks):
        raise ReleaseFileError(f"{path} is damaged: its columns or rows do not match its metadata.")
    return Release(path, metadata)


def write_release(
    path: Path,
    metadata: Metadata,
    blocks: Iterable[NDArray[Any]],
    *,
    replace: bool,
    regions: Regions | None = None,
    progress: Progress | None = None,
    before_it_appears: Callable[[Metadata], None] | None = None,
) -> None:
    """Write blocks of counts, in C order, with ``metadata`` (its ``blocks`` are filled in here).

    ``regions`` go with a release by ispe.

    ``before_it_appears`` is given the metadata as written; see :func:`dpcli.release.whole.whole_file`.
    """
    domain, complete = metadata.domain, metadata

    def announce() -> None:
        if before_it_appears is not None:
            before_it_appears(complete)

    written: list[RowGroup] = []
    cells = 0
    columns = _LabelColumns(domain)
    with whole_file(
        path, replace=replace, tidy=before_it_appears is None, before_it_appears=announce
    ) as temporary:
        writer: pq.ParquetWriter | None = None
        try:
            for values in _row_groups(blocks):
                if writer is None:
                    writer = pq.ParquetWriter(
                        temporary,
                        _schema(metadata),
                        compression="zstd",
                        use_dictionary=list(domain.names),
                        write_page_checksum=True,
                        write_statistics=list(domain.names),
                    )
                more = _of_cells(regions, cells, cells + len(values)) if regions else []
                arrays = [*columns.rows(cells, cells + len(values)), *map(pa.array, (values, *more))]
                writer.write_batch(pa.record_batch(arrays, schema=writer.schema), row_group_size=len(values))
                sealed = _sha256(*more) if more else None
                written.append(RowGroup(rows=len(values), sha256=_sha256(values), regions=sealed))
                cells += len(values)
                if progress is not None:
                    progress(cells / domain.size)
            if writer is None or cells != domain.size:
                raise ValueError(f"{cells} counts for a cube of {domain.size} cells")
            complete = metadata.model_copy(update={"blocks": written})
            writer.add_key_value_metadata({KEY: complete.to_json()})
        finally:
            if writer is not None:
                writer.close()


def _schema(metadata: Metadata) -> pa.Schema:
    """Return the columns of a release's file: whole counts where every cell was measured by itself."""
    labels = zip(metadata.domain.names, map(_label_type, metadata.domain.attributes), strict=True)
    fields = [pa.field(name, kind) for name, kind in labels]
    more = [REGION, REGION_COUNT] if metadata.regions is not None else []
    fields.append(pa.field(COUNT, pa.int64() if metadata.whole else pa.float64(), False))
    return pa.schema([*fields, *(pa.field(name, pa.int64(), False) for name in more)])


def _of_cells(regions: Regions, start: int, stop: int) -> list[NDArray[np.int64]]:
    """Return the regions of some cells, and those regions' counts."""
    labels = regions.labels.reshape(-1)[start:stop]
    return [labels, regions.counts[labels]]


def _row_groups(blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Cut blocks into pieces that are small enough to write, and later to read, one by one."""
    for block in blocks:
        for start in range(0, len(block), ROW_GROUP):
            yield block[start : start + ROW_GROUP]


class _LabelColumns:
    """The label columns of any run of cells, as dictionary arrays that share their labels."""

    def __init__(self, domain: Domain) -> None:
        self._shape = domain.shape
        self.columns = [_dictionary(attribute) for attribute in domain.attributes]

    def rows(self, start: int, stop: int) -> Iterator[pa.Array]:
        """Yield one array per attribute for the cells ``start <= cell < stop``."""
        stride = prod(self._shape)
        for size, column in zip(self._shape, self.columns, strict=True):
            stride //= size
            # In C order a category stands `stride` times in a row; the first and last run may be cut.
            runs = np.arange(start // stride, (stop - 1) // stride + 1)
            lengths = np.diff(np.clip(np.append(runs, runs[-1] + 1) * stride, start, stop))
            codes = np.repeat((runs % size).astype(np.int32), lengths)
            mask = codes == column.null if column.null is not None else None
            yield pa.DictionaryArray.from_arrays(
                pa.array(codes, mask=mask), column.labels, ordered=column.type.ordered
            )


@dataclass(frozen=True)
class _Dictionary:
    labels: pa.Array
    null: int | None
    type: pa.DataType


def _label_type(attribute: Attribute) -> pa.DataType:
    """Return the type of an attribute's column: whole numbers where all labels are, text otherwise."""
    whole = isinstance(attribute, Integers) and attribute.outside != "other"
    return pa.dictionary(pa.int32(), pa.int64() if whole else pa.string(), attribute.ordered)


def _dictionary(attribute: Attribute) -> _Dictionary:
    """Return an attribute's labels; the category of missing values, if any, becomes a Parquet null."""
    labels = attribute.labels()
    named = [label for label in labels if label is not None]
    kind = _label_type(attribute)
    null = len(named) if len(named) < len(labels) else None
    return _Dictionary(pa.array(named, kind.value_type), null, kind)


def _sha256(*columns: NDArray[Any]) -> str:
    found = hashlib.sha256()
    for values in columns:
        little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        found.update(little.view(np.uint8).data)
    return found.hexdigest()
