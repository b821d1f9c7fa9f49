"""PRIVATE: from a plan and a table to release files. Count, debit, draw, write, in that order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.data.bounding import Unit
from dpcli.data.counting import SparseCube, count_views
from dpcli.data.domain import Domain
from dpcli.data.tables import open_table
from dpcli.errors import BudgetError, DpcliError, OutputError, UsageError
from dpcli.estimate.law import unit_variance
from dpcli.estimate.threshold import Thresholding
from dpcli.parallel import in_order
from dpcli.partition.axes import Neighbourhood
from dpcli.plan.claim import claim_of
from dpcli.plan.design import design
from dpcli.plan.filters import check_filters, groups_of, view_of
from dpcli.plan.ispe import DEFAULT
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.budget import composed
from dpcli.privacy.exact import exact_text
from dpcli.privacy.gate import Probe
from dpcli.privacy.ledger import Account, Debit, Ledger
from dpcli.privacy.noise import Keystream
from dpcli.progress import Progress, Reporter, Silent
from dpcli.recovery import Status, not_resumable, recovered
from dpcli.release.file import Regions, Release, write_release
from dpcli.release.metadata import Metadata
from dpcli.release.target import IfExists, existing, targets
from dpcli.strategy.large import inverse_in_place, is_large
from dpcli.strategy.observation import Observation
from dpcli.strategy.partition import Partition


@dataclass(frozen=True)
class Outcome:
    """What became of one release of a plan."""

    name: str
    path: Path
    status: Status
    cells: int
    epsilon: Fraction
    private: bool

    def record(self) -> dict[str, object]:
        """Return the outcome as the fields that are printed."""
        return {
            "release": self.name,
            "file": str(self.path),
            "status": self.status,
            "cells": self.cells,
            "epsilon": exact_text(self.epsilon),
            "private": self.private,
        }


def release(
    plan: Plan,
    table: str | Path,
    output: str | Path,
    *,
    ledger: Ledger,
    seed: int | None = None,
    fixture: bool = False,
    if_exists: IfExists = "fail",
    resume: bool = False,
    allow_empty: bool = False,
    wait: float = 600,
    reporter: Reporter | None = None,
) -> list[Outcome]:
    """Make every release of a plan from a table, one file each.

    The table is counted first, then the whole plan's epsilon is debited in one transaction, then noise is
    drawn and the files are written. A file appears under its name when the ledger has it as released. Runs
    for one dataset come one after the other; ``wait`` is how many seconds to wait for another.

    With ``resume`` nothing is debited: what an earlier run of the same plan paid for and did not publish is
    made now, and what it cannot be made of is told in a ``BudgetError`` when the rest is done.

    With ``seed`` anyone can recompute the noise: the files are marked NOT PRIVATE and the ledger is left
    alone.
    """
    if resume and (seed is not None or if_exists == "replace"):
        raise UsageError(
            f"--resume does not go with {'--seed' if seed is not None else '--if-exists replace'}."
        )
    check_filters(plan)
    with nullcontext() if seed is not None else ledger.lock(plan.dataset, wait):
        if seed is not None:
            _refuse_seed_on_budget(plan, ledger, fixture)
        today = dt.datetime.now(dt.UTC).date()
        names = [spec.name for spec in plan.releases]
        paths = targets(names, output, table, dataset=plan.dataset, today=today)
        exists: IfExists = "skip" if resume else if_exists
        kept = {name: existing(paths[name], plan.dataset, name, exists) for name in names}
        run = _Run(plan, table, paths, ledger, seed, exists == "replace", allow_empty, reporter or Silent())
        todo = [spec for spec in plan.releases if kept[spec.name] is None]
        made: dict[str, Status]
        if not resume:
            made = run.make(todo, {})
        else:
            made = recovered(plan, paths, ledger, [spec.name for spec in todo])
            paid = {debit.release: debit for debit in ledger.resumable(plan.dataset, plan.digest())}
            rest = [spec for spec in todo if spec.name not in made]
            made |= run.make([spec for spec in rest if spec.name in paid], paid)
            refused = [spec for spec in rest if spec.name not in paid]
            if refused:
                raise BudgetError(not_resumable(plan, refused, list(made), ledger))
    return [
        _outcome(plan, spec, paths[spec.name], kept[spec.name], made, seed is None) for spec in plan.releases
    ]


@dataclass(frozen=True)
class _Run:
    """One run of a plan: what it reads, and where it writes."""

    plan: Plan
    table: str | Path
    paths: Mapping[str, Path]
    ledger: Ledger
    seed: int | None
    replace: bool
    allow_empty: bool
    reporter: Reporter

    def make(self, todo: Sequence[CubeRelease], paid: Mapping[str, Debit]) -> dict[str, Status]:
        """Make releases, from debits that an earlier run left, or if there are none from new ones."""
        plan, ledger = self.plan, self.ledger
        if not todo:
            return {}
        designs = []
        for spec in todo:
            with self.reporter.stage(f"Choosing what to measure for {spec.name}"):
                designs.append(design(plan, spec))
        keystream = Keystream.from_os() if self.seed is None else Keystream.from_seed(self.seed)
        cubes = self._counted(todo, [domain for domain, _ in designs], keystream)
        debits = [paid[spec.name] if paid else _debit(plan, spec, keystream.token()) for spec in todo]
        claims = [
            claim_of(plan, spec, debit.release_id, domain, strategy, private=keystream.private)
            for spec, debit, (domain, strategy) in zip(todo, debits, designs, strict=True)
        ]
        if self.seed is not None:  # not private, and so not in the ledger
            accounts = [Account(debit.epsilon) for debit in debits]
        elif paid:
            accounts = [ledger.resume(debit.release_id) for debit in debits]
        else:
            accounts = ledger.reserve(debits, plan.privacy.budgets)
        done: dict[str, Status] = {}
        for spec, cube, claim, account in zip(todo, cubes, claims, accounts, strict=True):
            try:
                with self.reporter.stage(f"Writing {spec.name}") as progress:
                    self._write(spec, claim, self._probe(cube, account, keystream), progress)
            except BaseException as error:
                if self.seed is None:
                    _note_failed(ledger, debits[len(done) :])
                    _explain(error, plan, debits, list(done))
                raise
            done[spec.name] = "resumed" if paid else "released"
        return done

    def _counted(
        self, todo: Sequence[CubeRelease], domains: Sequence[Domain], keystream: Keystream
    ) -> list[SparseCube]:
        """Count the table for each release; those of a parallel group in one pass, a row in one of them."""
        cubes: dict[int, SparseCube] = {}
        keys = keystream.spawn() if self.plan.privacy.unit else None
        for group in groups_of(todo):
            views = [view_of(self.plan, todo[place], domains[place]) for place in group]
            unit = _unit(self.plan, keys)
            names = [name for view in views for name in view.attributes] + ([unit.column] if unit else [])
            with self.reporter.stage(
                f"Counting {', '.join(todo[place].name for place in group)}"
            ) as progress:
                source = open_table(self.table, list(dict.fromkeys(names)))
                found = count_views(views, source, unit=unit, progress=progress, allow_empty=self.allow_empty)
            cubes.update(zip(group, found, strict=True))
        return [cubes[place] for place in range(len(todo))]

    def _probe(self, cube: SparseCube, account: Account, keystream: Keystream) -> Probe:
        return Probe(
            cube,
            neighbors=self.plan.privacy.neighbors,
            rows_per_unit=self.plan.privacy.rows_per_person,
            account=account,
            keystream=keystream,
        )

    def _write(self, spec: CubeRelease, claim: Metadata, probe: Probe, progress: Progress) -> None:
        """Draw, and write one file; it appears when the ledger has it as released."""
        observation = probe.measure(claim.strategy, self.plan.cell_epsilon(spec))
        if observation.scale != claim.noise.scale:
            raise AssertionError("the noise drawn is not the noise that the file would state")
        blocks, regions = _counts(spec, observation), None
        if claim.regions is not None:
            cells = np.concatenate(list(blocks))
            regions = self._regions(spec, claim, cells, probe)
            number = len(regions.counts)
            claim = claim.model_copy(update={"regions": claim.regions.model_copy(update={"number": number})})
            blocks = iter([cells])

        def settle(complete: Metadata) -> None:
            self.ledger.settle(complete.id, "released", complete.digest)

        write_release(
            self.paths[spec.name],
            claim,
            blocks,
            replace=self.replace,
            regions=regions,
            progress=progress,
            before_it_appears=settle if self.seed is None else None,
        )

    def _regions(self, spec: CubeRelease, claim: Metadata, cells: NDArray[Any], probe: Probe) -> Regions:
        """Grow regions from the noisy cells, and measure their sums with what epsilon is left."""
        with self.reporter.stage(f"Growing regions for {spec.name}"):
            noisy = cells.reshape(claim.domain.shape)
            sd = unit_variance(claim.noise.scale) ** 0.5
            partitioning = (spec.ispe or DEFAULT).partitioning()
            labels = partitioning.regions(noisy, sd, Neighbourhood.of(claim.domain))
        rest = claim.privacy.epsilon - self.plan.cell_epsilon(spec)
        measured = probe.measure_regions(Partition(labels), rest)
        if claim.regions is None or measured.scale != claim.regions.scale:
            raise AssertionError("the noise drawn is not the noise that the file would state")
        return Regions(labels, measured.counts)


def _counts(spec: CubeRelease, observation: Observation) -> Iterator[NDArray[Any]]:
    """Yield the counts that follow from noisy coefficients, in C order."""
    strategy = observation.strategy
    if "threshold" in spec.refine and strategy.inner:
        thresholding = Thresholding(strategy, unit_variance(observation.scale), fitted=False)
        yield from in_order(lambda block: thresholding.counts(block.values), observation.blocks, workers=1)
    elif is_large(strategy):
        for block in observation.blocks:
            yield from inverse_in_place(strategy, block.values)
    else:
        yield from in_order(lambda block: strategy.inverse(block.values), observation.blocks, workers=1)


def _refuse_seed_on_budget(plan: Plan, ledger: Ledger, fixture: bool) -> None:
    if not fixture and (plan.privacy.budgets or ledger.budgets(plan.dataset)):
        raise UsageError(
            f"Dataset '{plan.dataset}' has a privacy budget, and a release with --seed is not private. If its"
            " table holds invented people only, add --fixture; otherwise leave out --seed."
        )


def _debit(plan: Plan, spec: CubeRelease, release_id: str) -> Debit:
    """Return what a release has to pay."""
    unit = plan.privacy.unit
    return Debit(
        release_id=release_id,
        dataset=plan.dataset,
        release=spec.name,
        epsilon=plan.shares()[spec.name],
        neighbors=plan.privacy.neighbors,
        unit="row" if unit is None else f"{unit.column} (at most {unit.max_rows} rows)",
        plan_digest=plan.digest(),
        parallel=spec.parallel,
    )


def _unit(plan: Plan, keys: Keystream | None) -> Unit | None:
    """Return how people are told apart, with a key of its own for each count; without a unit draw nothing."""
    unit = plan.privacy.unit
    if unit is None or keys is None:
        return None
    return Unit(unit.column, unit.max_rows, keys.words(32, np.uint8).tobytes(), unit.missing)


def _note_failed(ledger: Ledger, debits: list[Debit]) -> None:
    """Note that releases failed; their epsilon is spent anyway, so a ledger that fails now is no error."""
    with suppress(OutputError):
        for debit in debits:
            ledger.settle(debit.release_id, "failed")


def _explain(error: BaseException, plan: Plan, debits: list[Debit], done: list[str]) -> None:
    """Add to an error what was spent and what was, and was not, produced."""
    groups = {spec.name: spec.group for spec in plan.releases}
    spent = exact_text(composed((groups[debit.release], debit.epsilon) for debit in debits))
    missing = [debit.release for debit in debits if debit.release not in done]
    words = f"Epsilon {spent} is spent all the same. Not produced: {', '.join(missing)}."
    if done:
        words += f" Produced: {', '.join(done)}."
    if all(debit.parallel is None for debit in debits if debit.release in missing):
        words += " When the cause is mended, --resume makes what is missing without spending again."
    if isinstance(error, DpcliError) and error.args:
        error.args = (f"{error.args[0]} {words}",)
    else:
        error.add_note(words)


def _outcome(
    plan: Plan, spec: CubeRelease, path: Path, kept: Release | None, made: Mapping[str, Status], private: bool
) -> Outcome:
    if kept is not None:
        claim = kept.metadata
        return Outcome(spec.name, path, "skipped", kept.domain.size, claim.privacy.epsilon, claim.private)
    status = made[spec.name]
    return Outcome(spec.name, path, status, plan.domain_of(spec).size, plan.shares()[spec.name], private)
