"""The advice on ispe's split: the model against simulation, its limits, and what is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from dpcli.estimate.law import unit_variance
from dpcli.plan.advice import KINDS, SHARES, advise, best_shares, errors
from dpcli.plan.load import load_plan

Cli = Callable[..., Result]


@pytest.mark.parametrize(
    ("n", "tau", "v1", "v2"), [(4, 1.5, 3.0, 2.0), (25, 0.4, 2.0, 9.0), (10, 0.0, 1.0, 4.0)]
)
def test_the_model_is_what_a_simulation_finds(n: int, tau: float, v1: float, v2: float) -> None:
    random = np.random.default_rng(1)
    cells = 100 + tau * random.standard_normal((40_000, n))
    noisy = cells + random.laplace(0, sqrt(v1 / 2), cells.shape)
    counts = cells.sum(axis=1) + random.laplace(0, sqrt(v2 / 2), len(cells))
    total = (noisy.sum(axis=1) / (n * v1) + counts / v2) / (1 / (n * v1) + 1 / v2)
    weight = tau**2 / (tau**2 + v1)
    found = total[:, None] / n + weight * (noisy - noisy.mean(axis=1, keepdims=True))
    cell, region = errors(n, tau, v1, v2)
    assert np.sqrt(((found - cells) ** 2).mean()) == pytest.approx(cell, rel=0.02)
    assert np.sqrt(((total - cells.sum(axis=1)) ** 2).mean()) == pytest.approx(region, rel=0.02)


def test_limits() -> None:
    v1 = 3.0
    for n, tau in KINDS.values():
        without = errors(n, tau, v1, 1e18)  # as the share of the cells goes to 1
        assert without[1] == pytest.approx(sqrt(n * v1))
        assert without[0] ** 2 == pytest.approx(v1 / n + (1 - 1 / n) * tau**2 * v1 / (tau**2 + v1))
        assert errors(n, 1e9, v1, 1e18)[0] == pytest.approx(sqrt(v1))  # and nobody is like anybody
        assert errors(n, 0.0, v1, 2.0)[0] == pytest.approx(errors(n, 0.0, v1, 2.0)[1] / n)
    assert errors(4, 1.0, 0.0, 0.0) == (0.0, 0.0)


def test_less_noise_and_more_likeness_are_better() -> None:
    for n in (1, 4, 25):
        for position, values in ((1, (0.0, 0.5, 2.0)), (2, (0.5, 1.0, 4.0)), (3, (0.5, 1.0, 4.0))):
            arguments = [[n, 1.0, 1.0, 1.0] for _ in values]
            for each, value in zip(arguments, values, strict=True):
                each[position] = value
            cells = [errors(int(a[0]), *a[1:])[0] for a in arguments]
            assert cells == sorted(cells)


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_what_is_printed_is_the_formula(dpcli: Cli, write_plan: Callable[..., Path], neighbors: str) -> None:
    path = write_plan(mechanism="ispe\n    ispe: {share: 0.65}", neighbors=neighbors, epsilon="0.5")
    result = dpcli("plan", "explain", path, "--format", "json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert {row["mechanism"] for row in rows if row["about"] == "mechanism"} >= {"ispe", "laplace"}
    shares = {row["share"]: row for row in rows if row["about"] == "share"}
    assert list(shares) == ["0.3", "0.5", "0.6", "0.65", "0.7", "0.8", "0.9"]
    assert [share for share, row in shares.items() if row["planned"]] == ["0.65"]
    times = {"add-remove": 1, "replace-one": 2}[neighbors]
    for share, row in shares.items():
        part = Fraction(share)
        v0, v1, v2 = (unit_variance(times / (Fraction(1, 2) * s)) for s in (Fraction(1), part, 1 - part))
        for kind, n, deviations in (("rough", 4, 1.0), ("medium", 25, 0.3), ("smooth", 100, 0.0)):
            total, tau2 = 1 / (1 / (n * v1) + 1 / v2), deviations**2 * v0
            cell = total / n**2 + (1 - 1 / n) * tau2 * v1 / (tau2 + v1)
            assert row[f"{kind}_cell"] == pytest.approx(sqrt(cell))
            assert row[f"{kind}_sum"] == pytest.approx(sqrt(total))


def test_the_table_and_the_sentence(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    path = write_plan(mechanism="ispe")
    result = dpcli("plan", "explain", path)
    assert result.exit_code == 0, result.stderr
    assert " ispe* " in result.stdout
    assert " 0.75* " in result.stdout
    (sentence,) = best_shares(advise(load_plan(path)))
    assert sentence in result.stderr
    assert "smooth data (100 cells in a region): 0.3 for a cell, 0.3 for a region's sum" in sentence
    assert "Of ispe only the cells are counted here: what its regions gain depends on the data." in (
        result.stderr
    )
    assert dpcli("plan", "explain", path, "--format", "csv").stdout.startswith("about,release,mechanism,")


def test_the_best_share_is_the_best(write_plan: Callable[..., Path]) -> None:
    advice = advise(load_plan(write_plan(mechanism="ispe")))
    (sentence,) = best_shares(advice)
    for kind in KINDS:
        best = min(advice, key=lambda each: each.cell[kind]).share
        assert f"{kind} data ({KINDS[kind][0]} cells in a region): {float(best)} for a cell" in sentence
    assert {each.share for each in advice} == {*SHARES, Fraction(3, 4)}


def test_small_cubes_and_other_mechanisms(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    assert advise(load_plan(write_plan(mechanism="laplace"))) == []
    few = load_plan(write_plan(mechanism="ispe", replace=("cube: [age, sex, job]", "cube: [sex]")))
    assert {len(each.cell) for each in advise(few)} == {0}
    assert best_shares(advise(few)) == []
    assert dpcli("plan", "explain", "plan.yaml").exit_code == 0
    some = load_plan(write_plan(mechanism="ispe", replace=("cube: [age, sex, job]", "cube: [age]")))
    assert {tuple(each.cell) for each in advise(some)} == {("rough",)}
