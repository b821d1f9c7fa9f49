"""Messages on stderr: sentences for people, or with ``--log-format json`` one JSON object per line."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol

import click

from dpcli.progress import Progress, Reporter, Silent

VARIABLE = "DPCLI_LOG_FORMAT"
_RUN = f"{os.getpid()}-{time.time():.0f}"  # tells the lines of runs apart that go to one file
Level = Literal["info", "warning", "error"]


class Log(Protocol):
    """What tells the user how things go."""

    def tell(self, level: Level, text: str, **details: Any) -> None:
        """Write one message."""

    def reporter(self) -> Reporter:
        """Return what shows the progress of long work."""


class TextLog:
    """Sentences, and bars on a terminal."""

    def tell(self, level: Level, text: str, **details: Any) -> None:
        wrapped = _wrapped(f"Error: {text}" if level == "error" else text)
        with suppress(OSError, ValueError):  # nobody reads it: that is no reason to stop
            styled = click.style(wrapped, fg="yellow", bold=True) if level == "warning" else wrapped
            click.echo(styled, err=True)

    def reporter(self) -> Reporter:
        return Bars() if _terminal() else Silent()


class JsonLog:
    """One object per line: time (UTC), run, level, message, and details such as a stage's seconds."""

    def tell(self, level: Level, text: str, **details: Any) -> None:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "run": _RUN, "level": level, "message": text, **details}
        whole = (getattr(sys.stderr, "encoding", None) or "").lower().startswith("utf")
        with suppress(OSError, ValueError):  # nobody reads the log: that is no reason to stop
            click.echo(json.dumps(line, ensure_ascii=not whole), err=True)

    def reporter(self) -> Reporter:
        return _Stages(self)


class _Stages:
    """A line for each stage of the work when it has ended."""

    def __init__(self, log: JsonLog) -> None:
        self._log = log

    @contextmanager
    def stage(self, text: str) -> Iterator[Progress]:
        start = time.monotonic()
        yield lambda fraction: None
        self._log.tell("info", text, seconds=round(time.monotonic() - start, 3))

    def note(self, text: str, **details: object) -> None:
        self._log.tell("info", text, **details)


class Bars:
    """A progress bar with a time estimate for each stage."""

    @contextmanager
    def stage(self, text: str) -> Iterator[Progress]:
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        with RichProgress(console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(text, total=1.0)
            yield lambda fraction: bars.update(task, completed=fraction)

    def note(self, text: str, **details: object) -> None:
        pass


LOGS: dict[str, type[TextLog] | type[JsonLog]] = {"text": TextLog, "json": JsonLog}


class LoggedGroup(click.Group):
    """A group of commands whose usage errors are JSON lines too, if that is asked for."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        if getattr(sys.stdout, "errors", None) == "strict":
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        words = sys.argv[1:] if args is None else list(args)
        if not _wants_json(words) or not options.get("standalone_mode", True):
            return super().main(args, *rest, **options)
        try:
            code = super().main(args, *rest, **{**options, "standalone_mode": False})
        except click.ClickException as error:
            JsonLog().tell("error", error.format_message(), exit_code=error.exit_code)
            sys.exit(error.exit_code)
        except click.Abort:
            JsonLog().tell("error", "Interrupted.", exit_code=1)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _wants_json(words: Sequence[str]) -> bool:
    """Whether JSON is asked for, in a command line that may be wrong otherwise."""
    for place, word in enumerate(words):
        if word.startswith("--log-format"):
            value = word.partition("=")[2] or "".join(words[place + 1 : place + 2])
            return value == "json"
    return os.environ.get(VARIABLE) == "json"


def _terminal() -> bool:
    """Whether people see stderr as it is written; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def _wrapped(text: str) -> str:
    """Break long lines between words on a terminal; leave them whole for files and pipes."""
    if not _terminal():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in text.splitlines())
