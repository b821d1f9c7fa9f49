"""Workloads: many queries at once, drawn at random, listed by a rule, or read from a file."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from dpcli.data.attributes import Attribute, Nominal
from dpcli.data.domain import Domain
from dpcli.errors import QueryError, did_you_mean, listed
from dpcli.query.batch import check_vectors
from dpcli.query.parse import parse_condition
from dpcli.query.product import Mask, Query
from dpcli.query.words import span_phrase

MOST_QUERIES = 10_000_000
KEYS = ("query", "condition")
FORMS = (
    "A workload is random:N or random:N:SEED, marginals:K, prefixes:ATTR, or a file of conditions:"
    " .csv, .json, .jsonl, .yaml, or text with one condition a line."
)


@dataclass(frozen=True)
class Marginal:
    """One count for every combination of the categories of some attributes."""

    axes: tuple[int, ...]


Workload = list[Query] | list[Marginal]


def read_workload(spec: str, domain: Domain, *, interpolate: bool = False) -> Workload:
    """Return the queries that ``spec`` stands for: ``random:1000``, ``marginals:2``, a file's name.

    Raises ``QueryError`` that says what is wrong and, in a file, on which line or in which entry.
    """
    if not spec.strip():
        raise QueryError(f"The workload is empty. {FORMS}")
    kind, colon, rest = spec.partition(":")
    if colon and kind in _RULES:
        return _RULES[kind](rest, domain)
    return _read_file(spec, domain, interpolate)


# --- by a rule --------------------------------------------------------------------------------------------


def _random(rest: str, domain: Domain) -> list[Query]:
    count, colon, seed = rest.partition(":")
    if colon and _whole(seed) is None:
        raise QueryError(
            f"Workload 'random:{rest}': the seed must be a whole number of 0 or more, not '{seed}'."
        )
    return random_ranges(domain, _bounded("random", count, MOST_QUERIES, "queries"), _whole(seed) or 0)


def _marginals(rest: str, domain: Domain) -> list[Marginal]:
    d = len(domain.names)
    k = _bounded("marginals", rest, d, "attributes")
    _check_number(f"marginals:{rest}", comb(d, k))
    return [Marginal(axes) for axes in combinations(range(d), k)]


def _prefixes(rest: str, domain: Domain) -> list[Query]:
    """Return for each regular category the query of all categories up to it."""
    ordered = [name for name in domain.names if domain[name].ordered]
    choices = f"Choose one of: {listed(ordered)}." if ordered else "No attribute of the release has one."
    if rest not in domain.names:
        near = did_you_mean(rest, ordered)
        raise QueryError(
            f"Workload 'prefixes:{rest}': the release has no attribute '{rest}'.{near} {choices}"
        )
    attribute, axis = domain[rest], domain.names.index(rest)
    if not attribute.ordered:
        raise QueryError(f"Workload 'prefixes:{rest}': attribute '{rest}' has no order. {choices}")
    n = attribute.regular
    _check_number(f"prefixes:{rest}", n)
    steps = np.arange(n + attribute.size) < n  # n times true; every prefix is a window of it
    steps.setflags(write=False)
    return [
        Query(span_phrase(rest, attribute, 0, stop), ({axis: steps[n - stop : n - stop + attribute.size]},))
        for stop in range(1, n + 1)
    ]


_RULES: dict[str, Callable[[str, Domain], Workload]] = {
    "random": _random,
    "marginals": _marginals,
    "prefixes": _prefixes,
}
_EXAMPLES = {"random": "random:1000", "marginals": "marginals:2", "prefixes": "prefixes:ATTR"}


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,30}", text) else None


def _bounded(kind: str, text: str, most: int, what: str) -> int:
    """Read a whole number from 1 to ``most``."""
    number = _whole(text.removeprefix("-"))
    if number is None or not 1 <= number <= most or text.startswith("-"):
        nearest = most if number and not text.startswith("-") else 1
        near = "" if number is None else f" Did you mean '{kind}:{nearest}'?"
        raise QueryError(
            f"Workload '{kind}:{text}': the number of {what} must be a whole number from 1 to {most:,}.{near}"
        )
    return number


def _check_number(spec: str, count: int) -> None:
    if count > MOST_QUERIES:
        raise QueryError(
            f"Workload '{spec}' stands for {count:,} queries; a workload has at most {MOST_QUERIES:,}."
        )


# --- at random --------------------------------------------------------------------------------------------


def random_ranges(domain: Domain, count: int, seed: int = 0) -> list[Query]:
    """Return random range-count queries as in the Privelet experiments (§8.1).

    A query restricts between one and all of the attributes, each number being as likely as any other. A
    restricted attribute that has an order gets one of its ranges, all equally likely; a hierarchy one of
    its nodes below the root, leaves included; any other attribute one of its categories. Equal spans share
    one mask, which can't be written to.
    """
    generator = np.random.default_rng(seed)
    spans = [_random_spans(attribute, count, generator) for attribute in domain.attributes]
    order = generator.random((count, len(spans))).argsort(axis=1)
    restricted = generator.integers(1, len(spans) + 1, size=count)
    chosen = order.argsort(axis=1) < restricted[:, None]
    columns = [
        _column(name, attribute, spans[axis], chosen[:, axis])
        for axis, (name, attribute) in enumerate(zip(domain.names, domain.attributes, strict=True))
    ]
    queries = []
    for row in zip(*columns, strict=True):
        parts = [(axis, *part) for axis, part in enumerate(row) if part is not None]
        term = {axis: mask for axis, mask, _ in parts}
        queries.append(Query(" and ".join([text for _, _, text in parts]), (term,)))
    return queries


def _column(name: str, attribute: Attribute, spans: Any, chosen: Any) -> list[tuple[Mask, str] | None]:
    """Return for each query the mask of its span and its condition, or ``None`` where it has none."""
    size = attribute.size
    known: dict[tuple[int, int], tuple[Mask, str]] = {}
    column: list[tuple[Mask, str] | None] = [None] * len(spans)
    places = np.flatnonzero(chosen)
    for place, start, stop in zip(places.tolist(), *spans[places].T.tolist(), strict=True):
        part = known.get((start, stop))
        if part is None:
            check_vectors((len(known), size))
            mask = np.zeros(size, np.bool_)
            mask[start:stop] = True
            mask.setflags(write=False)
            part = known[start, stop] = mask, span_phrase(name, attribute, start, stop)
        column[place] = part
    return column


def _random_spans(attribute: Attribute, count: int, generator: np.random.Generator) -> Any:
    """Return ``count`` random (start, stop) pairs of an attribute's regular categories."""
    size = attribute.regular
    if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
        nodes = [(node.start, node.stop) for node in attribute.hierarchy.nodes[1:]]
        choices = np.array(nodes + [(leaf, leaf + 1) for leaf in range(size)])
        return choices[generator.integers(len(choices), size=count)]
    if not attribute.ordered:
        return generator.integers(size, size=(count, 1)) + np.array([0, 1])
    # A range is a pair of different cuts among size + 1; draw the second among those that are left.
    first, second = generator.integers(size + 1, size=count), generator.integers(size, size=count)
    return np.sort(np.stack([first, second + (second >= first)], axis=1), axis=1)


