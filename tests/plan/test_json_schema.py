"""The JSON Schema for editors: it takes what the loader takes, and refuses what the loader refuses."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from ruamel.yaml import YAML

from dpcli.data.attributes import Binned, Boolean, Dates, Integers, Nominal
from dpcli.errors import PlanError
from dpcli.mechanisms import NAMES
from dpcli.plan.ispe import Ispe, Threshold
from dpcli.plan.json_schema import json_schema
from dpcli.plan.load import load_plan, parse_plan
from dpcli.plan.promise import PeriodBudget, Privacy, PrivacyUnit
from dpcli.plan.schema import CubeRelease, Plan

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))


def plain_types(text: str) -> Any:
    """Read YAML as editors do: numbers, texts, booleans; days are texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value.isoformat() if isinstance(value, dt.date) else value

    return plain(YAML(typ="safe", pure=True).load(text))


GOOD = """\
plan: 1
dataset: 2026
table: people.csv
privacy: {epsilon: 0.1, neighbors: replace-one, budget: "10", unit: {column: 7, max_rows: "2", missing: drop}}
attributes:
  age: {kind: ordinal, range: [0, "100"]}
  sex: {kind: nominal, values: [F, 1, true], outside: other}
  job: {kind: nominal, hierarchy: {Health: [Nurse], Retired: }}
  pay: {kind: ordinal, range: [0, 2.5], bin: "0.5"}
  due: {kind: ordinal, edges: [0, 1.5, 3e2]}
  day: {kind: date, range: [2020-01-01, 2020-12-31], period: month}
  wed: {kind: boolean, missing: drop}
releases:
  - {name: a, cube: [age, sex], mechanism: laplace, epsilon: "0.05", max_cells: 1000}
  - {name: b, cube: [day]}
"""


def test_the_schema_takes_a_good_plan() -> None:
    Draft202012Validator.check_schema(json_schema())
    parse_plan(GOOD)
    for job in ("jobs.yaml", "[Nurse, {Trades: [Painter]}]"):
        text = GOOD.replace("{Health: [Nurse], Retired: }", job)
        assert list(Draft202012Validator(json_schema()).iter_errors(plain_types(text))) == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_shipped_plans_are_sound(path: Path) -> None:
    load_plan(path)
    assert list(Draft202012Validator(json_schema()).iter_errors(plain_types(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("plan: 1", "plan: 2"),
        ("plan: 1", "color: 1"),
        ("epsilon: 0.1", "epsilom: 0.1"),
        ("epsilon: 0.1", "epsilon: true"),
        ("replace-one", "replace"),
        ("column: 7, ", ""),
        ('max_rows: "2"', "rows: 2"),
        ('max_rows: "2"', "max_rows: 0"),
        ('max_rows: "2"', "max_rows: 1000001"),
        ("missing: drop}}", "missing: own-category}}"),
        ("kind: boolean", "kind: bool"),
        ("  wed: {kind: boolean", "  wed: {period: day"),
        ("  age:", "  count:"),
        ('[0, "100"]', "[0]"),
        ('[0, "100"]', "[0, 1.5]"),
        ("values: [F, 1, true]", "values: F"),
        ("values: [F, 1, true]", "values: [F], hierarchy: [F]"),
        (", values: [F, 1, true]", ""),
        ("outside: other", "outside: clamp"),
        ("{Health: [Nurse], Retired: }", "5"),
        (', bin: "0.5"', ", bins: 0.5"),
        ("edges: [0, 1.5, 3e2]", "bin: 3"),
        ("period: month", "period: decade"),
        ("mechanism: laplace", "mechanism: laplas"),
        ("max_cells: 1000", "max_cells: 0"),
        ("cube: [day]", "cube: day"),
        ("cube: [day]", "cube: []"),
        ("name: b, ", ""),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(old: str, new: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    assert not Draft202012Validator(json_schema()).is_valid(plain_types(text))
    with pytest.raises(PlanError):
        parse_plan(text)


def test_every_key_of_the_schema_is_described_and_no_other_is_allowed() -> None:
    schema = json_schema()
    parts = (
        Privacy,
        PrivacyUnit,
        PeriodBudget,
        Ispe,
        Threshold,
        CubeRelease,
        Integers,
        Binned,
        Dates,
        Nominal,
        Boolean,
    )
    models: dict[str, type[BaseModel]] = {model.__name__: model for model in parts}
    assert set(schema["$defs"]) == set(models)
    for name, part in [*schema["$defs"].items(), ("Plan", schema)]:
        assert part["additionalProperties"] is False, name
        assert set(part["properties"]) == set(models.get(name, Plan).model_fields)
        for key, field in part["properties"].items():
            assert field["description"].endswith("."), (name, key)
    assert schema["$defs"]["CubeRelease"]["properties"]["mechanism"]["enum"] == list(NAMES)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
