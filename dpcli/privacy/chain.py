"""PRIVATE: an append-only chain of entries in one SQLite file, each sealed by a digest over all before it.

The digest of an entry is the SHA-256 of the JSON list [digest before, number, time, kind, body], the body
being a text of canonical JSON; before the first entry stands :data:`START`. Whoever changes, removes or
reorders entries would have to renew every later digest, which is found out by a digest that was noted
elsewhere; so is a chain whose end was cut off. Nothing is read from a chain that does not fit.

Time never goes backwards: an entry has the time of the clock, in UTC, or of the entry before it, whichever
is later. So each calendar period is one run of entries: once it was left it cannot come again, and a clock
that is set back opens no budget anew. A clock that jumps forward uses up the coming period's budget early,
and everything counts there until the real time catches up; no period is granted twice.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dpcli.errors import LedgerError, OutputError
from dpcli.privacy.entry import START, Entry, canonical, checked, seal
from dpcli.privacy.formats import Format, format_of, make_tables, take_old_tables

BUSY_SECONDS = 60
_UNREACHABLE = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
)
"""What SQLite says of a disk, not of a file's content."""
Clock = Callable[[], dt.datetime]


def utc_now() -> dt.datetime:
    """Return the system's time."""
    return dt.datetime.now(dt.UTC)


class Appending:
    """The chain within a transaction: what stands in it, what time it is, and a way to add to it."""

    def __init__(self, database: sqlite3.Connection, entries: list[Entry], now: str) -> None:
        self._database = database
        self.entries = entries
        self.now = now

    @property
    def next_number(self) -> int:
        """The number of the entry that is appended next."""
        return len(self.entries) + 1

    def append(self, kind: str, body: dict[str, Any], time: str | None = None) -> Entry:
        """Add an entry; ``time`` is for entries that are taken over, and never earlier than the last one."""
        number, before, text = self.next_number, START, canonical(body)
        time = self.now if time is None else time
        if self.entries:
            before, time = self.entries[-1].digest, max(time, self.entries[-1].time)
        entry = Entry(number, time, kind, json.loads(text), seal(before, number, time, kind, text))
        self._database.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (number, time, kind, text, entry.digest)
        )
        self.entries.append(entry)
        return entry


class Chain:
    """A chain of entries in a file. It is made with its first entry; its folder must be there."""

    def __init__(self, path: Path, clock: Clock = utc_now) -> None:
        self.path = path
        self._clock = clock

    def now(self, entries: list[Entry]) -> str:
        """Return the chain's own time: the clock's, but never before the last entry's."""
        time = self._clock().astimezone(dt.UTC).isoformat(timespec="seconds")
        return max(time, entries[-1].time) if entries else time

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first; raise ``OutputError`` naming the first one that does not fit."""
        with self._usable():
            if not self._exists():
                return []
            with closing(self._connect("rw")) as database:
                if format_of(database) == "old":
                    with self._transaction(database):
                        self._prepare(database)
                return self._read(database)

    @contextmanager
    def appending(self, *, create: bool) -> Iterator[Appending]:
        """Append entries in one transaction: all of them are on disk when this ends, or none is there.

        Proof: ``BEGIN IMMEDIATE`` lets one process at a time read and write, so what is decided from the
        entries holds when the new ones are written. ``synchronous = EXTRA`` with a rollback journal puts the
        pages, the journal and its removal on disk before COMMIT returns. A process that is killed before
        leaves a journal, by which the next one restores the file.
        """
        with self._usable():
            if create and not self.path.parent.is_dir():
                raise OutputError(
                    f"There is no folder {self.path.parent} for the ledger. Create it, or use --ledger."
                )
            with (
                closing(self._connect("rwc" if create else "rw")) as database,
                self._transaction(database),
            ):
                self._prepare(database)
                entries = self._read(database)
                yield Appending(database, entries, self.now(entries))

    def _exists(self) -> bool:
        """Whether there is anything in the file; a folder that cannot be looked into is an error."""
        try:
            return os.stat(self.path).st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _connect(self, mode: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        database.text_factory = lambda raw: raw.decode(errors="replace")  # which no digest will fit
        database.execute("PRAGMA synchronous = EXTRA")
        database.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync stops at the drive's cache
        return database

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Turn what SQLite and the system complain of into a sentence."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_FULL:
                raise OutputError(
                    f"The ledger {self.path} cannot be written: its disk is full. Free some space there."
                ) from error
            if code == sqlite3.SQLITE_BUSY:
                raise OutputError(
                    f"The ledger {self.path} has been in use by another process for {BUSY_SECONDS} seconds."
                    " Try again when that has ended."
                ) from error
            reason = str(error)
            if isinstance(error, UnicodeDecodeError) or not reason.isprintable():  # it quotes damaged bytes
                reason = "database disk image is malformed"
            damaged = not isinstance(error, OSError) and (code or 0) & 0xFF not in _UNREACHABLE
            raise (LedgerError if damaged else OutputError)(
                f"The ledger {self.path} cannot be used ({reason}). Check that it is a dpcli ledger and that"
                " its folder can be written, or name another with --ledger."
            ) from error

    @contextmanager
    def _transaction(self, database: sqlite3.Connection) -> Iterator[None]:
        if database.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            if format_of(database) != "old":
                self._read(database)  # a file that is refused is left as it is, in its mode too
            database.execute("PRAGMA journal_mode = DELETE")
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
            database.execute("COMMIT")
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Within a transaction, make the table and its guards, and take over what an older dpcli wrote."""
        form = format_of(database)
        self._refuse_foreign(form)
        try:
            taken = take_old_tables(database) if form == "old" else []
        except (ValueError, ArithmeticError):
            raise LedgerError(
                f"The ledger {self.path} has rows that cannot be understood, and is left as it is. Restore it"
                " from a copy."
            ) from None
        make_tables(database)
        chain = Appending(database, [], self.now([]))
        for time, kind, body in taken:
            chain.append(kind, body, time or None)

    def _read(self, database: sqlite3.Connection) -> list[Entry]:
        """Return the entries, having checked every number, time, body and digest."""
        form = format_of(database)
        self._refuse_foreign(form)
        found = database.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):  # rows of a lost page are not there
            raise sqlite3.DatabaseError("database disk image is malformed")
        entries: list[Entry] = []
        if form == "empty":
            return entries
        rows = database.execute("SELECT number, time, kind, body, digest FROM entries ORDER BY number")
        for number, *fields in rows.fetchall():
            entry = checked(entries[-1] if entries else None, number, *fields)
            if entry is None:
                place = len(entries) + 1
                what = "does not fit what stands before it" if number <= place else "is missing"
                raise LedgerError(
                    f"The ledger {self.path} is damaged or was altered: entry {min(number, place)} {what}."
                    " Restore it from a copy; until then it pays for nothing."
                )
            entries.append(entry)
        return entries

    def _refuse_foreign(self, form: Format) -> None:
        if form == "foreign":
            raise LedgerError(
                f"{self.path} is an SQLite file, but not a dpcli ledger by its tables, and is left as it is."
                " Name the ledger with --ledger."
            )
