"""``dpcli refine``: post-processing of release files."""

from __future__ import annotations

import click

from dpcli import api
from dpcli.cli.common import Output, open_and_warn, plain_command


@click.command(no_args_is_help=True)
@click.argument("release", type=click.Path(readable=False))
@click.option("--threshold", is_flag=True, help="Privelet*: soft-threshold the wavelet coefficients.")
@click.option(
    "-o", "--output", "target", type=click.Path(dir_okay=False), required=True, help="The file to write."
)
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "replace"]),
    default="fail",
    show_default=True,
    help="What to do when the output exists.",
)
@plain_command
def refine(output: Output, release: str, threshold: bool, target: str, if_exists: str) -> None:
    """Write a refined copy of RELEASE. It is post-processing: it costs no privacy.

    --threshold shrinks small wavelet coefficients of a privelet release, which makes small queries more
    exact where neighbouring cells are alike. Thresholded answers are biased, so they have no interval.

    \b
    Example:
      dpcli refine cube.parquet --threshold -o smooth.parquet
    """
    opened = open_and_warn(output, release)
    api.refine(opened, threshold=threshold, output=target, replace=if_exists == "replace")
    output.note(f"Wrote {target}.")
