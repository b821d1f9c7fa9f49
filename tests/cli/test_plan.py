"""dpcli plan, as it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Cli = Callable[..., Result]


def test_check_shows_what_a_plan_releases(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    result = dpcli("plan", "check", write_plan(), "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == [
        {"release": "cube", "cube": "age × sex × job", "cells": 120, "mechanism": "laplace", "epsilon": "1"}
    ]


def test_check_says_who_is_one_person(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    plan = write_plan(privacy="  unit: {column: person_id, max_rows: 2}")
    result = dpcli("plan", "check", plan)
    assert result.exit_code == 0, result.stderr
    assert "Of the rows that share a value of 'person_id', 2 will count at most.\n" in result.stderr
    assert "person_id" not in dpcli("plan", "check", write_plan()).stderr


def test_check_names_every_mistake_with_its_line(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    path = write_plan(epsilon="-1", mechanism="laplase")
    result = dpcli("plan", "check", path)
    assert result.exit_code == 2
    assert f"{path}, line 4: privacy.epsilon: must be above 0, not -1" in result.stderr
    assert (
        "line 16: releases[0].mechanism: 'laplase' is not a mechanism. Did you mean 'laplace'?"
        in result.stderr
    )


def test_init_proposes_a_plan_that_works_and_warns(dpcli: Cli, root: Path) -> None:
    result = dpcli("plan", "init", root / "sample_data" / "census.csv", "-o", "plan.yaml")
    assert result.exit_code == 0, result.stderr
    assert "NOT PRIVATE: this proposal was made by looking at the table." in result.stderr
    assert "public" in Path("plan.yaml").read_text()
    assert "# unit: {column: person_id, max_rows: 2}" in Path("plan.yaml").read_text()
    assert dpcli("plan", "check", "plan.yaml").exit_code == 0
    done = dpcli("release", "plan.yaml", root / "sample_data" / "census.parquet", "-o", "out.parquet")
    assert done.exit_code == 0, done.stderr


def test_init_never_overwrites(dpcli: Cli, table: Path) -> None:
    Path("mine.yaml").write_text("mine")
    result = dpcli("plan", "init", table, "-o", "mine.yaml")
    assert result.exit_code == 2
    assert "Cannot write mine.yaml: it exists already." in result.stderr
    assert Path("mine.yaml").read_text() == "mine"


def test_init_prints_to_stdout(dpcli: Cli, table: Path) -> None:
    result = dpcli("plan", "init", table, "--dataset", "village")
    assert "dataset: village" in result.stdout


def test_schema_is_json(dpcli: Cli) -> None:
    assert json.loads(dpcli("plan", "schema").stdout)["properties"]["privacy"]
