"""A domain: its shape, the order of its cells, and its description in a release file."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from dpcli.data.attributes import Binned, Boolean, Dates, Integers, Nominal
from dpcli.data.domain import Domain

DOMAIN = Domain(
    ("age", "job", "income", "born", "married"),
    (
        Integers(range=(0, 9), outside="clamp"),
        Nominal(hierarchy={"Health": ["Nurse", {"Doctors": ["Dentist"]}], "Retired": None}, outside="other"),
        Binned(range=("0", "1"), bin="0.1"),
        Dates(range=("2025-12-29", "2026-01-11"), period="week"),
        Boolean(missing="own-category"),
    ),
)


def test_shape_and_size() -> None:
    assert DOMAIN.shape == (10, 4, 10, 2, 3)
    assert DOMAIN.size == 2400
    assert Domain((), ()).size == 1
    huge = Integers(range=(0, 2**53 - 1))
    assert Domain(("a", "b"), (huge, huge)).size == 2**106


def test_attributes_by_name() -> None:
    assert DOMAIN["income"] is DOMAIN.attributes[2]


def test_a_description_is_a_plan_s_attributes_in_order() -> None:
    assert DOMAIN.describe() == [
        {"name": "age", "kind": "ordinal", "range": [0, 9], "outside": "clamp", "missing": "error"},
        {
            "name": "job",
            "kind": "nominal",
            "hierarchy": [{"Health": ["Nurse", {"Doctors": ["Dentist"]}]}, "Retired"],
            "outside": "other",
            "missing": "error",
        },
        {
            "name": "income",
            "kind": "ordinal",
            "range": ["0", "1"],
            "bin": "0.1",
            "represent": "middle",
            "outside": "error",
            "missing": "error",
        },
        {
            "name": "born",
            "kind": "date",
            "range": ["2025-12-29", "2026-01-11"],
            "period": "week",
            "outside": "error",
            "missing": "error",
        },
        {"name": "married", "kind": "boolean", "outside": "error", "missing": "own-category"},
    ]


def test_a_domain_survives_its_description() -> None:
    again = Domain.from_description(json.loads(json.dumps(DOMAIN.describe())))
    assert again == DOMAIN
    assert again.describe() == DOMAIN.describe()
    assert [attribute.labels() for attribute in again.attributes] == [
        attribute.labels() for attribute in DOMAIN.attributes
    ]


def test_a_wrong_description_is_refused() -> None:
    with pytest.raises(ValidationError, match="is empty: 9 is above 0"):
        Domain.from_description([{"name": "age", "kind": "ordinal", "range": [9, 0]}])
