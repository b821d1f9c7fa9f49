"""Values of batches: every way of adding up agrees with brute force."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.estimate import totals
from dpcli.estimate.totals import Totals
from dpcli.query.batch import Batch, batches, grouped
from dpcli.query.product import Query
from dpcli.release.file import Release, open_release

SHAPE = (5, 2, 7)
COUNTS = np.random.default_rng(5).integers(-9, 99, SHAPE)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, write_cube: Callable[..., None]) -> Release:
    path = tmp_path_factory.mktemp("totals") / "r.parquet"
    write_cube(path, COUNTS, [14, 31])
    return open_release(path)


def dense(query: Query) -> np.ndarray:
    total = np.zeros(SHAPE)
    for term in query.terms:
        one = np.ones(())
        for weights in query.factors(term, SHAPE):
            one = np.multiply.outer(one, weights)
        total += one
    return total


@st.composite
def queries(draw: st.DrawFn, weighted: bool = False) -> Query:
    """Disjoint terms: the first axis is divided among them."""
    owner = np.array(draw(st.lists(st.integers(0, 3), min_size=5, max_size=5)))
    terms = []
    for number in range(draw(st.integers(0, 3))):
        if (owner == number).any():
            term: dict[int, np.ndarray] = {0: owner == number}
            for axis in (1, 2):
                if draw(st.booleans()):
                    term[axis] = np.array(
                        draw(st.lists(st.booleans(), min_size=SHAPE[axis], max_size=SHAPE[axis]))
                    )
            if weighted and draw(st.booleans()):
                term[0] = term[0] * np.array(draw(st.lists(st.floats(-2, 2), min_size=5, max_size=5)))
            terms.append(term)
    return Query("", tuple(terms))


@pytest.mark.parametrize("way", ["grid", "one by one", "boxes"])
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lists_of_queries(release: Release, way: str, data: st.DataObject) -> None:
    asked = data.draw(st.lists(queries(weighted=way != "boxes"), min_size=1, max_size=12))
    with pytest.MonkeyPatch.context() as patch:
        if way != "grid":
            patch.setattr(totals, "MOST_GRID", -1)
            patch.setattr(totals, "GRID_PER_QUERY", 0)
            patch.setattr(totals, "MOST_ONE_BY_ONE", -1 if way == "boxes" else 1 << 60)
        found = batches(asked, SHAPE)
        sums = Totals(release, [batch for _, batch in found])
        for places, batch in found:
            expected = [(dense(asked[place]) * COUNTS).sum() for place in places]
            assert np.allclose(sums.values(batch), expected)


@given(query=queries(weighted=True), axes=st.permutations([0, 1, 2]), count=st.integers(1, 3))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups(release: Release, query: Query, axes: list[int], count: int) -> None:
    by = tuple(axes[:count])
    codes, batch = grouped(query, by, SHAPE)
    assert len(codes) == len(batch)
    found = dict(zip(map(tuple, codes.tolist()), Totals(release, [batch]).values(batch), strict=True))
    weights = dense(query)
    for group in np.ndindex(*(SHAPE[axis] for axis in by)):
        where: list[object] = [slice(None)] * 3
        for axis, code in zip(by, group, strict=True):
            where[axis] = slice(code, code + 1)
        cells = tuple(where)
        if group in found:
            assert found[group] == pytest.approx((weights[cells] * COUNTS[cells]).sum())
        else:
            assert not weights[cells].any()


def test_whole_counts_stay_whole(release: Release) -> None:
    ((_, batch),) = batches([Query("", ({},))], SHAPE)
    assert Totals(release, [batch]).values(batch).tolist() == [int(COUNTS.sum())]
    assert Totals(release, [batch]).values(batch).dtype == np.int64


def test_queries_without_terms_count_nothing(release: Release) -> None:
    empty = Batch(tuple(np.zeros((0, m), bool) for m in SHAPE), np.zeros((2, 0, 3), np.intp))
    assert Totals(release, [empty]).values(empty).tolist() == [0, 0]
