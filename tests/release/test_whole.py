"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dpcli.errors import OutputError
from dpcli.release.whole import cannot_write, check_writable, whole_file


def test_the_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with whole_file(path, replace=False) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        assert temporary.parent == path.parent
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "a.txt", replace=False) as temporary:
        temporary.write_text("half")
        _ = 1 / 0
    assert os.listdir(tmp_path) == []


def test_an_error_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(path, replace=True) as temporary:
        temporary.write_text("half")
        _ = 1 / 0
    assert path.read_text() == "old"


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(OutputError) as caught, whole_file(path, replace=False) as temporary:
        temporary.write_text("mine")
        path.write_text("somebody else's")
    assert str(caught.value) == (
        f"Cannot write {path}: it exists already. Choose another name, or remove it first."
    )
    assert path.read_text() == "somebody else's"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "a.txt"
    with pytest.raises(OutputError) as caught, whole_file(path, replace=False) as temporary:
        temporary.write_text("much")
    assert str(caught.value) == (
        f"Cannot write {path}: the disk is full. Free some space or choose another folder."
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, "permission denied. Choose another folder or change its permissions."),
        (errno.EROFS, "the file system is read-only. Choose another folder."),
        (errno.EIO, "Input/output error. Choose another folder."),
    ],
)
def test_reasons(code: int, reason: str) -> None:
    assert cannot_write(Path("x"), OSError(code, os.strerror(code))) == f"Cannot write x: {reason}"


def test_check_writable(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.parquet")
    assert os.listdir(tmp_path) == []
    with pytest.raises(OutputError) as caught:
        check_writable(tmp_path / "nowhere" / "new.parquet")
    assert str(caught.value) == (
        f"Cannot write {tmp_path}/nowhere/new.parquet: there is no folder {tmp_path}/nowhere. Create it first."
    )
    with pytest.raises(OutputError) as caught:
        check_writable(tmp_path)
    assert str(caught.value) == f"Cannot write {tmp_path}: it is a folder. Name a file."


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_check_writable_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="permission denied"):
        check_writable(tmp_path / "new.parquet")
    tmp_path.chmod(0o700)
