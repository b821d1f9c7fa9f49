"""PRIVATE: from a plan and a table to release files. Count, debit, draw, write, in that order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.data.bounding import Unit
from dpcli.data.counting import SparseCube, count_views
from dpcli.data.domain import Domain
from dpcli.data.tables import open_table
from dpcli.errors import DataError, DpcliError, OutputError, UsageError
from dpcli.estimate.law import unit_variance
from dpcli.estimate.threshold import Thresholding
from dpcli.parallel import in_order
from dpcli.partition.axes import Neighbourhood
from dpcli.plan.claim import claim_of, made_as_planned
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
from dpcli.recovery import Made, Status, forgotten, paid_for, recovered
from dpcli.release.file import Regions, Release, write_release
from dpcli.release.guarantee import sentences
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
    release_id: str | None
    differs: bool = False
    """Whether a file that was skipped is not what the plan would make now."""

    def record(self) -> dict[str, object]:
        """Return the outcome as the fields that are printed."""
        return {
            "release": self.name,
            "file": str(self.path),
            "status": self.status,
            "cells": self.cells,
            "epsilon": exact_text(self.epsilon),
            "private": self.private,
            "release_id": self.release_id,
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

    What an earlier run of the same plan paid for and did not publish is not paid for again. With ``resume``
    nothing is debited at all: only that is made, and what cannot be has the status "refused".

    With ``seed`` anyone can recompute the noise: the files are marked NOT PRIVATE and the ledger is left
    alone.
    """
    if resume and seed is not None:
        raise UsageError("--resume does not go with --seed.")
    check_filters(plan)
    with nullcontext() if seed is not None else ledger.lock(plan.dataset, wait):
        if seed is not None:
            _refuse_seed_on_budget(plan, ledger, fixture)
        today = dt.datetime.now(dt.UTC).date()
        names = [spec.name for spec in plan.releases]
        paths = targets(names, output, [table, ledger.path], dataset=plan.dataset, today=today)
        exists: IfExists = "skip" if resume and if_exists == "fail" else if_exists
        kept = {name: existing(paths[name], plan.dataset, name, exists) for name in names}
        run = _Run(plan, table, paths, ledger, seed, exists == "replace", allow_empty, reporter or Silent())
        todo = [spec for spec in plan.releases if kept[spec.name] is None]
        made: dict[str, Made] = {}
        paid: dict[str, Debit] = {}
        if seed is None:
            made |= recovered(plan, paths, ledger, [spec.name for spec in todo], resume=resume)
            todo = [spec for spec in todo if spec.name not in made]
            paid = paid_for(plan, todo, ledger)
        made |= run.make([spec for spec in todo if spec.name in paid or not resume], paid)
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

    def make(self, todo: Sequence[CubeRelease], paid: Mapping[str, Debit]) -> dict[str, Made]:
        """Make releases, and pay for those that earlier runs did not pay for."""
        plan, ledger, private = self.plan, self.ledger, self.seed is None
        if not todo:
            return {}
        new = [spec for spec in todo if spec.name not in paid]
        with self._nothing_spent():
            if private:
                shares = plan.shares()
                asked = composed((spec.group, shares[spec.name]) for spec in new)
                ledger.check(plan.dataset, asked, plan.privacy.budgets)
            designs = []
            for spec in todo:
                with self.reporter.stage(f"Choosing what to measure for {spec.name}"):
                    designs.append(design(plan, spec))
            keystream = Keystream.from_os() if self.seed is None else Keystream.from_seed(self.seed)
            cubes = self._counted(todo, [domain for domain, _ in designs], keystream)
            debits = {spec.name: _debit(plan, spec, keystream.token()) for spec in todo} | dict(paid)
            claims = [
                claim_of(plan, spec, debits[spec.name].release_id, domain, strategy, private=private)
                for spec, (domain, strategy) in zip(todo, designs, strict=True)
            ]
        accounts = self._paid([debits[spec.name] for spec in new], [debits[name] for name in paid])
        done: dict[str, Made] = {}
        for spec, cube, claim in zip(todo, cubes, claims, strict=True):
            account = accounts[claim.id]
            try:
                with self.reporter.stage(f"Writing {spec.name}") as progress:
                    self._write(spec, claim, account, self._probe(cube, account, keystream), progress)
            except BaseException as error:
                if private:
                    missing = [debits[each.name] for each in todo[len(done) :]]
                    _note_failed(ledger, missing)
                    _explain(error, plan, [debits[each.name] for each in new], missing, list(done))
                raise
            done[spec.name] = ("resumed" if spec.name in paid else "released"), claim.id
        return done

    def _paid(self, new: list[Debit], old: list[Debit]) -> dict[str, Account]:
        """Debit new releases in one transaction, and take up old ones; return the accounts by release."""
        if self.seed is not None:  # not private, and so not in the ledger
            return {debit.release_id: Account(debit.epsilon) for debit in new}
        new = [replace(debit, file=self._file(debit)) for debit in new]
        debits, accounts = [*new, *old], self.ledger.reserve(new, self.plan.privacy.budgets)
        if old:
            forgotten(old)
            accounts += self.ledger.resume({debit.release_id: self._file(debit) for debit in old})
        for debit in debits:
            self.reporter.note(
                f"Epsilon {exact_text(debit.epsilon)} is debited for {debit.release}."
                if debit in new
                else f"Release {debit.release} is resumed; it was paid for at {debit.time}.",
                dataset=debit.dataset,
                release=debit.release,
                release_id=debit.release_id,
                epsilon=exact_text(debit.epsilon),
            )
        return {debit.release_id: account for debit, account in zip(debits, accounts, strict=True)}

    def _file(self, debit: Debit) -> str:
        return str(self.paths[debit.release].absolute())

    @contextmanager
    def _nothing_spent(self) -> Iterator[None]:
        """Say so in an error that comes before the debit."""
        try:
            yield
        except DataError as error:
            error.args = (f"{error.args[0]}\nNothing was spent.",) if self.seed is None else error.args
            raise
        except (KeyboardInterrupt, MemoryError) as error:
            error.add_note("Nothing was spent.")
            raise

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

    def _write(
        self, spec: CubeRelease, claim: Metadata, account: Account, probe: Probe, progress: Progress
    ) -> None:
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
            claim = claim.model_copy(update={"guarantee": sentences(claim)})
            blocks = iter([cells])

        def settle(complete: Metadata) -> None:
            self.ledger.settle(complete.id, "released", complete.digest, account.ticket)

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


