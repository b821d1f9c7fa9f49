"""A ledger that is damaged in whatever way is refused with a plain sentence, left as it is, and never begun anew."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpcli.errors import OutputError
from dpcli.privacy.chain import Appending
from dpcli.privacy.entry import canonical, seal
from dpcli.privacy.formats import SCHEMA
from dpcli.privacy.ledger import Budget, Debit, Ledger

Cli = Callable[..., Result]
Refused = Callable[..., str]
WritePlan = Callable[..., Path]
PAGE = 4096


def debit(number: int) -> Debit:
    return Debit(
        release_id=f"{number:032x}",
        dataset="town",
        release="cube",
        epsilon=Fraction(1, 50),
        neighbors="add-remove",
        plan_digest="d" * 64,
    )


@pytest.fixture
def used(ledger: Ledger) -> Ledger:
    """A ledger of several pages with a budget that is all spent."""
    ledger.set_budget("town", Budget(Fraction(1)))
    for number in range(50):
        ledger.reserve([debit(number)], [])
        ledger.settle(f"{number:032x}", "released")
    assert ledger.path.stat().st_size > 8 * PAGE
    return ledger


@pytest.fixture
def refused(driver: Any, write_plan: WritePlan, table: Path, ledger: Ledger) -> Refused:
    """Check that a ledger is refused by every command and left as it is; return why."""

    def check(*, export: bool = True) -> str:
        path, folder = ledger.path, table.parent
        plan = write_plan(privacy='  budget: "1"')
        before = contents(folder)
        commands = (
            ["release", str(plan), str(table), "-o", "out.parquet"],
            ["ledger", "show"],
            ["ledger", "verify"],
            ["ledger", "set-budget", "town", "9"],
            *([["ledger", "export"]] if export else []),
        )
        runs = [{"folder": str(folder), "words": [*words, "--ledger", str(path)]} for words in commands]
        (ended,) = driver.children([{"runs": runs}])
        reasons = {run["told"] for run in ended["runs"]}
        assert [run["code"] for run in ended["runs"]] == [5] * len(runs), ended
        assert len(reasons) == 1, reasons
        (reason,) = reasons
        assert "Internal" not in reason
        assert "Traceback" not in reason
        after = contents(folder)
        after.pop(f"{path.name}.town.lock", None)
        assert after == before
        return str(reason)

    return check


def contents(folder: Path) -> dict[str, bytes | None]:
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


def sql(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


def tamper(path: Path, script: str) -> None:
    """Change entries, past the guards."""
    guards = [name for name, text in SCHEMA.items() if "TRIGGER" in text]
    sql(path, "".join(f"DROP TRIGGER {name};" for name in guards))
    sql(path, script)
    sql(path, ";".join(SCHEMA[name] + ";" for name in guards))


class TestDamage:
    @pytest.mark.parametrize("size", [2, 15, 16, 99, 100, 512, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, -1, -PAGE])
    def test_truncated(self, used: Ledger, refused: Refused, size: int) -> None:
        os.truncate(used.path, size if size > 0 else used.path.stat().st_size + size)
        assert str(used.path) in refused()

    def test_zeroed_pages(self, used: Ledger, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        """Any page that is lost is missed."""
        content = used.path.read_bytes()
        for start in range(0, len(content), PAGE):
            used.path.write_bytes(content[:start] + bytes(PAGE) + content[start + PAGE :])
            left_alone(used, dpcli, write_plan(), table)

    def test_all_zeros(self, used: Ledger, refused: Refused) -> None:
        used.path.write_bytes(bytes(used.path.stat().st_size))
        assert "file is not a database" in refused()

    def test_swapped_pages(self, used: Ledger, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        content, draw = used.path.read_bytes(), random.Random(3)
        pages = [content[start : start + PAGE] for start in range(0, len(content), PAGE)]
        for _ in range(10):
            one, two = sorted(draw.sample(range(len(pages)), 2))
            other = [*pages]
            other[one], other[two] = other[two], other[one]
            used.path.write_bytes(b"".join(other))
            left_alone(used, dpcli, write_plan(), table)

    @pytest.mark.parametrize("times", [300, pytest.param(3000, marks=pytest.mark.slow)])
    def test_flipped_and_random_bytes(
        self, used: Ledger, dpcli: Cli, write_plan: WritePlan, table: Path, times: int
    ) -> None:
        """Damage is found, or it hit what means nothing and every entry is as it was."""
        content, draw = used.path.read_bytes(), random.Random(7)
        entries, plan, found = list(used.entries()), write_plan(), 0
        for number in range(times):
            place = number if number < 100 else draw.randrange(len(content))  # the header, then anywhere
            damaged = bytearray(content)
            if number % 3:
                damaged[place] ^= 1 << draw.randrange(8)
            else:
                damaged[place : place + draw.choice([2, 20, 200])] = draw.randbytes(draw.choice([2, 20, 200]))
            used.path.write_bytes(damaged)
            try:
                same = list(used.entries()) == entries
            except OutputError:
                used.path.write_bytes(damaged)
                left_alone(used, dpcli, plan, table)
                found += 1
                continue
            assert same, place
            result = dpcli("release", plan, table, "-o", "out.parquet", "--ledger", used.path)
            assert result.exit_code in (4, 5), (place, result.stderr)  # nothing is left to spend
            assert not Path("out.parquet").exists()
        assert found > times // 3

    def test_random_bytes_at_the_end(self, used: Ledger) -> None:
        """What SQLite does not count as part of the file changes nothing."""
        entries = list(used.entries())
        with used.path.open("ab") as file:
            file.write(random.Random(1).randbytes(3 * PAGE))
        assert list(used.entries()) == entries
        assert used.spent("town") == 1


def left_alone(ledger: Ledger, dpcli: Cli, plan: Path, table: Path) -> None:
    """Check that a release is refused without a trace, and the ledger is as it was."""
    before = ledger.path.read_bytes()
    result = dpcli("release", plan, table, "-o", "out.parquet", "--ledger", ledger.path)
    assert result.exit_code == 5, result.stderr
    assert result.stderr.startswith("Error: ")
    assert str(ledger.path) in result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path("out.parquet").exists()
    assert ledger.path.read_bytes() == before


class TestSomethingElse:
    def test_a_text(self, used: Ledger, refused: Refused) -> None:
        used.path.write_text("Dear ledger, today I spent nothing.\n" * 200)
        assert "file is not a database" in refused()

    def test_a_release_file(self, used: Ledger, refused: Refused, write_cube: Callable[..., None]) -> None:
        import numpy as np

        write_cube(used.path, np.arange(6).reshape(2, 3))
        assert "file is not a database" in refused()

    def test_a_folder(
        self, driver: Any, write_plan: WritePlan, table: Path, ledger: Ledger, tmp_path: Path
    ) -> None:
        ledger.path.mkdir()
        ended = driver.run(
            tmp_path, "release", write_plan(), table, "-o", "out.parquet", "--ledger", ledger.path
        )
        assert ended["code"] == 2
        assert "is a directory" in ended["told"]
        assert os.listdir(ledger.path) == []
        assert not (tmp_path / "out.parquet").exists()

    @pytest.mark.parametrize("mode", ["DELETE", "WAL"])
    def test_a_database_of_others(self, ledger: Ledger, refused: Refused, mode: str) -> None:
        sql(ledger.path, f"PRAGMA journal_mode = {mode}; CREATE TABLE people (name TEXT)")
        assert "is an SQLite file, but not a dpcli ledger" in refused()

    def test_entries_with_another_table_beside_them(self, used: Ledger, refused: Refused) -> None:
        sql(used.path, "CREATE TABLE notes (text TEXT)")
        assert "not a dpcli ledger by its tables" in refused()

    def test_a_damaged_one_in_another_mode(self, used: Ledger, refused: Refused) -> None:
        tamper(used.path, "DELETE FROM entries WHERE number = 7")
        sql(used.path, "PRAGMA journal_mode = WAL")
        assert "entry 7 is missing" in refused()

    def test_an_empty_file_pays_for_no_file_of_before(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, ledger: Ledger
    ) -> None:
        """A kill in the first transaction leaves an empty file, so that is a new ledger; its loss is found."""
        assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 0
        last = ledger.verify()
        assert last is not None
        os.truncate(ledger.path, 0)
        assert dpcli("ledger", "verify", "out.parquet").exit_code == 5
        assert dpcli("ledger", "verify", "--head", last.digest).exit_code == 5
        assert ledger.path.stat().st_size == 0


class TestTampering:
    """The chain's own tests name more ways; here the whole command line meets them."""

    @pytest.mark.parametrize(
        ("script", "what"),
        [
            (
                "UPDATE entries SET body = replace(body, '0.02', '0.01') WHERE number = 30",
                "entry 30 does not fit",
            ),
            ("DELETE FROM entries WHERE number = 30", "entry 30 is missing"),
            (
                "UPDATE entries SET number = -1 WHERE number = 30;"
                "UPDATE entries SET number = 30 WHERE number = 40;"
                "UPDATE entries SET number = 40 WHERE number = -1",
                "entry 30 does not fit",
            ),
        ],
        ids=["changed", "removed", "swapped"],
    )
    def test_it_is_named(self, used: Ledger, refused: Refused, script: str, what: str) -> None:
        tamper(used.path, script)
        assert f"is damaged or was altered: {what}" in refused()

    def test_cut_off_at_the_end(self, used: Ledger, driver: Any, tmp_path: Path) -> None:
        """The rest is a sound chain; only who noted a digest, or has a file, can tell."""
        digests = [entry.digest for entry in used.entries()]
        tamper(used.path, "DELETE FROM entries WHERE number > 90")
        assert used.verify() is not None
        before = used.path.read_bytes()
        for digest, code in ((digests[89], 0), (digests[90], 5), (digests[-1], 5)):
            ended = driver.run(tmp_path, "ledger", "verify", "--head", digest, "--ledger", used.path)
            assert ended["code"] == code
            assert code == 0 or "its end was cut off, or all of it was replaced" in ended["told"]
        assert used.path.read_bytes() == before

    @pytest.mark.parametrize(
        ("kind", "body", "time"),
        [
            ("refund", {"dataset": "town", "epsilon": "1"}, ""),
            ("budget", {"dataset": "town", "epsilon": "much", "per": None}, ""),
            ("budget", {"dataset": "town", "epsilon": "9", "per": "century"}, ""),
            ("budget", {"dataset": ["town"], "epsilon": "9", "per": None}, ""),
            ("settle", {"release_id": "nobody", "state": "released"}, ""),
            ("settle", {"release_id": ["a"], "state": "released"}, ""),
            ("settle", {"release_id": f"{0:032x}", "state": "failed"}, ""),
            ("debit", {"epsilon": "1"}, ""),
            ("debit", {**debit(99).body(None), "epsilon": "-1"}, ""),
            ("debit", {**debit(99).body(None), "epsilon": "1/0"}, ""),
            ("debit", {**debit(99).body(None), "share": "1"}, ""),
            ("debit", {**debit(99).body(None), "release_id": ["a"]}, ""),
            ("debit", {**debit(99).body(None), "dataset": 5}, ""),
            ("debit", {**debit(99).body(None), "group": "x"}, ""),
            ("debit", debit(0).body(None), ""),
            ("debit", debit(99).body(None), "tomorrow"),
            ("debit", debit(99).body(None), "9999-99-99T00:00:00+00:00"),
            ("debit", [], ""),
            ("debit", "debit", ""),
            ("debit", None, ""),
        ],
    )
    def test_an_entry_that_fits_but_makes_no_sense(
        self, used: Ledger, refused: Refused, kind: str, body: Any, time: str
    ) -> None:
        """A newer version, or someone who can renew digests: it is not passed over."""
        last = list(used.entries())[-1]
        text = canonical(body)
        time = time or last.time
        digest = seal(last.digest, last.number + 1, time, kind, text)
        with closing(sqlite3.connect(used.path)) as database, database:
            row = (last.number + 1, time, kind, text, digest)
            database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        reason = refused(export=False)  # which asks for entries that fit, and not what they mean
        assert f"ntry {last.number + 1} " in reason

    def test_a_newer_version(self, used: Ledger, refused: Refused) -> None:
        sql(used.path, "ALTER TABLE entries ADD COLUMN signature TEXT")
        assert "not a dpcli ledger by its tables" in refused()


