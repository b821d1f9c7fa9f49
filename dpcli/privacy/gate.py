"""PRIVATE: the one gate between a table's true counts and everything else.

A mechanism is handed a :class:`Probe`. It asks for a measurement; the probe works out the cost from the
very strategy that it is about to apply, has it debited, and only then draws. What comes back is noisy.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Protocol

from dpcli.data.counting import SparseCube
from dpcli.data.domain import Domain
from dpcli.privacy.cost import Neighbors, cost, scale_for
from dpcli.privacy.noise import DiscreteLaplace, Keystream, discrete_laplace
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.observation import NoisyBlock, Observation

BLOCK_CELLS = 1 << 20


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
        noise = discrete_laplace(scale)  # refuses a scale that it cannot draw, before anything is paid
        self.__account.debit(cost(strategy, scale, self.neighbors, self.rows_per_unit))
        return Observation(strategy, scale, self._draw(strategy, noise))

    def _draw(self, strategy: Strategy, noise: DiscreteLaplace) -> Iterator[NoisyBlock]:
        for start, stop in strategy.blocks(BLOCK_CELLS):
            values = strategy.forward(self.__cube.dense(start, stop))
            values += noise.sample(self.__keystream, len(values))
            yield NoisyBlock(start, stop, values)
