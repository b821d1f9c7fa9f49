"""``dpcli query``: questions to a release file."""

from __future__ import annotations

import click

from dpcli import api
from dpcli.cli.common import Output, command, open_and_warn

COLUMNS = ("query", "value", "stderr", "low", "high", "how")


@click.command(no_args_is_help=True)
@click.argument("release", type=click.Path(readable=False))
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...")
@click.option(
    "--interval",
    "level",
    type=float,
    default=0.95,
    show_default=True,
    help="The probability with which low to high holds the true count.",
)
@command
def query(output: Output, release: str, conditions: tuple[str, ...], level: float) -> None:
    """Count the rows that fulfil each CONDITION, with the error of the answer.

    A condition is written as in a SQL WHERE clause, over the attributes' labels: =, <>, <, <=, >, >=,
    between, in (…), is null, and, or, not. A hierarchy's node stands for all its leaves. Without a
    condition, everything is counted. Asking costs no privacy.

    \b
    low to high holds the true count with the probability of --interval; how says how that is known:
      exact   from the exact law of the noise
      normal  from a normal approximation for the many small draws of noise in it
      none    there is none: the release was thresholded

    \b
    Examples:
      dpcli query cube.parquet "age between 30 and 39 and sex = 'F'"
      dpcli query cube.parquet "occupation = 'Health'" "occupation in ('Nurse', 'Dentist')"
      dpcli query cube.parquet "income >= 50000 and income < 80000" --interval 0.99 --format json
    """
    opened = open_and_warn(output, release)
    answers = api.query(opened, conditions, level)
    for warning in dict.fromkeys(text for answer in answers for text in answer.warnings):
        output.warn(f"Warning: {warning}")
    output.records([answer.record() for answer in answers], COLUMNS)