class TestLeftovers:
    """What a process that is killed within a commit leaves beside the ledger."""

    @pytest.fixture
    def cut(self, used: Ledger, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, bytes, bytes]:
        """The ledger before and after a transaction, and its journal as it is right before it is removed."""
        used.set_budget("town", Budget(Fraction(2)))
        before, kept = used.path.read_bytes(), used.path.with_name("kept")
        real = Appending.append

        def append(self: Appending, *arguments: Any) -> Any:
            entry = real(self, *arguments)
            if not kept.exists():
                os.link(f"{used.path}-journal", kept)
            return entry

        with monkeypatch.context() as patch:
            patch.setattr(Appending, "append", append)
            used.reserve([debit(number) for number in range(100, 150)], [])
        journal = kept.read_bytes()
        kept.unlink()
        assert len(journal) > 2 * PAGE
        return before, used.path.read_bytes(), journal

    def test_a_torn_commit_is_rolled_back_whole(self, used: Ledger, cut: tuple[bytes, bytes, bytes]) -> None:
        """Whichever pages had reached the disk, all of the debits are gone, and nothing else."""
        before, after, journal = cut
        draw = random.Random(5)
        for _ in range(40):
            used.path.write_bytes(torn(before, after, draw))
            Path(f"{used.path}-journal").write_bytes(journal)
            assert used.spent("town") == 1
            assert used.path.read_bytes()[24:28] == before[24:28]  # SQLite's count of changes
            assert not Path(f"{used.path}-journal").exists()
        used.reserve([debit(number) for number in range(100, 150)], [])
        assert used.spent("town") == 2

    def test_a_torn_commit_meets_a_release(
        self,
        used: Ledger,
        cut: tuple[bytes, bytes, bytes],
        driver: Any,
        write_plan: WritePlan,
        table: Path,
        sound: Callable[..., dict[str, Path]],
    ) -> None:
        before, after, journal = cut
        used.path.write_bytes(torn(before, after, random.Random(6)))
        Path(f"{used.path}-journal").write_bytes(journal)
        ended = driver.run(
            table.parent, "release", write_plan(), table, "-o", "out.parquet", "--ledger", used.path
        )
        assert ended["code"] == 0, ended
        assert used.spent("town") == 2
        assert len(sound(used)) == 1

    def test_a_journal_that_was_not_finished_changes_nothing(
        self, used: Ledger, cut: tuple[bytes, bytes, bytes]
    ) -> None:
        """Pages are written when the journal is on disk, so as long as it is short they are as they were."""
        before, _, journal = cut
        for size in (0, 1, 11, 27, 28, 512, 513, 600, PAGE, len(journal) - 1):
            used.path.write_bytes(before)
            Path(f"{used.path}-journal").write_bytes(journal[:size])
            assert used.spent("town") == 1
            used.reserve([debit(200)], [])
            assert used.spent("town") == 1 + Fraction(1, 50)

    def test_a_finished_commit_keeps_its_debits(self, used: Ledger, cut: tuple[bytes, bytes, bytes]) -> None:
        """Without a journal, or with one whose head is wiped, the transaction is done."""
        _, after, journal = cut
        for leftover in (None, bytes(28) + journal[28:], b""):
            used.path.write_bytes(after)
            if leftover is not None:
                Path(f"{used.path}-journal").write_bytes(leftover)
            assert used.spent("town") == 2
            assert used.verify() is not None

    @pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
    def test_somebodys_notes_under_that_name(self, used: Ledger, end: str) -> None:
        entries = list(used.entries())
        Path(f"{used.path}{end}").write_text("notes\n" * 2000)
        assert list(used.entries()) == entries
        used.set_budget("town", Budget(Fraction(2)))
        assert list(used.entries())[:-1] == entries

    def test_a_write_ahead_log_of_another_program(self, used: Ledger, tmp_path: Path) -> None:
        """Somebody turned the mode, added a sound entry, and was killed: the entry is in the log alone."""
        last = list(used.entries())[-1]
        text = canonical(debit(100).body(None))
        digest = seal(last.digest, last.number + 1, last.time, "debit", text)
        with closing(sqlite3.connect(used.path)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            with database:
                row = (last.number + 1, last.time, "debit", text, digest)
                database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            for end in ("", "-wal"):
                shutil.copy(f"{used.path}{end}", tmp_path / f"copy.sqlite{end}")
        log = (tmp_path / "copy.sqlite-wal").read_bytes()
        copy = Ledger(tmp_path / "copy.sqlite")
        assert len(log) > 0
        assert copy.spent("town") == 1 + Fraction(1, 50)
        copy.set_budget("town", Budget(Fraction(3)))
        assert copy.spent("town") == 1 + Fraction(1, 50)
        assert copy.path.read_bytes()[18:20] == b"\x01\x01"  # no log any more
        assert not (tmp_path / "copy.sqlite-wal").exists()

    def test_a_log_that_was_torn_keeps_whole_transactions(self, used: Ledger, tmp_path: Path) -> None:
        with closing(sqlite3.connect(used.path)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA wal_autocheckpoint = 0")
            before, time = list(used.entries())[-1].digest, list(used.entries())[-1].time
            for number in range(102, 107):
                text = canonical(debit(number).body(None))
                before = seal(before, number, time, "debit", text)
                with database:
                    row = (number, time, "debit", text, before)
                    database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            main = used.path.read_bytes()
            log = Path(f"{used.path}-wal").read_bytes()
        copy = Ledger(tmp_path / "copy.sqlite")
        seen = set()
        for size in range(0, len(log) + 1, 1500):
            copy.path.write_bytes(main)
            Path(f"{copy.path}-wal").write_bytes(log[:size])
            seen.add(copy.spent("town"))
            assert copy.verify() is not None
        assert seen <= {1 + Fraction(number, 50) for number in range(6)}
        assert len(seen) > 2


def torn(before: bytes, after: bytes, draw: random.Random) -> bytes:
    """Return a file of which some pages are of the one and some of the other state."""
    assert len(before) < len(after)
    pages = [
        (after if draw.random() < 0.5 or start >= len(before) else before)[start : start + PAGE]
        for start in range(0, len(after), PAGE)
    ]
    return b"".join(pages[: draw.randint(len(before) // PAGE, len(pages))])
