"""An answer: a value, how far it may be off, and how that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal["exact", "normal", "none"]


@dataclass(frozen=True)
class Answer:
    """The answer to one query.

    ``low`` and ``high`` hold the true value with at least the asked-for probability; ``how`` says whether
    they come from the exact law of the noise, from a normal approximation, or (``none``) are not known.
    """

    query: str
    value: float
    stderr: float | None
    low: float | None
    high: float | None
    how: How
    warnings: tuple[str, ...] = ()

    def record(self) -> dict[str, object]:
        """Return the answer as the fields that machine formats print."""
        return {
            "query": self.query,
            "value": self.value,
            "stderr": self.stderr,
            "low": self.low,
            "high": self.high,
            "how": self.how,
        }
