"""``dpcli ledger``: what has been spent."""

from __future__ import annotations

import click

from dpcli import api
from dpcli.cli.common import Output, command, ledger_option

COLUMNS = ("time", "dataset", "release", "epsilon", "neighbors", "state", "release_id")


@click.group()
def ledger() -> None:
    """Show what each dataset has spent."""


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
