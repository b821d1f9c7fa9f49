"""The registered axis transforms. The contract tests compare each of them with its dense matrix."""

from __future__ import annotations

from typing import Any

from dpcli.strategy.axis import Axis
from dpcli.strategy.identity import Identity

AXES: tuple[type[Axis], ...] = (Identity,)


def axis_from(description: dict[str, Any]) -> Axis:
    """Rebuild an axis from what :meth:`Axis.describe` returned; raises ``ValueError`` for an unknown one."""
    fields = dict(description)
    kind = fields.pop("kind", None)
    for axis in AXES:
        if axis.kind == kind:
            return axis(**fields)
    raise ValueError(f"unknown axis transform {kind!r}")
