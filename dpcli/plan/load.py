"""Loading a plan: YAML to a valid ``Plan``, or one error that lists every problem with its file and line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dpcli.data.attributes import Binned, Boolean, Dates, Nominal
from dpcli.data.hierarchy import Hierarchy
from dpcli.errors import PlanError, did_you_mean, listed
from dpcli.plan.ispe import Ispe
from dpcli.plan.located import Located, read_yaml
from dpcli.plan.promise import PeriodBudget, Privacy, PrivacyUnit, shown
from dpcli.plan.schema import CubeRelease, InconsistentPlanError, Path, Plan, Problem

__all__ = ["Located", "load_plan", "parse_plan", "read_yaml"]

KINDS = ("ordinal", "date", "nominal", "boolean")
_BY_TAG: dict[str, type[BaseModel]] = {
    "ordinal": Binned,  # a bin or edges turn an attribute of whole numbers into a binned one
    "binned": Binned,
    "date": Dates,
    "nominal": Nominal,
    "boolean": Boolean,
}
_STAND_IN = Hierarchy.from_nested(["unread"])


def load_plan(path: str | FilePath) -> Plan:
    """Read the plan in a YAML file.

    Raises ``PlanError``; its message lists every problem on a line of its own. The plan's ``table`` and its
    hierarchy files are taken relative to the plan's folder.
    """
    path = FilePath(path)
    return parse_plan(_read_text(path), folder=path.parent, source=str(path))


def parse_plan(
    plan: Mapping[str, Any] | str, folder: str | FilePath | None = None, *, source: str = "plan"
) -> Plan:
    """Read a plan from a mapping or from YAML text; files that it names lie relative to ``folder``."""
    located = read_yaml(plan, source) if isinstance(plan, str) else Located(plan, "")
    content, folder = located.value, FilePath(folder or "")
    if content is None:
        raise PlanError(f"{source}: the plan is empty; 'dpcli plan init TABLE' writes a first one")
    if not isinstance(content, Mapping):
        raise PlanError(
            f"{located.where(())}: a plan must be a mapping of keys to values, not a list or a text"
        )
    content, problems = _with_files(content, folder)
    try:
        valid = Plan.model_validate(content)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            problems += _problems(details)
    else:
        if any(release.where is not None for release in valid.releases):
            from dpcli.plan.filters import filter_problems  # and the query language, which others do without

            problems += filter_problems(valid)
    if problems:
        problems.sort(key=lambda problem: located.line(problem[0]))
        raise PlanError("\n".join(_line(located, *problem) for problem in problems))
    return valid


def _read_text(path: FilePath) -> str:
    """Return a file's text, or raise ``PlanError`` that names it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PlanError(f"{path}: there is no such file") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: the file is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise PlanError(f"{path}: the file can't be read ({reason})") from None


def _line(located: Located, path: Path, text: str) -> str:
    """Write a problem as ``file, line 12: attributes.age.range: what is wrong``."""
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return ": ".join(filter(None, (located.where(path), dotted, text)))


# --- files that a plan names ------------------------------------------------------------------------------


def _with_files(content: Mapping[str, Any], folder: FilePath) -> tuple[dict[str, Any], list[Problem]]:
    """Return the plan with hierarchy files replaced by what they hold, and what is wrong with them."""
    plan = dict(content)
    problems: list[Problem] = []
    table, attributes = plan.get("table"), plan.get("attributes")
    if isinstance(table, str) and table and "://" not in table:
        plan["table"] = str(folder / table)
    if isinstance(attributes, Mapping):
        plan["attributes"] = attributes = dict(attributes)
        for name, attribute in attributes.items():
            if isinstance(attribute, Mapping) and isinstance(attribute.get("hierarchy"), str):
                if attribute.get("kind") != "nominal":
                    continue  # told when the attribute is checked
                try:
                    tree = read_hierarchy(folder / attribute["hierarchy"])
                except PlanError as error:
                    tree = _STAND_IN  # so that the rest of the plan is checked all the same
                    problems.append((("attributes", name, "hierarchy"), str(error)))
                attributes[name] = {**attribute, "hierarchy": tree}
    return plan, problems


