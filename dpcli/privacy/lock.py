"""One run at a time for each dataset: a lock on a file, which the system drops when its holder ends.

The lock keeps honest runs from disturbing each other. Privacy does not hang on it: what may be spent and
published is decided in the ledger's transactions.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpcli.errors import BusyError, OutputError

POLL_SECONDS = 0.1


@contextmanager
def dataset_lock(ledger: Path, dataset: str, timeout: float) -> Iterator[None]:
    """Hold the lock of a dataset, or raise ``BusyError`` if another run keeps it for ``timeout`` seconds.

    The lock belongs to the open file, so the system drops it when the process ends, also by kill -9. The
    file itself is never removed: a run that waits has opened it already, and would come to hold a lock on a
    file without a name while a third one makes and locks a new file, so that two runs hold "the" lock.
    """
    if not re.fullmatch(r"[\w.-]+", dataset):
        raise ValueError(f"{dataset!r} is not the name of a dataset")
    try:
        real = ledger.resolve()  # another name for the same ledger must lead to the same lock
        path = real.with_name(f"{real.name}.{dataset}.lock")
        if not real.parent.is_dir():
            raise OutputError(
                f"There is no folder {ledger.parent} for the ledger. Create it, or use --ledger."
            )
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(
            f"Cannot make a lock for dataset '{dataset}' beside the ledger {ledger} ({error.strerror}). Make"
            " the ledger's folder writable, or name another ledger with --ledger."
        ) from error
    try:
        deadline = time.monotonic() + timeout
        while not _taken(handle, path):
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"Another run for dataset '{dataset}' holds the lock {path}; nothing was spent. Try again"
                    " when it has ended, or wait longer with --wait."
                )
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing would not do if a fork of this process lives on
    finally:
        os.close(handle)


def _taken(handle: int, path: Path) -> bool:
    """Try to take the lock at once."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OutputError(
            f"The lock {path} cannot be taken ({error.strerror})."
            " Keep the ledger on a disk that can lock files."
        ) from error
    return True
