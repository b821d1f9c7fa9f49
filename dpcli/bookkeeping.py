"""What the curator asks of the ledger: one call per question. The commands of ``dpcli ledger`` are these."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dpcli.errors import UsageError

if TYPE_CHECKING:
    from dpcli.plan.schema import Plan
    from dpcli.privacy.ledger import Balance, Debit, Entry, Period


def balance(ledger: str | Path, dataset: str) -> tuple[Fraction, Fraction | None]:
    """Return what a dataset has spent by a ledger, and its budget if one is known."""
    from dpcli.privacy.ledger import Ledger

    books = Ledger(Path(ledger))
    lifetime = [budget.total for budget in books.budgets(dataset) if budget.per is None]
    return books.spent(dataset), lifetime[0] if lifetime else None


def balances(ledger: str | Path, dataset: str, plan: Plan | None = None) -> list[Balance]:
    """Return what is spent of each budget of a dataset, also of those that a plan would set."""
    from dpcli.privacy.ledger import Ledger

    return Ledger(Path(ledger)).balances(dataset, [] if plan is None else plan.privacy.budgets)


def balance_text(ledger: str | Path, dataset: str, plan: Plan | None = None) -> str:
    """Return in words what a dataset has spent of its budgets, in all and in the present periods."""
    from dpcli.privacy.exact import exact_text

    held = balances(ledger, dataset, plan)
    spent, _ = balance(ledger, dataset)
    words = f"dataset '{dataset}' has spent epsilon {exact_text(spent)}"
    for each in held:
        when = f"; {each.period} it has spent {exact_text(each.spent)}" if each.budget.per else ""
        words += f"{when} of its budget of {each.budget}"
    return words + ("." if held else ", and it has no budget.")


def check_budget(ledger: str | Path, plan: Plan) -> None:
    """Raise ``BudgetError`` if a plan would be refused now; nothing is spent."""
    from dpcli.privacy.budget import composed
    from dpcli.privacy.ledger import Ledger
    from dpcli.recovery import paid_for

    books, shares = Ledger(Path(ledger)), plan.shares()
    paid = paid_for(plan, plan.releases, books)
    asked = composed((spec.group, shares[spec.name]) for spec in plan.releases if spec.name not in paid)
    books.check(plan.dataset, asked, plan.privacy.budgets)


def why_not_resumed(plan: Plan, names: Sequence[str], ledger: str | Path) -> str:
    """Say why releases of a plan cannot be made without spending again."""
    from dpcli.privacy.ledger import Ledger
    from dpcli.recovery import not_resumable

    refused = [spec for spec in plan.releases if spec.name in names]
    return not_resumable(plan, refused, Ledger(Path(ledger)))


def set_budget(ledger: str | Path, dataset: str, epsilon: str, per: Period | None = None) -> Balance:
    """Record the most epsilon that may be spent on a dataset, ever or in each period; return its balance."""
    from dpcli.privacy.exact import parse_epsilon
    from dpcli.privacy.ledger import Budget, Ledger

    try:
        budget = Budget(parse_epsilon(epsilon), per)
    except ValueError as error:
        raise UsageError(f"The budget {error}.") from None
    if not re.fullmatch(r"\w[\w.-]{0,99}", dataset, re.ASCII):
        raise UsageError(f"{dataset!r} is not the name of a dataset as plans have them.")
    books = Ledger(Path(ledger))
    books.set_budget(dataset, budget)
    return next(balance for balance in books.balances(dataset) if balance.budget.per == per)


def debits(ledger: str | Path, dataset: str | None = None) -> list[Debit]:
    """Return what the ledger has debited, oldest first."""
    from dpcli.privacy.ledger import Ledger

    return Ledger(Path(ledger)).debits(dataset)


def ledger_balance(ledger: str | Path, dataset: str | None = None) -> list[dict[str, object]]:
    """Return a row for each budget of each dataset, and one without a budget where there is none for ever."""
    from dpcli.privacy.exact import exact_text
    from dpcli.privacy.ledger import Ledger

    books = Ledger(Path(ledger))
    rows: list[dict[str, object]] = []
    for name in books.datasets() if dataset is None else [dataset] if dataset in books.datasets() else []:
        held = books.balances(name)
        if not held or held[0].budget.per is not None:
            nothing = {"budget": None, "per": None, "left": None}
            spent = exact_text(books.spent(name))
            rows.append({"dataset": name, "period": "in all", "spent": spent, **nothing})
        for each in held:
            rows.append(
                {
                    "dataset": name,
                    "period": each.period,
                    "spent": exact_text(each.spent),
                    "budget": exact_text(each.budget.total),
                    "per": each.budget.per,
                    "left": exact_text(each.left),
                }
            )
    return rows


def entries(ledger: str | Path) -> Iterator[Entry]:
    """Yield all entries of a ledger, oldest first; raises ``OutputError`` if its chain is broken."""
    from dpcli.privacy.ledger import Ledger

    return Ledger(Path(ledger)).entries()


def verify_ledger(
    ledger: str | Path, releases: Sequence[str | Path] = (), head: str | None = None
) -> tuple[Entry | None, int]:
    """Check a ledger's chain, that a digest noted earlier is in it, and that it has paid for release files.

    Returns the last entry, and how many files say that they were refined from one that was published. Raises
    ``LedgerError`` for a chain that is broken or was cut, and ``ReleaseFileError`` for a file whose debit is
    not there, not released, or another, or whose content is not what was published.
    """
    from dpcli.errors import LedgerError
    from dpcli.privacy.ledger import Ledger

    books = Ledger(Path(ledger))
    last = books.verify()
    if last is None and (releases or head is not None or not Path(ledger).exists()):
        raise LedgerError(f"There is no ledger {ledger}, or nothing in it. Name the right one with --ledger.")
    if head is not None and not re.fullmatch(r"[0-9a-f]{64}", head.strip().lower()):
        raise UsageError("A digest has 64 hexadecimal digits; give --head the whole of it.")
    if head is not None and head.strip().lower() not in {entry.digest for entry in books.entries()}:
        raise LedgerError(
            f"The ledger {ledger} has no entry with the digest {head.strip()}: its end was cut off, or all of"
            " it was replaced. Look for the copy that has it."
        )
    refined = 0
    if releases:
        known = {debit.release_id: debit for debit in books.debits()}
        refined = sum(_check_paid(ledger, known, path) for path in releases)
    return last, refined


def _check_paid(ledger: str | Path, debits: Mapping[str, Debit], path: str | Path) -> bool:
    """Raise ``ReleaseFileError`` unless a release, or the one that it was refined from, is debited so.

    Returns whether it is a refined one.
    """
    from dpcli.errors import ReleaseFileError
    from dpcli.privacy.exact import exact_text
    from dpcli.release.file import open_release

    release = open_release(path)
    release.verify()
    claim = release.metadata
    found = [debits[name] for name in (claim.id, *claim.parents) if name in debits]
    if not claim.private:
        problem = "was made with --seed: it is NOT PRIVATE, and no ledger has paid for it"
    elif not found:
        problem = f"has the id {claim.id}, for which the ledger {ledger} has no debit"
    elif (found[0].dataset, found[0].epsilon) != (claim.dataset, claim.privacy.epsilon):
        problem = (
            f"says epsilon {exact_text(claim.privacy.epsilon)} of dataset '{claim.dataset}', but the ledger"
            f" {ledger} has debited {exact_text(found[0].epsilon)} of '{found[0].dataset}' for it"
        )
    elif found[0].state != "released":
        problem = f"has a debit that is {found[0].state}, not released, by the ledger {ledger}"
    elif found[0].release_id == claim.id and found[0].content not in (None, claim.digest):
        problem = f"is not what was published: the ledger {ledger} has another digest for its content"
    else:
        return found[0].release_id != claim.id
    raise ReleaseFileError(f"{path} {problem}.")
