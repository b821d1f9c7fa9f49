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

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    model_validator,
)

from dpcli.data.attributes import AnyAttribute
from dpcli.data.domain import Domain
from dpcli.errors import did_you_mean, listed
from dpcli.mechanisms import NAMES, OPTIONS, Options
from dpcli.plan.promise import Privacy, Strict
from dpcli.privacy.budget import composed
from dpcli.privacy.exact import SMALLEST, Epsilon, exact_text

VERSION = 1
RESERVED = ("count",)  # columns of a release file that are not attributes
BYTES_PER_CELL = 9
MOST_CELLS = 2**62

Path = tuple[str | int, ...]
Problem = tuple[Path, str]


class InconsistentPlanError(ValueError):
    """Keys of a plan that don't fit each other: for each problem, the path of the key to look at."""

    def __init__(self, found: list[Problem]) -> None:
        self.found = found
        super().__init__("; ".join(text for _, text in found))


def _version(value: Any) -> int:
    if str(value).strip() != str(VERSION):
        raise ValueError(f"this dpcli reads plan version {VERSION}, not {value!r}; write plan: {VERSION}")
    return VERSION


def _spelt(pattern: str, others: str) -> AfterValidator:
    """Refuse a name that does not match, in plain words."""

    def check(name: str) -> str:
        if not re.fullmatch(pattern, name, re.ASCII):
            raise ValueError(
                f"must be 1 to 100 letters, digits, {others} or underscores,"
                " and start with a letter, digit or underscore"
            )
        return name

    return AfterValidator(check)


def _attribute_name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("an attribute's name must be the name of a column, in visible characters")
    if name.casefold() in RESERVED:
        raise ValueError(
            f"an attribute can't be called '{name}', because the release file has a column of that name;"
            " rename the column in the table"
        )
    return name


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"has {listed(map(repr, twice))} more than once; name each attribute once")
    return names


def _registered(name: str) -> str:
    if name not in NAMES:
        raise ValueError(
            f"{name!r} is not a mechanism.{did_you_mean(name, NAMES)} Choose one of: {listed(NAMES)}"
        )
    return name


def _word_or_list(words: tuple[str, ...], what: str) -> PlainValidator:
    """Take one of some words, or a list of texts that is not empty."""

    def check(value: Any) -> str | tuple[str, ...]:
        if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
            return tuple(value)
        if not isinstance(value, str) or value not in words:
            near = did_you_mean(value, words) if isinstance(value, str) else ""
            raise ValueError(f"must be {', '.join(words)}, or a list of {what}.{near}")
        return value

    return PlainValidator(check, json_schema_input_type=Literal[words] | list[str])


Version = Annotated[Literal[1], BeforeValidator(_version)]
DatasetName = Annotated[str, _spelt(r"\w[\w.-]{0,99}", "dots, hyphens")]
ReleaseName = Annotated[str, _spelt(r"\w[\w-]{0,99}", "hyphens")]
AttributeName = Annotated[str, AfterValidator(_attribute_name)]
Direct = Annotated[Any, _word_or_list(("auto", "none"), "attributes")]
WorkloadKind = Annotated[Any, _word_or_list(("random", "ranges", "prefixes"), "conditions")]


class CubeRelease(Strict):
    """A release of noisy counts for every combination of some attributes' categories."""

    name: ReleaseName = Field(
        description="The release's name, also of its file: letters, digits, hyphens and underscores."
    )
    cube: Annotated[tuple[str, ...], AfterValidator(_distinct)] = Field(
        min_length=1, description="The attributes that span the cube, in the order of its axes."
    )
    mechanism: Annotated[str, AfterValidator(_registered)] = Field(
        "laplace", description="How the counts are measured."
    )
    direct: Direct | None = Field(
        None,
        description=(
            "For privelet: the attributes that are not transformed (Privelet+), 'none', or 'auto' (default)"
            " for those that make the expected error least."
        ),
    )
    branching: int | None = Field(
        None, ge=2, le=10**6, description="For hierarchical: the children of a node; 2 by default."
    )
    levels: tuple[Annotated[int, Field(ge=0, le=60)], ...] | None = Field(
        None,
        description=(
            "For hierarchical: the levels measured besides the cells, level j having groups of branching^j"
            " cells; by default all of them and the total."
        ),
    )
    workload: WorkloadKind | None = Field(
        None,
        description=(
            "For privelet, optimized and auto: what to be good at. 'random' (default): ranges and hierarchy"
            " nodes on some or all attributes; 'ranges': ranges of any width on all of them; 'prefixes':"
            " ranges from the lowest value; or a list of conditions as in a query."
        ),
    )
    refine: tuple[Literal["threshold"], ...] = Field(
        (), description="Steps of post-processing: 'threshold' is Privelet*'s soft thresholding."
    )
    where: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description=(
            "Which rows are counted: a condition as in a query, on any of the plan's attributes; without it,"
            " all. It is published with the release."
        ),
    )
    parallel: ReleaseName | None = Field(
        None,
        description=(
            "The name of a group of releases that count different rows, by their 'where'. Together they cost"
            " the largest epsilon among them; that no row is in two of them is checked."
        ),
    )
    epsilon: Epsilon | None = Field(
        None,
        description=(
            "This release's share of the plan's epsilon; without it, an equal part of what is left, or as"
            " much as the largest in its parallel group."
        ),
    )
    max_cells: int = Field(
        200_000_000, ge=1, description="The most cells that the cube may have; larger ones are refused."
    )

    @model_validator(mode="after")
    def _options_fit_the_mechanism(self) -> CubeRelease:
        found: list[Problem] = []
        for option in ("direct", "branching", "levels", "workload"):
            takers = [name for name, options in OPTIONS.items() if option in options]
            if getattr(self, option) is not None and self.mechanism not in takers:
                found.append(((option,), f"goes with {listed(takers)}, not with {self.mechanism}"))
        if isinstance(self.direct, tuple):
            for name in self.direct:
                if name not in self.cube:
                    found.append(
                        (("direct",), f"{name!r} is not in the cube.{did_you_mean(name, self.cube)}")
                    )
        if "threshold" in self.refine and self.mechanism != "privelet":
            found.append((("refine",), f"threshold goes with privelet, not with {self.mechanism}"))
        if self.parallel is not None and self.where is None:
            found.append(
                (("parallel",), "needs a 'where' that no other release of the group shares rows with")
            )
        if found:
            raise InconsistentPlanError(found)
        return self

    @property
    def group(self) -> tuple[str, str]:
        """What this release is composed with: its parallel group, or itself alone."""
        return ("alone", self.name) if self.parallel is None else ("parallel", self.parallel)

    def options(self) -> Options:
        """Return what this release asks of its mechanism."""
        asked = {name: getattr(self, name) for name in OPTIONS[self.mechanism]}
        return Options(**{name: value for name, value in asked.items() if value is not None})


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