def read_hierarchy(path: FilePath) -> Hierarchy:
    """Read a hierarchy from a YAML or CSV file; raises ``PlanError`` that names the file."""
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".csv"):
        raise PlanError(
            f"{path}: a hierarchy must be a .yaml, .yml or .csv file, or be written out in the plan"
        )
    text = _read_text(path)
    if not text.strip():
        raise PlanError(f"{path}: the file is empty")
    try:
        if suffix == ".csv":
            return Hierarchy.from_csv(text)
        return Hierarchy.from_nested(read_yaml(text, str(path)).value)
    except (ValueError, csv.Error) as error:
        raise PlanError(f"{path}: {error}") from None


# --- pydantic's errors in plain words ---------------------------------------------------------------------


def _problems(details: ErrorDetails) -> Iterator[Problem]:
    """Yield the problems that one of pydantic's errors stands for, in plain words."""
    loc, kind, given = details["loc"], details["type"], details["input"]
    # Inside an attribute the third step is not in the YAML: it is the kind's tag, or marks the name itself.
    # So does it inside a budget, where it says how that is written.
    inside = loc[:1] == ("attributes",) or loc[:2] == ("privacy", "budget")
    path: Path = (*loc[:2], *loc[3:]) if inside else loc
    context = details.get("ctx", {})
    if kind == "value_error":
        error = context["error"]
        found: list[Problem] = error.found if isinstance(error, InconsistentPlanError) else [((), str(error))]
        yield from (((*path, *inner), text) for inner, text in found)
    elif kind == "attribute_kind":
        yield _kind_problem(path, given)
    elif kind == "extra_forbidden":
        yield path, _unknown_key(path, _allowed_keys(loc))
    elif kind == "too_short" and given:
        return  # pydantic counts the sound entries only, and the others are told one by one
    elif kind == "missing" and isinstance(path[-1], int):
        yield path[:-1], f"needs {path[-1] + 1} entries"
    elif kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        yield (
            path,
            f"{shown(given)} is not a choice.{_near(given, choices)} Choose one of: {listed(choices)}",
        )
    else:
        yield path, _in_words(kind, given, context) or details["msg"]


def _in_words(kind: str, given: Any, context: Mapping[str, Any]) -> str:
    """Return pydantic's standard message of some kind in plain words."""
    if kind == "missing":
        return "this key is missing"
    if kind in ("model_type", "dict_type"):
        return f"must be a mapping of keys to values, not {shown(given)}"
    if kind in ("tuple_type", "list_type"):
        return f"must be a list such as [a, b], not {shown(given)}"
    if kind == "too_long":
        return f"must have {context['max_length']} entries, not {context['actual_length']}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind.startswith("int_"):
        return f"must be a whole number, not {shown(given)}"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}, not {shown(given)}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}, not {shown(given)}"
    if kind.startswith("string_"):
        return f"must be text, not {shown(given)}"
    return ""


def _kind_problem(path: Path, given: Any) -> Problem:
    """Say what is wrong with an attribute whose kind can't be told."""
    if not isinstance(given, Mapping):
        return path, f"must be a mapping such as {{kind: ordinal, range: [0, 100]}}, not {shown(given)}"
    if "kind" not in given:
        return (*path, "kind"), f"this key is missing. Choose one of: {listed(KINDS)}"
    kind = given["kind"]
    return (
        *path,
        "kind",
    ), f"{shown(kind)} is not a kind.{_near(kind, KINDS)} Choose one of: {listed(KINDS)}"


def _allowed_keys(loc: Path) -> list[str]:
    """Return the keys that may stand beside the one at ``loc``, the most telling ones first."""
    models: dict[str, type[BaseModel]] = {"privacy": Privacy, "releases": CubeRelease}
    model = _BY_TAG[str(loc[2])] if loc[0] == "attributes" else models.get(str(loc[0]), Plan)
    if loc[:2] == ("privacy", "unit") and len(loc) > 2:
        model = PrivacyUnit
    if loc[:2] == ("privacy", "budget") and len(loc) > 2:
        model = PeriodBudget
    if loc[:1] == ("releases",) and loc[2:3] == ("ispe",) and len(loc) > 3:
        model = Ispe
    return sorted(model.model_fields, key=lambda key: (key in ("outside", "missing"), key != "kind"))


def _unknown_key(path: Path, allowed: list[str]) -> str:
    if path[0] == "attributes" and path[-1] == "hierarchy":
        return "only a nominal attribute has a hierarchy; write kind: nominal, or leave the hierarchy out"
    return f"unknown key.{did_you_mean(str(path[-1]), allowed)} Allowed here: {listed(allowed, most=20)}"


def _near(given: Any, choices: list[str] | tuple[str, ...]) -> str:
    return did_you_mean(given, choices) if isinstance(given, str) else ""
