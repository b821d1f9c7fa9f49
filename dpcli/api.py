"""One call per command. The command line only parses, calls these, and renders what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcli.errors import UsageError

if TYPE_CHECKING:
    from dpcli.estimate.table import Table
    from dpcli.plan.advice import Advice
    from dpcli.plan.explain import Prospect
    from dpcli.plan.forecast import Forecast
    from dpcli.plan.schema import Plan
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


def advise(plan: Plan | str | Path) -> tuple[list[Advice], list[str]]:
    """Return what to expect of other shares for the releases by ispe of a plan, and which one is best."""
    from dpcli.plan.advice import advise, best_shares

    advice = advise(load_plan(plan) if isinstance(plan, (str, Path)) else plan)
    return advice, best_shares(advice)


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
    """Write a picture, whole or not at all; nothing but a picture that was drawn here is replaced."""
    from dpcli.release.pictures import save_picture

    save_picture(Path(path), content)


def picture_notes(form: str) -> dict[str, str | None]:
    """Return what a picture says of itself, by which it is known again; ``UsageError`` for other forms."""
    from dpcli.release.pictures import picture_notes

    return picture_notes(form)


def check_picture(path: str | Path) -> None:
    """Raise ``OutputError`` if a picture could not be written to a file of that name."""
    from dpcli.release.pictures import check_picture

    check_picture(Path(path))


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
