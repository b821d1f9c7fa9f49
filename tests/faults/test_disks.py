"""Read-only and full disks: nothing half-written, nothing drawn without a debit, and a plain word on it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpcli.privacy.ledger import Ledger
from dpcli.release.file import open_release

Sound = Callable[..., dict[str, Path]]
WritePlan = Callable[..., Path]
MEASURE = {"at": "dpcli.privacy.gate:Probe.measure", "do": "kill before"}
"""Put where nothing may be drawn: a run that draws would be killed, and not end with a message."""

RESERVE = "dpcli.privacy.ledger:Ledger.reserve"
SETTLE = "dpcli.privacy.ledger:Ledger.settle"
WRITE = "dpcli.publish:write_release"
BATCH = "pyarrow.parquet:ParquetWriter.write_batch"
TOO_LARGE = "it is larger than a file may be there. Choose another folder or raise the limit."
SPENT = (
    "Epsilon 1 is spent all the same. Not produced: cube. When the cause is mended, run again: what is missing"
    " is not paid for twice."
)


def limit(at: str, size: int) -> dict[str, Any]:
    """No file can become larger than so many bytes from there on, as on a disk that is full."""
    return {"at": at, "do": "limit", "value": size}


@pytest.fixture
def release(write_plan: WritePlan, table: Path, ledger: Ledger) -> Callable[..., Sequence[object]]:
    """The words of a release."""

    def words(output: Path, book: Path | None = None, ages: int = 10) -> Sequence[object]:
        plan = write_plan(privacy='  budget: "5"', replace=("[0, 9]", f"[0, {ages - 1}]"))
        return "release", plan, table, "-o", output, "--ledger", book or ledger.path

    return words


def mounted(driver: Any, *words: object) -> None:
    if not driver.call("mount", *words):
        pytest.skip("this cannot be mounted here")


def read_only(driver: Any, path: Path) -> None:
    """Make a file or a folder read-only, for root too, in the driver's eyes."""
    mounted(driver, "--bind", path, path)
    mounted(driver, "-o", "remount,bind,ro", path)


def small_disk(driver: Any, path: Path) -> Path:
    """Mount a disk of 256 kB in the driver's eyes; return where its content is seen from here."""
    path.mkdir()
    mounted(driver, "-t", "tmpfs", "-o", "size=256k", "tmpfs", path)
    return Path(f"/proc/{driver.pid}/root") / path.relative_to("/")


def names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


class TestReadOnly:
    def test_the_output_folder(
        self, own_mounts: Any, release: Callable[..., Any], tmp_path: Path, ledger: Ledger
    ) -> None:
        folder = tmp_path / "out"
        folder.mkdir()
        read_only(own_mounts, folder)
        output = folder / "out.parquet"
        ended = own_mounts.run(tmp_path, *release(output), faults=[MEASURE])
        assert (ended["code"], ended["told"]) == (
            2,
            f"Error: Cannot write {output}: the file system is read-only. Choose another folder.\n",
        )
        assert ledger.debits() == []
        assert names(folder) == set()

    def test_the_output_folder_becomes_it_after_the_debit(
        self, driver: Any, release: Callable[..., Any], tmp_path: Path, ledger: Ledger, sound: Sound
    ) -> None:
        turned = {
            "at": "tempfile:mkstemp",
            "do": "fail",
            "value": errno.EROFS,
            "call": 2,
        }  # the first is a trial
        output = tmp_path / "out.parquet"
        ended = driver.run(tmp_path, *release(output), faults=[turned])
        assert (ended["code"], ended["told"]) == (
            2,
            f"Error: Cannot write {output}: the file system is read-only. Choose another folder. {SPENT}\n",
        )
        assert [debit.state for debit in ledger.debits()] == ["failed"]
        assert sound(ledger) == {}

    @pytest.mark.parametrize("used", [False, True])
    def test_the_folder_of_the_ledger(
        self, own_mounts: Any, release: Callable[..., Any], tmp_path: Path, sound: Sound, used: bool
    ) -> None:
        folder = tmp_path / "books"
        folder.mkdir()
        book = folder / "ledger.sqlite"
        if used:
            assert own_mounts.run(tmp_path, *release(tmp_path / "first.parquet", book))["code"] == 0
        before = {name: (folder / name).read_bytes() for name in names(folder)}
        read_only(own_mounts, folder)
        output = tmp_path / "out.parquet"
        ended = own_mounts.run(tmp_path, *release(output, book), faults=[MEASURE])
        assert (ended["code"], ended["told"]) == (
            2,
            f"Error: Cannot make a lock for dataset 'town' beside the ledger {book} (Read-only file system)."
            " Make the ledger's folder writable, or name another ledger with --ledger.\n",
        )
        assert {name: (folder / name).read_bytes() for name in names(folder)} == before
        assert not output.exists()
        for command in ("show", "verify"):  # what it says can still be read
            there = 0 if used or command == "show" else 5
            assert own_mounts.run(tmp_path, "ledger", command, "--ledger", book)["code"] == there
        assert len(sound(Ledger(book), tmp_path)) == used

    def test_the_ledger_alone(
        self, own_mounts: Any, release: Callable[..., Any], tmp_path: Path, ledger: Ledger, sound: Sound
    ) -> None:
        assert own_mounts.run(tmp_path, *release(tmp_path / "first.parquet"))["code"] == 0
        before = ledger.path.read_bytes()
        read_only(own_mounts, ledger.path)
        output = tmp_path / "out.parquet"
        ended = own_mounts.run(tmp_path, *release(output), faults=[MEASURE])
        assert ended["code"] == 2
        assert ended["told"].startswith(
            f"Error: The ledger {ledger.path} cannot be used (attempt to write a readonly"
        )
        assert not output.exists()
        assert ledger.path.read_bytes() == before
        assert len(sound(ledger)) == 1

    def test_the_ledger_becomes_it_after_the_draw(
        self, own_mounts: Any, release: Callable[..., Any], tmp_path: Path, ledger: Ledger, sound: Sound
    ) -> None:
        """SQLite refuses to write; the release was paid for, but must not appear."""
        turned = {"at": "dpcli.privacy.chain:Chain._connect", "do": "fail", "value": errno.EROFS, "call": 2}
        output = tmp_path / "out.parquet"
        ended = own_mounts.run(tmp_path, *release(output), faults=[turned])
        assert ended["code"] == 2
        assert "Read-only file system" in ended["told"]
        assert ended["told"].endswith(f"{SPENT}\n")
        assert sound(ledger) == {}
        assert [debit.state for debit in ledger.debits()] == ["failed"]  # the disk was well again for that


