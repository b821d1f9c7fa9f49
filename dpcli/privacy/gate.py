"""PRIVATE: the one gate between a table's true counts and everything else.

A mechanism is handed a :class:`Probe`. It asks for a measurement; the probe works out the cost from the
very strategy that it is about to apply, has it debited, and only then draws. What comes back is noisy.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from dpcli.data.counting import SparseCube
from dpcli.data.domain import Domain
from dpcli.parallel import in_order
from dpcli.privacy.cost import Neighbors, cost, scale_for
from dpcli.privacy.noise import DiscreteLaplace, Keystream, discrete_laplace
from dpcli.strategy.axis import IntArray
from dpcli.strategy.kronecker import BLOCK_CELLS, Strategy
from dpcli.strategy.large import forward_in_place, is_large
from dpcli.strategy.observation import NoisyBlock, Observation, RegionCounts
from dpcli.strategy.partition import Partition


class Account(Protocol):
    """What pays for measurements; see :mod:`dpcli.privacy.ledger`."""

    def debit(self, epsilon: Fraction) -> None:
        """Take epsilon durably, or raise ``BudgetError`` and take nothing."""


class Probe:
    """A table's counts, to be seen only through noise."""

    def __init__(
        self,
        cube: SparseCube,
        *,
        neighbors: Neighbors,
        rows_per_unit: int,
        account: Account,
        keystream: Keystream,
    ) -> None:
        self.domain: Domain = cube.domain
        self.neighbors: Neighbors = neighbors
        self.rows_per_unit = rows_per_unit
        self.__cube = cube
        self.__account = account
        self.__keystream = keystream

    def measure(self, strategy: Strategy, epsilon: Fraction) -> Observation:
        """Return the strategy's coefficients with independent discrete Laplace noise, for epsilon.

        Proof: the scale comes from the sensitivity of ``strategy``, and ``strategy`` is what :meth:`_draw`
        applies. The counts are integers, the forward map is integral, and noise is added to every
        coefficient, also where the counts are zero, so :func:`dpcli.privacy.cost.cost` bounds the loss.
        The debit is durable before the first draw; a crash loses budget, never privacy. Each block is drawn
        once, because a generator cannot be rewound.
        """
        if strategy.shape != self.domain.shape:
            raise ValueError(f"a strategy for {strategy.shape} does not fit a cube of {self.domain.shape}")
        scale = scale_for(strategy, epsilon, self.neighbors, self.rows_per_unit)
        for weight in strategy.weights:
            discrete_laplace(scale * weight)  # refuses a scale that it cannot draw, before anything is paid
        self.__account.debit(cost(strategy, scale, self.neighbors, self.rows_per_unit))
        return Observation(strategy, scale, self._draw(strategy, scale))

    def measure_regions(self, partition: Partition, epsilon: Fraction) -> RegionCounts:
        """Return the sums of a partition's regions with independent discrete Laplace noise, for epsilon.

        Proof: as for :meth:`measure`; the cost comes from the norm of ``partition``, whose sums are taken
        here. Which partition it is may depend on what was measured before, for that was noisy and is paid
        for: the costs of both measurements add up (adaptive composition), whatever regions were chosen.
        """
        if partition.labels.shape != self.domain.shape:
            raise ValueError("a partition has a region for each cell of the cube")
        scale = scale_for(partition, epsilon, self.neighbors, self.rows_per_unit)
        law = discrete_laplace(scale)
        self.__account.debit(cost(partition, scale, self.neighbors, self.rows_per_unit))
        counts = partition.sums(self.__cube.cells, self.__cube.counts)
        counts += law.sample(self.__keystream.spawn(), len(counts))
        return RegionCounts(partition, scale, counts)

    def _draw(self, strategy: Strategy, scale: Fraction) -> Iterator[NoisyBlock]:
        """Yield the noisy blocks in order, a few being computed ahead, each from a keystream of its own."""
        large = is_large(strategy)
        noise_classes = lru_cache(maxsize=4)(strategy.noise_classes)

        def noisy(job: tuple[int, int, Keystream]) -> NoisyBlock:
            start, stop, keystream = job
            if large:
                values = forward_in_place(strategy, lambda a, b: self.__cube.dense(start + a, start + b))
            else:
                values = np.ascontiguousarray(strategy.forward(self.__cube.dense(start, stop)))

            def add_noise(run: tuple[int, int, Keystream]) -> None:
                first, last, own = run
                for weight, places in noise_classes(first, last):
                    _add_noise(values[:, first:last], places, discrete_laplace(scale * weight), own)

            width = strategy.coefficients
            starts = range(0, width, BLOCK_CELLS)
            runs = ((first, min(first + BLOCK_CELLS, width), keystream.spawn()) for first in starts)
            for _ in in_order(add_noise, runs) if large else map(add_noise, runs):
                pass
            return NoisyBlock(start, stop, values)

        blocks = strategy.blocks(BLOCK_CELLS)
        jobs = ((start, stop, self.__keystream.spawn()) for start, stop in blocks)
        yield from map(noisy, jobs) if large else in_order(noisy, jobs)


def _add_noise(values: IntArray, places: IntArray | None, law: DiscreteLaplace, keystream: Keystream) -> None:
    """Add one draw to every coefficient, or in every slab (row) to those at ``places``."""
    if places is None:
        values += law.sample(keystream, values.size).reshape(values.shape)
    else:
        values[:, places] += law.sample(keystream, len(values) * len(places)).reshape(len(values), -1)
