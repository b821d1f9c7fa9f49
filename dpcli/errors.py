"""Every error that a user can cause, with the exit code that scripts rely on.

A message is one or two plain sentences: what is wrong, where, and what to do. It never holds a value
that was read from a private table.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DpcliError(Exception):
    """An error to show to the user as it is, without a traceback."""

    exit_code = 1


class UsageError(DpcliError):
    """The command line, a query, or an output path is wrong."""

    exit_code = 2


class PlanError(UsageError):
    """The release plan is wrong."""


class QueryError(UsageError):
    """A question that cannot be understood or does not fit the release."""


class DataError(DpcliError):
    """The table does not fit the plan."""

    exit_code = 3


class BudgetError(DpcliError):
    """The privacy budget does not allow this release."""

    exit_code = 4


class ReleaseFileError(DpcliError):
    """A release file is damaged, foreign, or claims what its content does not support."""

    exit_code = 5


class OutputError(UsageError):
    """An output file cannot be written."""


class LedgerError(OutputError):
    """The ledger is damaged, was altered, or is not one."""

    exit_code = 5


class BusyError(DpcliError):
    """Another run for the same dataset is under way; later this one may work."""

    exit_code = 6


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest choice, or an empty string when none is near."""
    folded = {choice.casefold(): choice for choice in choices}
    near = get_close_matches(word.casefold(), list(folded), n=1, cutoff=0.6)
    return f" Did you mean '{folded[near[0]]}'?" if near else ""


def listed(words: Iterable[object], most: int = 12) -> str:
    """Return the words as ``a, b, c``, cut after ``most`` of them."""
    texts = [str(word) for word in words]
    tail = f", … ({len(texts)} in all)" if len(texts) > most else ""
    return ", ".join(texts[:most]) + tail
