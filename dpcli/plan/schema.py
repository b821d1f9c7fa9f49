"""The schema of a release plan: what is published, over which public domain, at which exact epsilon.

The models are frozen and refuse unknown keys. Their descriptions become the JSON Schema that editors use.
A valid ``Plan`` is consistent as a whole: every cube fits its domain and its size, and the releases' shares
of epsilon fit the total.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from dpcli.data.attributes import AnyAttribute
from dpcli.data.domain import Domain
from dpcli.errors import did_you_mean, listed
from dpcli.plan.cube_release import (
    RESERVED,
    AttributeName,
    CubeRelease,
    DatasetName,
    InconsistentPlanError,
    Path,
    Problem,
)
from dpcli.plan.ispe import DEFAULT
from dpcli.plan.ispe import MOST_CELLS as MOST_ISPE_CELLS
from dpcli.plan.promise import Privacy, Strict
from dpcli.privacy.budget import composed
from dpcli.privacy.exact import SMALLEST, exact_text

__all__ = ["RESERVED", "VERSION", "CubeRelease", "InconsistentPlanError", "Path", "Plan", "Problem"]

VERSION = 1
BYTES_PER_CELL = 9
MOST_CELLS = 2**62


def _version(value: Any) -> int:
    if str(value).strip() != str(VERSION):
        raise ValueError(f"this dpcli reads plan version {VERSION}, not {value!r}; write plan: {VERSION}")
    return VERSION


Version = Annotated[Literal[1], BeforeValidator(_version)]


class Plan(Strict):
    """A release plan: a dataset, its privacy, its public domain, and what to release."""

    plan: Version = Field(description="The version of the plan's schema: 1.")
    dataset: DatasetName = Field(
        description=(
            "The name that the ledger debits: letters, digits, dots, hyphens and underscores."
            " All plans for the same people's data must use the same name."
        )
    )
    table: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="The table to read when the command names none: CSV or Parquet, relative to the plan.",
    )
    privacy: Privacy = Field(description="What is promised to the people in the table.")
    attributes: dict[AttributeName, AnyAttribute] = Field(
        min_length=1,
        description=(
            "The public domain: for each column its categories. They are published with every release,"
            " so they must be public knowledge and never be taken from the table."
        ),
    )
    releases: tuple[CubeRelease, ...] = Field(min_length=1, description="What to publish.")

    @model_validator(mode="after")
    def _consistent(self) -> Plan:
        found = [*self._name_problems(), *self._cube_problems(), *self._epsilon_problems()]
        if found:
            raise InconsistentPlanError(found)
        return self

    def _name_problems(self) -> Iterator[Problem]:
        seen: dict[str, str] = {}
        for place, release in enumerate(self.releases):
            file = release.name.casefold()  # some file systems take Cube and cube for the same name
            if file in seen:
                yield (
                    ("releases", place, "name"),
                    f"another release is called '{seen[file]}'; every release needs a name of its own",
                )
            seen.setdefault(file, release.name)
        groups = [release.group for release in self.releases]
        for place, group in enumerate(groups):
            if group[0] == "parallel" and groups.count(group) == 1:
                yield (
                    ("releases", place, "parallel"),
                    f"no other release is in the group '{group[1]}'; leave it out, or check the spelling",
                )

    def _cube_problems(self) -> Iterator[Problem]:
        for place, release in enumerate(self.releases):
            unknown = [axis for axis, name in enumerate(release.cube) if name not in self.attributes]
            for axis in unknown:
                name = release.cube[axis]
                yield (
                    ("releases", place, "cube", axis),
                    f"{name!r} is not declared under attributes.{did_you_mean(name, self.attributes)}"
                    f" Declared are: {listed(self.attributes)}",
                )
            cells = 0 if unknown else self.domain_of(release).size
            if cells > release.max_cells or cells >= MOST_CELLS:
                yield ("releases", place, "cube"), _too_large(cells, release.max_cells)
            elif release.mechanism == "ispe" and cells:
                yield from self._ispe_problems(place, release, cells)

    def _ispe_problems(self, place: int, release: CubeRelease, cells: int) -> Iterator[Problem]:
        if cells > MOST_ISPE_CELLS:
            yield (
                ("releases", place, "cube"),
                f"the cube has {cells:,} cells, and ispe takes {MOST_ISPE_CELLS:,} at most; use wider bins,"
                " fewer attributes, or another mechanism",
            )
            return
        from dpcli.partition.axes import Neighbourhood  # and numpy, which other plans do without

        domain = self.domain_of(release)
        try:
            partitioning = (release.ispe or DEFAULT).partitioning()
            partitioning.check(domain.shape, Neighbourhood.of(domain))
        except ValueError as error:
            text = re.sub(r"axis (\d+)", lambda found: f"'{domain.names[int(found[1])]}'", str(error))
            yield ("releases", place, "ispe", "window"), text

    def _epsilon_problems(self) -> Iterator[Problem]:
        total = self.privacy.epsilon
        for budget in self.privacy.budgets:
            if budget.total < total:
                yield (
                    ("privacy", "budget"),
                    f"the budget {budget} is below this plan's epsilon {exact_text(total)},"
                    " so the plan could never run",
                )
        asked = self._asked()
        taken = sum(asked.values(), Fraction(0))
        unset = [place for place, release in enumerate(self.releases) if release.group not in asked]
        shares = len({self.releases[place].group for place in unset})
        if taken > total:
            yield (
                ("privacy", "epsilon"),
                f"the releases ask for {exact_text(taken)} in all, which is more than the plan's epsilon"
                f" {exact_text(total)}; lower theirs or raise this one",
            )
        elif unset and (total - taken) / shares < SMALLEST:
            for place in unset:
                yield (
                    ("releases", place),
                    f"no epsilon is left for this release: the others take {exact_text(taken)} of"
                    f" {exact_text(total)}; give it one of its own",
                )

    def _asked(self) -> dict[tuple[str, str], Fraction]:
        """Return what each group asks for by itself: the largest epsilon in it."""
        asked: dict[tuple[str, str], Fraction] = {}
        for release in self.releases:
            if release.epsilon is not None:
                asked[release.group] = max(release.epsilon, asked.get(release.group, Fraction(0)))
        return asked

    def shares(self) -> dict[str, Fraction]:
        """Return each release's exact epsilon: its own, its group's, or an equal part of what is left."""
        asked = self._asked()
        unset = {release.group for release in self.releases} - asked.keys()
        part = (self.privacy.epsilon - sum(asked.values(), Fraction(0))) / max(len(unset), 1)
        return {r.name: asked.get(r.group, part) if r.epsilon is None else r.epsilon for r in self.releases}

    def cost(self) -> Fraction:
        """Return what all releases cost together: the largest epsilon of each group, summed over groups."""
        shares = self.shares()
        return composed((release.group, shares[release.name]) for release in self.releases)

    def cell_epsilon(self, release: CubeRelease) -> Fraction:
        """Return the part of a release's epsilon that pays for its cells: ispe keeps some for its regions."""
        return self.shares()[release.name] * release.cell_share

    def domain_of(self, release: CubeRelease) -> Domain:
        """Return the domain of a release's cube."""
        return Domain(release.cube, tuple(self.attributes[name] for name in release.cube))

    @property
    def domain(self) -> Domain:
        """All attributes of the plan, in which the conditions of its filters are read."""
        return Domain(tuple(self.attributes), tuple(self.attributes.values()))

    def describe(self) -> dict[str, Any]:
        """Return the plan as JSON, in the words of a plan, without the table's path."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"table"})

    def digest(self) -> str:
        """Return the SHA-256 of the plan's canonical JSON; where the table lies does not change it."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def _too_large(cells: int, most: int) -> str:
    """Say how large a cube is, and what to do about it."""
    if cells >= MOST_CELLS:
        return f"the cube has about {Decimal(cells):.1e} cells; use wider bins or fewer attributes"
    size = cells * BYTES_PER_CELL / 1e9
    return (
        f"the cube has {cells:,} cells, more than max_cells ({most:,}), and its file would take"
        f" {f'about {size:,.1f}' if size >= 0.1 else 'less than 0.1'} GB; use wider bins or fewer attributes"
        + (f", or write max_cells: {cells}" if size < 1000 else "")
    )
