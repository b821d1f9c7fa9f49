"""How long work tells how far it has come, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Progress = Callable[[float], None]
"""Takes the fraction of the work that is done, from 0 to 1."""


class Reporter(Protocol):
    """Shows the stages of long work."""

    def stage(self, text: str) -> AbstractContextManager[Progress]:
        """Announce a stage and give the function that takes its progress."""

    def note(self, text: str, **details: object) -> None:
        """Tell what has happened, for a log."""


class Silent:
    """A reporter that shows nothing."""

    def stage(self, text: str) -> AbstractContextManager[Progress]:
        return nullcontext(lambda fraction: None)

    def note(self, text: str, **details: object) -> None:
        pass
