"""``dpcli release``: from a plan and a table to release files."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from dpcli import api, bookkeeping
from dpcli.cli.common import Output, command, ledger_option
from dpcli.errors import BudgetError, UsageError

if TYPE_CHECKING:
    from dpcli.plan.schema import Plan


@click.command(no_args_is_help=True)
@click.argument("plan", type=click.Path(readable=False))
@click.argument("table", type=click.Path(readable=False), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(readable=False),
    help=(
        "The file to write; a folder if the plan has several releases. {dataset}, {release} and {date} (UTC,"
        " or {date:%Y-%m}) are filled in."
    ),
)
@click.option(
    "--dry-run", is_flag=True, help="Show cost and expected error; open no table, spend and write nothing."
)
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "skip", "replace"]),
    default="fail",
    show_default=True,
    help="What to do when the output exists. Replacing it spends epsilon again.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Only complete an earlier run of the same plan; spend nothing.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="For fixtures: noise from a known seed. NOT PRIVATE."
)
@click.option("--fixture", is_flag=True, help="Allow --seed for a dataset that has a budget.")
@click.option("--allow-empty", is_flag=True, help="Release a table without rows too.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=600,
    show_default=True,
    help="Seconds to wait for another run of the same dataset.",
)
@ledger_option
@command
def release(
    output_to: Output,
    plan: str,
    table: str | None,
    output: str | None,
    dry_run: bool,
    **options: Any,
) -> None:
    """Release TABLE (CSV, CSV.GZ, Parquet, or a folder of them) as PLAN says.

    The plan's epsilon is debited in the ledger before any noise is drawn, and stays spent whatever happens
    then. The output appears whole or not at all. What an earlier run of the same plan paid for and did not
    publish is not paid for again.

    \b
    Examples:
      dpcli release plan.yaml people.csv -o cube.parquet
      dpcli release plan.yaml --dry-run
      dpcli release plan.yaml people.parquet -o out/ --if-exists skip --quiet
      dpcli release plan.yaml people.csv -o 'out/{dataset}-{date}.parquet' --log-format json
      dpcli release plan.yaml people.csv -o out/ --resume
      dpcli release plan.yaml people.csv -o fixture.parquet --seed 7     (NOT PRIVATE)
    """
    if dry_run:
        _dry_run(output_to, plan, options["ledger"])
        return
    if output is None:
        raise UsageError("No output is given. Name a file with -o, or use --dry-run.")
    if not isfinite(options["wait"]):
        raise UsageError("--wait must be a number of seconds.")
    output_to.stream()  # better now than when all is spent
    if options["fixture"] and options["seed"] is None:
        raise UsageError("--fixture only goes with --seed.")
    if options["seed"] is not None:
        output_to.warn(
            "NOT PRIVATE: with --seed anyone can recompute the noise. Use it for invented people only."
        )
    loaded = api.load_plan(plan)
    outcomes = api.release(loaded, table, output=output, reporter=output_to.reporter(), **options)
    for outcome in outcomes:
        if not outcome.private and options["seed"] is None:
            output_to.warn(f"{outcome.path}, which was skipped, is NOT PRIVATE: it was made with --seed.")
        if outcome.differs:
            output_to.warn(f"{outcome.path}, which was skipped, is not what the plan would make now.")
    records = [outcome.record() for outcome in outcomes]
    shown = [name for name in records[0] if output_to.form != "table" or name != "release_id"]
    output_to.records(records, shown)
    if options["seed"] is None:
        output_to.note(_balance(options["ledger"], loaded))
    refused = [outcome.name for outcome in outcomes if outcome.status == "refused"]
    if refused:
        raise BudgetError(bookkeeping.why_not_resumed(loaded, refused, options["ledger"]))


def _balance(ledger: str, plan: Plan) -> str:
    return f"By the ledger {ledger}, {bookkeeping.balance_text(ledger, plan.dataset, plan)}"


def _dry_run(output_to: Output, plan: str, ledger: str) -> None:
    loaded = api.load_plan(plan)
    api.check_conditions(loaded)
    output_to.records([forecast.record() for forecast in api.forecast(loaded)], tall=True)
    output_to.note(
        "cell_95 is the half-width of a single cell's 95 % interval. range_rmse and range_worst are the root"
        " mean square and the largest standard error over the release's workload, by default random ranges on"
        " some or all of the attributes. Nothing was read, spent or written."
    )
    output_to.note(_balance(ledger, loaded))
    bookkeeping.check_budget(ledger, loaded)
