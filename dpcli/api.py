"""One call per command. The command line only parses, calls these, and renders what comes back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcli.errors import UsageError

if TYPE_CHECKING:
    from dpcli.estimate.table import Table
    from dpcli.plan.explain import Prospect
    from dpcli.plan.forecast import Forecast
    from dpcli.plan.schema import Plan
    from dpcli.privacy.ledger import Balance, Debit, Entry, Period
    from dpcli.progress import Reporter
    from dpcli.publish import Outcome
    from dpcli.reader import Cube
    from dpcli.release.file import Release
    from dpcli.release.target import IfExists


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan; raises ``PlanError`` with the line of every problem."""
    from dpcli.plan.load import load_plan

    return load_plan(Path(path))


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of plans."""
    from dpcli.plan.json_schema import json_schema

    return json_schema()


def propose_plan(table: str | Path, dataset: str | None = None, target: str | Path | None = None) -> str:
    """Return a commented first plan for a table. It looks at the table, so it is NOT PRIVATE.

    ``target`` is where the plan will lie; the table's path in it is relative to that.
    """
    from dpcli.plan.propose import propose_plan

    return propose_plan(table, dataset, target)


def save_text(path: str | Path, text: str) -> None:
    """Write a new text file, whole or not at all."""
    from dpcli.release.whole import whole_file

    with whole_file(Path(path), replace=False) as temporary:
        temporary.write_text(text, encoding="utf-8")


def forecast(plan: Plan | str | Path) -> list[Forecast]:
    """Return cost and expected error of each release of a plan; no table is opened."""
    from dpcli.plan.forecast import forecast

    return forecast(load_plan(plan) if isinstance(plan, (str, Path)) else plan)


def explain(plan: Plan | str | Path) -> tuple[list[Prospect], list[str]]:
    """Return what every mechanism would give for each release of a plan, and which one is best and why."""
    from dpcli.plan.explain import explain, verdict

    prospects = explain(load_plan(plan) if isinstance(plan, (str, Path)) else plan)
    return prospects, verdict(prospects)


def release(
    plan: Plan | str | Path,
    table: str | Path | None = None,
    *,
    output: str | Path,
    ledger: str | Path,
    seed: int | None = None,
    fixture: bool = False,
    if_exists: IfExists = "fail",
    resume: bool = False,
    allow_empty: bool = False,
    wait: float = 600,
    reporter: Reporter | None = None,
) -> list[Outcome]:
    """Make every release of a plan from a table; see :func:`dpcli.publish.release`."""
    plan = load_plan(plan) if isinstance(plan, (str, Path)) else plan
    source = table if table is not None else plan.table
    if source is None:
        raise UsageError("No table is given. Name it after the plan, or as 'table:' in the plan.")
    from dpcli.privacy.ledger import Ledger
    from dpcli.publish import release

    return release(
        plan,
        source,
        output,
        ledger=Ledger(Path(ledger)),
        seed=seed,
        fixture=fixture,
        if_exists=if_exists,
        resume=resume,
        allow_empty=allow_empty,
        wait=wait,
        reporter=reporter,
    )


def open_release(path: str | Path) -> Cube:
    """Open a release file and check it; raises ``ReleaseFileError`` if it cannot be trusted."""
    from dpcli.reader import Cube
    from dpcli.release.file import open_release

    release = open_release(path)
    return Cube(release.path, release.metadata)


def query(
    release: Cube | str | Path,
    conditions: Sequence[str] = (),
    level: float = 0.95,
    *,
    by: Sequence[str] = (),
    simultaneous: bool = False,
    interpolate: bool = False,
) -> Table:
    """Count the rows of conditions such as ``"age >= 65 and sex = 'F'"``; without any, of all."""
    asking = _opened(release).ask(level, simultaneous=simultaneous, interpolate=interpolate)
    return asking.conditions(conditions, by)


def query_sql(
    release: Cube | str | Path,
    statement: str,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    interpolate: bool = False,
) -> Table:
    """Answer a statement such as ``SELECT sex, AVG(age) FROM release GROUP BY sex``."""
    asking = _opened(release).ask(level, simultaneous=simultaneous, interpolate=interpolate)
    return asking.statement(statement)


def query_workload(
    release: Cube | str | Path,
    spec: str,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    interpolate: bool = False,
) -> Iterator[Table]:
    """Answer a workload: a file of conditions, ``random:N``, ``marginals:K`` or ``prefixes:ATTR``."""
    asking = _opened(release).ask(level, simultaneous=simultaneous, interpolate=interpolate)
    return asking.workload(spec)


def check_export(path: str | Path) -> None:
    """Raise ``UsageError`` if answers could not be written to a file of that name."""
    from dpcli.estimate.export import check_export

    check_export(Path(path))


def export(path: str | Path, tables: Iterable[Table]) -> int:
    """Write answers to a CSV, JSON lines or Parquet file; return how many."""
    from dpcli.estimate.export import export

    return export(Path(path), tables)


def save_picture(path: str | Path, content: bytes) -> None:
    """Write a picture, whole or not at all."""
    from dpcli.release.whole import whole_file

    with whole_file(Path(path), replace=True) as temporary:
        temporary.write_bytes(content)


def _opened(release: Cube | str | Path) -> Cube:
    return open_release(release) if isinstance(release, (str, Path)) else release


def refine(
    release: Release | str | Path, *, threshold: bool, output: str | Path, replace: bool = False
) -> None:
    """Write a refined copy of a release; it costs no privacy."""
    from dpcli.estimate.refine import refine

    opened = open_release(release) if isinstance(release, (str, Path)) else release
    refine(opened, threshold=threshold, output=Path(output), replace=replace)


def measured(release: Release) -> str:
    """Return in words what was measured along each attribute."""
    words = release.metadata.strategy.summary(release.domain.names)
    regions = release.metadata.regions
    return words if regions is None else f"{words}; then the sums of {regions.number:,} regions of cells"


def guarantee(release: Release) -> list[str]:
    """Return a release's guarantee in words, worked out from its numbers and not from what it says."""
    from dpcli.release.guarantee import sentences

    return sentences(release.metadata)


