"""PRIVATE: the ledger of what each dataset has spent, in SQLite, written before anything is drawn.

A release reserves its epsilon in one durable transaction and gets an :class:`Account` for it. Whatever
happens afterwards, the reservation stays spent: a crash loses budget, never privacy. Sums are exact.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dpcli.errors import BudgetError, OutputError
from dpcli.privacy.exact import exact_text

State = Literal["reserved", "released", "failed"]

_TABLES = """
CREATE TABLE IF NOT EXISTS caps (dataset TEXT PRIMARY KEY, epsilon TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS debits (
    release_id TEXT PRIMARY KEY,
    dataset TEXT NOT NULL,
    release TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    neighbors TEXT NOT NULL,
    plan_digest TEXT NOT NULL,
    time TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'released', 'failed'))
);
"""


@dataclass(frozen=True, kw_only=True)
class Debit:
    """One release's reservation, as the ledger keeps it."""

    release_id: str
    dataset: str
    release: str
    epsilon: Fraction
    neighbors: str
    plan_digest: str
    time: str = ""
    state: State = "reserved"

    def record(self) -> dict[str, object]:
        """Return the debit as the fields that are printed."""
        return {**vars(self), "epsilon": exact_text(self.epsilon)}


class Account:
    """A reserved epsilon, from which the gate takes what each measurement costs."""

    def __init__(self, epsilon: Fraction) -> None:
        self.epsilon = epsilon
        self.spent = Fraction(0)

    def debit(self, epsilon: Fraction) -> None:
        """Take epsilon from what was reserved, or raise ``BudgetError`` and take nothing."""
        if self.spent + epsilon > self.epsilon:
            raise BudgetError(
                f"A measurement would cost epsilon {exact_text(epsilon)}, but of the reserved"
                f" {exact_text(self.epsilon)} only {exact_text(self.epsilon - self.spent)} is left."
            )
        self.spent += epsilon


class Ledger:
    """Debits by dataset, in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reserve(self, debits: Sequence[Debit], cap: Fraction | None) -> list[Account]:
        """Debit all releases in one durable transaction, or raise ``BudgetError`` and debit nothing.

        ``cap`` is the dataset's lifetime budget by the plan; the lowest that was ever recorded for it holds.

        Proof: ``BEGIN IMMEDIATE`` lets one process at a time read the sum and write, so two runs cannot
        both take the last of the budget; ``synchronous = EXTRA`` puts the rows on disk before this returns,
        and nothing is drawn before. Reserved, released and failed debits all count as spent.
        """
        dataset = debits[0].dataset
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self._open(create=True) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                known = self._cap(database, dataset)
                limit = min((c for c in (cap, known) if c is not None), default=None)
                if limit is not None:
                    database.execute(
                        "INSERT OR REPLACE INTO caps VALUES (?, ?)", (dataset, exact_text(limit))
                    )
                spent = sum((debit.epsilon for debit in self._debits(database, dataset)), Fraction(0))
                asked = sum((debit.epsilon for debit in debits), Fraction(0))
                if limit is not None and spent + asked > limit:
                    raise BudgetError(
                        f"Dataset '{dataset}' has a budget of epsilon {exact_text(limit)} and has spent"
                        f" {exact_text(spent)}; this release asks for {exact_text(asked)}, and only"
                        f" {exact_text(max(limit - spent, Fraction(0)))} is left. Nothing was spent."
                        " Lower the plan's epsilon, or, if what people were promised allows it, raise the"
                        f" budget with 'dpcli ledger set-budget {dataset}'."
                    )
                database.executemany(
                    "INSERT INTO debits VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved')",
                    [
                        (
                            d.release_id,
                            d.dataset,
                            d.release,
                            exact_text(d.epsilon),
                            d.neighbors,
                            d.plan_digest,
                            now,
                        )
                        for d in debits
                    ],
                )
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
        return [Account(debit.epsilon) for debit in debits]

    def settle(self, release_id: str, state: State) -> None:
        """Note how a reserved release ended. Its epsilon stays spent in any case."""
        with self._open(create=False) as database:
            database.execute("UPDATE debits SET state = ? WHERE release_id = ?", (state, release_id))

    def set_cap(self, dataset: str, cap: Fraction) -> None:
        """Record another lifetime budget for a dataset, higher or lower."""
        with self._open(create=True) as database:
            database.execute("INSERT OR REPLACE INTO caps VALUES (?, ?)", (dataset, exact_text(cap)))

    def cap(self, dataset: str) -> Fraction | None:
        """Return the dataset's recorded lifetime budget, if there is one."""
        if not self._exists():
            return None
        with self._open(create=False) as database:
            return self._cap(database, dataset)

    def debits(self, dataset: str | None = None) -> list[Debit]:
        """Return all debits, oldest first, of one dataset or of all."""
        if not self._exists():
            return []
        with self._open(create=False) as database:
            return self._debits(database, dataset)

    def _exists(self) -> bool:
        return os.path.exists(self.path) and os.path.getsize(self.path) > 0

    @contextmanager
    def _open(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        try:
            if create and not self.path.parent.is_dir():
                raise OutputError(
                    f"There is no folder {self.path.parent} for the ledger. Create it, or use --ledger."
                )
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = EXTRA")
                if create:
                    database.executescript(_TABLES)
                yield database
        except (sqlite3.Error, OSError) as error:
            raise OutputError(
                f"The ledger {self.path} cannot be used ({error}). Check that it is a dpcli ledger and that"
                " its folder can be written, or name another with --ledger."
            ) from error

    @staticmethod
    def _cap(database: sqlite3.Connection, dataset: str) -> Fraction | None:
        row = database.execute("SELECT epsilon FROM caps WHERE dataset = ?", (dataset,)).fetchone()
        return None if row is None else Fraction(row[0])

    @staticmethod
    def _debits(database: sqlite3.Connection, dataset: str | None) -> list[Debit]:
        rows = database.execute(
            "SELECT release_id, dataset, release, epsilon, neighbors, plan_digest, time, state FROM debits"
            " WHERE ? IS NULL OR dataset = ? ORDER BY rowid",
            (dataset, dataset),
        )
        return [
            Debit(
                release_id=r[0],
                dataset=r[1],
                release=r[2],
                epsilon=Fraction(r[3]),
                neighbors=r[4],
                plan_digest=r[5],
                time=r[6],
                state=r[7],
            )
            for r in rows
        ]
