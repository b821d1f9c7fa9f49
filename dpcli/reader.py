"""What an analyst holds in Python: a release file that answers questions with pandas frames."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcli.estimate.ask import Interviewer
from dpcli.estimate.table import Table
from dpcli.release.file import Release

if TYPE_CHECKING:
    import pandas as pd


class Cube(Release):
    """An open release file.

    >>> cube = dpcli.open("cube.parquet")
    >>> cube.query("age >= 65 and sex = 'F'", by=["region"])
    """

    def __repr__(self) -> str:
        claim = self.metadata
        return f"<release '{claim.name}' of dataset '{claim.dataset}': {', '.join(self.domain.names)}>"

    def ask(
        self,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        interpolate: bool = False,
        estimator: str | None = None,
        neighbours: str | None = None,
    ) -> Interviewer:
        """Return what asks this release, for intervals of a level.

        ``estimator`` and ``neighbours`` are for releases by ispe; see docs/ispe.md.
        """
        return Interviewer(
            self,
            level,
            simultaneous=simultaneous,
            interpolate=interpolate,
            estimator=estimator,
            neighbours=neighbours,
        )

    def query(
        self,
        *conditions: str | Sequence[str],
        by: Sequence[str] | str = (),
        interval: float = 0.95,
        simultaneous: bool = False,
        interpolate: bool = False,
    ) -> pd.DataFrame:
        """Count the rows of each condition (without any: all rows), for each group of ``by``, as a frame."""
        texts = [text for each in conditions for text in ([each] if isinstance(each, str) else each)]
        asking = self.ask(interval, simultaneous=simultaneous, interpolate=interpolate)
        return _told(asking.conditions(texts, [by] if isinstance(by, str) else list(by)))

    def sql(
        self, statement: str, *, interval: float = 0.95, simultaneous: bool = False, interpolate: bool = False
    ) -> pd.DataFrame:
        """Answer ``SELECT sex, AVG(age) FROM release GROUP BY sex``, as a frame with a row per answer."""
        return _told(
            self.ask(interval, simultaneous=simultaneous, interpolate=interpolate).statement(statement)
        )

    def workload(
        self, spec: str, *, interval: float = 0.95, simultaneous: bool = False, interpolate: bool = False
    ) -> pd.DataFrame:
        """Answer a workload: a file of conditions, ``random:N``, ``marginals:K`` or ``prefixes:ATTR``."""
        import pandas as pd

        asking = self.ask(interval, simultaneous=simultaneous, interpolate=interpolate)
        return pd.concat([_told(table) for table in asking.workload(spec)], ignore_index=True)


def _told(table: Table) -> pd.DataFrame:
    """Return a table's frame, and give its warnings as Python does."""
    for text in (*table.warnings, *table.notes):
        warnings.warn(text, stacklevel=3)
    return table.frame()
