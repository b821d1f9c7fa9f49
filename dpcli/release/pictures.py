"""Pictures in files: written whole or not at all, and over nothing but other pictures of this kind."""

from __future__ import annotations

import os
from pathlib import Path

from dpcli.errors import OutputError, UsageError
from dpcli.release.whole import check_writable, whole_file

DRAWN_BY = "dpcli query --plot"
# What a file of each form says of its picture: what drew it, by which it is known again, and not when.
_NOTES: dict[str, dict[str, str | None]] = {
    "svg": {"Creator": DRAWN_BY, "Date": None},
    "png": {"Software": DRAWN_BY},
    "pdf": {"Creator": DRAWN_BY, "CreationDate": None},
}
# How a file of each form starts, and where in it stands what drew it.
_MARKS = {
    ".svg": (b"<?xml", f"<dc:title>{DRAWN_BY}</dc:title>".encode()),
    ".png": (b"\x89PNG\r\n\x1a\n", b"Software\0" + DRAWN_BY.encode()),
    ".pdf": (b"%PDF-", f"/Creator ({DRAWN_BY})".encode()),
}
_MOST = 100_000_000  # bytes; no picture is larger


def picture_notes(form: str) -> dict[str, str | None]:
    """Return what to write into a picture of the form svg, png or pdf beside what it shows."""
    if form not in _NOTES:
        raise UsageError("The name of a picture must end in .svg, .png or .pdf.")
    return _NOTES[form]


def check_picture(path: Path) -> None:
    """Raise ``OutputError`` if a picture could not be written to ``path``, or would replace anything else."""
    check_writable(path)
    if os.path.lexists(path) and not _drawn_here(path):
        raise OutputError(
            f"{path} is there already and is no picture that dpcli drew, so it is left alone."
            " Choose another name."
        )


def save_picture(path: Path, content: bytes) -> None:
    """Write a picture; only one that was drawn here before, or an empty file, is replaced."""
    check_picture(path)
    with whole_file(path, replace=True) as temporary:
        temporary.write_bytes(content)


def _drawn_here(path: Path) -> bool:
    """Tell whether a file is a picture of the form that its name says and was drawn here, or is empty."""
    start, mark = _MARKS[path.suffix.lower()]
    try:
        if not path.is_file() or path.stat().st_size > _MOST:
            return False
        content = path.read_bytes()
    except OSError:
        return False
    return not content or (content.startswith(start) and mark in content)
