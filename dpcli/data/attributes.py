"""Attributes: the public categories of one column, as a plan declares them and as a release file keeps them.

Each kind is a frozen pydantic model, so that one definition serves the plan, its JSON Schema, the file's
metadata and the arithmetic on categories.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from dpcli.data.attribute import OTHER, Attribute, Label, Span
from dpcli.data.ordered import Binned, Dates, Integers
from dpcli.data.unordered import Boolean, Nominal

__all__ = [
    "OTHER",
    "AnyAttribute",
    "Attribute",
    "Binned",
    "Boolean",
    "Dates",
    "Integers",
    "Label",
    "Nominal",
    "Span",
]


def _which(value: Any) -> str | None:
    """Tell the kind of an attribute from its keys, so that errors speak of that kind alone."""
    if isinstance(value, Attribute):
        return "binned" if isinstance(value, Binned) else value.kind
    if not isinstance(value, dict):
        return None
    kind = value.get("kind")
    if kind == "ordinal" and ("bin" in value or "edges" in value):
        return "binned"
    return kind if isinstance(kind, str) else None


AnyAttribute = Annotated[
    Annotated[Integers, Tag("ordinal")]
    | Annotated[Binned, Tag("binned")]
    | Annotated[Dates, Tag("date")]
    | Annotated[Nominal, Tag("nominal")]
    | Annotated[Boolean, Tag("boolean")],
    Discriminator(
        _which,
        custom_error_type="attribute_kind",
        custom_error_message="needs a kind: ordinal, date, nominal or boolean",
    ),
]
