"""The schema of one release: which cube of which rows, by which mechanism, with how much epsilon."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from dpcli.errors import did_you_mean, listed
from dpcli.mechanisms import NAMES, OPTIONS, Options
from dpcli.plan.ispe import DEFAULT, Ispe
from dpcli.plan.promise import Strict
from dpcli.privacy.exact import Epsilon

RESERVED = ("count",)  # columns of a release file that are not attributes
ISPE_COLUMNS = ("region", "region_count")  # more of them in one by ispe

Path = tuple[str | int, ...]
Problem = tuple[Path, str]


class InconsistentPlanError(ValueError):
    """Keys of a plan that don't fit each other: for each problem, the path of the key to look at."""

    def __init__(self, found: list[Problem]) -> None:
        self.found = found
        super().__init__("; ".join(text for _, text in found))


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
    split: Literal["equal", "geometric"] | None = Field(
        None,
        description=(
            "For hierarchical: 'equal' (default) measures every level with the same epsilon, 'geometric' each"
            " level with half of that of the next finer one."
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
    ispe: Ispe | None = Field(None, description="For ispe: the budget's split, and how regions are found.")
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
        for option in ("direct", "branching", "levels", "split", "workload", "ispe"):
            takers = [name for name, options in OPTIONS.items() if option in options]
            if getattr(self, option) is not None and self.mechanism not in takers:
                text = f"goes with {listed(takers)}, not with {self.mechanism}"
                found.append(((option,), f"{text}; leave it out, or write mechanism: {takers[0]}"))
        if isinstance(self.direct, tuple):
            for name in self.direct:
                if name not in self.cube:
                    found.append(
                        (("direct",), f"{name!r} is not in the cube.{did_you_mean(name, self.cube)}")
                    )
        if "threshold" in self.refine and self.mechanism != "privelet":
            found.append((("refine",), f"threshold goes with privelet, not with {self.mechanism}"))
        for place, name in enumerate(self.cube):
            if self.mechanism == "ispe" and name.casefold() in ISPE_COLUMNS:
                text = (
                    f"ispe's file has a column '{name}' of its own; rename the column in the table, or choose"
                    " another mechanism"
                )
                found.append((("cube", place), text))
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

    @property
    def cell_share(self) -> Fraction:
        """The share of this release's epsilon for its cells."""
        return (self.ispe or DEFAULT).share if self.mechanism == "ispe" else Fraction(1)

    def options(self) -> Options:
        """Return what this release asks of its mechanism."""
        asked = {name: getattr(self, name) for name in OPTIONS[self.mechanism]}
        return Options(**{name: value for name, value in asked.items() if value is not None})
