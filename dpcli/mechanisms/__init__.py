"""Mechanisms: which strategy is measured, and with which share of epsilon.

A mechanism is one module, named in ``OPTIONS``, with a function ``strategy(domain, options)`` that says what
it will measure, before any data is read. Measuring goes through a probe, never through the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcli.data.domain import Domain
    from dpcli.strategy.kronecker import Strategy

OPTIONS: dict[str, tuple[str, ...]] = {
    "laplace": (),
    "privelet": ("direct", "workload"),
    "hierarchical": ("branching", "levels", "split"),
    "optimized": ("workload",),
    "ispe": ("ispe",),
    "auto": ("workload",),
}
"""Each mechanism with the options of a release that it takes."""

NAMES: tuple[str, ...] = tuple(OPTIONS)


@dataclass(frozen=True)
class Options:
    """What a release may ask of its mechanism."""

    direct: tuple[str, ...] | Literal["auto", "none"] = "auto"
    """The attributes that Privelet+ does not transform (the paper's S_A)."""
    branching: int = 2
    """The number of children of a node in a tree over an ordered attribute."""
    levels: tuple[int, ...] | None = None
    """The levels of such a tree measured besides the cells (level 0); by default all and the root."""
    split: Literal["equal", "geometric"] = "equal"
    """How epsilon is split over the levels of a tree; geometric halves it from each to the next coarser."""
    ispe: Any = None
    """How regions are found between ispe's two measurements."""
    scale_per_norm: float | None = None
    """The noise scale of a strategy of norm 1, if known: narrow noise is a little better than λ² says."""
    workload: Any = "random"
    """What to be good at: a kind of random queries, or a ``ListedWorkload``."""


def strategy_of(mechanism: str, domain: Domain, options: Options | None = None) -> Strategy:
    """Return the strategy that a mechanism measures on a domain; no table is needed to know it."""
    build = import_module(f"dpcli.mechanisms.{mechanism}").strategy
    return cast("Callable[[Domain, Options], Strategy]", build)(domain, options or Options())
