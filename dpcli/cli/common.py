"""What all commands share: their common options, how errors end them, and where output goes."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dpcli.cli.log import LOGS, VARIABLE, Log
from dpcli.errors import DpcliError, OutputError
from dpcli.progress import Reporter, Silent

if TYPE_CHECKING:
    from dpcli.reader import Cube


_PLAINLY = str.maketrans({"─": "-", "–": "-", "…": "..."})


def speaks_unicode(stream: TextIO) -> bool:
    """Tell whether a stream has all characters."""
    return (stream.encoding or "ascii").lower().replace("-", "").startswith("utf")


class Output:
    """Results go to stdout in the format asked for; progress and messages go to stderr."""

    def __init__(self, form: str, quiet: bool, log: Log) -> None:
        self.form = form
        self.quiet = quiet
        self.log = log
        self._told = False

    def records(
        self,
        records: Iterable[Mapping[str, object]],
        columns: Sequence[str] | None = None,
        *,
        tall: bool = False,
    ) -> None:
        """Print records as they come, or as a table; ``columns`` default to those of the first record.

        ``tall`` turns the table, for records with many columns: a row for each, a column for each record.
        """
        from dpcli.cli import render

        stream = self.stream()
        if columns is None:
            records = list(records)
            columns = list(records[0]) if records else ()
        if tall and self.form == "table":
            records = list(records)
            turned = [{"": name, **{str(k): r[name] for k, r in enumerate(records)}} for name in columns]
            texts = render.as_table(turned, list(turned[0]), header=False)
        else:
            texts = render.FORMATS[self.form](records, columns)
        for text in texts:
            stream.write(self._fitting(text, stream))
        stream.flush()

    def text(self, text: str) -> None:
        """Print text on stdout as it is."""
        stream = self.stream()
        click.echo(self._fitting(text, stream), file=stream, nl=not text.endswith("\n"))

    def stream(self) -> TextIO:
        """Return stdout; raises ``OutputError`` if there is none."""
        if sys.stdout is None:
            raise OutputError(
                "Standard output is closed, so there is nowhere to print to; send it somewhere, if only to"
                " /dev/null."
            )
        return sys.stdout

    def _fitting(self, text: str, stream: TextIO) -> str:
        """Write what stdout has no characters for otherwise: escaped in JSON and CSV, else as ``?``."""
        encoding = stream.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            pass
        else:
            return text
        if self.form in ("json", "jsonl"):
            return re.sub(r"[^\x00-\x7f]", lambda sign: json.dumps(sign[0])[1:-1], text)
        plain = text if self.form == "csv" else text.translate(_PLAINLY)
        errors = "backslashreplace" if self.form == "csv" else "replace"
        fitting = plain.encode(encoding, errors).decode(encoding)
        if fitting != plain and not self._told:
            self._told = True
            instead = "escaped" if self.form == "csv" else "written as ?"
            self.warn(
                f"Warning: Standard output is {encoding}, so characters that it lacks are {instead}."
                " Set PYTHONIOENCODING=utf-8 to have them."
            )
        return fitting

    def note(self, text: str) -> None:
        """Tell something on stderr, unless ``--quiet``."""
        if not self.quiet:
            self.log.tell("info", text)

    def warn(self, text: str) -> None:
        """Tell on stderr, also with ``--quiet``, what nobody may overlook."""
        self.log.tell("warning", text)

    def reporter(self) -> Reporter:
        """Return what shows progress, unless ``--quiet``."""
        return Silent() if self.quiet else self.log.reporter()


Function = Callable[..., None]


def command(function: Function) -> Function:
    """Add ``--format`` and what every command has; the function gets an :class:`Output` first."""
    choice = click.Choice(["table", "json", "jsonl", "csv"])
    form = click.option("--format", "form", type=choice, default="table", help="Output format.")
    return form(plain_command(function))


def plain_command(function: Function) -> Function:
    """Add ``--quiet``, ``--log-format`` and ``--debug``; turn errors into messages and exit codes."""

    @click.option(
        "-q", "--quiet", is_flag=True, help="No progress and no messages; only results and warnings."
    )
    @click.option(
        "--log-format",
        type=click.Choice(list(LOGS)),
        default="text",
        envvar=VARIABLE,
        help="How messages on stderr are written. Also DPCLI_LOG_FORMAT.",
    )
    @click.option("--debug", is_flag=True, help="Show a traceback on errors. It may show private values.")
    @functools.wraps(function)
    def run(
        *args: Any, quiet: bool, log_format: str, debug: bool, form: str = "table", **options: Any
    ) -> None:
        log = LOGS[log_format]()
        stopped: list[int] = []

        def stop(number: int, frame: object) -> None:
            stopped.append(number)
            raise KeyboardInterrupt

        with suppress(ValueError):  # only the main thread may; elsewhere nothing is to be done
            signal.signal(signal.SIGTERM, stop)
            signal.signal(signal.SIGINT, stop)
        try:
            function(Output(form, quiet, log), *args, **options)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            # The reader (head, less) has left; keep Python from complaining about it at exit.
            if sys.stdout is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except (Exception, KeyboardInterrupt) as caught:
            if debug:
                traceback.print_exc()
            error = _interrupt(caught) if stopped else caught
            usage = 2 if isinstance(error, OSError) else 1
            code = error.exit_code if isinstance(error, DpcliError) else usage
            log.tell("error", _message(error), exit_code=code)
            sys.exit(code)

    return run


def _interrupt(error: BaseException) -> BaseException:
    """Return an interrupt for what came of one; a library that calls back may turn it into another error."""
    if isinstance(error, KeyboardInterrupt):
        return error
    interrupt = KeyboardInterrupt()
    for note in getattr(error, "__notes__", ()):
        interrupt.add_note(note)
    return interrupt


def _message(error: BaseException) -> str:
    """Return what to tell the user; of an unforeseen error only its kind, for its text may be private."""
    if isinstance(error, DpcliError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        words = "Interrupted."
    elif isinstance(error, OSError):
        words = f"Cannot use {error.filename or 'the output'}: {error.strerror}."
    elif isinstance(error, MemoryError):
        words = "Not enough memory. Use wider bins or fewer attributes, or run on a larger machine."
    else:
        words = (
            f"Internal error ({type(error).__name__}). Run again with --debug to see where, and report it."
        )
    return " ".join([words, *getattr(error, "__notes__", ())])


def default_ledger() -> str:
    """Return where the ledger is kept when neither ``--ledger`` nor DPCLI_LEDGER says; make its folder."""
    folder = Path(click.get_app_dir("dpcli"))
    if not folder.is_absolute():  # XDG_CONFIG_HOME is empty or relative, which counts as not set
        folder = Path("~/.config/dpcli").expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(
            f"Cannot make the folder {folder} for the ledger ({error.strerror}). Name a ledger with --ledger."
        ) from None
    return str(folder / "ledger.sqlite")


ledger_option = click.option(
    "--ledger",
    type=click.Path(dir_okay=False),
    envvar="DPCLI_LEDGER",
    default=default_ledger,
    show_default="ledger.sqlite in the user's dpcli folder",
    help="The ledger of what each dataset has spent. Also DPCLI_LEDGER.",
)


def open_and_warn(output: Output, path: str) -> Cube:
    """Open a release file; say so if it is not private, or is about some rows only."""
    from dpcli import api
    from dpcli.release.guarantee import NOT_PRIVATE

    release = api.open_release(path)
    if not release.metadata.private:
        output.warn(f"{path} is {NOT_PRIVATE}")
    if release.metadata.where is not None:
        output.note(f"{path} counts only rows where {release.metadata.where}.")
    return release
