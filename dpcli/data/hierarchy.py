"""Nominal hierarchies: groups of groups of leaves, in an order where each node is a run of leaves."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Node:
    """An inner node: the leaves ``start <= leaf < stop``, and the labels from below the root to here."""

    path: tuple[str, ...]
    start: int
    stop: int

    @property
    def label(self) -> str:
        return self.path[-1] if self.path else ""


@dataclass(frozen=True)
class Hierarchy:
    """A rooted tree over nominal labels; levels may be ragged.

    ``leaves`` are in depth-first order. ``nodes`` are the inner nodes in preorder; the first is the root,
    which has an empty path.
    """

    leaves: tuple[str, ...]
    nodes: tuple[Node, ...]

    @classmethod
    def from_nested(cls, tree: Any) -> Hierarchy:
        """Build from nested mappings and lists: ``{Health: [Nurse, Physician], Retired: null}``.

        A mapping's key with no content is a leaf. Raises ``ValueError`` naming the label at fault.
        """
        leaves: list[str] = []
        nodes: list[Node] = []
        paths: set[tuple[str, ...]] = set()

        def add(content: Any, path: tuple[str, ...]) -> None:
            if path in paths:
                raise ValueError(f"the hierarchy has the group '{'/'.join(path)}' twice; write it once")
            paths.add(path)
            place = len(nodes)
            start = len(leaves)
            nodes.append(Node(path, start, start))
            for label, below in _children(content, path):
                if below is None:
                    leaves.append(label)
                else:
                    add(below, (*path, label))
            if len(leaves) == start:
                raise ValueError(f"the hierarchy's group '{nodes[place].label or 'root'}' has no leaves")
            nodes[place] = Node(path, start, len(leaves))

        add(tree, ())
        seen: set[str] = set()
        for leaf in leaves:
            if leaf in seen:
                raise ValueError(f"the hierarchy has the leaf '{leaf}' twice; every leaf must stand once")
            seen.add(leaf)
        return cls(tuple(leaves), tuple(nodes))

    @classmethod
    def from_csv(cls, text: str) -> Hierarchy:
        """Build from a CSV with a header and one column per level, the leaf last.

        A blank field leaves that level out for that leaf (a ragged hierarchy).
        """
        reader = csv.reader(io.StringIO(text))
        rows = [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
        levels = len(rows[0][1]) if rows else 0
        if len(rows) < 2 or levels < 2:
            raise ValueError(
                "a hierarchy in CSV needs a header, two or more level columns and at least one row"
            )
        tree: dict[str, Any] = {}
        for number, row in rows[1:]:
            fields = [field.strip() for field in row]
            if len(fields) != levels or not fields[-1]:
                raise ValueError(f"row {number} of the hierarchy has no leaf or not {levels} columns")
            place = tree
            for label in filter(None, fields[:-1]):
                place = place.setdefault(label, {})
                if place is None:
                    raise ValueError(f"row {number} of the hierarchy uses the leaf '{label}' as a group")
            if place.get(fields[-1]) is not None:
                raise ValueError(f"row {number} of the hierarchy uses the group '{fields[-1]}' as a leaf")
            if fields[-1] in place:
                raise ValueError(
                    f"the hierarchy has the leaf '{fields[-1]}' twice; every leaf must stand once"
                )
            place[fields[-1]] = None
        return cls.from_nested(tree)

    def nested(self) -> Any:
        """Return the tree in the form that :meth:`from_nested` reads."""

        content: dict[tuple[str, ...], list[Any]] = {node.path: [] for node in self.nodes}
        pending = list(reversed(self.nodes))
        open_nodes: list[Node] = []
        for place, leaf in enumerate(self.leaves):
            while open_nodes and open_nodes[-1].stop <= place:
                open_nodes.pop()
            while pending and pending[-1].start <= place:
                node = pending.pop()
                if node.path:
                    content[node.path[:-1]].append({node.label: content[node.path]})
                open_nodes.append(node)
            content[open_nodes[-1].path].append(leaf)
        return content[()]

    @property
    def height(self) -> int:
        """The number of levels of the longest path, root and leaf included."""
        return max(len(node.path) for node in self.nodes) + 2

    @cached_property
    def spans(self) -> dict[str, set[tuple[int, int]]]:
        """For every name, a label or a path (``A/B`` or ``/A/B``), the runs of leaves that it may mean."""
        found: dict[str, set[tuple[int, int]]] = {}
        for node in self.nodes[1:]:
            for name in (node.label, "/".join(node.path), "/" + "/".join(node.path)):
                found.setdefault(name, set()).add((node.start, node.stop))
        return found


def _children(content: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield (label, content) pairs of one level; content is ``None`` for a leaf."""
    where = "/".join(path) or "the top"
    if isinstance(content, dict):
        for label, below in content.items():
            yield _label(label, where), below
    elif isinstance(content, (list, tuple)):
        for item in content:
            if isinstance(item, dict):
                yield from _children(item, path)
            else:
                yield _label(item, where), None
    else:
        raise ValueError(f"the hierarchy's group '{where}' must hold a list or a mapping")


def _label(label: Any, where: str) -> str:
    if label is None or isinstance(label, (list, dict)) or not str(label).strip():
        raise ValueError(f"the hierarchy has an empty or unreadable label in '{where}'")
    return str(label).strip()
