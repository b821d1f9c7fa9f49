"""dpcli refine, and releases that are refined at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dpcli.release.file import open_release

Cli = Callable[..., Result]


@pytest.fixture
def privelet(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> Cli:
    plan = write_plan(mechanism="privelet\n    direct: none")
    result = dpcli("release", plan, table, "-o", "wave.parquet")
    assert result.exit_code == 0, result.stderr
    return dpcli


def test_thresholded_answers_have_no_interval(privelet: Cli) -> None:
    result = privelet("refine", "wave.parquet", "--threshold", "-o", "smooth.parquet")
    assert (result.exit_code, result.stderr) == (0, "Wrote smooth.parquet.\n")
    metadata, parent = (open_release(f"{name}.parquet").metadata for name in ("smooth", "wave"))
    assert (metadata.steps, metadata.parents) == (["threshold"], [parent.id])
    assert metadata.privacy == parent.privacy
    (answer,) = json.loads(privelet("query", "smooth.parquet", "age = 3", "--format", "json").stdout)
    assert (answer["stderr"], answer["low"], answer["high"], answer["how"]) == (None, None, None, "none")
    (total,), (raw,) = (
        json.loads(privelet("query", f"{name}.parquet", "--format", "json").stdout)
        for name in ("smooth", "wave")
    )
    assert total["value"] == pytest.approx(raw["value"], abs=1e-6)


def test_a_plan_can_ask_for_it(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> None:
    plan = write_plan(mechanism="privelet\n    direct: none\n    refine: [threshold]")
    assert dpcli("release", plan, table, "-o", "smooth.parquet").exit_code == 0
    assert open_release("smooth.parquet").metadata.steps == ["threshold"]
    (answer,) = json.loads(dpcli("query", "smooth.parquet", "age = 3", "--format", "json").stdout)
    assert answer["how"] == "none"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wave.parquet", "-o", "x.parquet"], "No step is asked for. Use --threshold."),
        (["smooth.parquet", "--threshold", "-o", "x.parquet"], "smooth.parquet is thresholded already."),
        (
            ["wave.parquet", "--threshold", "-o", "smooth.parquet"],
            "smooth.parquet exists already, and nothing was spent. Choose another name, or say with --if-exists"
            " what to do.",
        ),
        (
            ["wave.parquet", "--threshold", "-o", "no/x.parquet"],
            "Cannot write no/x.parquet: there is no folder no. Create it first.",
        ),
        (
            ["plain.parquet", "--threshold", "-o", "x.parquet"],
            "Thresholding needs wavelets on every attribute that is not direct; this release has identity,"
            " identity, identity. Use it on a privelet release.",
        ),
    ],
)
def test_wrong_use(
    privelet: Cli, write_plan: Callable[..., Path], table: Path, arguments: list[str], message: str
) -> None:
    privelet("refine", "wave.parquet", "--threshold", "-o", "smooth.parquet")
    privelet("release", write_plan(name="plain.yaml"), table, "-o", "plain.parquet")
    result = privelet("refine", *arguments)
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_a_fixture_stays_a_fixture(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> None:
    plan = write_plan(mechanism="privelet\n    direct: none")
    assert dpcli("release", plan, table, "-o", "wave.parquet", "--seed", 1).exit_code == 0
    result = dpcli("refine", "wave.parquet", "--threshold", "-o", "smooth.parquet")
    assert "wave.parquet is NOT PRIVATE" in result.stderr
    assert "smooth.parquet is NOT PRIVATE" in dpcli("query", "smooth.parquet").stderr


def test_only_a_release_is_replaced(privelet: Cli, table: Path) -> None:
    before = table.read_text()
    result = privelet("refine", "wave.parquet", "--threshold", "-o", table, "--if-exists", "replace")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: A release file is Parquet; name it people.parquet, not people.csv.\n",
    )
    Path("notes.parquet").write_text("precious")
    result = privelet(
        "refine", "wave.parquet", "--threshold", "-o", "notes.parquet", "--if-exists", "replace"
    )
    assert result.exit_code == 2
    assert (table.read_text(), Path("notes.parquet").read_text()) == (before, "precious")


def test_inspect_tells_that_it_is_thresholded(privelet: Cli) -> None:
    privelet("refine", "wave.parquet", "--threshold", "-o", "smooth.parquet")
    text = privelet("inspect", "smooth.parquet").stdout
    assert "refined      by threshold: answers have no interval" in text
    assert "then thresholded, which makes them biased" in text
    assert "measured     age: haar; sex: nominal; job: nominal" in text
