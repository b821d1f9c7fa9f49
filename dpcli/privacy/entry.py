"""PRIVATE: entries of the ledger's chain, and the digests that seal them. No files."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import Any

START = "dpcli ledger"


@dataclass(frozen=True)
class Entry:
    """One entry of the chain."""

    number: int
    time: str
    kind: str
    body: dict[str, Any]
    digest: str

    def record(self) -> dict[str, object]:
        """Return the entry as the fields that are exported."""
        return dict(vars(self))


def canonical(body: dict[str, Any]) -> str:
    """Return the one JSON text of a body: sorted keys, no spaces, ASCII."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def seal(before: str, number: int, time: str, kind: str, text: str) -> str:
    """Return an entry's digest. A JSON list can be read in one way only, so no two entries share its text."""
    text = json.dumps([before, number, time, kind, text], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def checked(last: Entry | None, number: int, time: Any, kind: Any, text: Any, digest: Any) -> Entry | None:
    """Return the entry that follows the last one, or nothing if this one does not."""
    start, before, latest = (last.number, last.digest, last.time) if last else (0, START, "")
    try:
        if number != start + 1 or digest != seal(before, number, time, kind, text) or time < latest:
            return None
        body, moment = json.loads(text), dt.datetime.fromisoformat(time)
        usual = (canonical(body), moment.tzinfo, moment.isoformat(timespec="seconds")) == (text, dt.UTC, time)
        return Entry(number, time, kind, body, digest) if usual else None
    except (ValueError, TypeError, RecursionError):
        return None
