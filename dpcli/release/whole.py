"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpcli.errors import OutputError

PART = ".part"


@contextmanager
def whole_file(
    path: Path, *, replace: bool, tidy: bool = True, before_it_appears: Callable[[], None] | None = None
) -> Iterator[Path]:
    """Give a temporary name in the same folder; on success sync it to disk and rename it to ``path``.

    ``before_it_appears`` is called between the two; if it raises, the file never has its name. Until then
    nobody but its owner may read it. If the renaming fails after it, the temporary file stays, for the file
    was announced and is the only one of its kind; see :func:`leftovers`. ``tidy`` removes what killed runs
    left more than a day ago.
    Without ``replace`` an existing file, also one that appears meanwhile, is kept and an error raised.
    """
    temporary: Path | None = None
    announced, handle = False, -1
    try:
        if tidy:
            _remove_stale(path)
        temporary, handle = _own_name(path)
        yield temporary
        _sync(temporary)
        if before_it_appears is not None:
            announced = True  # an interrupt may come when it is noted and not told yet
            try:
                before_it_appears()
            except Exception:
                announced = False
                raise
        appear(temporary, path, replace=replace)
    except OSError as error:
        raise OutputError(cannot_write(path, error)) from error
    finally:
        if temporary is not None:
            os.close(handle)
            if not announced:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)


def appear(temporary: Path, path: Path, *, replace: bool) -> None:
    """Let a file that is complete appear under its name, with the usual rights."""
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    if replace:
        os.replace(temporary, path)
    else:
        _rename_to_new(temporary, path)
    with suppress(OSError):  # the file is there, and some file systems cannot sync a folder
        _sync(path.parent)


def leftovers(path: Path) -> list[Path]:
    """Return what killed runs left beside ``path``, the newest last; what is being written is left out."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(PART)}")
    found = path.parent.iterdir() if path.parent.is_dir() else ()
    left = [part for part in found if name.fullmatch(part.name) and _is_left(part)]
    return sorted(left, key=lambda part: part.stat().st_mtime_ns)


def _is_left(part: Path) -> bool:
    """Whether nobody writes a file: who does holds a lock on it, which the system drops when it ends."""
    try:
        handle = os.open(part, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def check_writable(path: Path) -> None:
    """Raise ``OutputError`` now if ``path`` could not be written later."""
    if not path.parent.is_dir():
        raise OutputError(f"Cannot write {path}: there is no folder {path.parent}. Create it first.")
    if path.is_dir():
        raise OutputError(f"Cannot write {path}: it is a folder. Name a file.")
    try:
        temporary, handle = _own_name(path)
        temporary.unlink(missing_ok=True)
        os.close(handle)
    except OSError as error:
        raise OutputError(cannot_write(path, error)) from error


def _own_name(path: Path) -> tuple[Path, int]:
    """Make an empty file beside ``path`` whose name no other process or thread has, for its owner alone.

    It is locked until its handle, which comes second, is closed.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
    with suppress(OSError):  # a file system without locks: then a file of a live run may count as left
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Path(name), handle


def _remove_stale(path: Path) -> None:
    """Remove what killed runs left beside ``path`` more than a day ago."""
    with suppress(OSError):
        for part in leftovers(path):
            if time.time() - part.stat().st_mtime > 86_400:
                part.unlink()


def cannot_write(path: Path, error: OSError) -> str:
    """Say in plain words why ``path`` could not be written."""
    remedies = {
        errno.ENOSPC: "the disk is full. Free some space or choose another folder",
        errno.EDQUOT: "the disk quota is used up. Free some space or choose another folder",
        errno.EFBIG: "it is larger than a file may be there. Choose another folder or raise the limit",
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
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
