"""``dpcli ledger``: what has been spent, and whether the ledger is what it was."""

from __future__ import annotations

import json
from typing import Any

import click

from dpcli import api, bookkeeping
from dpcli.cli.common import Output, command, ledger_option, plain_command

COLUMNS = (
    "time",
    "dataset",
    "release",
    "epsilon",
    "neighbors",
    "unit",
    "parallel",
    "group",
    "state",
    "release_id",
)


@click.group()
def ledger() -> None:
    """Show what each dataset has spent, set budgets, check and export the ledger."""


@ledger.command("set-budget", no_args_is_help=True)
@click.argument("dataset")
@click.argument("epsilon")
@click.option(
    "--per",
    type=click.Choice(["day", "week", "month", "quarter", "year"]),
    help="A budget for each calendar period (UTC) instead of one for ever.",
)
@ledger_option
@plain_command
def set_budget(output: Output, dataset: str, epsilon: str, per: Any, ledger: str) -> None:
    """Record EPSILON as the most that may be spent on DATASET, in place of what was recorded before.

    It holds for ever or, with --per, for each calendar period. A dataset can have one of each, and all of
    them must be kept. A plan's 'budget' can only lower what is recorded. Raise it only if what people were
    promised allows it.

    \b
    Examples:
      dpcli ledger set-budget census-2026 10
      dpcli ledger set-budget census-2026 1 --per month
    """
    from dpcli.privacy.exact import exact_text

    balance = bookkeeping.set_budget(ledger, dataset, epsilon, per)
    ever, _ = bookkeeping.balance(ledger, dataset)
    if not ever:
        output.warn(f"Nothing was ever spent on a dataset '{dataset}'. Is the name right?")
    if balance.spent > balance.budget.total:
        when = f"every further release{balance.until}" if per else "every further release"
        output.warn(f"More than that is spent already: {when} will be refused.")
    output.note(
        f"The budget of dataset '{dataset}' is epsilon {balance.budget} now, of which"
        f" {exact_text(balance.spent)} is spent{f' {balance.period}' if per else ''}, by the ledger {ledger}."
    )


@ledger.command()
@click.option("--dataset", help="Only this dataset.")
@ledger_option
@command
def show(output: Output, dataset: str | None, ledger: str) -> None:
    """Print every debit, oldest first. All of them count as spent, whatever their state.

    Debits of one run with the same name under 'parallel' are about different rows: together they cost the
    largest of them.

    \b
    Example:
      dpcli ledger show --dataset census-2026 --format json
    """
    debits = bookkeeping.debits(ledger, dataset)
    hidden = () if output.form != "table" else ("group", "release_id")
    columns = [name for name in COLUMNS if name not in hidden]
    if debits or output.form != "table":
        output.records([debit.record() for debit in debits], columns)
    for name in sorted({debit.dataset for debit in debits}):
        text = bookkeeping.balance_text(ledger, name)
        output.note(text[0].upper() + text[1:])
    open_debits = sum(debit.state != "released" for debit in debits)
    if open_debits:
        output.note(
            f"{open_debits} of them {'is' if open_debits == 1 else 'are'} paid for and not published. A run"
            " of the same plan makes up for that without paying again, unless its parallel group is broken."
        )
    output.note(f"The ledger is {ledger}." if debits else f"The ledger {ledger} has no such debits.")


@ledger.command()
@click.option("--dataset", help="Only this dataset.")
@ledger_option
@command
def balance(output: Output, dataset: str | None, ledger: str) -> None:
    """Print what each dataset has spent, and what is left of each of its budgets.

    \b
    Example:
      dpcli ledger balance --format json
    """
    columns = ("dataset", "period", "spent", "budget", "per", "left")
    records = bookkeeping.ledger_balance(ledger, dataset)
    if records or output.form != "table":
        output.records(records, columns)
    else:
        output.note(f"The ledger {ledger} knows of no such dataset.")


@ledger.command()
@click.argument("releases", nargs=-1, metavar="[RELEASE]...", type=click.Path(readable=False))
@click.option("--head", metavar="DIGEST", help="A digest that was noted earlier and must still be there.")
@ledger_option
@command
def verify(output: Output, releases: tuple[str, ...], head: str | None, ledger: str) -> None:
    """Check that no entry of the ledger was changed, removed or moved, and print its last digest.

    Every entry is sealed by a digest over all before it. Note the last one where others cannot change it:
    with --head it shows later that nothing up to there was rewritten or cut off. Each RELEASE file must have
    a debit of the same id, dataset and epsilon that is released, and hold what was published.

    \b
    Examples:
      dpcli ledger verify
      dpcli ledger verify out/*.parquet --head 5d41…
    """
    last, refined = bookkeeping.verify_ledger(ledger, releases, head)
    number, digest, time = (last.number, last.digest, last.time) if last else (0, None, None)
    output.records([{"entries": number, "head": digest, "time": time}])
    output.note(f"The ledger {ledger} is whole." if last else f"The ledger {ledger} has no entries.")
    if head is not None:
        output.note("It has the entry with that digest.")
    if releases:
        told = f"It has paid for {len(releases)} file{'s' if len(releases) > 1 else ''}."
        if not refined:
            told += " Each holds what was published."
        else:
            told += (
                f" {refined} say{'s' * (refined == 1)} that it was refined from what was published, which"
                " cannot be checked."
            )
        output.note(told)


@ledger.command()
@click.option("-o", "--output", "file", type=click.Path(readable=False), help="A new file to write.")
@ledger_option
@plain_command
def export(output: Output, file: str | None, ledger: str) -> None:
    """Write all entries with their digests as JSON lines, to a new file or to stdout.

    A digest is the SHA-256 of the JSON list [digest before, number, time, kind, body], in which the body is
    a text, itself JSON with sorted keys. Both are ASCII without spaces, and before the first entry stands
    "dpcli ledger".

    \b
    Examples:
      dpcli ledger export -o ledger-2026-03.jsonl
      dpcli ledger export | tail -n 1
    """
    lines = [json.dumps(entry.record()) for entry in bookkeeping.entries(ledger)]
    text = "".join(f"{line}\n" for line in lines)
    if file is None:
        if text:
            output.text(text)
    else:
        api.save_text(file, text)
        number = f"{len(lines)} {'entry' if len(lines) == 1 else 'entries'}"
        output.note(f"Wrote {number} of the ledger {ledger} to {file}.")
