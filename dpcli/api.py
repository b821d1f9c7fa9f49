"""One call per command. The command line only parses, calls these, and renders what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcli.errors import UsageError

if TYPE_CHECKING:
    from dpcli.estimate.answer import Answer
    from dpcli.plan.forecast import Forecast
    from dpcli.plan.schema import Plan
    from dpcli.privacy.ledger import Debit
    from dpcli.progress import Reporter
    from dpcli.publish import IfExists, Outcome
    from dpcli.release.file import Release


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan; raises ``PlanError`` with the line of every problem."""
    from dpcli.plan.load import load_plan

    return load_plan(Path(path))


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of plans."""
    from dpcli.plan.schema import json_schema

    return json_schema()


def propose_plan(table: str | Path, dataset: str | None = None) -> str:
    """Return a commented first plan for a table. It looks at the table, so it is NOT PRIVATE."""
    from dpcli.plan.propose import propose_plan

    return propose_plan(table, dataset)


def save_text(path: str | Path, text: str) -> None:
    """Write a new text file, whole or not at all."""
    from dpcli.release.whole import whole_file

    with whole_file(Path(path), replace=False) as temporary:
        temporary.write_text(text, encoding="utf-8")


def forecast(plan: Plan | str | Path) -> list[Forecast]:
    """Return cost and expected error of each release of a plan; no table is opened."""
    from dpcli.plan.forecast import forecast

    return forecast(load_plan(plan) if isinstance(plan, (str, Path)) else plan)


def release(
    plan: Plan | str | Path,
    table: str | Path | None = None,
    *,
    output: str | Path,
    ledger: str | Path,
    seed: int | None = None,
    fixture: bool = False,
    if_exists: IfExists = "fail",
    allow_empty: bool = False,
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
        Path(output),
        ledger=Ledger(Path(ledger)),
        seed=seed,
        fixture=fixture,
        if_exists=if_exists,
        allow_empty=allow_empty,
        reporter=reporter,
    )


def open_release(path: str | Path) -> Release:
    """Open a release file and check it; raises ``ReleaseFileError`` if it cannot be trusted."""
    from dpcli.release.file import open_release

    return open_release(path)


def query(release: Release | str | Path, conditions: Sequence[str] = (), level: float = 0.95) -> list[Answer]:
    """Answer conditions such as ``"age >= 65 and sex = 'F'"``; without any, count everything."""
    from dpcli.estimate.cube import answer
    from dpcli.query.parse import EVERYTHING, parse_condition

    if not 0 < level < 1:
        raise UsageError(f"The interval's level must lie between 0 and 1, as 0.95 does; {level} does not.")
    opened = open_release(release) if isinstance(release, (str, Path)) else release
    return answer(
        opened, [parse_condition(text, opened.domain) for text in conditions or (EVERYTHING,)], level
    )


def verify(release: Release) -> None:
    """Read every count of a release and check it against its digest."""
    for _ in release.blocks():
        pass


def debits(ledger: str | Path, dataset: str | None = None) -> list[Debit]:
    """Return what the ledger has debited, oldest first."""
    from dpcli.privacy.ledger import Ledger

    return Ledger(Path(ledger)).debits(dataset)
