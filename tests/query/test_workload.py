"""Random ranges: seeded, and as they are described."""

from __future__ import annotations

import numpy as np

from dpcli.data.domain import Domain
from dpcli.query.workload import random_ranges

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 9], "missing": "own-category"},
        {"name": "job", "kind": "nominal", "hierarchy": {"A": ["x", "y"], "B": ["z"]}},
        {"name": "sex", "kind": "nominal", "values": ["F", "M"]},
    ]
)


def test_each_attribute_is_restricted_by_its_kind() -> None:
    queries = random_ranges(DOMAIN, 500)
    ages, jobs, sexes = ([query.terms[0][axis] for query in queries] for axis in range(3))
    assert all(np.abs(np.diff(mask.astype(int))).sum() <= 2 and mask.any() and not mask[-1] for mask in ages)
    assert {tuple(mask.tolist()) for mask in jobs} == {
        (True, True, False),
        (True, False, False),
        (False, True, False),
        (False, False, True),
    }
    assert {int(mask.sum()) for mask in sexes} == {1}
    # Two uniform ends on 10 values: the mean length is 1 + (10² − 1)/(3·10) = 4.3.
    assert abs(np.mean([mask.sum() for mask in ages]) - 4.3) < 0.4


def test_the_same_seed_gives_the_same_queries() -> None:
    def masks(seed: int) -> list[list[bool]]:
        return [query.terms[0][0].tolist() for query in random_ranges(DOMAIN, 20, seed)]

    assert masks(1) == masks(1) != masks(2)
