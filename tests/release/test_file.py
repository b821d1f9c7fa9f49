"""The release file: tidy for any reader, and refused when it cannot be trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.data.domain import Domain
from dpcli.errors import ReleaseFileError
from dpcli.release.file import KEY, open_release, write_release
from dpcli.release.metadata import Metadata, Noise, Privacy, _digest
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy

ATTRIBUTES = [
    {"name": "age", "kind": "ordinal", "range": [5, 7], "missing": "own-category"},
    {"name": "pay", "kind": "ordinal", "edges": ["0", "0.5", "2"], "outside": "other"},
    {"name": "job", "kind": "nominal", "hierarchy": [{"Health": ["Nurse", "Dentist"]}, "Retired"]},
    {"name": "wed", "kind": "boolean"},
    {"name": "day", "kind": "date", "range": ["2020-01-01", "2020-03-31"], "period": "month"},
]


def describe(
    items: list[dict[str, object]], epsilon: str = "1", scale: str = "1", **more: object
) -> Metadata:
    domain = Domain.from_description(items)
    return Metadata(
        id="0" * 32,
        tool="dpcli test",
        randomness="operating-system",
        dataset="town",
        name="cube",
        mechanism="laplace",
        domain=items,
        strategy=Strategy(tuple(map(Identity, domain.shape))).describe(),
        noise=Noise(scale=scale),
        privacy=Privacy(epsilon=epsilon, neighbors="add-remove"),
        **more,
    )


def write(
    path: Path, items: list[dict[str, object]] = ATTRIBUTES, blocks: int = 1, **options: str
) -> np.ndarray:
    metadata = describe(items, **options)
    counts = np.random.default_rng(0).integers(-50, 1000, metadata.domain.size)
    write_release(path, metadata, np.array_split(counts, blocks), replace=True)
    return counts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.parquet"


def test_any_reader_sees_labels_and_counts(path: Path) -> None:
    counts = write(path, blocks=7)
    frame = pd.read_parquet(path)
    assert list(frame.columns) == ["age", "pay", "job", "wed", "day", "count"]
    assert frame["count"].tolist() == counts.tolist()
    assert frame["age"].dropna().unique().tolist() == [5, 6, 7]
    assert frame["age"].isna().sum() == len(frame) // 4
    assert frame["pay"].unique().tolist() == ["[0, 0.5)", "[0.5, 2]", "(other)"]
    assert frame["day"].unique().tolist() == ["2020-01", "2020-02", "2020-03"]
    one = frame[
        (frame.age == 6) & (frame.pay == "[0, 0.5)") & (frame.job == "Retired") & (frame.wed == "true")
    ]
    assert one["count"].tolist() == counts.reshape(4, 3, 3, 2, 3)[1, 0, 2, 1].tolist()


@st.composite
def domains(draw: st.DrawFn) -> list[dict[str, object]]:
    kinds = draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=4))
    return [{**kind, "name": f"a{place}"} for place, kind in enumerate(kinds)]


@given(domains(), st.integers(1, 9))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path: Path, items: list[dict[str, object]], blocks: int) -> None:
    path = tmp_path / "r.parquet"
    domain = Domain.from_description(items)
    counts = write(path, items, blocks=min(blocks, domain.size))
    release = open_release(path)
    assert release.domain == domain
    assert np.array_equal(release.counts.reshape(-1), counts)
    assert release.metadata.spent() == 1
    columns = pq.read_table(path).select(domain.names)
    for place, (column, attribute) in enumerate(zip(columns.itercolumns(), domain.attributes, strict=True)):
        labels = np.array(attribute.labels(), dtype=object)
        expected = labels[np.indices(domain.shape)[place].reshape(-1)]
        assert column.to_pylist() == expected.tolist()


def refused(path: Path) -> str:
    with pytest.raises(ReleaseFileError) as caught:
        api_read(path)
    return str(caught.value)


def api_read(path: Path) -> None:
    _ = open_release(path).counts


def rewrite(path: Path, change: Callable[[dict[str, object]], None], *, sign: bool) -> None:
    """Write the same table with changed metadata, with a fresh digest if ``sign``."""
    with pq.ParquetFile(path) as file:
        document = json.loads(file.metadata.metadata[KEY])
        table = file.read()
    document.pop("digest")
    before = _digest(document)
    change(document)
    document["digest"] = _digest(document) if sign else before
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
        writer.add_key_value_metadata({KEY: json.dumps(document)})


def test_missing_and_folder(path: Path, tmp_path: Path) -> None:
    assert refused(path) == f"There is no release file {path}."
    assert refused(tmp_path) == f"{tmp_path} is a folder; name one of the release files in it."


def test_not_parquet_empty_and_truncated(path: Path) -> None:
    write(path)
    whole = path.read_bytes()
    for content in (b"", b"age,count\n1,2\n", whole[:-20], whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert refused(path) == (
            f"{path} cannot be read as Parquet: it is damaged, cut short, or not a release file."
        )


def test_foreign_parquet(path: Path) -> None:
    pq.write_table(pa.table({"age": [1], "count": [2]}), path)
    assert refused(path) == f"{path} is a Parquet file, but not a dpcli release: it has no dpcli metadata."


def test_newer_version(path: Path) -> None:
    write(path)
    rewrite(path, lambda d: d.update(version=2), sign=True)
    assert refused(path) == f"{path} has format version 2, and this dpcli reads up to 1. Upgrade dpcli."


def test_changed_metadata(path: Path) -> None:
    write(path)
    rewrite(path, lambda d: d.update(dataset="city"), sign=False)
    assert refused(path) == f"{path} is damaged: its metadata does not match its digest. Get it again."


def test_a_claim_below_what_was_spent(path: Path) -> None:
    write(path)
    rewrite(path, lambda d: d["privacy"].update(epsilon="0.5"), sign=True)  # type: ignore[attr-defined]
    assert refused(path) == (
        f"{path} claims epsilon 0.5, but the noise that it describes spends 1. Do not trust it."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("strategy"),
        lambda d: d.update(domain=[]),
        lambda d: d.update(domain="x"),
        lambda d: d["noise"].update(scale="0"),
        lambda d: d["noise"].update(scale="-1"),
        lambda d: d["noise"].update(scale="one"),
        lambda d: d["noise"].update(law="gaussian"),
        lambda d: d["strategy"].update(axes=[{"kind": "fourier", "size": 3}]),
        lambda d: d["strategy"].update(axes=[{"kind": "identity"}]),
        lambda d: d["strategy"].update(axes=[{"kind": "identity", "size": 72}]),
        lambda d: d["privacy"].update(rows_per_person=0),
    ],
)
def test_inconsistent_metadata(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    write(path)
    rewrite(path, change, sign=True)
    assert refused(path) == (
        f"{path} is not a release that this dpcli understands: its metadata is inconsistent."
    )


def test_unreadable_metadata(path: Path) -> None:
    for text in (b"{", b"[]", b'{"version": "x", "digest": ""}'):
        with pq.ParquetWriter(path, pa.schema([("count", pa.int64())])) as writer:
            writer.add_key_value_metadata({KEY: text})
        assert refused(path) == f"{path} is damaged: its metadata cannot be read. Get it again."


def test_changed_counts_rows_and_columns(path: Path) -> None:
    write(path)
    with pq.ParquetFile(path) as file:
        document, table = file.metadata.metadata[KEY], file.read()

    def save(changed: pa.Table) -> None:
        with pq.ParquetWriter(path, changed.schema) as writer:
            writer.write_table(changed, row_group_size=max(1, changed.num_rows))
            writer.add_key_value_metadata({KEY: document})

    counts = table["count"].to_numpy().copy()
    counts[3] += 1
    save(table.set_column(5, table.schema.field("count"), pa.array(counts)))
    assert refused(path) == f"{path} is damaged: its counts do not match their digest."
    save(table.slice(0, 10))
    assert refused(path) == f"{path} is damaged: it has 10 rows for 216 cells."
    save(table.drop_columns(["age"]))
    assert refused(path) == f"{path} is damaged: its columns or rows do not match its metadata."


def test_a_flipped_byte_in_the_data_is_noticed(path: Path) -> None:
    write(path)
    content = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(0).column(5)
        place = column.data_page_offset + column.total_compressed_size - 5
    content[place] ^= 0xFF
    path.write_bytes(bytes(content))
    assert refused(path) in (
        f"{path} is damaged: its counts cannot be read.",
        f"{path} is damaged: its counts do not match their digest.",
    )


def test_counts_must_fill_the_cube(path: Path) -> None:
    with pytest.raises(ValueError, match="3 counts for a cube of 216 cells"):
        write_release(path, describe(ATTRIBUTES), [np.arange(3)], replace=True)
    assert not path.exists()


def test_the_epsilon_of_a_release_is_recomputed_for_other_neighbours(path: Path) -> None:
    metadata = describe(ATTRIBUTES, scale="4")
    assert metadata.spent() == Fraction(1, 4)
    twice = metadata.model_copy(
        update={"privacy": Privacy(epsilon="1", neighbors="replace-one", rows_per_person=2)}
    )
    assert twice.spent() == 1


def test_thirds_can_be_read_back(path: Path) -> None:
    metadata = describe(ATTRIBUTES, epsilon="1/3", scale="3")
    assert Metadata.model_validate(json.loads(metadata.to_json())).spent() == Fraction(1, 3)


def test_labels_that_were_moved_are_noticed_by_verify(path: Path) -> None:
    write(path, blocks=3)
    open_release(path).verify()
    with pq.ParquetFile(path) as file:
        document, table = file.metadata.metadata[KEY], file.read()
    reverse = pa.array(table["job"].to_pylist()[::-1]).dictionary_encode()
    with pq.ParquetWriter(path, table.schema) as writer:
        changed = table.set_column(2, "job", reverse).cast(table.schema)
        writer.write_table(changed, row_group_size=-(-changed.num_rows // 3))
        writer.add_key_value_metadata({KEY: document})
    release = open_release(path)
    with pytest.raises(ReleaseFileError) as caught:
        release.verify()
    assert str(caught.value) == f"{path} is damaged: its labels are not in their places."


def test_counts_that_no_table_can_have(path: Path) -> None:
    metadata = describe(ATTRIBUTES)
    counts = np.zeros(metadata.domain.size, np.int64)
    counts[0] = 2**60
    write_release(path, metadata, [counts], replace=True)
    assert refused(path) == f"{path} holds counts that no table can have."


@pytest.mark.parametrize("scale", ["1e400", "1e99999999", "1/0", "0.5/3", "99999999999999", "nan", 1.5, None])
def test_forged_scales(path: Path, scale: object) -> None:
    write(path)
    rewrite(path, lambda d: d["noise"].update(scale=scale), sign=True)  # type: ignore[attr-defined]
    assert "metadata is inconsistent" in refused(path)


@pytest.mark.parametrize("version", [0, -5, True, "1", 1e999, None])
def test_forged_versions(path: Path, version: object) -> None:
    write(path)
    rewrite(path, lambda d: d.update(version=version), sign=True)
    assert refused(path) == f"{path} is damaged: its metadata cannot be read. Get it again."


def test_deeply_nested_metadata(path: Path) -> None:
    with pq.ParquetWriter(path, pa.schema([("count", pa.int64())])) as writer:
        writer.add_key_value_metadata({KEY: "[" * 100_000})
    assert refused(path) == f"{path} is damaged: its metadata cannot be read. Get it again."


def test_unknown_mechanism_or_step(path: Path) -> None:
    for change in ({"mechanism": "magic"}, {"steps": ["polish"]}):
        write(path)
        rewrite(path, lambda d, change=change: d.update(change), sign=True)  # type: ignore[misc]
        assert "metadata is inconsistent" in refused(path)


def test_a_fifo_is_no_release(path: Path) -> None:
    os.mkfifo(path)
    assert "cannot be read as Parquet" in refused(path)
