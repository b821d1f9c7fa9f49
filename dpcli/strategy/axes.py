"""The registered axis transforms. The contract tests compare each of them with its dense matrix."""

from __future__ import annotations

from typing import Any

from dpcli.strategy.axis import Axis
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.optimized import Optimized
from dpcli.strategy.tree import Tree

AXES: tuple[type[Axis], ...] = (Identity, Haar, NominalWavelet, Tree, Optimized)


def axis_from(description: dict[str, Any]) -> Axis:
    """Rebuild an axis from what :meth:`Axis.describe` returned; raises ``ValueError`` for an unknown one."""
    fields = dict(description)
    kind = fields.pop("kind", None)
    for axis in AXES:
        if axis.kind == kind:
            try:
                return axis(**fields)
            except TypeError:
                raise ValueError(f"the fields of the {kind} axis are not those it has") from None
    raise ValueError(f"unknown axis transform {kind!r}")
