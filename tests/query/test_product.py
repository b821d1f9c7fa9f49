"""The algebra of disjoint terms against sets of cells."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.errors import QueryError
from dpcli.query.product import Query, Term, conjunction, disjunction

SHAPE = (3, 4, 2)


def dense(terms: list[Term]) -> np.ndarray:
    """How often each cell is counted."""
    total = np.zeros(SHAPE, int)
    for term in terms:
        cells = np.ones(SHAPE, bool)
        for axis, mask in term.items():
            cells &= mask.reshape([-1 if a == axis else 1 for a in range(len(SHAPE))])
        total += cells
    return total


def complement(terms: list[Term]) -> list[Term]:
    rest: list[Term] = [{}]
    for term in terms:
        outside = [[{axis: ~mask}] for axis, mask in term.items() if not mask.all()]
        rest = conjunction(rest, disjunction(*outside))
    return rest


@st.composite
def atoms(draw: st.DrawFn) -> list[Term]:
    axis = draw(st.integers(0, len(SHAPE) - 1))
    mask = np.array(draw(st.lists(st.booleans(), min_size=SHAPE[axis], max_size=SHAPE[axis])))
    return [{axis: mask}] if mask.any() else []


conditions = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        st.builds(conjunction, inner, inner),
        st.builds(disjunction, inner, inner),
        st.builds(complement, inner),
    ),
    max_leaves=8,
)


@given(conditions, conditions)
def test_terms_stay_disjoint_and_mean_what_they_say(one: list[Term], other: list[Term]) -> None:
    a, b = dense(one), dense(other)
    assert a.max(initial=0) <= 1
    assert np.array_equal(dense(conjunction(one, other)), a & b)
    assert np.array_equal(dense(disjunction(one, other)), a | b)
    assert np.array_equal(dense(complement(one)), 1 - a)
    assert Query("", tuple(one)).cells(SHAPE) == a.sum()


def test_an_or_on_one_attribute_is_one_term() -> None:
    low, high = np.array([1, 0, 0], bool), np.array([0, 0, 1], bool)
    assert len(disjunction([{0: low}], [{0: high}])) == 1


def test_a_condition_that_shatters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcli.query.product.MOST_TERMS", 1)
    with pytest.raises(QueryError) as caught:
        disjunction([{0: np.array([1, 0, 0], bool)}], [{1: np.array([1, 0, 0, 0], bool)}])
    assert str(caught.value) == (
        "The condition falls into more than 1 separate boxes; ask it as several questions."
    )


def test_many_boxes_are_joined_soon() -> None:
    """It took 20 seconds when every pair of boxes was compared as arrays."""
    generator = np.random.default_rng(0)
    shape = (100, 2, 48)
    sides: list[list[Term]] = []
    expected = np.zeros(shape, bool)
    for _ in range(3000):
        masks = [generator.random(size) < share for size, share in zip(shape, (0.2, 0.5, 0.1), strict=True)]
        if all(mask.any() for mask in masks):
            sides.append([dict(enumerate(masks))])
            expected |= masks[0][:, None, None] & masks[1][:, None] & masks[2]
    start = time.process_time()
    terms = disjunction(*sides)
    assert time.process_time() - start < 6
    assert Query("", tuple(terms)).cells(shape) == expected.sum()
