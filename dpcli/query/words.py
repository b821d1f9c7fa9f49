"""Conditions in words: text that ``parse_condition`` reads back to exactly the same categories."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from dpcli.data.attributes import OTHER, Attribute, Binned, Boolean, Integers, Nominal, Span
from dpcli.data.hierarchy import Node
from dpcli.data.scalars import plain
from dpcli.errors import QueryError
from dpcli.query.product import Mask

LONG_RUN = 3  # categories; beside others, a shorter run is listed label by label
MOST_RANGES = 40  # beyond so many everything is listed: a list is not nested
MOST_ATTRIBUTES = 64
MOST_SPANS = 1 << 17
_RESERVED = {word for key in (*Tokenizer.KEYWORDS, *Parser.NO_PAREN_FUNCTION_PARSERS) for word in key.split()}


def phrase(name: str, attribute: Attribute, mask: Mask) -> str:
    """Return a condition that holds for exactly the categories in ``mask``, one truth value for each.

    The reader has no word for a leaf beside the root whose label some node has too. Such a leaf is written
    by what is not meant; where even that fails, because there are two of them, the text is one that the
    reader refuses as ambiguous.
    """
    return _words(name, attribute).mask(mask)


def span_phrase(name: str, attribute: Attribute, start: int, stop: int) -> str:
    """Return a condition for the regular categories ``start <= c < stop``; repeats come from memory."""
    return _words(name, attribute).span(start, stop)


def category_phrase(name: str, attribute: Attribute, code: int) -> str:
    """Return a condition for one category, which may be that of other or of missing values."""
    return _words(name, attribute).category(code)


@lru_cache(maxsize=1024)
def identifier(name: str) -> str:
    """Return an attribute's name as SQL writes it, in double quotes unless it is a plain lower-case word."""
    if re.fullmatch("[a-z_][a-z0-9_]*", name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted(label: str) -> str:
    """Return a label in single quotes."""
    return "'" + label.replace("'", "''") + "'"


class Words:
    """The conditions on one attribute; every span is put in words once."""

    def __init__(self, name: str, attribute: Attribute) -> None:
        self.attribute = attribute
        self._name = identifier(name)
        self._regular = attribute.regular
        self._spans: dict[Span, str] = {}
        self._nodes: dict[int, list[Node]] = {}  # by their first leaf, the longest first
        if isinstance(attribute, Nominal) and attribute.hierarchy is not None:
            for node in attribute.hierarchy.nodes[1:]:
                self._nodes.setdefault(node.start, []).append(node)

    def span(self, start: int, stop: int) -> str:
        text = self._spans.get((start, stop))
        if text is None:
            if len(self._spans) >= MOST_SPANS:
                self._spans.clear()
            text = self._spans[start, stop] = self._new_span(start, stop)
        return text

    def category(self, code: int) -> str:
        if code < self._regular:
            return self.span(code, code + 1)
        if code == self.attribute.missing_code:
            return f"{self._name} is null"
        return self._among([quoted(OTHER)])

    def mask(self, mask: Mask) -> str:
        if mask.all():
            return "true"
        attribute, regular = self.attribute, mask[: self._regular]
        other = attribute.other_code is not None and bool(mask[attribute.other_code])
        missing = attribute.missing_code is not None and bool(mask[attribute.missing_code])
        if attribute.missing_code is not None and not missing and mask[: attribute.missing_code].all():
            return f"{self._name} is not null"
        runs = list(_runs(regular))
        if attribute.ordered and len(runs) == 1 and not other and not missing:
            return self.span(*runs[0])
        parts = self._pieces(runs, other) if attribute.ordered else self._labels(regular, other)
        if missing:
            parts.append(f"{self._name} is null")
        return f"({' or '.join(parts)})" if len(parts) > 1 else "".join(parts) or "false"

    def _new_span(self, start: int, stop: int) -> str:
        attribute = self.attribute
        if (start, stop) == (0, self._regular) and attribute.missing_code == stop:
            return f"{self._name} is not null"
        if attribute.ordered:
            return self._range(start, stop)
        called = self._called(start, stop)
        if called is not None:
            return self._among([called])
        mask = np.zeros(attribute.size, np.bool_)
        mask[start:stop] = True
        return self.mask(mask)

    # --- with an order ----------------------------------------------------------------------------
    def _range(self, start: int, stop: int) -> str:
        """Write a run; the last bin holds its upper edge, so a run up to there needs no upper bound."""
        name, to_last = self._name, stop == self._regular
        if isinstance(self.attribute, Binned):
            low, high = plain(self.attribute.cuts[start]), plain(self.attribute.cuts[stop])
            if to_last:
                return f"{name} >= {low}" if start else f"{name} between {low} and {high}"
            return f"{name} >= {low} and {name} < {high}" if start else f"{name} < {high}"
        first, last = self._label(start), self._label(stop - 1)
        if stop - start == 1:
            return f"{name} = {first}"
        if to_last is (start == 0):
            return f"{name} between {first} and {last}"
        return f"{name} >= {first}" if to_last else f"{name} <= {last}"

    def _pieces(self, runs: list[Span], other: bool) -> list[str]:
        """Write long runs as ranges, and list the categories of the others."""
        long = [run for run in runs if run[1] - run[0] >= LONG_RUN]
        if len(long) > MOST_RANGES:
            long = []
        single = [self._label(code) for run in runs if run not in long for code in range(*run)]
        if other:
            single.append(quoted(OTHER))
        two_sided = isinstance(self.attribute, Binned)
        parts = [
            f"({text})" if two_sided and start > 0 and stop < self._regular else text
            for (start, stop), text in ((run, self._range(*run)) for run in long)
        ]
        return [*parts, self._among(single)] if single else parts

    def _label(self, code: int) -> str:
        label = str(self.attribute.regular_labels[code])
        return label if isinstance(self.attribute, (Integers, Boolean)) else quoted(label)

    # --- without ----------------------------------------------------------------------------------
    def _labels(self, regular: Mask, other: bool) -> list[str]:
        """Write categories without order by their names or, where one has none, by those of all others."""
        has_other = self.attribute.other_code is not None
        if has_other and not other and regular.all():
            return [self._among([quoted(OTHER)], without=True)]
        inside = self._cover(regular, other)
        if inside is None:
            outside = self._cover(~regular, has_other and not other)
            if outside:
                return [self._among(outside, without=True)]
            inside = [self._label(code) for code in np.flatnonzero(regular).tolist()]
        return [self._among(inside)] if inside else []

    def _cover(self, regular: Mask, other: bool) -> list[str] | None:
        """Return names for the categories, the largest nodes first; ``None`` if one can't be named."""
        names = []
        for start, stop in _runs(regular):
            while start < stop:
                ends = [node.stop for node in self._nodes.get(start, ()) if node.stop <= stop]
                for end in (*ends, start + 1):
                    called = self._called(start, end)
                    if called is not None:
                        names.append(called)
                        start = end
                        break
                else:
                    return None
        return [*names, quoted(OTHER)] if other else names

    def _called(self, start: int, stop: int) -> str | None:
        """Return a name by which the reader finds just these categories, if there is one."""
        attribute = self.attribute
        if not isinstance(attribute, Nominal) or attribute.hierarchy is None:
            return self._label(start) if stop - start == 1 else None
        nodes = [node for node in self._nodes.get(start, ()) if node.stop == stop]
        leaf = [attribute.regular_labels[start]] if stop - start == 1 else []
        reserved = OTHER if attribute.other_code is not None else None
        for text in (*leaf, *(node.label for node in nodes)):
            if text != reserved and _means(attribute.find, text, (start, stop)):
                return quoted(text)
        if leaf:
            around = [n for n in attribute.hierarchy.nodes if n.start <= start < n.stop]
            path = "/".join([*max(around, key=lambda node: len(node.path)).path, *leaf])
            if path != reserved and _means(attribute.find, path, (start, stop)):
                return quoted(path)
        for path in ("/".join(node.path) for node in nodes):
            if _means(attribute.find_node, path, (start, stop)):
                return f"node({quoted(path)})"
        return None

    def _among(self, names: Iterable[str], *, without: bool = False) -> str:
        first, *more = names
        if not more:
            return f"{self._name} {'<>' if without else '='} {first}"
        return f"{self._name} {'not in' if without else 'in'} ({', '.join([first, *more])})"


_WORDS: dict[tuple[str, int], Words] = {}


def _words(name: str, attribute: Attribute) -> Words:
    """Return the words of an attribute, known by its identity: a large one takes long to compare."""
    found = _WORDS.get((name, id(attribute)))
    if found is None:
        if len(_WORDS) >= MOST_ATTRIBUTES:
            _WORDS.clear()
        found = _WORDS[name, id(attribute)] = Words(name, attribute)  # holds it, so the id stays its own
    return found


def _runs(mask: Mask) -> Iterator[Span]:
    """Yield the runs of true values as (start, stop)."""
    padded = np.zeros(len(mask) + 2, np.int8)
    padded[1:-1] = mask
    edges = iter(np.flatnonzero(np.diff(padded)).tolist())
    return zip(edges, edges, strict=True)


def _means(find: Callable[[str], Span], name: str, span: Span) -> bool:
    try:
        return find(name) == span
    except QueryError:
        return False
