"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpcli.errors import OutputError


@contextmanager
def whole_file(path: Path, *, replace: bool) -> Iterator[Path]:
    """Give a temporary name in the same folder; on success sync it to disk and rename it to ``path``.

    Without ``replace`` an existing file, also one that appears meanwhile, is kept and an error raised.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        _sync(temporary)
        if replace:
            os.replace(temporary, path)
        else:
            _rename_to_new(temporary, path)
        _sync(path.parent)
    except OSError as error:
        raise OutputError(cannot_write(path, error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise ``OutputError`` now if ``path`` could not be written later."""
    if not path.parent.is_dir():
        raise OutputError(f"Cannot write {path}: there is no folder {path.parent}. Create it first.")
    if path.is_dir():
        raise OutputError(f"Cannot write {path}: it is a folder. Name a file.")
    probe = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(cannot_write(path, error)) from error


def cannot_write(path: Path, error: OSError) -> str:
    """Say in plain words why ``path`` could not be written."""
    remedies = {
        errno.ENOSPC: "the disk is full. Free some space or choose another folder",
        errno.EDQUOT: "the disk quota is used up. Free some space or choose another folder",
        errno.EACCES: "permission denied. Choose another folder or change its permissions",
        errno.EPERM: "permission denied. Choose another folder or change its permissions",
        errno.EROFS: "the file system is read-only. Choose another folder",
        errno.EEXIST: "it exists already. Choose another name, or remove it first",
        errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    }
    reason = remedies.get(error.errno or 0, f"{error.strerror or error}. Choose another folder")
    return f"Cannot write {path}: {reason}."


def _rename_to_new(temporary: Path, path: Path) -> None:
    """Rename without ever overwriting: a hard link fails where the name exists."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.rename(temporary, path)  # a file system without hard links


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
