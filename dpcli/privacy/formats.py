"""PRIVATE: the tables of a ledger file, and those of the first format read as entries."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal

SCHEMA = {
    "entries": "CREATE TABLE entries (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL,"
    " body TEXT NOT NULL, digest TEXT NOT NULL)",
    "no_update": "CREATE TRIGGER no_update BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "no_delete": "CREATE TRIGGER no_delete BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
    "no_replace": "CREATE TRIGGER no_replace BEFORE INSERT ON entries"
    " WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM entries)"
    " BEGIN SELECT RAISE(ABORT, 'an entry follows the last one'); END",
    # A dpcli of the first format would make these tables, and not see the entries: these views stop it.
    "caps": "CREATE VIEW caps AS SELECT 'this ledger needs a newer dpcli' AS note",
    "debits": "CREATE VIEW debits AS SELECT 'this ledger needs a newer dpcli' AS note",
}
"""What a ledger file is made of: the entries, what guards them, and what keeps older programs out."""

_OLD = {"caps", "debits"}
_COLUMNS = ("release_id", "dataset", "release", "epsilon", "neighbors", "plan_digest", "time", "state")

Format = Literal["empty", "old", "entries", "foreign"]


def format_of(database: sqlite3.Connection) -> Format:
    """Tell what kind of file this is, by its tables, triggers and views."""
    found = _found(database)
    if not found:
        return "empty"
    if "entries" in found and found.items() <= SCHEMA.items():
        return "entries"
    old = all(name in _OLD and sql.startswith("CREATE TABLE") for name, sql in found.items())
    return "old" if old else "foreign"


def make_tables(database: sqlite3.Connection) -> None:
    """Make what is not there yet."""
    found = _found(database)
    for name, sql in SCHEMA.items():
        if name not in found:
            database.execute(sql)


def take_old_tables(database: sqlite3.Connection) -> list[tuple[str, str, dict[str, Any]]]:
    """Remove the old tables; return time, kind and body of the entries that say the same, in order of time.

    Every debit keeps its id, time, epsilon and state, and is marked ``old``: the first dpcli noted a release
    after its file had appeared, so one that is reserved or failed may have been published, and must not be
    resumed. The old format did not note when a budget was set: budgets come last, and without a time.
    Raises ``ValueError`` if a row cannot be understood.
    """
    found = _found(database)
    taken = list(_debits(database)) if "debits" in found else []
    taken += list(_caps(database)) if "caps" in found else []
    for name in found:
        database.execute(f"DROP TABLE {name}")
    return taken


def _debits(database: sqlite3.Connection) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for row in database.execute(f"SELECT {', '.join(_COLUMNS)} FROM debits ORDER BY time, rowid"):
        *values, time, state = map(_text, row)
        debit = dict(zip(_COLUMNS, values, strict=False))
        if Fraction(debit["epsilon"]) <= 0 or state not in ("reserved", "released", "failed"):
            raise ValueError("no debit")
        time = dt.datetime.fromisoformat(time).astimezone(dt.UTC).isoformat(timespec="seconds")
        yield time, "debit", {**debit, "unit": "row", "parallel": None, "group": None, "old": True}
        if state != "reserved":
            yield time, "settle", {"release_id": debit["release_id"], "state": state}


def _caps(database: sqlite3.Connection) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for row in database.execute("SELECT dataset, epsilon FROM caps ORDER BY dataset"):
        dataset, epsilon = map(_text, row)
        if Fraction(epsilon) <= 0:
            raise ValueError("no budget")
        yield "", "budget", {"dataset": dataset, "epsilon": epsilon, "per": None}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _found(database: sqlite3.Connection) -> dict[str, str]:
    """Return name and SQL of everything in the file that SQLite did not make for itself."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'")
    return dict(rows.fetchall())