def verify(release: Release) -> None:
    """Read all of a release, and check counts against their digests and labels against the domain."""
    release.verify()


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


def check_conditions(plan: Plan) -> None:
    """Raise ``PlanError`` if a condition in a release's workload or filter cannot be answered.

    Also if two releases of a parallel group could count the same row.
    """
    if any(spec.where is not None for spec in plan.releases):
        from dpcli.plan.filters import check_filters

        check_filters(plan)
    if any(isinstance(spec.workload, tuple) for spec in plan.releases):
        from dpcli.plan.design import options_of

        for spec in plan.releases:
            options_of(plan, spec, plan.domain_of(spec))


def set_budget(ledger: str | Path, dataset: str, epsilon: str, per: Period | None = None) -> Balance:
    """Record the most epsilon that may be spent on a dataset, ever or in each period; return its balance."""
    from dpcli.privacy.exact import parse_epsilon
    from dpcli.privacy.ledger import Budget, Ledger

    try:
        budget = Budget(parse_epsilon(epsilon), per)
    except ValueError as error:
        raise UsageError(f"The budget {error}.") from None
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
) -> Entry | None:
    """Check a ledger's chain, that a digest noted earlier is in it, and that it has paid for release files.

    Returns the last entry. Raises ``OutputError`` for a chain that is broken or was cut, and
    ``ReleaseFileError`` for a file whose debit is not there, not released, or another.
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
    if releases:
        known = {debit.release_id: debit for debit in books.debits()}
        for path in releases:
            _check_paid(ledger, known, path)
    return last


def _check_paid(ledger: str | Path, debits: Mapping[str, Debit], path: str | Path) -> None:
    """Raise ``ReleaseFileError`` unless a release, or the one that it was refined from, is debited so."""
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
        return
    raise ReleaseFileError(f"{path} {problem}.")
