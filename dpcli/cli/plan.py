"""``dpcli plan``: write, check and describe release plans."""

from __future__ import annotations

import json

import click

from dpcli import api
from dpcli.cli.common import Output, command, plain_command

BRIEF = ("release", "mechanism", "expected_rmse", "worst_stderr", "memory_mb", "seconds", "measures")


@click.group()
def plan() -> None:
    """Write and check release plans."""


@plan.command(no_args_is_help=True)
@click.argument("path", type=click.Path(readable=False), metavar="PLAN")
@command
def check(output: Output, path: str) -> None:
    """Check PLAN and the hierarchies that it names; print its releases. No table is opened.

    \b
    Example:
      dpcli plan check plan.yaml
    """
    from dpcli.privacy.exact import exact_text

    checked = api.load_plan(path)
    api.check_conditions(checked)
    shares, grouped = checked.shares(), any(spec.parallel for spec in checked.releases)
    output.records(
        [
            {
                "release": spec.name,
                "cube": " × ".join(spec.cube),
                "cells": checked.domain_of(spec).size,
                "mechanism": spec.mechanism,
                "epsilon": exact_text(shares[spec.name]),
                **({"parallel": spec.parallel} if grouped else {}),
            }
            for spec in checked.releases
        ]
    )
    output.note(f"{path} is a sound plan for dataset '{checked.dataset}'.")
    if grouped:
        output.note(
            f"Releases of a parallel group count different rows. Together the plan costs epsilon"
            f" {exact_text(checked.cost())}."
        )
    unit = checked.privacy.unit
    if unit is not None:
        output.note(f"Of the rows that share a value of '{unit.column}', {unit.max_rows} will count at most.")


@plan.command(no_args_is_help=True)
@click.argument("path", type=click.Path(readable=False), metavar="PLAN")
@command
def explain(output: Output, path: str) -> None:
    """Compare what every mechanism would give for PLAN's releases, before any data is read.

    The error is exact: the root of the mean variance over the release's workload (by default random ranges
    and hierarchy nodes), and the largest standard error of a query in it. Memory and time are estimates.
    The mechanism that the plan names is marked with *. What ispe gains from its regions depends on the data
    and is not counted.

    For releases by ispe a second table tells the error of a cell, and of a region's sum, for other shares of
    epsilon, if the data were rough, medium or smooth. It comes from a simple model. In other formats than
    table both are records of one list; "about" tells them apart.

    \b
    Example:
      dpcli plan explain plan.yaml
    """
    loaded = api.load_plan(path)
    prospects, verdict = api.explain(loaded)
    advice, best = api.advise(loaded)
    records = [prospect.record() for prospect in prospects]
    shares = [each.record() for each in advice]
    if output.form == "table":
        output.records(_marked(records, "mechanism"), BRIEF)
        if shares:
            output.records([_without(r, "planned") for r in _marked(shares, "share")])
    else:
        both = [{"about": "mechanism", **r} for r in records] + [{"about": "share", **r} for r in shares]
        columns = list(dict.fromkeys(name for record in both for name in record))
        output.records([{**dict.fromkeys(columns), **record} for record in both], columns)
    for sentence in (*verdict, *best):
        output.note(sentence)


def _marked(records: list[dict[str, object]], column: str) -> list[dict[str, object]]:
    """Mark what is planned with a star."""
    return [{**r, column: f"{r[column]}{'*' if r['planned'] else ''}"} for r in records]


def _without(record: dict[str, object], column: str) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != column}


@plan.command(no_args_is_help=True)
@click.argument("table", type=click.Path(readable=False))
@click.option(
    "-o", "--output", "target", type=click.Path(dir_okay=False), help="Write here instead of to stdout."
)
@click.option("--dataset", help="The dataset's name in the ledger; by default the table's name.")
@plain_command
def init(output: Output, table: str, target: str | None, dataset: str | None) -> None:
    """Write a commented first plan for TABLE.

    It looks at the table, so what it proposes is NOT PRIVATE: replace every range and label by what is
    publicly known before you release anything.

    \b
    Example:
      dpcli plan init people.csv -o plan.yaml
    """
    text = api.propose_plan(table, dataset, target)
    output.warn(
        "NOT PRIVATE: this proposal was made by looking at the table."
        " Replace its ranges and labels by publicly known ones."
    )
    if target is None:
        output.text(text)
    else:
        api.save_text(target, text)
        output.note(f"Wrote {target}.")


@plan.command()
@plain_command
def schema(output: Output) -> None:
    """Print the JSON Schema of plans, for editors that complete and check YAML.

    \b
    Example:
      dpcli plan schema > plan.schema.json
    """
    output.text(json.dumps(api.plan_schema(), indent=2))
