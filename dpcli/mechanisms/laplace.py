"""Exact discrete Laplace noise on every cell.

Dwork's basic method, and the interval release of the distributive-queries paper (§4): an interval, in one
or more dimensions, is the sum of its cells. Counts are stored as drawn, never truncated at zero.
"""

from __future__ import annotations

from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy


def strategy(domain: Domain, options: Options) -> Strategy:
    """Every cell is measured by itself."""
    return Strategy(tuple(Identity(size) for size in domain.shape))
