"""``dpcli query``: questions to a release file."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpcli import api
from dpcli.cli.common import Output, command, open_and_warn, speaks_unicode
from dpcli.errors import UsageError

if TYPE_CHECKING:
    from dpcli.cli.plot import Bars
    from dpcli.estimate.table import Table
    from dpcli.reader import Cube

TERMINAL = "-"
PICTURES = (".svg", ".png", ".pdf")


@click.command(no_args_is_help=True)
@click.argument("release", type=click.Path(readable=False))
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...")
@click.option(
    "--by",
    metavar="A,B",
    multiple=True,
    help="One answer for each combination of these attributes' categories.",
)
@click.option("--sql", metavar="SELECT", help="A statement with COUNT, SUM or AVG instead of conditions.")
@click.option(
    "--workload",
    metavar="SPEC",
    help="Many conditions: a file, random:N[:SEED], marginals:K or prefixes:ATTR.",
)
@click.option(
    "--interval",
    "level",
    type=float,
    default=0.95,
    show_default=True,
    help="The probability with which low to high holds the true value.",
)
@click.option(
    "--simultaneous", is_flag=True, help="Let all intervals hold at once with that probability (Bonferroni)."
)
@click.option(
    "--interpolate", is_flag=True, help="Allow cuts inside a bin, whose rows are taken as evenly spread."
)
@click.option(
    "--estimator",
    type=click.Choice(["least-squares", "mmse"]),
    help="For a release by ispe: how cells and regions are put together (least-squares).",
)
@click.option(
    "--neighbours",
    type=click.Choice(["weighted", "printed", "off"]),
    help="For a release by ispe: what a cell's neighbours in its region say about it (weighted).",
)
@click.option(
    "--plot",
    is_flag=False,
    flag_value=TERMINAL,
    metavar="[FILE]",
    help="Draw the answers by one attribute, in the terminal or into a FILE.svg, .png or .pdf."
    " Of files that are there, only pictures drawn so are replaced.",
)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Write the answers to a FILE.csv, .json, .jsonl or .parquet."
    " Of files that are there, only answers are replaced.",
)
@command
def query(
    output: Output,
    release: str,
    conditions: tuple[str, ...],
    by: tuple[str, ...],
    sql: str | None,
    workload: str | None,
    level: float,
    simultaneous: bool,
    interpolate: bool,
    estimator: str | None,
    neighbours: str | None,
    plot: str | None,
    target: str | None,
) -> None:
    """Count the rows that fulfil each CONDITION, with the error of the answer.

    A condition is written as in a SQL WHERE clause, over the attributes' labels: =, <>, <, <=, >, >=,
    between, in (…), is null, and, or, not. A hierarchy's node stands for all its leaves. Without a
    condition, everything is counted. Asking costs no privacy.

    \b
    low to high holds the true value with the probability of --interval; how says how that is known:
      exact      from the exact law of the noise
      normal     from an approximation, close to normal, for the many draws of noise in it
      posterior  from cells, their regions and neighbours, for a release by ispe
      none       there is none: the release was thresholded, or nothing is averaged

    Sums take each value as its bin's middle, or as the plan says. An average's interval is Fieller's.

    \b
    Examples:
      dpcli query cube.parquet "age between 30 and 39 and sex = 'F'"
      dpcli query cube.parquet "occupation = 'Health'" "occupation in ('Nurse', 'Dentist')" --by sex
      dpcli query cube.parquet --by age --plot
      dpcli query cube.parquet --sql "SELECT sex, AVG(age) FROM release GROUP BY sex"
      dpcli query cube.parquet --workload marginals:2 -o answers.parquet
      dpcli query cube.parquet "income >= 50000 and income < 80000" --interval 0.99 --format json
    """
    _check(conditions, by, sql, workload, plot, target)
    opened = open_and_warn(output, release)
    asking = opened.ask(
        level,
        simultaneous=simultaneous,
        interpolate=interpolate,
        estimator=estimator,
        neighbours=neighbours,
    )
    if neighbours in ("off", "printed"):
        output.warn(
            f"With --neighbours {neighbours} intervals take the regions as given, though noise has shaped"
            " them, and hold less often than they say."
        )
    tables: Iterable[Table]
    if sql is not None:
        tables = [asking.statement(sql)]
    elif workload is not None:
        tables = asking.workload(workload)
    else:
        tables = [asking.conditions(conditions, _names(by))]
    tables = _told(output, tables)
    if target is not None:
        count = api.export(target, tables)
        output.note(f"Wrote {count:,} answers to {target}.")
    elif plot is not None:
        _draw(opened, output, next(tables), plot, level, sql=sql is not None)
    else:
        first = next(tables)
        rest = itertools.chain.from_iterable(table.records() for table in itertools.chain([first], tables))
        output.records(map(_rounded, rest) if output.form == "table" else rest, first.columns)


def _check(
    conditions: tuple[str, ...],
    by: tuple[str, ...],
    sql: str | None,
    workload: str | None,
    plot: str | None,
    target: str | None,
) -> None:
    """Refuse options that do not go together."""
    asked = {"CONDITION": bool(conditions), "--sql": sql is not None, "--workload": workload is not None}
    given = [name for name, there in asked.items() if there]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} can't go together; ask one after the other.")
    if by and (sql is not None or workload is not None):
        raise UsageError(
            "--by goes with conditions. In --sql write GROUP BY; for --workload use marginals:K."
        )
    if plot is not None and target is not None:
        raise UsageError("--plot and -o can't go together; ask twice.")
    if plot is not None and workload is not None:
        raise UsageError(
            "--plot draws the answers by one attribute, so it can't go with --workload; use --by."
        )
    given_format = click.get_current_context().get_parameter_source("form") is ParameterSource.COMMANDLINE
    if given_format and (plot is not None or target is not None):
        what = "--plot draws" if plot is not None else "-o takes its format from the file's name"
        raise UsageError(f"{what}, so --format can't go with it.")
    if plot not in (None, TERMINAL) and Path(plot or "").suffix.lower() not in PICTURES:
        raise UsageError(
            f"{plot!r} was taken as the name of the picture, which must end in {', '.join(PICTURES)}."
            " Put conditions before --plot."
        )
    if plot not in (None, TERMINAL):
        api.check_picture(plot or "")
    if target is not None:
        api.check_export(target)


def _names(by: tuple[str, ...]) -> list[str]:
    """Read ``a,b``; a name in double quotes may hold a comma."""
    import csv

    names: list[str] = []
    for text in by:
        try:
            found = [
                name.strip() for name in next(csv.reader([text], skipinitialspace=True, strict=True), [])
            ]
        except csv.Error:
            raise UsageError(
                f"--by can't be read from {text!r}. Separate names by commas; put a name with a comma in"
                " double quotes, and close them."
            ) from None
        if not found or not all(found):
            raise UsageError("--by needs the names of attributes, as in --by age,sex.")
        names += found
    return names


def _told(output: Output, tables: Iterable[Table]) -> Iterator[Table]:
    """Pass tables on, and print what goes with them once."""
    known: set[str] = set()
    for table in tables:
        for text in table.warnings:
            if text not in known:
                output.warn(f"Warning: {text}")
        for text in table.notes:
            if text not in known:
                output.note(f"Note: {text}")
        known.update(table.warnings, table.notes)
        yield table


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    """Let people see as many digits as the error leaves."""
    from dpcli.cli.render import Rounded

    error = record["stderr"]
    if error is None:
        return record
    shown = {name: record[name] for name in ("value", "low", "high") if record[name] is not None}
    return {**record, **{name: Rounded.by_error(value, error) for name, value in shown.items()}}


def _draw(release: Cube, output: Output, table: Table, plot: str, level: float, *, sql: bool) -> None:
    from dpcli.cli.plot import chart, picture

    bars, left_out = _bars(release, table, sql)
    if left_out:
        output.note(f"Not drawn, because they have no place in the order: {', '.join(left_out)}.")
    if plot == TERMINAL:
        stream = output.stream()
        width = shutil.get_terminal_size((100, 24)).columns
        output.text(chart(bars, width=width, color=stream.isatty(), ascii=not speaks_unicode(stream)))
    else:
        content = picture(bars, Path(plot).suffix, level=level, private=release.metadata.private)
        api.save_picture(plot, content)
        output.note(f"Drew {plot}.")


def _bars(release: Cube, table: Table, sql: bool) -> tuple[Bars, list[str]]:
    """Return what to draw, and the categories of a long ordered attribute that have no place in its order."""
    from dpcli.cli.plot import MOST_BARS, Bars

    questions = {table.text(place) for place in range(min(len(table), 1000))}
    if len(table.groups) != 1 or len(questions) > 1:
        raise UsageError(
            "--plot draws one question by one attribute: give one --by, or one aggregate with one GROUP BY."
        )
    if not questions:
        raise UsageError("There is nothing to draw: the condition leaves no category.")
    ((name, labels),) = table.groups.items()
    attribute = release.domain[name]
    text = questions.pop()
    title = text if sql else "rows" if text == "true" else f"rows where {text}"
    beside = {attribute.labels()[code] for code in range(attribute.regular, attribute.size)}
    line = attribute.ordered and len(labels) > MOST_BARS
    drawn = [place for place, label in enumerate(labels) if not (line and label in beside)]
    columns = {key: [column[place] for place in drawn] for key, column in table.answers.columns().items()}
    shown = ["(missing)" if label is None else str(label) for label in labels]
    bars = Bars(
        title=f"{title} by {name}",
        labels=[shown[place] for place in drawn],
        values=columns["value"],
        lows=columns["low"],
        highs=columns["high"],
        ordered=attribute.ordered,
    )
    return bars, [label for place, label in enumerate(shown) if place not in set(drawn)]
