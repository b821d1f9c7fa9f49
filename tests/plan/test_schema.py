"""The plan's schema: shares, domains, digests, and a round trip through YAML."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from ruamel.yaml import YAML

from dpcli.errors import PlanError
from dpcli.plan.json_schema import json_schema
from dpcli.plan.load import parse_plan
from dpcli.plan.schema import Plan


def content(**changes: Any) -> dict[str, Any]:
    """Return a sound plan with some keys replaced."""
    return {
        "plan": 1,
        "dataset": "d",
        "privacy": {"epsilon": "1"},
        "attributes": {
            "age": {"kind": "ordinal", "range": [0, 99]},
            "sex": {"kind": "nominal", "values": ["F", "M"]},
            "job": {"kind": "nominal", "hierarchy": {"Health": ["Nurse", "Physician"], "Retired": None}},
            "income": {"kind": "ordinal", "range": [0, 10], "bin": "0.5", "outside": "clamp"},
            "wealth": {"kind": "ordinal", "edges": [-5, 0, "2.5", 1e3], "missing": "drop"},
            "moved": {"kind": "date", "range": ["2020-01-01", "2020-12-31"], "period": "quarter"},
            "married": {"kind": "boolean", "missing": "own-category", "outside": "other"},
        },
        "releases": [{"name": "cube", "cube": ["age", "sex"]}],
    } | changes


def releases(*shares: str | None) -> list[dict[str, Any]]:
    return [{"name": f"r{n}", "cube": ["age"], "epsilon": share} for n, share in enumerate(shares)]


# --- shares, domains, digests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "asked", "got"),
    [
        ("1", [None], ["1"]),
        ("1", [None, None, None], ["1/3", "1/3", "1/3"]),
        ("1", ["0.3", "0.7"], ["3/10", "7/10"]),
        ("1.0", ["0.1", None, "0.2", None], ["1/10", "7/20", "1/5", "7/20"]),
        ("2", ["0.5"], ["1/2"]),
    ],
)
def test_shares(total: str, asked: list[str | None], got: list[str]) -> None:
    plan = parse_plan(content(privacy={"epsilon": total}, releases=releases(*asked)))
    assert plan.shares() == {f"r{n}": Fraction(share) for n, share in enumerate(got)}


def test_what_is_left_may_be_too_little_for_any_release() -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(content(privacy={"epsilon": "0.30000000000000004"}, releases=releases("0.3", None)))
    assert str(caught.value) == (
        "releases[1]: no epsilon is left for this release: the others take 0.3 of 0.30000000000000004;"
        " give it one of its own"
    )


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(1, 10**6), min_size=1, max_size=6), st.integers(1, 10**6))
def test_shares_never_exceed_the_total(asked: list[int | None], total: int) -> None:
    specs = releases(*(None if part is None else f"{part}e-3" for part in asked))
    sound = sum(part or 0 for part in asked) + (None in asked) <= total
    try:
        plan = parse_plan(content(privacy={"epsilon": f"{total}e-3"}, releases=specs))
    except PlanError:
        assert not sound
    else:
        assert sound
        spent = sum(plan.shares().values())
        assert spent == plan.privacy.epsilon if None in asked else spent <= plan.privacy.epsilon


def test_the_domain_of_a_release() -> None:
    plan = parse_plan(content(releases=[{"name": "r", "cube": ["married", "income", "age"]}]))
    domain = plan.domain_of(plan.releases[0])
    assert domain.names == ("married", "income", "age")
    assert domain.shape == (4, 20, 100)


def test_a_cube_of_exactly_max_cells() -> None:
    spec = {"name": "r", "cube": ["age", "sex"], "max_cells": 200}
    assert parse_plan(content(releases=[spec])).releases[0].max_cells == 200
    with pytest.raises(PlanError) as caught:
        parse_plan(content(releases=[spec | {"max_cells": 199}]))
    assert str(caught.value) == (
        "releases[0].cube: the cube has 200 cells, more than max_cells (199), and its file would take"
        " less than 0.1 GB; use wider bins or fewer attributes, or write max_cells: 200"
    )


def test_no_max_cells_allows_what_cannot_be_numbered() -> None:
    wide = {f"a{n}": {"kind": "ordinal", "range": [1, 2**31]} for n in range(40)}
    for axes, words in [(2, "4.6e+18"), (40, "1.9e+373")]:
        spec = {"name": "r", "cube": list(wide)[:axes], "max_cells": 10**400}
        with pytest.raises(PlanError) as caught:
            parse_plan(content(attributes=wide, releases=[spec]))
        assert str(caught.value) == (
            f"releases[0].cube: the cube has about {words} cells; use wider bins or fewer attributes"
        )


def test_the_digest_depends_on_what_is_published_alone() -> None:
    plan = parse_plan(content())
    same = parse_plan(
        content(
            table="elsewhere.csv",
            privacy={"epsilon": "1.00", "neighbors": "add-remove"},
            attributes=dict(reversed(content()["attributes"].items()))
            | {"income": {"kind": "ordinal", "range": ["0.0", "1e1"], "bin": 0.50, "outside": "clamp"}},
        )
    )
    assert len(plan.digest()) == 64
    assert same.digest() == plan.digest()
    assert "table" not in same.describe()
    for change in [
        {"dataset": "e"},
        {"privacy": {"epsilon": "1.0000000001"}},
        {"releases": [{"name": "cube", "cube": ["sex", "age"]}]},
        {"attributes": content()["attributes"] | {"sex": {"kind": "nominal", "values": ["M", "F"]}}},
    ]:
        assert parse_plan(content(**change)).digest() != plan.digest()


def test_a_unit_bounds_the_rows_per_person() -> None:
    assert parse_plan(content()).privacy.rows_per_person == 1
    unit = {"column": "person_id", "max_rows": "3"}
    plan = parse_plan(content(privacy={"epsilon": "1", "unit": unit}))
    assert plan.privacy.unit is not None
    assert (plan.privacy.unit.column, plan.privacy.unit.missing) == ("person_id", "error")
    assert plan.privacy.rows_per_person == 3
    assert "unit" not in parse_plan(content()).describe()["privacy"]  # digests stay what they were
    for change in ({"max_rows": 2}, {"column": "age"}, {"missing": "drop"}):  # an attribute will do too
        other = parse_plan(content(privacy={"epsilon": "1", "unit": unit | change}))
        assert other.digest() != plan.digest()


def test_plans_are_frozen() -> None:
    plan = parse_plan(content())
    with pytest.raises(ValidationError):
        plan.privacy.epsilon = Fraction(5)  # type: ignore[misc]
    with pytest.raises(ValidationError):
        plan.dataset = "other"  # type: ignore[misc]


# --- round trips ------------------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=8)
labels = st.lists(names, min_size=1, max_size=5, unique=True)
epsilons = st.integers(1, 10**9).map(lambda n: f"{n}e-9")
rules = {"missing": st.sampled_from(["error", "drop", "own-category"])}
ordered = rules | {"outside": st.sampled_from(["error", "drop", "clamp", "other"])}
unordered = rules | {"outside": st.sampled_from(["error", "drop", "other"])}


def groups(leaves: list[str]) -> list[Any]:
    """Put labels into groups of groups."""
    half = len(leaves) // 2
    return [*leaves[:half], {"G": [{"H": leaves[half:]}]}]


attributes = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("ordinal"), "range": st.tuples(st.integers(-99, 0), st.integers(0, 99))},
        optional=ordered,
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("ordinal"),
            "edges": st.lists(st.decimals(-999, 999, places=3), min_size=2, max_size=6, unique=True).map(
                sorted
            ),
        },
        optional=ordered,
    ),
    st.tuples(st.integers(-9, 9), st.integers(1, 9), st.decimals("0.001", 99, places=3)).map(
        lambda t: {"kind": "ordinal", "range": [t[0] * t[2], (t[0] + t[1]) * t[2]], "bin": t[2]}
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("date"),
            "range": st.lists(st.dates(max_value=dt.date(9998, 12, 31)), min_size=2, max_size=2).map(sorted),
        },
        optional=ordered,
    ),
    st.fixed_dictionaries({"kind": st.just("nominal"), "values": labels}, optional=unordered),
    st.fixed_dictionaries({"kind": st.just("nominal"), "hierarchy": labels.map(groups)}, optional=unordered),
    st.fixed_dictionaries({"kind": st.just("boolean")}, optional=unordered),
)


@st.composite
def plans(draw: Callable[[Any], Any]) -> Plan:
    domain = draw(
        st.dictionaries(names.filter(lambda n: n.casefold() != "count"), attributes, min_size=1, max_size=4)
    )
    axes = st.lists(st.sampled_from(list(domain)), min_size=1, max_size=3, unique=True)
    specs = [
        {"name": f"r{n}", "cube": cube, "epsilon": draw(st.none() | epsilons), "max_cells": 2**61}
        for n, cube in enumerate(draw(st.lists(axes, min_size=1, max_size=3)))
    ]
    privacy = {
        "epsilon": "10",
        "neighbors": draw(st.sampled_from(["add-remove", "replace-one"])),
        "budget": "1e2",
        "unit": draw(st.none() | st.fixed_dictionaries({"column": names, "max_rows": st.integers(1, 10**6)})),
    }
    return parse_plan(content(privacy=privacy, attributes=domain, releases=specs))


@settings(deadline=None)
@given(plans())
def test_a_plan_written_as_yaml_and_read_again_is_equal(plan: Plan) -> None:
    stream = io.StringIO()
    writer = YAML(typ="rt", pure=True)
    writer.default_style = '"'  # type: ignore[assignment]
    writer.dump(plan.describe(), stream)
    again = parse_plan(stream.getvalue())
    assert again == plan
    assert again.digest() == plan.digest()
    assert Draft202012Validator(json_schema()).is_valid(plan.describe())
