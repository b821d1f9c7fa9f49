"""Plans for ispe that are refused, each with its whole message: the line, the key, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]

SHARE = "must be a decimal from 1e-9 to 0.999999999, such as 0.75, for cells and regions both need some of epsilon;"
THRESHOLD = (
    "must be a number of rows above 0, such as 6, or {noise: 0.65}, in standard deviations of the noise;"
)
KEYS = "Allowed here: share, smoothing, iterations, sigma, window, criterion, threshold, distance"
# What the plan says under ispe, and the message: the key, then the text.
WRONG = {
    **{f"share: {value}": ("share", f"{SHARE} not '{value}'") for value in ("0", "1", "1.5", "-0.1", "x")},
    "share: 1e-400": ("share", f"{SHARE} not '1e-400'"),
    "share: 3/4": ("share", f"{SHARE} not '3/4'"),
    "share: []": ("share", f"{SHARE} not a list"),
    **{f"threshold: {value}": ("threshold", f"{THRESHOLD} not '{value}'") for value in ("0", "-1", "nan")},
    "threshold: {noise: 0}": ("threshold", f"{THRESHOLD} not {{noise: '0'}}"),
    "threshold: {sd: 1}": ("threshold", f"{THRESHOLD} not a mapping"),
    "threshold: []": ("threshold", f"{THRESHOLD} not a list"),
    "threshold:": ("threshold", f"{THRESHOLD} not nothing"),
    "smoothing: box": ("smoothing", "'box' is not a choice. Choose one of: gaussian, median, none"),
    "iterations: 0": ("iterations", "must be at least 1, not '0'"),
    "iterations: 1.5": ("iterations", "must be a whole number, not '1.5'"),
    "window: 4": ("window", "must be an odd number from 3 to 999, not '4'"),
    "window: 1": ("window", "must be an odd number from 3 to 999, not '1'"),
    "window: wide": ("window", "must be a whole number, not 'wide'"),
    "window: 11": (
        "window",
        "a smoothing window of 11 is larger than 'age', which has 10 categories in a row; choose a window of at"
        " most 9",
    ),
    "sigma: 0": ("sigma", "must be a number above 0, not '0'"),
    "sigma: inf": ("sigma", "must be a number above 0, not 'inf'"),
    "criterion: x": ("criterion", "'x' is not a choice. Choose one of: running-mean, frontier"),
    "distance: 0.5": ("distance", "must be a number from 1 to 5, not '0.5'"),
    "distance: 1e9": ("distance", "must be a number from 1 to 5, not '1e9'"),
    "shares: 0.5": ("shares", f"unknown key. Did you mean 'share'? {KEYS}"),
    "colour: 1": ("colour", f"unknown key. {KEYS}"),
}


@pytest.mark.parametrize("given", WRONG)
def test_wrong_keys(dpcli: Cli, write_plan: WritePlan, given: str) -> None:
    path = write_plan(mechanism=f"ispe\n    ispe:\n      {given}")
    key, text = WRONG[given]
    result = dpcli("plan", "check", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {path}, line 18: releases[0].ispe.{key}: {text}\n"


@pytest.mark.parametrize(
    ("mechanism", "replace", "message"),
    [
        (
            "laplace\n    ispe: {share: 0.5}",
            ("", ""),
            "line 17: releases[0].ispe: goes with ispe, not with laplace; leave it out, or write mechanism: ispe",
        ),
        (
            "ispe\n    split: geometric",
            ("", ""),
            "line 17: releases[0].split: goes with hierarchical, not with ispe; leave it out, or write mechanism:"
            " hierarchical",
        ),
        (
            "hierarchical\n    split: geometrik",
            ("", ""),
            "line 17: releases[0].split: 'geometrik' is not a choice. Did you mean 'geometric'? Choose one of:"
            " equal, geometric",
        ),
        (
            "ispe\n    ispe: 5",
            ("", ""),
            "line 17: releases[0].ispe: must be a mapping of keys to values, not '5'",
        ),
        (
            "ispe",
            ("range: [0, 9]", "range: [0, 1999999]"),
            "line 15: releases[0].cube: the cube has 24,000,000 cells, and ispe takes 16,777,216 at most; use wider"
            " bins, fewer attributes, or another mechanism",
        ),
        (
            "ispe",
            ("age", "region"),
            "line 15: releases[0].cube[0]: ispe's file has a column 'region' of its own; rename the column in the"
            " table, or choose another mechanism",
        ),
        (
            "ispe",
            ("age", "Region_Count"),
            "line 15: releases[0].cube[0]: ispe's file has a column 'Region_Count' of its own; rename the column in"
            " the table, or choose another mechanism",
        ),
    ],
)
def test_what_does_not_go_together(
    dpcli: Cli, write_plan: WritePlan, mechanism: str, replace: tuple[str, str], message: str
) -> None:
    path = write_plan(mechanism=mechanism, replace=replace)
    result = dpcli("plan", "check", path)
    assert (result.exit_code, result.stderr) == (2, f"Error: {path}, {message}\n")


def test_an_attribute_called_region_is_fine_elsewhere(dpcli: Cli, write_plan: WritePlan) -> None:
    assert dpcli("plan", "check", write_plan(replace=("age", "region"))).exit_code == 0


@pytest.mark.parametrize(("share", "part"), [("0.999999999", "1e-15"), ("0.000000001", "1e-15")])
def test_too_little_epsilon_for_one_of_the_measurements(
    dpcli: Cli, write_plan: WritePlan, table: Path, share: str, part: str
) -> None:
    path = write_plan(mechanism=f"ispe\n    ispe: {{share: {share}}}", epsilon="0.000001")
    for arguments in ([path, "--dry-run"], [path, table, "-o", "out.parquet"]):
        result = dpcli("release", *arguments)
        assert (result.exit_code, result.stderr) == (
            2,
            f"Error: Release 'cube': epsilon {float(part):.15f} is too small for what ispe would measure: the noise"
            " would be wider than can be drawn exactly. Use mechanism: laplace, or more epsilon.\n",
        )
    assert not Path("ledger.sqlite").exists()
