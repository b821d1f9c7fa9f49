"""Random ranges: seeded, and as they are described."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dpcli.data.domain import Domain
from dpcli.query.product import Query
from dpcli.query.workload import random_ranges

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 3], "missing": "own-category"},
        {"name": "job", "kind": "nominal", "hierarchy": {"A": ["x", "y"], "B": ["z"]}},
        {"name": "sex", "kind": "nominal", "values": ["F", "M"]},
    ]
)


def masks(queries: list[Query], axis: int) -> Counter[tuple[bool, ...]]:
    return Counter(tuple(q.terms[0][axis].tolist()) for q in queries if axis in q.terms[0])


def test_each_attribute_is_restricted_by_its_kind() -> None:
    queries = random_ranges(DOMAIN, 6000)
    ages, jobs, sexes = (masks(queries, axis) for axis in range(3))
    ranges = {tuple(a <= i < b for i in range(5)) for a in range(4) for b in range(a + 1, 5)}
    assert set(ages) == ranges  # all ten, never the missing category
    assert max(ages.values()) < 1.3 * min(ages.values())
    assert set(jobs) == {
        (True, True, False),
        (True, False, False),
        (False, True, False),
        (False, False, True),
    }
    assert set(sexes) == {(True, False), (False, True)}


def test_every_number_of_predicates_is_equally_likely() -> None:
    sizes = Counter(len(query.terms[0]) for query in random_ranges(DOMAIN, 6000))
    assert set(sizes) == {1, 2, 3}
    assert max(sizes.values()) < 1.15 * min(sizes.values())


def test_the_same_seed_gives_the_same_queries() -> None:
    assert masks(random_ranges(DOMAIN, 20, 1), 0) == masks(random_ranges(DOMAIN, 20, 1), 0)
    assert masks(random_ranges(DOMAIN, 20, 1), 0) != masks(random_ranges(DOMAIN, 20, 2), 0)


def test_a_domain_of_one_cell() -> None:
    one = Domain.from_description([{"name": "a", "kind": "ordinal", "range": [0, 0]}])
    assert [query.cells((1,)) for query in random_ranges(one, 3)] == [1, 1, 1]
    assert np.all(random_ranges(one, 1)[0].terms[0][0])
