"""Where release files go, and what becomes of files that are there already."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Literal

from dpcli.errors import OutputError, ReleaseFileError
from dpcli.release.file import Release, open_release
from dpcli.release.whole import check_writable

IfExists = Literal["fail", "skip", "replace"]
SUFFIXES = (".parquet", ".pq")
_FIELDS = "There are {dataset}, {release} and {date} or {date:%Y-%m}; write {{ and }} for braces."
_FORMS = "Use %Y, %m, %d, %j (day of the year), %G and %V (year and week), letters, digits and hyphens."


def targets(
    names: Sequence[str], output: str | Path, precious: Sequence[str | Path], *, dataset: str, today: dt.date
) -> dict[str, Path]:
    """Return each release's file: ``output`` itself, or ``NAME.parquet`` in it if it is a folder.

    One release may go to a file or a folder, several go to a folder, which is made if it is not there.
    ``{dataset}``, ``{release}`` and ``{date}`` in the output stand for what they say, and several releases
    may go to files if ``{release}`` tells them apart. A folder whose name is made so is made too.
    """
    text = str(output)
    fields = {"dataset": dataset, "release": "", "date": today}
    filled = [_filled(text, {**fields, "release": name}) for name in names]
    apart = len(set(filled)) == len(names)
    folder = Path(filled[0]).is_dir() or text.endswith(("/", os.sep))
    if apart and not folder:
        found = {name: Path(file) for name, file in zip(names, filled, strict=True)}
        for path in found.values():
            check_name(path)
            if str(path.parent) != str(Path(text).parent):
                _make_folder(path.parent, parents=True)
    else:
        path = Path(filled[0])
        if not path.is_dir() and path.suffix.lower() in SUFFIXES:
            raise OutputError(
                f"The plan has {len(names)} releases, so -o must name a folder, and {path} looks like a file."
                " Or tell the files apart with {release}."
            )
        for each in filled:
            _make_folder(Path(each), parents=each != text)
        found = {name: Path(each) / f"{name}.parquet" for name, each in zip(names, filled, strict=True)}
    if len({path.resolve() for path in found.values()}) < len(found):
        raise OutputError(f"The output {text!r} gives several releases the same file. Tell them apart.")
    for target in found.values():
        for other in precious:
            _keep_away(target, Path(other))
    return found


def _filled(text: str, fields: Mapping[str, object]) -> str:
    """Fill in an output's fields; a date takes a format, as in ``{date:%Y-%m}``."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        raise OutputError(f"The output {text!r} has a brace without its other. {_FIELDS}") from None
    filled = ""
    for before, name, form, conversion in parts:
        filled += before
        if name is None:
            continue
        if name not in fields or conversion or (form and name != "date"):
            raise OutputError(f"The output {text!r} has a field that does not exist, {{{name}}}. {_FIELDS}")
        if form and not re.fullmatch(r"(%[YmdjGVu]|[\w.-])+", form, re.ASCII):
            raise OutputError(f"The output {text!r} has a date in a form that is not known. {_FORMS}")
        filled += format(fields[name], form or "")
    return filled


def _make_folder(path: Path, *, parents: bool) -> None:
    try:
        path.mkdir(exist_ok=True, parents=parents)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise OutputError(
                f"Cannot write to {path}: there is no folder {path.parent}. Create it first."
            ) from None
        raise OutputError(f"Cannot make the folder {path} for the releases ({error.strerror}).") from error


def check_name(path: Path) -> None:
    """Refuse a name that a release file should not have."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(f"A release file is Parquet; name it {path.stem}.parquet, not {path.name}.")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise OutputError("The name of the output is not UTF-8 text. Choose another name.") from None


def _keep_away(target: Path, precious: Path) -> None:
    """Refuse to write over the table or the ledger, or among the files of a table that is a folder."""
    if precious.resolve() in (target.resolve(), target.parent.resolve()):
        raise OutputError(
            f"{target} is, or lies in, the table or the ledger itself. Choose another name for the release."
        )


def existing(path: Path, dataset: str, name: str, if_exists: IfExists) -> Release | None:
    """Return the release that stands at ``path`` and is to be kept, or ``None`` if one is to be made there.

    Raises before anything is read or spent if the file may not be replaced, or cannot be written.
    """
    if os.path.lexists(path) and not path.is_dir():
        if if_exists == "skip":
            return _same_release(path, dataset, name)
        if if_exists == "replace":
            _only_a_release(path)
        if if_exists == "fail":
            raise OutputError(
                f"{path} exists already, and nothing was spent. Choose another name, or say with --if-exists"
                " what to do."
            )
    check_writable(path)
    return None


def _only_a_release(path: Path) -> None:
    """Refuse to replace what is not a release: a table, a ledger, a device, somebody's notes."""
    try:
        open_release(path)
    except ReleaseFileError as error:
        raise OutputError(
            f"{path} is to be replaced, but is no sound release. {error} Remove it yourself, or choose"
            " another name."
        ) from None


def _same_release(path: Path, dataset: str, name: str) -> Release:
    """Open a file that is to be skipped, and make sure that it is the release that would be made."""
    try:
        release = open_release(path)
    except ReleaseFileError as error:
        raise OutputError(f"{path} is to be skipped, but is no sound release. {error}") from None
    if (release.metadata.dataset, release.metadata.name) != (dataset, name):
        raise OutputError(
            f"{path} is to be skipped, but is release '{release.metadata.name}' of dataset"
            f" '{release.metadata.dataset}', not '{name}' of '{dataset}'. Choose another name."
        )
    return release
