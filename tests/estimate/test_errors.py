"""Errors of whole batches: the same as one by one, and intervals that cover."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcli.data.domain import Domain
from dpcli.errors import QueryError
from dpcli.estimate import errors as module
from dpcli.estimate.errors import errors, standard_errors
from dpcli.estimate.law import cumulant, weighted_half_width
from dpcli.estimate.matched import half_widths
from dpcli.mechanisms import strategy_of
from dpcli.query.batch import batches, grouped
from dpcli.query.parse import parse_condition
from dpcli.query.workload import random_ranges
from dpcli.strategy.identity import Identity

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 30]},
        {"name": "job", "kind": "nominal", "hierarchy": {"a": ["b", "c", "d"], "e": ["f", "g"], "h": None}},
        {"name": "pay", "kind": "ordinal", "range": [0, 12]},
    ]
)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(40)])
def test_cumulants_are_those_of_the_law(scale: Fraction) -> None:
    q = np.exp(-float(1 / scale))
    z = np.arange(-4000, 4001, dtype=float)
    p = (1 - q) / (1 + q) * q ** np.abs(z)
    m2, m4, m6 = ((p * z**k).sum() for k in (2, 4, 6))
    assert cumulant(scale, 2) == pytest.approx(m2)
    assert cumulant(scale, 4) == pytest.approx(m4 - 3 * m2**2)
    assert cumulant(scale, 6) == pytest.approx(m6 - 15 * m4 * m2 + 30 * m2**3)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.9999])
@pytest.mark.parametrize(
    "shares", [[1.0], [1, 1], [3, 1], [1, 0.5, 0.25, 0.125], [1] * 30, [5, 1, 1, 1, 1, 1]]
)
def test_matched_laws_have_the_quantiles_of_the_exact_ones(shares: list[float], level: float) -> None:
    scale = Fraction(500)
    a = np.array(shares, float)
    second, fourth, sixth = (np.array([(a**k).sum() * cumulant(scale, k)]) for k in (2, 4, 6))
    exact, _ = weighted_half_width(scale, a, np.ones(len(a), np.int64), 0.0, level)
    found = half_widths(second, fourth, sixth, level)[0]
    # The exact one is wide by ten steps of its grid, so that atoms are never missed.
    assert found == pytest.approx(exact, rel=0.02)
    assert found <= exact * 1.003


@pytest.mark.parametrize("mechanism", ["laplace", "privelet", "hierarchical", "auto"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1)])
def test_many_at_once_agree_with_each_alone(
    mechanism: str, epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = strategy_of(mechanism, DOMAIN)
    scale = strategy.norm / epsilon
    ((_, batch),) = batches(random_ranges(DOMAIN, 150, 3), DOMAIN.shape)
    alone = errors(batch, strategy, scale, 0.95)
    monkeypatch.setattr(module, "MOST_EXACT", 3)
    together = errors(batch, strategy, scale, 0.95)
    assert np.allclose(alone.stderr, together.stderr)
    assert np.allclose(alone.stderr, standard_errors(batch, strategy, scale))
    cells = all(isinstance(axis, Identity) for axis in strategy.axes)
    assert together.exact[np.argmax(together.stderr)] == cells
    if scale >= 4:
        assert np.allclose(alone.half, together.half, rtol=0.08 if scale < 20 else 0.02, atol=1)
    for place in (0, 7, 100):
        one = errors(batch.part(slice(place, place + 1)), strategy, scale, 0.95)
        assert one.half[0] == pytest.approx(alone.half[place])
        assert one.stderr[0] == pytest.approx(alone.stderr[place])


@pytest.mark.parametrize("mechanism", ["laplace", "privelet", "hierarchical"])
@pytest.mark.parametrize("condition", ["true", "age < 9 or job = 'e'", "job in ('b', 'f', 'h') and pay > 3"])
def test_groups_have_the_errors_of_their_conditions(mechanism: str, condition: str) -> None:
    strategy = strategy_of(mechanism, DOMAIN)
    query = parse_condition(condition, DOMAIN)
    codes, batch = grouped(query, (0,), DOMAIN.shape)
    found = errors(batch, strategy, Fraction(20), 0.9)
    for place in (0, len(codes) // 2, len(codes) - 1):
        alone = parse_condition(f"({condition}) and age = {codes[place, 0]}", DOMAIN)
        ((_, single),) = batches([alone], DOMAIN.shape)
        expected = errors(single, strategy, Fraction(20), 0.9)
        assert found.stderr[place] == pytest.approx(expected.stderr[0])
        assert found.half[place] == pytest.approx(expected.half[0], rel=1e-6)


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_many_at_once_cover_where_noise_is_little_but_steps(
    scale: Fraction, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total is one whole coefficient of a wavelet: its law is known."""
    monkeypatch.setattr(module, "MOST_EXACT", 0)
    strategy = strategy_of("privelet", DOMAIN)
    ((_, batch),) = batches([parse_condition("true", DOMAIN)], DOMAIN.shape)
    found = errors(batch, strategy, scale, level)
    q = np.exp(-1 / float(scale))
    assert 1 - 2 * q ** (np.floor(found.half[0]) + 1) / (1 + q) >= level - 0.002


def test_many_groups_of_several_terms_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, query = strategy_of("privelet", DOMAIN), parse_condition("age < 9 or job = 'e'", DOMAIN)
    _, batch = grouped(query, (0,), DOMAIN.shape)
    exact = errors(batch, strategy, Fraction(20), 0.95)
    monkeypatch.setattr(module, "MOST_EXACT", 0)
    wide = errors(batch, strategy, Fraction(20), 0.95)
    assert np.all(wide.half >= exact.half * 0.999)
    assert np.all(wide.half <= exact.half * 1.2)


def test_too_many_weights_are_refused() -> None:
    long = Domain.from_description([{"name": "n", "kind": "ordinal", "range": [1, 10**6]}])
    with pytest.raises(QueryError, match="would take too much memory at once"):
        grouped(parse_condition("true", long), (0,), long.shape)
    with pytest.raises(QueryError, match="would take too much memory at once"):
        random_ranges(long, 10_000)
    codes, _ = grouped(parse_condition("n <= 50", long), (0,), long.shape)
    assert len(codes) == 50
