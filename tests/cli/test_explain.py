"""dpcli plan explain: every mechanism weighed before any data is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]


def prospects(result: Result) -> dict[str, dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return {row["mechanism"]: row for row in json.loads(result.stdout)}


def test_all_mechanisms_are_compared_and_the_best_is_named(
    dpcli: Cli, write_plan: Callable[..., Path]
) -> None:
    path = write_plan(mechanism="hierarchical")
    rows = prospects(dpcli("plan", "explain", path, "--format", "json"))
    assert set(rows) == {"laplace", "privelet", "hierarchical", "optimized", "auto"}
    assert [name for name, row in rows.items() if row["planned"]] == ["hierarchical"]
    assert "hierarchical*" in dpcli("plan", "explain", path).stdout
    best = min(float(str(row["expected_rmse"])) for row in rows.values())
    assert rows["auto"]["expected_rmse"] == pytest.approx(best, rel=1e-9)
    text = dpcli("plan", "explain", path).stderr
    assert "Release 'cube': " in text
    assert "would be best: its mean variance is" in text


def test_the_error_is_that_of_the_dry_run(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    path = write_plan(mechanism="hierarchical", epsilon="0.5")
    row = prospects(dpcli("plan", "explain", path, "--format", "json"))["hierarchical"]
    (forecast,) = json.loads(dpcli("release", path, "--dry-run", "--format", "json").stdout)
    assert row["expected_rmse"] == pytest.approx(forecast["range_rmse"])
    assert row["worst_stderr"] == pytest.approx(forecast["range_worst"])


@pytest.mark.parametrize("workload", ["ranges", "prefixes", "[\"age < 5\", \"job = 'Health' or sex = 'F'\"]"])
def test_a_workload_of_ones_own(
    dpcli: Cli, write_plan: Callable[..., Path], table: Path, workload: str
) -> None:
    path = write_plan(mechanism=f"auto\n    workload: {workload}")
    rows = prospects(dpcli("plan", "explain", path, "--format", "json"))
    assert rows["auto"]["expected_rmse"] == pytest.approx(
        min(float(str(r["expected_rmse"])) for r in rows.values())
    )
    assert dpcli("release", path, table, "-o", "out.parquet").exit_code == 0


@pytest.mark.parametrize("workload", ["random", "ranges", "prefixes", "[age > 70, age < 5, \"sex = 'F'\"]"])
def test_the_worst_query_can_be_asked_as_it_is_written(
    dpcli: Cli, write_plan: Callable[..., Path], table: Path, workload: str
) -> None:
    path = write_plan(
        mechanism=f"auto\n    workload: {workload}",
        replace=("{kind: ordinal, range: [0, 9]}", "{kind: ordinal, range: [0, 10], bin: 2}")
        if workload == "ranges"
        else ("", ""),
    )
    rows = prospects(dpcli("plan", "explain", path, "--format", "json"))
    assert dpcli("release", path, table, "-o", "out.parquet").exit_code == 0
    worst = {str(row["worst_query"]) for row in rows.values()}
    assert dpcli("query", "out.parquet", *sorted(worst)).exit_code == 0
    if workload.startswith("["):
        assert worst <= {"age < 5", "sex = 'F'"}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (
            '["agee < 5"]',
            "Error: The workload of release 'cube' has a condition in error. The release has no attribute 'agee'."
            " Did you mean 'age'? It has: age, sex, job.\n",
        ),
        ('["age > 70"]', "Error: The workload of release 'cube' counts no cell at all.\n"),
    ],
)
def test_a_wrong_workload(dpcli: Cli, write_plan: Callable[..., Path], workload: str, message: str) -> None:
    for command in ("explain", "check"):
        result = dpcli("plan", command, write_plan(mechanism=f"auto\n    workload: {workload}"))
        assert (result.exit_code, result.stderr) == (2, message)


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (
            "magic",
            "'magic' is not a mechanism. Choose one of: laplace, privelet, hierarchical, optimized, ispe, auto",
        ),
        ("laplace\n    branching: 3", "goes with hierarchical, not with laplace"),
        ("hierarchical\n    branching: 1", "must be at least 2, not '1'"),
        ("hierarchical\n    levels: [-1]", "must be at least 0, not '-1'"),
        ("hierarchical\n    levels: [9000000000]", "must be at most 60, not '9000000000'"),
        ("privelet\n    direct: [agee]", "'agee' is not in the cube. Did you mean 'age'?"),
        ("privelet\n    direct: some", "must be auto, none, or a list of attributes."),
        ("auto\n    refine: [threshold]", "threshold goes with privelet, not with auto"),
        (
            "auto\n    workload: rangs",
            "must be random, ranges, prefixes, or a list of conditions. Did you mean 'ranges'?",
        ),
    ],
)
def test_wrong_options(dpcli: Cli, write_plan: Callable[..., Path], release: str, message: str) -> None:
    result = dpcli("plan", "check", write_plan(mechanism=release))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_hierarchy_on_an_ordinal_attribute(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    path = write_plan(replace=("range: [0, 9]", "range: [0, 9], hierarchy: {a: [b]}"))
    result = dpcli("plan", "check", path)
    assert result.stderr == (
        f"Error: {path}, line 8: attributes.age.hierarchy: only a nominal attribute has a hierarchy;"
        " write kind: nominal, or leave the hierarchy out\n"
    )


def test_nothing_to_threshold(
    dpcli: Cli, write_plan: Callable[..., Path], table: Path, tmp_path: Path
) -> None:
    path = write_plan(mechanism="privelet\n    direct: [age, sex, job]\n    refine: [threshold]")
    result = dpcli("release", path, table, "-o", "out.parquet")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: Release 'cube' has nothing to threshold: no attribute is transformed. Write direct: none, or leave"
        " out refine.\n",
    )
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_dry_run_tells_that_the_budget_would_refuse(
    dpcli: Cli, write_plan: Callable[..., Path], table: Path
) -> None:
    path = write_plan(privacy='  budget: "1.5"')
    assert dpcli("release", path, "--dry-run").exit_code == 0
    assert dpcli("release", path, table, "-o", "out.parquet").exit_code == 0
    result = dpcli("release", path, "--dry-run")
    assert result.exit_code == 4
    assert result.stderr.endswith(
        "raise the one in the ledger with 'dpcli ledger set-budget town EPSILON'.\n"
    )


def test_many_labels_are_weighed_in_little_memory(dpcli: Cli, write_plan: Callable[..., Path]) -> None:
    labels = ", ".join(f"x{number}" for number in range(6000))
    path = write_plan(mechanism="auto", replace=("values: [F, M]", f"values: [{labels}]"))
    result = dpcli("release", path, "--dry-run", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)[0]["cells"] == 360_000
