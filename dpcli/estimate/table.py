"""Answers beside what was asked: one row per answer, in records, in chunks or as a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.data.attributes import Attribute, Label
from dpcli.estimate.answer import COLUMNS, Answer, Answers

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 1 << 14
QUERY = "query"


@dataclass(frozen=True)
class Table:
    """Answers with, for each, the labels of its group and the text of its question.

    ``warnings`` are what nobody may overlook, ``notes`` what answers take for granted.
    """

    text: Callable[[int], str]
    answers: Answers
    groups: dict[str, list[Label]] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    """What the groups are categories of."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names; a grouping attribute that is called like one of the others gets a prefix."""
        return (*map(_column, self.groups), QUERY, *COLUMNS)

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        for record in self.records():
            fields = {name: record[name] for name in (QUERY, *COLUMNS)}
            yield Answer(**fields, warnings=self.warnings)

    def chunks(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the columns of a few thousand rows at a time."""
        for start in range(0, len(self), CHUNK):
            rows = slice(start, min(start + CHUNK, len(self)))
            texts = [self.text(place) for place in range(rows.start, rows.stop)]
            labels = {_column(name): column[rows] for name, column in self.groups.items()}
            yield {**labels, QUERY: texts, **self.answers.part(rows).columns()}

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the rows."""
        for chunk in self.chunks():
            for row in zip(*chunk.values(), strict=True):
                yield dict(zip(chunk, row, strict=True))

    def frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame; labels are categories in the attribute's order."""
        import pandas as pd

        parts = [pd.DataFrame(chunk) for chunk in self.chunks()]
        frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(self.columns))
        for name, attribute in self.attributes.items():
            labels = [label for label in attribute.labels() if label is not None]
            if any(isinstance(label, str) for label in labels):  # whole numbers have their order
                kinds = pd.CategoricalDtype(labels, ordered=attribute.ordered)
                frame[_column(name)] = frame[_column(name)].astype(kinds)
        return frame


def _column(name: str) -> str:
    return f"by_{name}" if name in (QUERY, *COLUMNS) else name
