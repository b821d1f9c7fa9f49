"""PRIVATE: what became of a run that did not end: files to complete, and why others cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from dpcli.errors import OutputError, ReleaseFileError
from dpcli.plan.filters import groups_of
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.ledger import Debit, Ledger
from dpcli.release.file import open_release
from dpcli.release.whole import appear, cannot_write, leftovers

Status = Literal["released", "skipped", "resumed", "recovered", "refused"]
Made = tuple[Status, str | None]
"""How a release came about, and its id."""


def recovered(
    plan: Plan, paths: Mapping[str, Path], ledger: Ledger, todo: Sequence[str], *, resume: bool
) -> dict[str, Made]:
    """Give files their names that the ledger has as released, but that a kill left under a temporary one.

    Such a file is complete, and the ledger has the digest of its content: it is the one draw that its debit
    has paid for, and it is never removed. If its release is ``todo``, and without ``resume``, it is an
    ``OutputError`` that it is there, for to go on would spend again. All other leftovers are removed: what
    was drawn for a debit and not published must not lie about when the debit is drawn for again.
    """
    published: dict[str | None, Debit] = {
        debit.content: debit for debit in ledger.debits() if debit.state == "released" and debit.content
    }
    done: dict[str, Made] = {}
    for name, path in paths.items():
        for part in leftovers(path):
            debit = published.get(_content(part))
            try:
                if debit is None or _same_file(part, path):
                    part.unlink(missing_ok=True)
                elif (debit.dataset, debit.release, debit.plan_digest) != (plan.dataset, name, plan.digest()):
                    continue  # of another plan
                elif name in todo and not resume:
                    raise OutputError(
                        f"Release '{name}' was made by an earlier run, and only lacks its name. Give it that"
                        f" with --resume, or remove {part} and spend again."
                    )
                elif name in todo and name not in done:
                    appear(part, path, replace=path.exists())
                    done[name] = "recovered", debit.release_id
            except OSError as error:
                raise OutputError(cannot_write(path, error)) from error
    return done


def _same_file(part: Path, path: Path) -> bool:
    """Whether a file has its name already, and its temporary one too: a kill came between."""
    return path.exists() and os.path.samefile(part, path)


def forgotten(debits: Iterable[Debit]) -> None:
    """Remove what was drawn for debits and not published, wherever it was to go; they are drawn for again."""
    for debit in debits:
        for part in leftovers(Path(debit.file)) if debit.file else ():
            with suppress(OSError, ReleaseFileError):
                if open_release(part).metadata.id == debit.release_id:
                    part.unlink()


def _content(part: Path) -> str | None:
    """Return the digest of what a file holds, if it is a whole release."""
    try:
        release = open_release(part)
        release.verify()
    except ReleaseFileError:
        return None
    return release.metadata.digest


def paid_for(plan: Plan, todo: Sequence[CubeRelease], ledger: Ledger) -> dict[str, Debit]:
    """Return the debits, by release, that earlier runs of a plan left and that pay for what is to be made.

    A release that stands alone takes the newest of its own. A parallel group takes the newest group of debits
    for the same releases, all of them or none.
    """
    left: dict[int | None, list[Debit]] = {}
    for debit in ledger.resumable(plan.dataset, plan.digest()):
        left.setdefault(debit.group, []).append(debit)
    wanted = {frozenset(todo[place].name for place in group) for group in groups_of(todo)}
    found = {frozenset(debit.release for debit in debits): debits for debits in left.values()}
    return {debit.release: debit for names in wanted & found.keys() for debit in found[names]}


def not_resumable(plan: Plan, refused: Sequence[CubeRelease], ledger: Ledger) -> str:
    """Say for each release why it cannot be made without spending again, and what to do."""
    states = {
        debit.release: debit.state
        for debit in ledger.debits(plan.dataset)
        if debit.plan_digest == plan.digest()
    }
    lines = []
    for spec in refused:
        if spec.name not in states:
            why = "the ledger has no debit for it from this plan as it is written now"
        elif states[spec.name] == "released":
            why = "the ledger has it as released, so its file was published or may have been; look for it"
        elif spec.parallel is not None:
            why = (
                f"others of its parallel group '{spec.parallel}' were published, from a table that may have"
                " changed since"
            )
        else:
            why = "an older dpcli made its debit, and may have published it"
        lines.append(f"Release '{spec.name}' cannot be resumed: {why}.")
    lines.append("Nothing was spent. Without --resume what is missing is made anew, which spends again.")
    return "\n".join(lines)
