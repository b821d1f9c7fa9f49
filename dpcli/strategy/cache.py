"""A cache of strategies that took long to find, in the user's folder for what can be made again.

It is not trusted: what is read from it is a public strategy whose norm, and with it the noise, is worked out
anew from its integers. A forged entry may make answers worse but never less private.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Return ``$DPCLI_CACHE``, or else the platform's folder for what can be made again."""
    if given := os.environ.get("DPCLI_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dpcli"


def read(name: str) -> Any:
    """Return the entry of that name, or nothing if there is none or it is damaged."""
    try:
        return json.loads((cache_folder() / f"{name}.json").read_text())
    except (OSError, RuntimeError, ValueError):
        return None


def write(name: str, entry: Any) -> None:
    """Keep an entry, whole or not at all; a folder that cannot be written to is no error."""
    with suppress(OSError, RuntimeError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(entry, file)
            os.replace(temporary, folder / f"{name}.json")
        finally:
            Path(temporary).unlink(missing_ok=True)
