"""PRIVATE: from a plan and a table to release files. Count, debit, draw, write, in that order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcli import __version__
from dpcli.data.bounding import Unit
from dpcli.data.counting import SparseCube, count
from dpcli.data.domain import Domain
from dpcli.data.tables import open_table
from dpcli.errors import DpcliError, OutputError, UsageError
from dpcli.estimate.law import unit_variance
from dpcli.estimate.threshold import Thresholding
from dpcli.parallel import in_order
from dpcli.plan.design import design
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.cost import scale_for
from dpcli.privacy.exact import exact_text
from dpcli.privacy.gate import Probe
from dpcli.privacy.ledger import Account, Budget, Debit, Ledger
from dpcli.privacy.noise import Keystream
from dpcli.progress import Reporter, Silent
from dpcli.release.file import Release, write_release
from dpcli.release.guarantee import sentences
from dpcli.release.metadata import Metadata, Noise, Privacy, RowGroup
from dpcli.release.target import IfExists, existing, targets
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.large import inverse_in_place, is_large
from dpcli.strategy.observation import Observation


@dataclass(frozen=True)
class Outcome:
    """What became of one release of a plan."""

    name: str
    path: Path
    status: Literal["released", "skipped"]
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
    allow_empty: bool = False,
    wait: float = 600,
    reporter: Reporter | None = None,
) -> list[Outcome]:
    """Make every release of a plan from a table, one file each.

    The table is counted first, then the whole plan's epsilon is debited in one transaction, then noise is
    drawn and the files are written. A file appears under its name when the ledger has it as released. Runs
    for one dataset come one after the other; ``wait`` is how many seconds to wait for another.

    With ``seed`` anyone can recompute the noise: the files are marked NOT PRIVATE and the ledger is left
    alone.
    """
    reporter = reporter or Silent()
    with nullcontext() if seed is not None else ledger.lock(plan.dataset, wait):
        return _release(plan, table, output, ledger, seed, fixture, if_exists, allow_empty, reporter)


def _release(
    plan: Plan,
    table: str | Path,
    output: str | Path,
    ledger: Ledger,
    seed: int | None,
    fixture: bool,
    if_exists: IfExists,
    allow_empty: bool,
    reporter: Reporter,
) -> list[Outcome]:
    paths = targets([spec.name for spec in plan.releases], output, table)
    kept = {
        spec.name: existing(paths[spec.name], plan.dataset, spec.name, if_exists) for spec in plan.releases
    }
    todo = [spec for spec in plan.releases if kept[spec.name] is None]
    if seed is not None:
        _refuse_seed_on_budget(plan, ledger, fixture)
    designs = []
    for spec in todo:
        with reporter.stage(f"Choosing what to measure for {spec.name}"):
            designs.append(design(plan, spec))
    keystream = Keystream.from_os() if seed is None else Keystream.from_seed(seed)
    units = _units(plan, keystream, len(todo))
    cubes = []
    for spec, (domain, _), unit in zip(todo, designs, units, strict=True):
        with reporter.stage(f"Counting {spec.name}") as progress:
            source = open_table(table, [*domain.names, *([unit.column] if unit else [])])
            cubes.append(count(domain, source, unit=unit, progress=progress, allow_empty=allow_empty))

    debits = [_debit(plan, spec, keystream.token()) for spec in todo]
    claims = [
        _metadata(plan, spec, debit, domain, strategy, private=keystream.private)
        for spec, debit, (domain, strategy) in zip(todo, debits, designs, strict=True)
    ]
    accounts = (
        ledger.reserve(debits, _budgets(plan)) if debits and seed is None else list(map(_unpaid, debits))
    )
    done: list[str] = []
    for spec, cube, claim, debit, account in zip(todo, cubes, claims, debits, accounts, strict=True):
        try:
            with reporter.stage(f"Writing {spec.name}") as progress:
                probe = _probe(plan, cube, account, keystream)
                observation = probe.measure(claim.strategy, debit.epsilon)
                if observation.scale != claim.noise.scale:
                    raise AssertionError("the noise drawn is not the noise that the file would state")
                blocks = _counts(spec, observation)
                write_release(
                    paths[spec.name],
                    claim,
                    blocks,
                    replace=if_exists == "replace",
                    progress=progress,
                    before_it_appears=partial(ledger.settle, claim.id, "released") if seed is None else None,
                )
        except BaseException as error:
            if seed is None:
                _note_failed(ledger, debits[len(done) :])
                _explain(error, debits, done)
            raise
        done.append(spec.name)
    return [_outcome(plan, spec, paths[spec.name], kept[spec.name], seed is None) for spec in plan.releases]


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
    if not fixture and (_budgets(plan) or ledger.budgets(plan.dataset)):
        raise UsageError(
            f"Dataset '{plan.dataset}' has a privacy budget, and a release with --seed is not private. If its"
            " table holds invented people only, add --fixture; otherwise leave out --seed."
        )


def _budgets(plan: Plan) -> list[Budget]:
    return [Budget(plan.privacy.budget)] if plan.privacy.budget is not None else []


def _units(plan: Plan, keystream: Keystream, cubes: int) -> list[Unit | None]:
    """Return for each cube how people are told apart, with a key of its own; without a unit draw nothing."""
    unit = plan.privacy.unit
    if unit is None:
        return [None] * cubes
    keys = keystream.spawn()
    return [
        Unit(unit.column, unit.max_rows, keys.words(32, np.uint8).tobytes(), unit.missing)
        for _ in range(cubes)
    ]


def _debit(plan: Plan, spec: CubeRelease, release_id: str) -> Debit:
    return Debit(
        release_id=release_id,
        dataset=plan.dataset,
        release=spec.name,
        epsilon=plan.shares()[spec.name],
        neighbors=plan.privacy.neighbors,
        plan_digest=plan.digest(),
    )


def _unpaid(debit: Debit) -> Account:
    """Return an account for a seeded release, which is not private and so not in the ledger."""
    return Account(debit.epsilon)


def _probe(plan: Plan, cube: SparseCube, account: Account, keystream: Keystream) -> Probe:
    return Probe(
        cube,
        neighbors=plan.privacy.neighbors,
        rows_per_unit=plan.privacy.rows_per_person,
        account=account,
        keystream=keystream,
    )


def _metadata(
    plan: Plan, spec: CubeRelease, debit: Debit, domain: Domain, strategy: Strategy, *, private: bool
) -> Metadata:
    """Describe a release before it is paid for; what is returned was read back as a reader will read it."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    promise, unit = plan.privacy, plan.privacy.unit
    scale = scale_for(strategy, debit.epsilon, promise.neighbors, promise.rows_per_person)
    claim = Metadata(
        id=debit.release_id,
        tool=f"dpcli {__version__}",
        created=now if private else None,  # a fixture is the same file every time
        randomness="operating-system" if private else "seeded",
        dataset=plan.dataset,
        name=spec.name,
        mechanism=spec.mechanism,
        steps=list(spec.refine),
        domain=domain.describe(),
        strategy=strategy.describe(),
        noise=Noise(scale=scale),
        privacy=Privacy(
            epsilon=debit.epsilon,
            neighbors=promise.neighbors,
            rows_per_person=promise.rows_per_person,
            unit=unit.column if unit else None,
        ),
    )
    claim = claim.model_copy(update={"guarantee": sentences(claim)})
    whole = claim.model_copy(update={"blocks": [RowGroup(rows=domain.size, sha256="")]})
    read_back = Metadata.from_json(whole.to_json().encode(), spec.name)
    return read_back.model_copy(update={"blocks": []})


def _note_failed(ledger: Ledger, debits: list[Debit]) -> None:
    """Note that releases failed; their epsilon is spent anyway, so a ledger that fails now is no error."""
    with suppress(OutputError):
        for debit in debits:
            ledger.settle(debit.release_id, "failed")


def _explain(error: BaseException, debits: list[Debit], done: list[str]) -> None:
    """Add to an error what was spent and what was, and was not, produced."""
    spent = exact_text(sum((debit.epsilon for debit in debits), Fraction(0)))
    missing = [debit.release for debit in debits if debit.release not in done]
    words = f"Epsilon {spent} is spent all the same. Not produced: {', '.join(missing)}."
    if done:
        words += f" Produced: {', '.join(done)}."
    if isinstance(error, DpcliError) and error.args:
        error.args = (f"{error.args[0]} {words}",)
    else:
        error.add_note(words)


def _outcome(plan: Plan, spec: CubeRelease, path: Path, kept: Release | None, private: bool) -> Outcome:
    if kept is not None:
        claim = kept.metadata
        return Outcome(spec.name, path, "skipped", kept.domain.size, claim.privacy.epsilon, claim.private)
    return Outcome(spec.name, path, "released", plan.domain_of(spec).size, plan.shares()[spec.name], private)
