"""Attributes without an order: labels, plain or in a hierarchy, and booleans."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_serializer, field_validator, model_validator

from dpcli.data.attribute import OTHER, Attribute, Span
from dpcli.data.hierarchy import Hierarchy
from dpcli.data.scalars import Text
from dpcli.errors import QueryError, did_you_mean, listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Nominal(Attribute):
    """Labels without order, plain or in a hierarchy."""

    ordered: ClassVar[bool] = False
    kind: Literal["nominal"] = "nominal"
    values: tuple[Text, ...] | None = Field(None, description="The labels.")
    hierarchy: Any = Field(
        None,
        description="Nested groups of labels, or the YAML or CSV file with them, relative to the plan.",
    )

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if values is not None:
            if not values:
                raise ValueError("is empty; list at least one label")
            twice = sorted(value for value, times in Counter(values).items() if times > 1)[:3]
            if twice:
                raise ValueError(
                    f"has {listed(map(repr, twice))} more than once; every label must stand once"
                )
        return values

    @field_validator("hierarchy")
    @classmethod
    def _tree(cls, tree: Any) -> Hierarchy | None:
        return tree if tree is None or isinstance(tree, Hierarchy) else Hierarchy.from_nested(tree)

    @field_serializer("hierarchy")
    def _nested(self, tree: Hierarchy | None) -> Any:
        return None if tree is None else tree.nested()

    @model_validator(mode="after")
    def _either_values_or_hierarchy(self) -> Nominal:
        if (self.values is None) == (self.hierarchy is None):
            raise ValueError("give either values or hierarchy")
        if self.outside == "other" and OTHER in self.regular_labels:
            raise ValueError(f"outside: other adds the label {OTHER}, which is also one of its own labels")
        return self

    @cached_property
    def regular_labels(self) -> list[str]:
        return list(self.values if self.values is not None else self.hierarchy.leaves)

    def find(self, value: str) -> Span:
        """A label names its category, a hierarchy's node its run of leaves; blanks around it do not count."""
        value = value.strip()
        found = self.node_spans(value) | self._leaf_spans(value)
        if len(found) > 1:
            leaf = (
                f"'{self._leaf_path(self._place_of[value])}' for the leaf, "
                if value in self._place_of
                else ""
            )
            raise QueryError(
                f"the name {value!r} is ambiguous; write {leaf}node('…') with one of {self._paths(value)}"
            )
        if not found:
            nodes = self.hierarchy.spans if self.hierarchy else ()
            extra = [OTHER] if self.outside == "other" else []
            raise QueryError(
                f"it has no category {value!r}.{did_you_mean(value, [*self._place_of, *nodes])}"
                f" It has: {listed([*self.regular_labels, *extra])}"
            )
        return next(iter(found))

    def _leaf_spans(self, value: str) -> set[Span]:
        """Return the category of a label, or of a leaf's path joined by ``/``."""
        place = self._place_of.get(value)
        if place is None and "/" in value:
            ending = self._place_of.get(value.rsplit("/", 1)[1])
            place = ending if ending is not None and self._leaf_path(ending) == value else None
        return set() if place is None else {(place, place + 1)}

    def _leaf_path(self, place: int) -> str:
        """Return a leaf's path: the labels of the nodes around it and its own, joined by ``/``."""
        nodes = self.hierarchy.nodes if self.hierarchy else ()
        around = [node for node in nodes if node.start <= place < node.stop]
        path = max(around, key=lambda node: len(node.path)).path if around else ()
        return "/".join([*path, self.regular_labels[place]])

    def find_node(self, name: str) -> Span:
        """Return the leaves of the inner node called ``name`` (a label, or a path joined by ``/``)."""
        found = self.node_spans(name)
        if len(found) != 1:
            names = self.hierarchy.spans if self.hierarchy else ()
            problem = (
                f"several nodes are called {name!r}: {self._paths(name)}"
                if found
                else f"it has no node {name!r}."
            )
            raise QueryError(f"{problem}{'' if found else did_you_mean(name, names)}")
        return next(iter(found))

    def node_spans(self, name: str) -> set[Span]:
        """Return the runs of leaves of all inner nodes with that name."""
        return set(self.hierarchy.spans.get(name, set())) if self.hierarchy else set()

    def _paths(self, name: str) -> str:
        paths = [
            "/" + "/".join(node.path) for node in self.hierarchy.nodes if node.path and node.label == name
        ]
        return listed(map(repr, paths))


class Boolean(Attribute):
    """``false`` and ``true``."""

    ordered: ClassVar[bool] = False
    kind: Literal["boolean"] = "boolean"

    @cached_property
    def regular_labels(self) -> list[str]:
        return ["false", "true"]

    def numbers(self) -> NDArray[np.float64]:
        return self._numbers((0, 1))

    def find(self, value: str) -> Span:
        return super().find({"0": "false", "1": "true"}.get(value, value.lower()))
