"""The exact variance of answers: dense algebra, look-ups, and Monte Carlo with the real noise."""

from __future__ import annotations

from fractions import Fraction
from math import prod, sqrt

import numpy as np
import pytest

from dpcli.data.counting import SparseCube
from dpcli.data.domain import Domain
from dpcli.data.hierarchy import Hierarchy
from dpcli.estimate.boxes import box_variances
from dpcli.estimate.cube import error_of
from dpcli.estimate.law import unit_variance, weighted_half_width
from dpcli.estimate.variance import BatchNoise
from dpcli.mechanisms import NAMES, strategy_of
from dpcli.privacy.gate import Probe
from dpcli.privacy.ledger import Account
from dpcli.privacy.noise import Keystream
from dpcli.query.batch import batches
from dpcli.query.parse import parse_condition
from dpcli.query.product import Query
from dpcli.query.workload import random_ranges
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.tree import Tree

TREE = {"a": ["b", {"c": ["d", "e"]}], "f": None, "g": ["h", "i", "j"]}
ITEMS = [
    {"name": "age", "kind": "ordinal", "range": [0, 12], "missing": "own-category"},
    {"name": "job", "kind": "nominal", "hierarchy": TREE},
    {"name": "wed", "kind": "boolean"},
    {"name": "pay", "kind": "ordinal", "edges": [0, 1, 5, 20]},
]


def domain(dimensions: int) -> Domain:
    return Domain.from_description(ITEMS[:dimensions])


def estimates(strategy: Strategy, cube: SparseCube, epsilon: Fraction, draws: int) -> np.ndarray:
    """Reconstructed noise of many independent releases, one a row."""
    probe = Probe(
        cube,
        neighbors="add-remove",
        rows_per_unit=1,
        account=Account(epsilon * draws),
        keystream=Keystream.from_seed(7),
    )
    found = []
    for _ in range(draws):
        blocks = probe.measure(strategy, epsilon).blocks
        found.append(np.concatenate([strategy.inverse(block.values) for block in blocks]))
    return np.stack(found)


def noise_of(query: Query, strategy: Strategy, scale: Fraction) -> tuple[BatchNoise, float]:
    ((_, batch),) = batches([query], strategy.shape)
    noise = BatchNoise(batch, strategy, scale)
    return noise, float(noise.variances()[0])


def empty(of: Domain) -> SparseCube:
    return SparseCube(of, np.zeros(0, np.int64), np.zeros(0, np.int64))


@pytest.mark.parametrize("mechanism", NAMES)
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_monte_carlo_agrees_with_the_formula(mechanism: str, dimensions: int) -> None:
    of = domain(dimensions)
    strategy = strategy_of(mechanism, of)
    draws, epsilon = 300, Fraction(1, 2)
    scale = strategy.norm / epsilon
    noise = estimates(strategy, empty(of), epsilon, draws)
    queries = random_ranges(of, 12, seed=dimensions)
    ratios = []
    for query in queries:
        q = np.ones(1)
        for mask in query.factors(query.terms[0], of.shape):
            q = np.multiply.outer(q, mask).ravel()
        answers = noise @ q
        _, exact = noise_of(query, strategy, scale)
        ratios.append((answers**2).mean() / exact)
        assert abs(answers.mean()) < 5 * sqrt(exact / draws), "biased"
    # The mean square of a draw that is no wider-tailed than Laplace has a relative sd of √(5/n) at most.
    assert np.all(np.abs(np.array(ratios) - 1) < 5 * sqrt(5 / draws))
    assert abs(np.mean(ratios) - 1) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NAMES)
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_monte_carlo_agrees_closely(mechanism: str, dimensions: int) -> None:
    of = domain(dimensions)
    strategy = strategy_of(mechanism, of)
    draws, epsilon = 6000, Fraction(2)
    noise = estimates(strategy, empty(of), epsilon, draws)
    for query in random_ranges(of, 12, seed=9):
        q = np.ones(1)
        for mask in query.factors(query.terms[0], of.shape):
            q = np.multiply.outer(q, mask).ravel()
        _, exact = noise_of(query, strategy, strategy.norm / epsilon)
        assert ((noise @ q) ** 2).mean() == pytest.approx(exact, rel=5 * sqrt(5 / draws))


STRATEGIES = [
    Strategy((Identity(5), Haar(6))),
    Strategy((NominalWavelet.from_hierarchy(Hierarchy.from_nested(TREE)), Tree(9, (9, 3, 1), (2, 1, 3)))),
    Strategy((Haar(4), NominalWavelet.flat(3), Identity(2))),
]


def dense(axis: object) -> tuple[np.ndarray, np.ndarray]:
    return axis.inverse(np.eye(axis.rows), 0), axis.weights  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3)])
