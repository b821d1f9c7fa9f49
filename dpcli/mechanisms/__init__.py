"""Mechanisms: which strategy is measured, in which order, with which share of epsilon.

A mechanism is one module, named in ``NAMES``, with two functions: ``strategy(domain)`` says what it will
measure, before any data is read, and ``run(probe, epsilon)`` measures it. It is handed a probe, never the
table or its counts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from dpcli.data.domain import Domain
    from dpcli.privacy.gate import Probe
    from dpcli.strategy.kronecker import Strategy
    from dpcli.strategy.observation import Observation

NAMES: tuple[str, ...] = ("laplace",)


def strategy_of(mechanism: str, domain: Domain) -> Strategy:
    """Return the strategy that a mechanism measures on a domain; no table is needed to know it."""
    build = cast("Callable[[Domain], Strategy]", import_module(f"dpcli.mechanisms.{mechanism}").strategy)
    return build(domain)


def run(mechanism: str, probe: Probe, epsilon: Fraction) -> Observation:
    """Let a mechanism measure, with all of epsilon."""
    measure = cast(
        "Callable[[Probe, Fraction], Observation]", import_module(f"dpcli.mechanisms.{mechanism}").run
    )
    return measure(probe, epsilon)
