"""Privelet and Privelet+: wavelets along the attributes (Xiao, Wang and Gehrke; §§4–6 of the paper).

An ordered attribute gets the Haar wavelet, any other the nominal wavelet over its hierarchy. Privelet+
leaves the attributes of S_A as they are: here ``direct``, which by default is chosen by exact expected
variance instead of the paper's rule of thumb |A| ≤ P²H.
"""

from __future__ import annotations

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.mechanisms import Options
from dpcli.mechanisms.choice import best_mix, workload_of
from dpcli.strategy.axis import Axis
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.nominal import NominalWavelet


def strategy(domain: Domain, options: Options) -> Strategy:
    """A wavelet along every attribute, except the direct ones."""
    wavelets = [wavelet(attribute) for attribute in domain.attributes]
    if options.direct == "auto":
        candidates = [[Identity(axis.size), axis] for axis in wavelets]
        return best_mix(candidates, workload_of(domain, options), options.scale_per_norm)
    return Strategy(
        tuple(
            Identity(axis.size) if name in options.direct else axis
            for name, axis in zip(domain.names, wavelets, strict=True)
        )
    )


def wavelet(attribute: Attribute) -> Axis:
    """Return the wavelet of an attribute's kind."""
    if attribute.ordered:
        return Haar(attribute.size)
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        return NominalWavelet.from_hierarchy(attribute.hierarchy, attribute.size - attribute.regular)
    return NominalWavelet.flat(attribute.size)