def test_variance_is_that_of_the_dense_reconstruction(strategy: Strategy, scale: Fraction) -> None:
    """Each coefficient has the variance of its own scale λ·w, which is not exactly w² times that of λ."""
    inverse, weights = np.ones((1, 1)), np.ones(1, np.int64)
    for axis in strategy.axes:
        matrix, own = dense(axis)
        inverse, weights = np.kron(inverse, matrix), np.kron(weights, own)
    variances = np.array([unit_variance(scale * int(w)) for w in weights])
    generator = np.random.default_rng(0)
    for _ in range(5):
        terms = []
        left = generator.random(strategy.shape[0]) < 0.5
        for half in (left, ~left):  # two disjoint terms: their noise is correlated
            if half.any():
                rest = {k: generator.random(m) < 0.7 for k, m in enumerate(strategy.shape) if k}
                terms.append({0: half, **{k: mask for k, mask in rest.items() if mask.any()}})
        query = Query("", tuple(terms))
        q = np.zeros(prod(strategy.shape))
        for term in terms:
            one = np.ones(1)
            for mask in query.factors(term, strategy.shape):
                one = np.multiply.outer(one, mask).ravel()
            q += one
        noise, variance = noise_of(query, strategy, scale)
        assert variance == pytest.approx(((inverse.T @ q) ** 2) @ variances)
        carriers = noise.carriers(0, variance)
        carried = sum(
            float((carriers.shares[carriers.weights == w] ** 2).sum()) * unit_variance(scale * int(w))
            for w in np.unique(carriers.weights)
        )
        assert carried + carriers.rest == pytest.approx(variance)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_look_ups_equal_the_formula(strategy: Strategy) -> None:
    generator = np.random.default_rng(0)
    ends = np.stack([np.sort(generator.integers(0, m + 1, (40, 2)), axis=1) for m in strategy.shape], axis=1)
    boxes = ends[(ends[:, :, 0] < ends[:, :, 1]).all(axis=1)]
    found = box_variances(strategy, Fraction(2), boxes[:, :, 0], boxes[:, :, 1])
    for box, variance in zip(boxes, found, strict=True):
        masks = {
            k: (np.arange(m) >= box[k, 0]) & (np.arange(m) < box[k, 1]) for k, m in enumerate(strategy.shape)
        }
        assert noise_of(Query("", (masks,)), strategy, Fraction(2))[1] == pytest.approx(variance)


def test_an_empty_query_has_no_noise() -> None:
    assert error_of(Query("false", ()), STRATEGIES[0], Fraction(1), 0.95) == (0.0, 0.0, "exact")


@pytest.mark.parametrize("mechanism", ["privelet", "hierarchical", "auto"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_intervals_cover(mechanism: str, level: float) -> None:
    of = domain(2)
    strategy = strategy_of(mechanism, of)
    draws, epsilon = 800, Fraction(1, 20)  # wide noise, so that steps of one whole count do not matter
    noise = estimates(strategy, empty(of), epsilon, draws)
    for text in (
        "age = 3 and job = 'd'",
        "age < 9",
        "job = 'a' and age between 2 and 11",
        "age < 2 or job = 'g'",
    ):
        query = parse_condition(text, of)
        q = np.zeros(of.size)
        for term in query.terms:
            one = np.ones(1)
            for mask in query.factors(term, of.shape):
                one = np.multiply.outer(one, mask).ravel()
            q += one
        _, half, how = error_of(query, strategy, strategy.norm / epsilon, level)
        assert how in ("exact", "normal")
        covered = (np.abs(noise @ q) <= half + 1e-9).mean()
        tolerance = 4 * sqrt(level * (1 - level) / draws)
        assert level - tolerance <= covered <= level + tolerance + 0.02


def test_few_heavy_draws_need_a_wider_interval_than_the_normal() -> None:
    """One Laplace draw: 95 % lie within 2.12 standard deviations; of many, within 1.96 (ALGORITHMS, intervals)."""
    scale = Fraction(1000)
    sd = sqrt(unit_variance(scale))
    one, how = weighted_half_width(scale, np.ones(1), np.ones(1, np.int64), 0.0, 0.95)
    assert how == "exact"
    assert one / sd == pytest.approx(2.12, abs=0.03)
    many, how = weighted_half_width(scale, np.ones(5000), np.ones(5000, np.int64), 0.0, 0.95)
    assert many / (sd * sqrt(5000)) == pytest.approx(1.96, abs=0.01)
    mixed, how = weighted_half_width(scale, np.ones(1), np.ones(1, np.int64), 3 * sd**2, 0.99)
    assert how == "normal"
    assert mixed / (2 * sd) > 2.6


@pytest.mark.parametrize(
    ("axis", "epsilon"),
    [
        (Haar(101), "9.4"),
        (Haar(101), "12.4"),
        (Haar(8), "12.6"),
        (NominalWavelet.flat(5), "2.4"),
        (Haar(8), "2.9"),
    ],
)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_intervals_of_lattice_noise_cover(axis: object, epsilon: str, level: float) -> None:
    """The total is one coefficient, so its noise is whole: h must not fall just short of a whole number."""
    strategy = Strategy((axis,))  # type: ignore[arg-type]
    scale = strategy.norm / Fraction(epsilon)
    _, half, _ = error_of(Query("true", ({},)), strategy, scale, level)
    q = np.exp(-1 / float(scale))
    covered = 1 - 2 * q ** (np.floor(half) + 1) / (1 + q)
    assert covered >= level - 1e-9


def test_rounding_cannot_make_a_variance_negative() -> None:
    left = np.array([True, False, False])
    strategy = Strategy((NominalWavelet.flat(3), Haar(3)))
    everything = Query("", ({0: left}, {0: ~left}))
    for scale in (Fraction(1, 50), Fraction(1, 300), Fraction(1, 1000)):
        assert error_of(everything, strategy, scale, 0.95)[0] >= 0
