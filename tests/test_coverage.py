"""Intervals cover: over many seeded releases the truth lies inside as often as promised."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpcli import api

LEVELS = (0.5, 0.9, 0.95, 0.99)
TIMES = 100  # so many times the small table, so that averages have something to stand on
Truth = Callable[[pd.DataFrame], pd.Series]
CONDITIONS: dict[str, dict[str, Truth]] = {
    "cells": {
        "age = 3 and sex = 'F' and job = 'Nurse'": lambda f: (
            (f.age == 3) & (f.sex == "F") & (f.job == "Nurse")
        ),
        "age = 5 and sex = 'M' and job = 'Mason'": lambda f: (
            (f.age == 5) & (f.sex == "M") & (f.job == "Mason")
        ),
        "age = 0 and sex = 'F' and job = 'Roofer'": lambda f: f.age < 0,
        "age = 9 and sex = 'F' and job = 'Retired'": lambda f: f.age == 9,
    },
    "small ranges": {
        "age between 3 and 4 and sex = 'F' and job = 'Health'": lambda f: health(f) & (f.sex == "F"),
        "age between 5 and 7 and sex = 'M'": lambda f: f.age.between(5, 7) & (f.sex == "M"),
        "age <= 1 and job = 'Trade'": lambda f: f.age == 0,
        "age = 8 or age = 1 and sex = 'F'": lambda f: f.age < 0,
    },
    "large ranges": {
        "true": lambda f: f.age >= 0,
        "age between 1 and 8": lambda f: f.age.between(1, 8),
        "job <> 'Retired' and sex = 'F'": lambda f: (f.job != "Retired") & (f.sex == "F"),
        "age < 6 or job = 'Health'": lambda f: (f.age < 6) | health(f),
    },
}
AVERAGES: dict[str, Callable[[pd.DataFrame], dict[str | None, float]]] = {
    "SELECT AVG(age) FROM release": lambda f: {None: f.age.mean()},
    "SELECT AVG(age) FROM release WHERE job = 'Health' OR sex = 'F'": lambda f: {
        None: f.age[health(f) | (f.sex == "F")].mean()
    },
    "SELECT sex, AVG(age) FROM release GROUP BY sex": lambda f: dict(f.groupby("sex").age.mean()),
}


def health(people: pd.DataFrame) -> pd.Series:
    return people.job.isin(["Nurse", "Dentist"])


@pytest.fixture
def people(table: Path) -> Path:
    header, *rows = table.read_text().splitlines(keepends=True)
    table.write_text(header + "".join(rows) * TIMES)
    return table


def shares_covered(plan: Path, people: Path, folder: Path, releases: int) -> dict[str, np.ndarray]:
    """For each kind of question, how often each level's interval held the truth."""
    rows = pd.read_csv(people)
    by_age = rows.groupby("age").size()
    counts = {
        text: int(truth(rows).sum()) for questions in CONDITIONS.values() for text, truth in questions.items()
    }
    means = {text: truth(rows) for text, truth in AVERAGES.items()}
    hits: dict[str, list[list[bool]]] = {}
    loaded, path = api.load_plan(plan), folder / "out.parquet"
    for seed in range(releases):
        api.release(loaded, people, output=path, ledger=folder / "none", seed=seed, if_exists="replace")
        release = api.open_release(path)
        for place, level in enumerate(LEVELS):

            def note(
                kind: str, low: float | None, high: float | None, truth: float, place: int = place
            ) -> None:
                assert low is not None
                assert high is not None
                hits.setdefault(kind, [[] for _ in LEVELS])[place].append(low <= truth <= high)

            for kind, questions in CONDITIONS.items():
                for answer in api.query(release, list(questions), level):
                    note(kind, answer.low, answer.high, counts[answer.query])
            for record in api.query(release, level=level, by=["age"]).records():
                note("groups", record["low"], record["high"], by_age.get(record["age"], 0))
            for text, truths in means.items():
                for record in api.query_sql(release, text, level).records():
                    note("averages", record["low"], record["high"], truths[record.get("sex")])
    return {kind: np.array([np.mean(each) for each in levels]) for kind, levels in hits.items()}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "privelet\n    direct: none", "hierarchical"])
