"""Sums over pieces of the categories, read from row groups of any shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.release.file import Release, open_release
from dpcli.release.reduced import Pieces, reduced


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int], list[list[int]]]:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    size = int(np.prod(shape))
    cuts = sorted(set(draw(st.lists(st.integers(1, max(1, size - 1)), max_size=5)))) if size > 1 else []
    pieces = []
    for m in shape:
        raw = draw(st.lists(st.integers(-1, 3), min_size=m, max_size=m))
        kept = sorted({p for p in raw if p >= 0})
        pieces.append([kept.index(p) if p >= 0 else -1 for p in raw])
    return shape, cuts, pieces


@given(cases())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_agree_with_brute_force(
    tmp_path: Path,
    write_cube: Callable[..., None],
    case: tuple[tuple[int, ...], list[int], list[list[int]]],
) -> None:
    shape, cuts, pieces = case
    counts = np.random.default_rng(1).integers(-50, 1000, shape)
    write_cube(tmp_path / "r.parquet", counts, cuts)
    found = reduced(open_release(tmp_path / "r.parquet"), [Pieces(np.array(p)) for p in pieces])
    expected = np.zeros([max(p) + 1 for p in pieces], np.int64)
    for cell in np.ndindex(shape):
        target = tuple(p[c] for p, c in zip(pieces, cell, strict=True))
        if min(target) >= 0:
            expected[target] += counts[cell]
    assert found.dtype == np.int64
    assert np.array_equal(found, expected)


def test_only_row_groups_that_matter_are_read(
    tmp_path: Path, write_cube: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = np.arange(120).reshape(10, 4, 3)
    write_cube(tmp_path / "r.parquet", counts, [12 * k for k in range(1, 10)])
    release = open_release(tmp_path / "r.parquet")
    asked = np.full(10, -1)
    asked[[3, 7]] = 0
    read: list[int] = []
    block = Release.block
    monkeypatch.setattr(Release, "block", lambda self, group: (read.append(group), block(self, group))[1])
    found = reduced(release, [Pieces(asked), Pieces(np.zeros(4, int)), Pieces(np.arange(3))])
    assert found.tolist() == [[counts[[3, 7]].sum(axis=(0, 1)).tolist()]]
    assert sorted(read) == [3, 7]
