"""Exact discrete Laplace noise on every cell.

Dwork's basic method, and the interval release of the distributive-queries paper (§4): an interval, in one
or more dimensions, is the sum of its cells. Counts are stored as drawn, never truncated at zero.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpcli.data.domain import Domain
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.observation import Observation

if TYPE_CHECKING:
    from dpcli.privacy.gate import Probe


def strategy(domain: Domain) -> Strategy:
    """Every cell is measured by itself."""
    return Strategy(tuple(Identity(size) for size in domain.shape))


def run(probe: Probe, epsilon: Fraction) -> Observation:
    """Measure every cell with the whole of epsilon."""
    return probe.measure(strategy(probe.domain), epsilon)
