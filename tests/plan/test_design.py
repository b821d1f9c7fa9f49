"""Designs: identity axes first, and a cube that fits into the memory."""

from __future__ import annotations

import os

import pytest

from dpcli.errors import PlanError
from dpcli.plan.design import design, options_of, working_memory
from dpcli.plan.explain import explain
from dpcli.plan.forecast import forecast
from dpcli.plan.load import parse_plan

PLAN = {
    "plan": 1,
    "dataset": "town",
    "privacy": {"epsilon": "1"},
    "attributes": {
        "age": {"kind": "ordinal", "range": [0, 999]},
        "sex": {"kind": "nominal", "values": ["F", "M"]},
        "pay": {"kind": "ordinal", "range": [0, 999]},
    },
    "releases": [{"name": "cube", "cube": ["age", "sex", "pay"], "mechanism": "privelet", "direct": ["sex"]}],
}


def test_direct_attributes_come_first_in_the_file() -> None:
    plan = parse_plan(PLAN)
    domain, strategy = design(plan, plan.releases[0])
    assert domain.names == ("sex", "age", "pay")
    assert [axis.kind for axis in strategy.axes] == ["identity", "haar", "haar"]
    assert strategy.shape == domain.shape


def test_a_cube_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parse_plan({**PLAN, "releases": [{**PLAN["releases"][0], "direct": "none"}]})  # type: ignore[index]
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 40_000, "SC_PAGE_SIZE": 4096}[name])
    with pytest.raises(PlanError) as caught:
        design(plan, plan.releases[0])
    assert str(caught.value) == (
        "Release 'cube' would need about 0 GB of memory, and there are 0 GB: no direct attribute cuts its"
        " 2,000,000 cells into smaller blocks. Use mechanism: privelet with direct: [age], or laplace, wider bins or"
        " fewer attributes."
    )


def test_direct_attributes_need_less_memory() -> None:
    whole = parse_plan({**PLAN, "releases": [{**PLAN["releases"][0], "direct": "none"}]})  # type: ignore[index]
    cut = parse_plan({**PLAN, "releases": [{**PLAN["releases"][0], "direct": ["age"]}]})  # type: ignore[index]
    sizes = [working_memory(design(plan, plan.releases[0])[1]) for plan in (cut, whole)]
    assert sizes[0] < sizes[1]


def test_max_rows_multiply_the_noise() -> None:
    one = parse_plan(PLAN)
    two = parse_plan({**PLAN, "privacy": {"epsilon": "1", "unit": {"column": "id", "max_rows": 2}}})
    assert forecast(two)[0].scale == 2 * forecast(one)[0].scale
    assert forecast(two)[0].range_rmse == pytest.approx(2 * forecast(one)[0].range_rmse, rel=1e-2)
    scales = [{p.mechanism: p.scale / p.strategy.norm for p in explain(plan)} for plan in (one, two)]
    assert set(scales[0].values()) == {1}
    assert set(scales[1].values()) == {2}
    options = [options_of(plan, plan.releases[0], plan.domain_of(plan.releases[0])) for plan in (one, two)]
    assert [option.scale_per_norm for option in options] == [1, 2]


def test_noise_that_is_too_wide_for_many_rows_is_refused() -> None:
    unit = {"column": "id", "max_rows": 1_000_000}
    wide = {**PLAN, "privacy": {"epsilon": "0.0000001", "unit": unit}}
    for mechanism, use in (("laplace", ""), ("hierarchical", "mechanism: laplace, or ")):
        wide["releases"] = [{"name": "cube", "cube": ["age", "sex"], "mechanism": mechanism}]
        plan = parse_plan(wide)
        with pytest.raises(PlanError) as caught:
            design(plan, plan.releases[0])
        assert str(caught.value) == (
            f"Release 'cube': epsilon 0.0000001 is too small for what {mechanism} would measure: the noise would"
            f" be wider than can be drawn exactly. Use {use}a smaller max_rows, or more epsilon."
        )


def test_noise_that_is_too_wide_is_refused() -> None:
    wide = {**PLAN, "privacy": {"epsilon": "0.000000001"}}
    wide["releases"] = [{"name": "cube", "cube": ["age", "pay"], "mechanism": "optimized"}]
    plan = parse_plan(wide)
    with pytest.raises(PlanError) as caught:
        design(plan, plan.releases[0])
    assert str(caught.value) == (
        "Release 'cube': epsilon 0.000000001 is too small for what optimized would measure: the noise would be"
        " wider than can be drawn exactly. Use mechanism: laplace, or more epsilon."
    )
