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
    output.records([debit.record() for debit in api.debits(ledger, dataset)], COLUMNS)