def _explain(
    error: BaseException, plan: Plan, new: list[Debit], missing: list[Debit], done: list[str]
) -> None:
    """Add to an error what was spent and what was, and was not, produced."""
    groups = {spec.name: spec.group for spec in plan.releases}
    spent = composed((groups[debit.release], debit.epsilon) for debit in new)
    words = f"Epsilon {exact_text(spent)} is spent all the same." if spent else "Nothing more was spent."
    words += f" Not produced: {', '.join(debit.release for debit in missing)}."
    if done:
        words += f" Produced: {', '.join(done)}."
    broken = {debit.parallel for debit in missing} & {s.parallel for s in plan.releases if s.name in done}
    if broken - {None}:
        words += " What is missing of a parallel group has to be paid for again."
    else:
        words += " When the cause is mended, run again: what is missing is not paid for twice."
    if isinstance(error, DpcliError) and error.args:
        error.args = (f"{error.args[0]} {words}",)
    else:
        error.add_note(words)


def _outcome(
    plan: Plan, spec: CubeRelease, path: Path, kept: Release | None, made: Mapping[str, Made], private: bool
) -> Outcome:
    epsilon, size = plan.shares()[spec.name], plan.domain_of(spec).size
    if kept is not None:
        claim = kept.metadata
        own = claim.privacy.epsilon
        differs = not made_as_planned(plan, spec, claim)
        return Outcome(spec.name, path, "skipped", kept.domain.size, own, claim.private, claim.id, differs)
    status, release_id = made.get(spec.name, ("refused", None))
    return Outcome(spec.name, path, status, size, epsilon, private, release_id)
