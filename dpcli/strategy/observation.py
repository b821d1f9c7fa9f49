"""An observation: noisy measurements with the law of their noise, as the gate hands them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dpcli.strategy.axis import IntArray
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.partition import Partition


@dataclass(frozen=True)
class NoisyBlock:
    """The noisy coefficients of the cells ``start <= cell < stop``, one row per slab of the strategy."""

    start: int
    stop: int
    values: IntArray


@dataclass(frozen=True)
class Observation:
    """A strategy's coefficients, each with independent discrete Laplace noise of scale λ·w.

    The blocks are drawn while they are taken, in order and once; their cost was debited before.
    """

    strategy: Strategy
    scale: Fraction
    blocks: Iterator[NoisyBlock]


@dataclass(frozen=True)
class RegionCounts:
    """The sums of a partition's regions, each with independent discrete Laplace noise of scale λ."""

    partition: Partition
    scale: Fraction
    counts: IntArray
