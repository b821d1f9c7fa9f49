"""Intervals cover: over many seeded releases the truth lies inside as often as promised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpcli import api

QUESTIONS = {"age = 3 and sex = 'F' and job = 'Nurse'": 40, "job = 'Health' and age < 5": 75, "true": 176}


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_95_percent_of_intervals_hold_the_truth(
    write_plan: Callable[..., Path], table: Path, tmp_path: Path, epsilon: str
) -> None:
    plan = api.load_plan(write_plan(epsilon=epsilon))
    hits = dict.fromkeys(QUESTIONS, 0)
    path = tmp_path / "out.parquet"
    releases = 200
    for seed in range(releases):
        api.release(plan, table, output=path, ledger=tmp_path / "none", seed=seed, if_exists="replace")
        for answer in api.query(path, list(QUESTIONS)):
            assert answer.low is not None
            assert answer.high is not None
            hits[answer.query] += answer.low <= QUESTIONS[answer.query] <= answer.high
    for question, count in hits.items():
        assert 0.91 <= count / releases <= 0.99, question


def test_half_intervals_hold_it_half_of_the_time(
    write_plan: Callable[..., Path], table: Path, tmp_path: Path
) -> None:
    """The check above can fail: at level 0.5 it would."""
    plan = api.load_plan(write_plan(epsilon="0.1"))
    path = tmp_path / "out.parquet"
    hits = 0
    for seed in range(200):
        api.release(plan, table, output=path, ledger=tmp_path / "none", seed=seed, if_exists="replace")
        (answer,) = api.query(path, ["job = 'Health'"], level=0.5)
        assert answer.low is not None
        assert answer.high is not None
        hits += answer.low <= 75 <= answer.high
    assert 0.40 <= hits / 200 <= 0.60
