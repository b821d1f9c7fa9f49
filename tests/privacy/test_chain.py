"""The chain under the ledger: sealed, append-only, durable, and never silently begun anew."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dpcli.errors import OutputError
from dpcli.privacy import chain as chain_module
from dpcli.privacy.chain import Chain
from dpcli.privacy.entry import Entry

OLD_TABLES = """
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


def at(text: str) -> Callable[[], dt.datetime]:
    return lambda: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def add(chain: Chain, *texts: str) -> None:
    for text in texts:
        with chain.appending(create=True) as book:
            book.append("note", {"text": text})


def run_sql(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


def tamper(path: Path, script: str) -> None:
    """Change entries as someone would who can write to the file, guards or no guards."""
    with closing(sqlite3.connect(path)) as database:
        guards = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            database.execute(f"DROP TRIGGER {name}")
        database.executescript(script)
        for _, sql in guards:
            database.execute(sql)


def texts(entries: list[Entry]) -> list[str]:
    return [entry.body["text"] for entry in entries]


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path / "ledger.sqlite")


def test_an_unused_chain_is_empty_and_not_created(chain: Chain) -> None:
    assert chain.entries() == []
    assert not chain.path.exists()


def test_digests_are_what_the_help_says(chain: Chain) -> None:
    add(chain, "one", "zwei, drei: ü")
    before = "dpcli ledger"
    for entry in chain.entries():
        body = json.dumps(entry.body, sort_keys=True, separators=(",", ":"))
        sealed = json.dumps([before, entry.number, entry.time, entry.kind, body], separators=(",", ":"))
        before = hashlib.sha256(sealed.encode()).hexdigest()
        assert entry.digest == before
    assert [entry.number for entry in chain.entries()] == [1, 2]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}'",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries VALUES (2, '', '', '', '')",
        "INSERT INTO entries VALUES (7, '', '', '', '')",
    ],
)
def test_entries_are_only_appended(chain: Chain, statement: str) -> None:
    add(chain, "a", "b", "c")
    before = chain.entries()
    with (
        closing(sqlite3.connect(chain.path)) as database,
        pytest.raises(sqlite3.IntegrityError, match=r"never|follows"),
    ):
        database.execute(statement)
    assert chain.entries() == before


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ('UPDATE entries SET body = \'{"text":"x"}\' WHERE number = 2', "entry 2 does not fit"),
        ('UPDATE entries SET body = \'{ "text":"b"}\' WHERE number = 2', "entry 2 does not fit"),
        ("UPDATE entries SET body = x'00' WHERE number = 3", "entry 3 does not fit"),
        ("UPDATE entries SET kind = 'x' WHERE number = 4", "entry 4 does not fit"),
        ("UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE number = 1", "entry 1 does not fit"),
        ("UPDATE entries SET digest = 'x' WHERE number = 3", "entry 3 does not fit"),
        ("UPDATE entries SET number = 0 WHERE number = 1", "entry 0 does not fit"),
        ("DELETE FROM entries WHERE number = 1", "entry 1 is missing"),
        ("DELETE FROM entries WHERE number = 3", "entry 3 is missing"),
        (
            "DELETE FROM entries WHERE number = 2; UPDATE entries SET number = number - 1 WHERE number > 2",
            "entry 2 does not fit",
        ),
        (
            "UPDATE entries SET number = 9 WHERE number = 2; UPDATE entries SET number = 2 WHERE number = 3;"
            " UPDATE entries SET number = 3 WHERE number = 9",
            "entry 2 does not fit",
        ),
        (
            "INSERT INTO entries SELECT 5, time, kind, body, digest FROM entries WHERE number = 4",
            "entry 5 does not fit",
        ),
    ],
)
def test_tampering_is_named_and_nothing_is_read_or_added(chain: Chain, script: str, what: str) -> None:
    add(chain, "a", "b", "c", "d")
    tamper(chain.path, script)
    before = chain.path.read_bytes()
    expected = re.escape(f"The ledger {chain.path} is damaged or was altered: {what}")
    with pytest.raises(OutputError, match=expected):
        chain.entries()
    with pytest.raises(OutputError, match=expected):
        add(chain, "e")
    assert chain.path.read_bytes() == before


