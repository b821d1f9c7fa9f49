"""Workloads against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dpcli.data.domain import Domain
from dpcli.strategy.axis import Axis
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.tree import Tree
from dpcli.strategy.workloads import Family, ListedWorkload, family, indicators, random_workload

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 6], "missing": "own-category"},
        {"name": "job", "kind": "nominal", "hierarchy": {"A": ["x", "y"], "B": ["z"]}},
        {"name": "sex", "kind": "nominal", "values": ["F", "M"]},
    ]
)
AXES: tuple[Axis, ...] = (Haar(8), NominalWavelet.from_hierarchy(DOMAIN["job"].hierarchy), Identity(2))  # type: ignore[attr-defined]
SPANS = [
    [(a, b) for a in range(7) for b in range(a + 1, 8)],
    [(0, 1), (1, 2), (2, 3), (0, 2), (2, 3)],
    [(0, 1), (1, 2)],
]


def form(axis: Axis, span: tuple[int, int]) -> float:
    q = indicators(axis.size, [span])[0]
    return axis.covariance(q, q)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("make", [Identity, Haar, lambda size: Tree.kary(size, 2)])
def test_mean_and_worst_of_a_family(place: int, make: type[Axis]) -> None:
    axis = make(DOMAIN.shape[place])
    forms = {span: form(axis, span) for span in SPANS[place]}
    chosen = family(DOMAIN.attributes[place], "random")
    assert chosen.mean(axis) == pytest.approx(np.mean([form(axis, span) for span in SPANS[place]]))
    value, span = chosen.worst(axis)
    assert value == pytest.approx(max(forms.values()))
    assert forms[span] == pytest.approx(value)


def test_prefixes() -> None:
    axis = Haar(8)
    expected = np.mean([form(axis, (0, stop)) for stop in range(1, 8)])
    assert family(DOMAIN.attributes[0], "prefixes").mean(axis) == pytest.approx(expected)


def test_expected_variance_is_the_mean_over_all_queries() -> None:
    means = [np.mean([form(axis, span) for span in spans]) for axis, spans in zip(AXES, SPANS, strict=True)]
    free = [form(axis, (0, axis.size)) for axis in AXES]
    by_number = [
        np.mean(
            [
                np.prod([means[k] if k in chosen else free[k] for k in range(3)])
                for chosen in combinations(range(3), j)
            ]
        )
        for j in (1, 2, 3)
    ]
    assert random_workload(DOMAIN).expected(AXES) == pytest.approx(np.mean(by_number))
    ranges = random_workload(DOMAIN, "ranges")
    assert ranges.expected(AXES) == pytest.approx(ranges.families[0].mean(AXES[0]) * means[1] * means[2])


def test_ranges_by_width() -> None:
    """Every width is equally likely, and then every place."""
    axis = Haar(8)
    by_width = [np.mean([form(axis, (a, a + width)) for a in range(8 - width)]) for width in range(1, 8)]
    assert family(DOMAIN.attributes[0], "ranges").mean(axis) == pytest.approx(np.mean(by_width))


def test_listed_queries_count_the_covariance_of_their_terms() -> None:
    low, high = indicators(8, [(0, 3), (5, 8)]).astype(bool)
    one = indicators(2, [(0, 1)]).astype(bool)[0]
    workload = ListedWorkload((((low, None, one), (high, None, None)), ((low, None, None),)))
    ones = np.ones(3)

    def covariance(left: list[np.ndarray], right: list[np.ndarray]) -> float:
        return float(np.prod([axis.covariance(a, b) for axis, a, b in zip(AXES, left, right, strict=True)]))

    a, b, c = [low, ones, one], [high, ones, np.ones(2)], [low, ones, np.ones(2)]
    expected = (covariance(a, a) + covariance(b, b) + 2 * covariance(a, b) + covariance(c, c)) / 2
    assert workload.expected(AXES) == pytest.approx(expected)


def test_long_axes_are_weighed_by_some_of_their_cuts() -> None:
    long = Domain.from_description([{"name": "a", "kind": "ordinal", "range": [0, 9999]}])
    chosen = family(long.attributes[0], "random")
    assert isinstance(chosen, Family)
    assert len(chosen.cuts) == (1 << 22) // 10000
    assert list(chosen.cuts) == sorted(set(chosen.cuts))
    assert chosen.mean(Identity(10000)) == pytest.approx(10000 / 3, rel=0.05)
