"""``dpcli ledger``: what has been spent."""

from __future__ import annotations

import click

from dpcli import api
from dpcli.cli.common import Output, command, ledger_option, plain_command

COLUMNS = ("time", "dataset", "release", "epsilon", "neighbors", "state", "release_id")


@click.group()
def ledger() -> None:
    """Show what each dataset has spent, and set budgets."""


@ledger.command("set-budget", no_args_is_help=True)
@click.argument("dataset")
@click.argument("epsilon")
@ledger_option
@plain_command
def set_budget(output: Output, dataset: str, epsilon: str, ledger: str) -> None:
    """Record EPSILON as the most that may ever be spent on DATASET, in place of what was recorded before.

    A plan's 'budget' can only lower what is recorded. Raise it only if what people were promised allows it.

    \b
    Example:
      dpcli ledger set-budget census-2026 10
    """
    from dpcli.privacy.exact import exact_text

    api.set_budget(ledger, dataset, epsilon)
    spent, cap = api.balance(ledger, dataset)
    assert cap is not None
    if not spent:
        output.warn(f"Nothing was ever spent on a dataset '{dataset}'. Is the name right?")
    if spent > cap:
        output.warn("More than that is spent already: every further release will be refused.")
    output.note(
        f"The budget of dataset '{dataset}' is epsilon {exact_text(cap)} now, of which {exact_text(spent)} is"
        f" spent, by the ledger {ledger}."
    )


@ledger.command()
@click.option("--dataset", help="Only this dataset.")
@ledger_option
@command
def show(output: Output, dataset: str | None, ledger: str) -> None:
    """Print every debit, oldest first. All of them count as spent, whatever their state.

    \b
    Example:
      dpcli ledger show --dataset census-2026 --format json
    """
    from dpcli.privacy.exact import exact_text

    debits = api.debits(ledger, dataset)
    columns = COLUMNS if output.form != "table" else COLUMNS[:-1]
    if debits or output.form != "table":
        output.records([debit.record() for debit in debits], columns)
    for name in sorted({debit.dataset for debit in debits}):
        spent, cap = api.balance(ledger, name)
        of = f" of its budget of {exact_text(cap)}" if cap is not None else ", and it has no budget"
        output.note(f"Dataset '{name}' has spent epsilon {exact_text(spent)}{of}.")
    output.note(f"The ledger is {ledger}." if debits else f"The ledger {ledger} has no such debits.")