class TestFullForTheOutput:
    """Whatever of a release does not fit any more, nothing of it is left."""

    def check(self, ended: dict[str, Any], output: Path, ledger: Ledger, sound: Sound, reason: str) -> None:
        assert (ended["code"], ended["told"]) == (2, f"Error: Cannot write {output}: {reason} {SPENT}\n")
        assert [debit.state for debit in ledger.debits()] == ["failed"]
        assert sound(ledger) == {}

    @pytest.mark.parametrize("size", [0, 1, 4, 100, 1000])
    def test_no_file_may_grow(
        self,
        driver: Any,
        release: Callable[..., Any],
        tmp_path: Path,
        ledger: Ledger,
        sound: Sound,
        size: int,
    ) -> None:
        full = [limit(WRITE, size), {"at": "dpcli.publish:_note_failed", "do": "limit", "value": -1}]
        output = tmp_path / "out.parquet"
        ended = driver.run(tmp_path, *release(output), faults=full)
        self.check(ended, output, ledger, sound, TOO_LARGE)
        assert names(tmp_path) == {"ledger.sqlite", "ledger.sqlite.town.lock", "people.csv", "plan.yaml"}
        assert driver.run(tmp_path, *release(output))["code"] == 0
        assert len(sound(ledger)) == 1

    @pytest.mark.parametrize("place", [WRITE, BATCH], ids=["at once", "in the midst"])
    def test_the_disk_is_full(
        self,
        own_mounts: Any,
        release: Callable[..., Any],
        tmp_path: Path,
        ledger: Ledger,
        sound: Sound,
        place: str,
    ) -> None:
        folder = tmp_path / "disk"
        seen = small_disk(own_mounts, folder)
        output, filler = folder / "out.parquet", folder / "filler"
        full = [{"at": place, "do": "fill", "value": str(filler)}]
        ended = own_mounts.run(tmp_path, *release(output, ages=1000), faults=full)
        self.check(
            ended,
            output,
            ledger,
            sound,
            "the disk is full. Free some space or choose another folder.",
        )
        assert names(seen) == {"filler"}
        (seen / "filler").unlink()
        assert own_mounts.run(tmp_path, *release(output))["code"] == 0
        shutil.copy(seen / "out.parquet", tmp_path / "copy.parquet")
        assert len(sound(ledger)) == 1

    def test_the_folder_cannot_be_synced_any_more(
        self, driver: Any, release: Callable[..., Any], tmp_path: Path, ledger: Ledger, sound: Sound
    ) -> None:
        """The file has its name then, and is told of as released; some disks cannot sync a folder at all."""
        broken = {"at": "dpcli.release.whole:_sync", "do": "fail", "value": errno.EINVAL, "call": 2}
        ended = driver.run(tmp_path, *release(tmp_path / "out.parquet"), faults=[broken])
        assert ended["code"] == 0, ended
        assert "Not produced" not in ended["told"]
        assert len(sound(ledger)) == 1

    def test_the_limit_kills(
        self, driver: Any, release: Callable[..., Any], tmp_path: Path, ledger: Ledger, sound: Sound
    ) -> None:
        """Where the signal of the limit is not ignored it ends the process in the midst of a write."""
        code = (
            "import resource, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
            "import dpcli.publish as publish\nreal = publish.write_release\n"
            "def write(*a, **k):\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))\n    real(*a, **k)\n"
            "publish.write_release = write\n"
            "from dpcli.cli import main\nmain(sys.argv[1:])\n"
        )
        words = [str(word) for word in release(tmp_path / "out.parquet")]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True)
        assert done.returncode == -signal.SIGXFSZ
        assert [debit.state for debit in ledger.debits()] == ["reserved"]
        assert sound(ledger) == {}
        assert driver.run(tmp_path, *release(tmp_path / "out.parquet"))["code"] == 0
        assert len(sound(ledger)) == 1