# --- from a file ------------------------------------------------------------------------------------------

Entry = tuple[str, Any]  # where it stands, as in "line 3", and the condition or an object that holds it


def _read_file(spec: str, domain: Domain, interpolate: bool) -> list[Query]:
    """Read a file of conditions; each distinct text is parsed once."""
    text = _read_text(spec)
    known: dict[str, Query] = {}
    queries = []
    entries = _READERS.get(Path(spec).suffix.lower(), _text_entries)
    try:
        for where, entry in entries(text) if text.strip() else ():
            try:
                condition = _condition(entry)
                if condition not in known:
                    known[condition] = parse_condition(condition, domain, interpolate=interpolate)
            except QueryError as error:
                raise QueryError(f"{where}: {error}") from None
            queries.append(known[condition])
    except QueryError as error:
        raise QueryError(f"{spec}, {error}") from None
    if not queries:
        raise QueryError(f"{spec}: the workload has no condition; write at least one.")
    return queries


def _read_text(spec: str) -> str:
    try:
        return Path(spec).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise QueryError(f"There is no file '{spec}'.{_near(spec)} {FORMS}") from None
    except UnicodeDecodeError:
        raise QueryError(f"{spec}: the file is not UTF-8 text; save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise QueryError(f"Workload '{spec}': the file can't be read ({reason}). {FORMS}") from None


def _near(spec: str) -> str:
    """Suggest the rule that a misspelt one may mean: random:10 for randm:10."""
    kind, colon, rest = spec.partition(":")
    near = did_you_mean(kind, _RULES) if colon or kind.isalpha() else ""
    for known, example in _EXAMPLES.items():
        near = near.replace(f"'{known}'", f"'{known}:{rest}'" if colon and rest else f"'{example}'")
    return near


def _condition(entry: Any) -> str:
    """Return the condition of an entry: a text, or an object with a query or condition."""
    if isinstance(entry, dict):
        key = next((key for key in KEYS if key in entry), None)
        if key is None:
            near = did_you_mean(next(iter(map(str, entry)), ""), KEYS)
            raise QueryError(f"the object has no 'query' and no 'condition'.{near}")
        entry = entry[key]
    if not isinstance(entry, str):
        raise QueryError(
            "a condition must be a text, or an object with a text as its 'query' or 'condition'."
        )
    return entry


def _text_entries(text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        condition = line.strip()
        if condition and not condition.startswith(("#", "--")):
            yield f"line {number}", condition


def _csv_entries(text: str) -> Iterator[Entry]:
    """Yield the column ``query`` or ``condition``, or the only column, all of whose rows are conditions."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] = []
    place, line = 0, 1
    try:
        for row in reader:
            where, line = f"line {line}", reader.line_num + 1
            if not any(field.strip() for field in row):
                continue
            if not names:
                names = [field.strip().casefold() for field in row]
                found = next((names.index(key) for key in KEYS if key in names), None)
                if found is None and len(names) > 1:
                    near = next(filter(None, (did_you_mean(name, KEYS) for name in names)), "")
                    raise QueryError(
                        f"{where}: no column is called 'query' or 'condition'.{near} It has: {listed(row)}."
                        " If these are conditions, put those with commas in double quotes."
                    )
                place = found or 0
                if found is not None:
                    continue
            if len(row) != len(names):
                raise QueryError(
                    f"{where}: the row has {len(row)} fields, and the first row has {len(names)};"
                    " put a condition with commas in double quotes."
                )
            yield where, row[place]
    except csv.Error as error:
        raise QueryError(
            f"line {reader.line_num}: not readable as CSV ({error}). Put a condition with double quotes"
            " in double quotes itself, and double those inside."
        ) from None


def _json_entries(text: str) -> Iterator[Entry]:
    content = _json(text)
    if isinstance(content, dict) and "queries" in content:
        content = content["queries"]
    if not isinstance(content, list):
        raise _no_list(1, content if isinstance(content, dict) else ())
    for number, entry in enumerate(content, 1):
        yield f"entry {number}", entry


def _jsonl_entries(text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", _json(line, number)


def _no_list(line: int, keys: Iterable[str]) -> QueryError:
    near = next(filter(None, (did_you_mean(key, ["queries"]) for key in keys)), "")
    return QueryError(
        f"line {line}: the file must hold a list of conditions, or an object with such a list as its"
        f" 'queries'.{near}"
    )


def _json(text: str, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise QueryError(
            f"line {line + error.lineno - 1}: not readable as JSON ({error.msg}, column {error.colno})."
        ) from None
    except (ValueError, RecursionError):
        raise QueryError(
            f"line {line}: not readable as JSON (a number too long, or nested too deeply)."
        ) from None


def _yaml_entries(text: str) -> Iterator[Entry]:
    """Yield what JSON may hold, written as YAML; nothing is constructed, every scalar stays its text."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    def shallow(node: Any) -> Any:
        if isinstance(node, MappingNode):
            pairs = [(key.value, value) for key, value in node.value if isinstance(key, ScalarNode)]
            return {key: value.value if isinstance(value, ScalarNode) else None for key, value in pairs}
        return node.value if isinstance(node, ScalarNode) else None

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be set anew
            root = YAML(typ="safe", pure=True).compose(text)
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "nested too deeply, or with a control character"
        line = mark.line + 1 if mark else 1
        raise QueryError(
            f"line {line}: not readable as YAML ({reason}). Put each condition in quotes."
        ) from None
    if isinstance(root, MappingNode):
        root = next((value for key, value in root.value if key.value == "queries"), root)
    if root is not None and not isinstance(root, SequenceNode):
        raise _no_list(root.start_mark.line + 1, shallow(root) if isinstance(root, MappingNode) else ())
    for node in root.value if root is not None else ():
        yield f"line {node.start_mark.line + 1}", shallow(node)


_READERS: dict[str, Callable[[str], Iterator[Entry]]] = {
    ".csv": _csv_entries,
    ".json": _json_entries,
    ".jsonl": _jsonl_entries,
    ".ndjson": _jsonl_entries,
    ".yaml": _yaml_entries,
    ".yml": _yaml_entries,
}
