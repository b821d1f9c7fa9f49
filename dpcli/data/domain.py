"""The domain of a cube: its attributes, and the numbering of its cells in C order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from pydantic import TypeAdapter

from dpcli.data.attributes import AnyAttribute, Attribute


@dataclass(frozen=True)
class Domain:
    """Named attributes in the order of the cube's axes.

    Cell (c_1, …, c_d) has the number Σ_i c_i · Π_{j>i} size_j: the last attribute varies fastest.
    """

    names: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of categories of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @cached_property
    def size(self) -> int:
        """The number of cells."""
        return prod(self.shape)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.names.index(name)]

    def reordered(self, order: Sequence[int]) -> Domain:
        """Return the same attributes in another order."""
        return Domain(tuple(self.names[k] for k in order), tuple(self.attributes[k] for k in order))

    def describe(self) -> list[dict[str, Any]]:
        """Return the attributes as JSON, in the words of a plan."""
        return [
            {"name": name, **attribute.model_dump(mode="json", exclude_none=True)}
            for name, attribute in zip(self.names, self.attributes, strict=True)
        ]

    @classmethod
    def from_description(cls, items: list[dict[str, Any]]) -> Domain:
        """Invert :meth:`describe`."""
        adapter: TypeAdapter[Attribute] = TypeAdapter(AnyAttribute)
        names = tuple(str(item["name"]) for item in items)
        rest = [{key: value for key, value in item.items() if key != "name"} for item in items]
        return cls(names, tuple(adapter.validate_python(item) for item in rest))
