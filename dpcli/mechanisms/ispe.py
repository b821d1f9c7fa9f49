"""ISPE: every cell, then the sums of regions that were grown from the noisy cells (Xiao, Xiong and Yuan).

The first measurement is that of ``laplace``, with a share of epsilon. Its noisy cells are smoothed and grown
into regions of similar cells, and the rest of epsilon measures the regions' sums. Estimates from both are
made when questions are asked; see :mod:`dpcli.estimate.ispe`.
"""

from __future__ import annotations

from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy


def strategy(domain: Domain, options: Options) -> Strategy:
    """Every cell is measured by itself."""
    return Strategy(tuple(Identity(size) for size in domain.shape))