class TestFullForTheLedger:
    @pytest.mark.parametrize("size", [0, 512, 5000])
    def test_nothing_is_drawn_that_cannot_be_debited(
        self,
        driver: Any,
        release: Callable[..., Any],
        tmp_path: Path,
        ledger: Ledger,
        sound: Sound,
        size: int,
    ) -> None:
        output = tmp_path / "out.parquet"
        ended = driver.run(tmp_path, *release(output), faults=[limit(RESERVE, size), MEASURE])
        assert ended["code"] == 2, ended
        assert ended["told"].startswith(f"Error: The ledger {ledger.path} cannot be used (")
        assert not output.exists()
        assert ledger.debits() == []
        assert driver.run(tmp_path, *release(output))["code"] == 0
        assert len(sound(ledger)) == 1

    @pytest.mark.parametrize("size", [0, 512, 5000])
    def test_nothing_appears_that_cannot_be_settled(
        self,
        driver: Any,
        release: Callable[..., Any],
        tmp_path: Path,
        ledger: Ledger,
        sound: Sound,
        size: int,
    ) -> None:
        output = tmp_path / "out.parquet"
        ended = driver.run(tmp_path, *release(output), faults=[limit(SETTLE, size)])
        assert ended["code"] == 2, ended
        assert ended["told"].startswith(f"Error: The ledger {ledger.path} cannot be used (")
        assert ended["told"].endswith(f"{SPENT}\n")
        assert not output.exists()
        assert [debit.state for debit in ledger.debits()] == ["reserved"]
        assert not [name for name in names(tmp_path) if name.endswith(".part")]
        assert driver.run(tmp_path, *release(output))["code"] == 0
        assert len(sound(ledger)) == 1
        assert ledger.spent("town") == 1  # the debit that was not settled has paid for it

    @pytest.mark.parametrize("place", [RESERVE, SETTLE], ids=["reserve", "settle"])
    def test_the_disk_is_full(
        self, own_mounts: Any, release: Callable[..., Any], tmp_path: Path, sound: Sound, place: str
    ) -> None:
        folder = tmp_path / "disk"
        seen = small_disk(own_mounts, folder)
        book, output = folder / "ledger.sqlite", tmp_path / "out.parquet"
        assert own_mounts.run(tmp_path, *release(tmp_path / "first.parquet", book))["code"] == 0
        full = [{"at": place, "do": "fill", "value": str(folder / "filler")}]
        ended = own_mounts.run(
            tmp_path, *release(output, book), faults=[*full, *([MEASURE] if place == RESERVE else [])]
        )
        assert ended["code"] == 2, ended
        assert f"The ledger {book} cannot be written: its disk is full. Free some space" in ended["told"]
        assert ended["told"].endswith(f"{SPENT}\n") == (place == SETTLE)
        assert not output.exists()
        (seen / "filler").unlink()
        copy = tmp_path / "copy.sqlite"
        for end in ("", "-journal"):
            if (seen / f"ledger.sqlite{end}").exists():
                shutil.copy(seen / f"ledger.sqlite{end}", f"{copy}{end}")
        states = ["released"] if place == RESERVE else ["released", "reserved"]
        assert [debit.state for debit in Ledger(copy).debits()] == states
        assert len(sound(Ledger(copy))) == 1
        assert own_mounts.run(tmp_path, *release(output, book))["code"] == 0
        files = tmp_path / "first.parquet", output
        assert own_mounts.run(tmp_path, "ledger", "verify", *files, "--ledger", book)["code"] == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_result_that_cannot_be_printed(
    release: Callable[..., Any], tmp_path: Path, ledger: Ledger, sound: Sound, form: str
) -> None:
    """The release is made and paid for; that it could not be told is an error all the same."""
    command = [sys.executable, "-m", "dpcli", *map(str, release(tmp_path / "out.parquet")), "--format", form]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith(f"Error: Cannot use the output: {os.strerror(errno.ENOSPC)}.\n")
    assert "Traceback" not in done.stderr
    assert open_release(tmp_path / "out.parquet").metadata.id in sound(ledger)
