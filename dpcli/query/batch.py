"""Many product-form queries in columns, so that whole arrays of answers are worked out at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpcli.errors import QueryError
from dpcli.query.product import Query, Weights

Shape = tuple[int, ...]
MOST_FACTORS = 1 << 27
MOST_WEIGHTS = 1 << 28
"""How many weights the distinct vectors of a batch may have."""


@dataclass(frozen=True)
class Batch:
    """Queries with equally many terms: q_n = Σ_s ⊗_k vectors[k][which[n, s, k]].

    ``vectors[k]`` holds the distinct vectors of weights along axis k, one per row.
    """

    vectors: tuple[Weights, ...]
    which: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.which)

    @property
    def terms(self) -> int:
        """The number of terms of each query."""
        return int(self.which.shape[1])

    def part(self, places: slice | NDArray[np.intp]) -> Batch:
        """Return some of the queries."""
        return Batch(self.vectors, self.which[places])

    def compact(self) -> Batch:
        """Return the same queries without the vectors that none of them uses."""
        vectors, which = list(self.vectors), np.empty_like(self.which)
        for axis in range(len(vectors)):
            used, places = np.unique(self.which[:, :, axis], return_inverse=True)
            vectors[axis], which[:, :, axis] = vectors[axis][used], places.reshape(which.shape[:2])
        return Batch(tuple(vectors), which)

    def weighted(self, axis: int, weights: NDArray[np.float64]) -> Batch:
        """Return the queries with the categories of one axis weighted: sums instead of counts."""
        vectors = list(self.vectors)
        vectors[axis] = vectors[axis] * weights
        return Batch(tuple(vectors), self.which)

    def weighted_each(self, axis: int, weights: NDArray[np.float64]) -> Batch:
        """Return the queries, the n-th with the categories of one axis weighted by ``weights[n]``."""
        vectors, which = list(self.vectors), self.which.copy()
        vectors[axis] = (vectors[axis][which[:, :, axis]] * weights[:, None, :]).reshape(-1, weights.shape[1])
        which[:, :, axis] = np.arange(len(vectors[axis])).reshape(which.shape[:2])
        return Batch(tuple(vectors), which)


def batches(queries: Sequence[Query], shape: Shape) -> list[tuple[NDArray[np.intp], Batch]]:
    """Return the queries in batches of equally many terms, each with the places of its queries."""
    lengths = np.array([len(query.terms) for query in queries])
    check_vectors(
        *(
            (len({id(term[axis]) for query in queries for term in query.terms if axis in term}), size)
            for axis, size in enumerate(shape)
        )
    )
    everywhere = [np.ones(size, np.bool_) for size in shape]
    found = []
    for terms in np.unique(lengths):
        places = np.flatnonzero(lengths == terms)
        which = np.empty((len(places), int(terms), len(shape)), np.intp)
        vectors = []
        for axis in range(len(shape)):
            known: dict[object, int] = {}
            distinct: list[Weights] = []
            same: dict[int, int] = {}  # queries often share their vectors: look at each but once
            column = []
            for place in places.tolist():
                for term in queries[place].terms:
                    vector = term.get(axis, everywhere[axis])
                    index = same.get(id(vector))
                    if index is None:
                        index = known.setdefault((vector.dtype, vector.tobytes()), len(distinct))
                        if index == len(distinct):
                            distinct.append(vector)
                        same[id(vector)] = index
                    column.append(index)
            which[:, :, axis] = np.array(column, np.intp).reshape(which.shape[:2])
            vectors.append(np.array(distinct) if distinct else np.zeros((0, shape[axis]), np.bool_))
        found.append((places, Batch(tuple(vectors), which)))
    return found


def grouped(query: Query, axes: Sequence[int], shape: Shape) -> tuple[NDArray[np.intp], Batch]:
    """Return a query split by the categories of some axes: the categories of each group, and the groups.

    Groups that hold no cell of the query are left out.
    """
    kept = [_asked(query, axis, shape[axis]) for axis in axes]
    count = prod(len(codes) for codes in kept)
    if count * max(1, len(query.terms)) * len(shape) > MOST_FACTORS:
        raise QueryError(
            f"That makes {count:,} groups; group by fewer attributes, or ask for a part of them."
        )
    check_vectors(
        *((len(codes) * len(query.terms), shape[axis]) for axis, codes in zip(axes, kept, strict=True))
    )
    grid = np.stack(np.meshgrid(*kept, indexing="ij"), axis=-1).reshape(count, len(axes))
    vectors: list[Weights] = []
    which = np.zeros((count, len(query.terms), len(shape)), np.intp)
    holds = np.ones(which.shape[:2], np.bool_)
    for axis, size in enumerate(shape):
        terms = np.array([query.factors(term, shape)[axis] for term in query.terms]).reshape(-1, size)
        if axis not in axes:
            vectors.append(terms)
            which[:, :, axis] = np.arange(len(query.terms))
            continue
        codes = grid[:, list(axes).index(axis)]
        # One vector per term and category: the term's weight there, and nothing elsewhere.
        asked = kept[list(axes).index(axis)]
        distinct, number = np.unique(terms[:, asked], axis=0, return_inverse=True)
        single = np.zeros((len(distinct), len(asked), size), terms.dtype)
        single[:, np.arange(len(asked)), asked] = distinct
        vectors.append(single.reshape(-1, size))
        which[:, :, axis] = number.reshape(-1)[None, :] * len(asked) + np.searchsorted(asked, codes)[:, None]
        holds &= terms[:, codes].T != 0
    present = holds.any(axis=1)
    return grid[present], Batch(tuple(vectors), which[present])


def check_vectors(*numbers: tuple[int, int]) -> None:
    """Raise ``QueryError`` if so many vectors of such lengths would take too much memory."""
    if sum(count * length for count, length in numbers) > MOST_WEIGHTS:
        count, length = max(numbers)
        raise QueryError(
            f"{count:,} answers over {length:,} categories would take too much memory at once."
            " Ask for a part of them, as with a range in the condition, or read the counts from the file."
        )


def _asked(query: Query, axis: int, size: int) -> NDArray[np.intp]:
    """Return the categories of an axis that some term counts."""
    masks = [term.get(axis, np.ones(size, np.bool_)) != 0 for term in query.terms]
    return np.flatnonzero(np.any(masks, axis=0)) if masks else np.zeros(0, np.intp)