def test_coverage_is_within_two_points(
    write_plan: Callable[..., Path], people: Path, tmp_path: Path, mechanism: str
) -> None:
    plan = write_plan(epsilon="0.02", mechanism=mechanism)
    for kind, found in shares_covered(plan, people, tmp_path, 1000).items():
        assert np.all(np.abs(found - LEVELS) <= 0.02), (kind, found)


@pytest.mark.parametrize("mechanism", ["laplace", "privelet\n    direct: none", "hierarchical"])
def test_coverage_of_few_releases(
    write_plan: Callable[..., Path], people: Path, tmp_path: Path, mechanism: str
) -> None:
    """The same with 25 releases: wide enough not to fail by chance, narrow enough to notice a wrong level."""
    plan = write_plan(epsilon="0.02", mechanism=mechanism)
    for kind, found in shares_covered(plan, people, tmp_path, 25).items():
        assert np.all(np.abs(found - LEVELS) <= [0.22, 0.13, 0.1, 0.06]), (kind, found)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["optimized", "auto"])
def test_coverage_of_fitted_strategies(
    write_plan: Callable[..., Path], people: Path, tmp_path: Path, mechanism: str
) -> None:
    plan = write_plan(epsilon="0.02", mechanism=mechanism)
    for kind, found in shares_covered(plan, people, tmp_path, 50).items():
        assert np.all(np.abs(found - LEVELS) <= [0.16, 0.1, 0.08, 0.05]), (kind, found)


@pytest.mark.parametrize("mechanism", ["laplace", "privelet\n    direct: none", "hierarchical"])
def test_simultaneous_intervals_hold_at_once(
    write_plan: Callable[..., Path], people: Path, tmp_path: Path, mechanism: str
) -> None:
    plan, path = api.load_plan(write_plan(epsilon="0.02", mechanism=mechanism)), tmp_path / "out.parquet"
    truth = pd.read_csv(people).groupby("age").size()
    alone, together = 0, 0
    for seed in range(80):
        api.release(plan, people, output=path, ledger=tmp_path / "none", seed=seed, if_exists="replace")
        for simultaneous in (False, True):
            rows = api.query(path, level=0.9, by=["age"], simultaneous=simultaneous).records()
            held = all(row["low"] <= truth.get(row["age"], 0) <= row["high"] for row in rows)
            alone, together = alone + (held and not simultaneous), together + (held and simultaneous)
    assert together >= 0.8 * 80
    assert alone <= 0.75 * 80


def test_simultaneous_intervals_hold_where_noise_is_rare(tmp_path: Path) -> None:
    """In 399 windows of more than 200 lengths hardly any cell has noise, but too many for half-widths of 0."""
    size, lengths = 60_000, []
    while sum(lengths) + 201 + len(lengths) % 198 <= size:
        lengths.append(201 + len(lengths) % 198)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    windows = [f"a between {low} and {high - 1}" for low, high in pairwise(edges)]
    windows += [f"a < {stop}" for stop in range(1, 400 - len(windows))]
    workload, plan, table, path = (tmp_path / name for name in ("w.txt", "p.yaml", "t.csv", "out.parquet"))
    workload.write_text("\n".join(windows))
    table.write_text("a\n59999\n")
    plan.write_text(
        "plan: 1\ndataset: c\nprivacy: {epsilon: 13}\nattributes:\n"
        f"  a: {{kind: ordinal, range: [0, {size - 1}]}}\n"
        "releases:\n  - {name: c, cube: [a], mechanism: laplace}\n"
    )
    loaded, held = api.load_plan(plan), []
    for seed in range(20):
        api.release(loaded, table, output=path, ledger=tmp_path / "none", seed=seed, if_exists="replace")
        found = api.open_release(path).workload(str(workload), simultaneous=True)
        assert len(found) == 399
        held.append(bool(((found.low <= 0) & (found.high >= 0)).all()))
    assert sum(held) >= 19
