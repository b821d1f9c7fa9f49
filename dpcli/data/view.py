"""What a release counts of a table: the cells of a domain, over the rows that satisfy a filter. No data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpcli.data.attributes import Attribute
from dpcli.data.domain import Domain

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """A domain, and a filter: disjoint products of sets of categories, or ``None`` for all rows.

    ``mentioned`` are the filter's attributes; they need not be in the domain.
    """

    domain: Domain
    where: tuple[Mapping[str, Mask], ...] | None = None
    mentioned: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def attributes(self) -> dict[str, Attribute]:
        """All attributes that must be read."""
        return {**dict(zip(self.domain.names, self.domain.attributes, strict=True)), **self.mentioned}

    def place(self, codes: Callable[[str], Codes], rows: int) -> tuple[Codes, Mask | None]:
        """Return the cell of each row, and which rows count; ``None`` if all do.

        ``codes`` gives the categories of an attribute; a row with a negative one does not count.
        """
        cells = np.zeros(rows, np.int64)
        kept: Mask | None = None
        for name, attribute in zip(self.domain.names, self.domain.attributes, strict=True):
            found = codes(name)
            if found.min(initial=0) < 0:
                kept = found >= 0 if kept is None else kept & (found >= 0)
            cells *= attribute.size
            cells += found
        if self.where is not None:
            satisfied = self._satisfied(codes, rows)
            kept = satisfied if kept is None else kept & satisfied
        return cells, kept

    def _satisfied(self, codes: Callable[[str], Codes], rows: int) -> Mask:
        """Return which rows satisfy the filter. One without a category in an attribute of it does not."""
        found = np.zeros(rows, np.bool_)
        for term in self.where or ():
            inside = np.ones(rows, np.bool_)
            for name, mask in term.items():
                inside &= mask.take(codes(name), mode="clip")
            found |= inside
        for name in self.mentioned:
            found &= codes(name) >= 0
        return found