def test_a_renewed_chain_has_other_digests_and_a_cut_one_lacks_the_last(chain: Chain, tmp_path: Path) -> None:
    add(chain, "a", "b", "c")
    head = chain.entries()[-1].digest
    tamper(chain.path, "DELETE FROM entries WHERE number = 3")
    assert texts(chain.entries()) == ["a", "b"]
    add(chain, "not c")
    assert head not in {entry.digest for entry in chain.entries()}


def test_dropped_guards_come_back(chain: Chain) -> None:
    add(chain, "a")
    run_sql(chain.path, "DROP TRIGGER no_delete")
    add(chain, "b")
    with closing(sqlite3.connect(chain.path)) as database, pytest.raises(sqlite3.IntegrityError):
        database.execute("DELETE FROM entries")


class TestTime:
    def test_it_does_not_go_backwards(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        times = ["2026-03-31T10:00:00", "2026-02-01T10:00:00", "2026-03-31T10:00:01", "2030-01-01T00:00:00"]
        for time in [*times, "2026-04-01T00:00:00"]:
            add(Chain(path, at(time)), "x")
        assert [entry.time[:19] for entry in Chain(path).entries()] == [
            "2026-03-31T10:00:00",
            "2026-03-31T10:00:00",
            "2026-03-31T10:00:01",
            "2030-01-01T00:00:00",
            "2030-01-01T00:00:00",
        ]
        entries = Chain(path).entries()
        assert Chain(path, at("2026-04-01T00:00:00")).now(entries) == "2030-01-01T00:00:00+00:00"

    def test_other_time_zones_are_turned_into_utc(self, tmp_path: Path) -> None:
        zone = dt.timezone(dt.timedelta(hours=2))
        chain = Chain(tmp_path / "l", lambda: dt.datetime(2026, 4, 1, 1, tzinfo=zone))
        assert chain.now([]) == "2026-03-31T23:00:00+00:00"

    def test_one_transaction_has_one_time(self, tmp_path: Path) -> None:
        clock = iter(at(f"2026-03-31T23:59:5{second}")() for second in range(10))
        chain = Chain(tmp_path / "ledger.sqlite", lambda: next(clock))
        with chain.appending(create=True) as book:
            for text in "abc":
                book.append("note", {"text": text})
        assert len({entry.time for entry in chain.entries()}) == 1


class TestDurability:
    def test_the_strictest_settings(self, chain: Chain) -> None:
        add(chain, "a")
        run_sql(chain.path, "PRAGMA journal_mode = WAL")
        with chain.appending(create=True) as book:
            for pragma, value in (("synchronous", 3), ("journal_mode", "delete"), ("busy_timeout", 60_000)):
                assert book._database.execute(f"PRAGMA {pragma}").fetchone() == (value,)

    def test_all_entries_of_a_transaction_or_none(self, chain: Chain) -> None:
        add(chain, "a")
        with pytest.raises(KeyboardInterrupt), chain.appending(create=True) as book:
            book.append("note", {"text": "b"})
            raise KeyboardInterrupt
        assert texts(chain.entries()) == ["a"]

    def test_what_was_acknowledged_survives_kill_9(self, chain: Chain) -> None:
        code = (
            "import sys\nfrom pathlib import Path\nfrom dpcli.privacy.chain import Chain\n"
            "chain, number = Chain(Path(sys.argv[1])), 0\n"
            "while True:\n"
            "    with chain.appending(create=True) as book: book.append('note', {'text': str(number)})\n"
            "    print(number, flush=True)\n    number += 1\n"
        )
        acknowledged = -1
        for lines in (3, 1, 5):
            before = len(chain.entries())
            with subprocess.Popen([sys.executable, "-c", code, chain.path], stdout=subprocess.PIPE) as run:
                assert run.stdout is not None
                for _ in range(lines):
                    acknowledged = int(run.stdout.readline())
                run.kill()
                for line in run.stdout:
                    acknowledged = int(line)
            found = texts(chain.entries())[before:]
            assert found[: acknowledged + 1] == [str(number) for number in range(acknowledged + 1)]
            assert len(found) <= acknowledged + 2  # one more may have been written, but not told

    @pytest.mark.parametrize("first", [True, False])
    def test_a_transaction_that_is_killed_leaves_nothing(self, chain: Chain, first: bool) -> None:
        if not first:
            add(chain, "a")
        code = (
            "import os, signal, sys\nfrom pathlib import Path\nfrom dpcli.privacy.chain import Chain\n"
            "with Chain(Path(sys.argv[1])).appending(create=True) as book:\n"
            "    book._database.execute('PRAGMA cache_size = 1')\n"  # spill into the file before COMMIT
            "    for n in range(300): book.append('note', {'text': 'x' * 1000})\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, chain.path])
        assert done.returncode == -signal.SIGKILL
        assert os.path.getsize(f"{chain.path}-journal") > 0
        assert texts(chain.entries()) == ([] if first else ["a"])
        add(chain, "b")
        assert texts(chain.entries())[-1] == "b"

    def test_a_writer_that_does_not_end(self, chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
        add(chain, "a")
        monkeypatch.setattr(chain_module, "BUSY_SECONDS", 0.1)
        with closing(sqlite3.connect(chain.path)) as database:
            database.execute("BEGIN IMMEDIATE")
            assert texts(chain.entries()) == ["a"]  # reading goes on
            with pytest.raises(OutputError) as caught:
                add(chain, "b")
        assert str(caught.value) == (
            f"The ledger {chain.path} has been in use by another process for 0.1 seconds. Try again when that"
            " has ended."
        )


class TestUnusableFiles:
    def refused(self, path: Path) -> str:
        """Return why a file is refused, for reading and writing, when it is left as it was."""
        before = path.read_bytes()
        with pytest.raises(OutputError) as reading:
            Chain(path).entries()
        with pytest.raises(OutputError) as writing:
            add(Chain(path), "x")
        assert path.read_bytes() == before
        assert str(reading.value) == str(writing.value)
        return str(writing.value)

    def test_somebodys_notes(self, tmp_path: Path) -> None:
        path = tmp_path / "notes"
        path.write_bytes(b"this is not a database, but somebody's notes" * 100)
        assert self.refused(path) == (
            f"The ledger {path} cannot be used (file is not a database). Check that it is a dpcli ledger and"
            " that its folder can be written, or name another with --ledger."
        )

    @pytest.mark.parametrize(
        "script",
        [
            "CREATE TABLE people (name TEXT)",
            "CREATE TABLE entries (text TEXT)",
            "CREATE TABLE debits (text TEXT); CREATE TABLE people (name TEXT)",
        ],
    )
    def test_a_database_of_others(self, tmp_path: Path, script: str) -> None:
        path = tmp_path / "other.sqlite"
        run_sql(path, script)
        assert self.refused(path) == (
            f"{path} is an SQLite file, but not a dpcli ledger by its tables, and is left as it is."
            " Name the ledger with --ledger."
        )

    @pytest.mark.parametrize(
        "script",
        [
            "CREATE TRIGGER swallow BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
            "DROP TRIGGER no_update; CREATE TRIGGER no_update BEFORE INSERT ON entries"
            " BEGIN SELECT RAISE(IGNORE); END",
        ],
    )
    def test_triggers_of_others(self, chain: Chain, script: str) -> None:
        add(chain, "a")
        run_sql(chain.path, script)
        assert "not a dpcli ledger by its tables" in self.refused(chain.path)

    @pytest.mark.parametrize("change", ["cut", "cut at a page", "lost page"])
    def test_damaged(self, chain: Chain, change: str) -> None:
        add(chain, *("x" * 2000 for _ in range(20)))
        content, page = chain.path.read_bytes(), 4096
        damaged = {
            "cut": content[:-1000],
            "cut at a page": content[: -3 * page],
            "lost page": content[: -2 * page] + bytes(page) + content[-page:],
        }
        chain.path.write_bytes(damaged[change])
        assert ("entry 20 does not fit" if change == "cut" else "malformed") in self.refused(chain.path)

    def test_an_empty_file_is_an_empty_chain(self, chain: Chain) -> None:
        chain.path.touch()
        assert chain.entries() == []
        add(chain, "a")
        assert texts(chain.entries()) == ["a"]

    def test_a_mistyped_folder(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError) as caught:
            add(Chain(tmp_path / "typo" / "ledger.sqlite"), "a")
        assert str(caught.value) == (
            f"There is no folder {tmp_path}/typo for the ledger. Create it, or use --ledger."
        )

    def test_a_folder_that_cannot_be_looked_into_is_no_empty_ledger(
        self, chain: Chain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(path: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(chain_module.os, "stat", denied)
        with pytest.raises(OutputError, match="cannot be used"):
            chain.entries()

    def test_odd_names(self, tmp_path: Path) -> None:
        chain = Chain(tmp_path / "a b?mode=ro#%41.sqlite")
        add(chain, "a")
        assert texts(chain.entries()) == ["a"]
        assert [path.name for path in tmp_path.iterdir()] == ["a b?mode=ro#%41.sqlite"]


class TestFirstFormat:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "ledger.sqlite"
        run_sql(path, OLD_TABLES)
        with closing(sqlite3.connect(path)) as database, database:
            rows = [
                ("a", "town", "cube", "0.3", "add-remove", "p1", "2026-01-31T23:00:00+00:00", "released"),
                ("b", "town", "jobs", "1/3", "replace-one", "p1", "2026-02-01T00:00:00+00:00", "failed"),
                ("c", "city", "cube", "2", "add-remove", "p2", "2025-12-01T00:00:00+00:00", "reserved"),
            ]
            database.executemany("INSERT INTO debits VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            database.execute("INSERT INTO caps VALUES ('town', '5')")
        return path

    def test_it_is_taken_over_with_times_ids_and_states(self, path: Path) -> None:
        entries = Chain(path, at("2026-03-01T00:00:00")).entries()
        assert [(entry.kind, entry.time[:10]) for entry in entries] == [
            ("debit", "2025-12-01"),
            ("debit", "2026-01-31"),
            ("settle", "2026-01-31"),
            ("debit", "2026-02-01"),
            ("settle", "2026-02-01"),
            ("budget", "2026-03-01"),
        ]
        assert entries[1].body == {
            "release_id": "a",
            "dataset": "town",
            "release": "cube",
            "epsilon": "0.3",
            "neighbors": "add-remove",
            "plan_digest": "p1",
            "unit": "row",
            "parallel": None,
            "group": None,
            "old": True,
        }
        assert entries[5].body == {"dataset": "town", "epsilon": "5", "per": None}
        assert Chain(path).entries() == entries  # once only

    def test_the_older_program_is_kept_out(self, path: Path) -> None:
        add(Chain(path), "x")
        for statement in (
            "INSERT INTO debits VALUES ('d', 'town', 'cube', '1', 'add-remove', 'p', '2026', 'reserved')",
            "SELECT epsilon FROM caps WHERE dataset = 'town'",
            "UPDATE debits SET state = 'failed' WHERE release_id = 'a'",
        ):
            with closing(sqlite3.connect(path)) as database:
                database.executescript(OLD_TABLES)
                with pytest.raises(sqlite3.OperationalError):
                    database.execute(statement)
        assert texts(Chain(path).entries()[-1:]) == ["x"]

    @pytest.mark.parametrize(
        "script",
        [
            "UPDATE debits SET time = 'yesterday' WHERE release_id = 'b'",
            "UPDATE debits SET epsilon = '-1' WHERE release_id = 'b'",
            "UPDATE caps SET epsilon = '1/0'",
            "UPDATE caps SET dataset = x'00'",
        ],
    )
    def test_rows_that_make_no_sense(self, path: Path, script: str) -> None:
        run_sql(path, script)
        assert TestUnusableFiles().refused(path) == (
            f"The ledger {path} has rows that cannot be understood, and is left as it is. Restore it from a"
            " copy."
        )

    def test_a_half_made_one(self, tmp_path: Path) -> None:
        path = tmp_path / "half.sqlite"
        run_sql(path, "CREATE TABLE caps (dataset TEXT PRIMARY KEY, epsilon TEXT NOT NULL)")
        assert Chain(path).entries() == []
        add(Chain(path), "a")
        assert texts(Chain(path).entries()) == ["a"]
