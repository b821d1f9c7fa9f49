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
    The mechanism that the plan names is marked with *.

    \b
    Example:
      dpcli plan explain plan.yaml
    """
    prospects, verdict = api.explain(path)
    records = [prospect.record() for prospect in prospects]
    if output.form == "table":
        records = [{**r, "mechanism": f"{r['mechanism']}{'*' if r['planned'] else ''}"} for r in records]
    output.records(records, BRIEF if output.form == "table" else None)
    for sentence in verdict:
        output.note(sentence)


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
