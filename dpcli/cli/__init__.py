"""The command line: one file per command. A command parses, makes one call to the API, and renders.

Nothing heavy is imported before a command needs it, so that ``dpcli --help`` is instant.
"""

from __future__ import annotations

import click

from dpcli import __version__
from dpcli.cli.inspect import inspect
from dpcli.cli.ledger import ledger
from dpcli.cli.log import LoggedGroup
from dpcli.cli.plan import plan
from dpcli.cli.query import query
from dpcli.cli.refine import refine
from dpcli.cli.release import release


@click.group(
    cls=LoggedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Publish a sensitive table as a differentially private cube, and query what was published.

    \b
    A curator writes a plan and releases a table:
      dpcli plan init people.csv -o plan.yaml
      dpcli plan check plan.yaml
      dpcli release plan.yaml people.csv -o cube.parquet
    Anyone who holds the released file can question it:
      dpcli inspect cube.parquet
      dpcli query cube.parquet "age between 30 and 39 and sex = 'F'"

    \b
    Exit codes:
      0  done
      1  internal error, or interrupted
      2  wrong usage, a bad plan or query, or an output that cannot be written
      3  bad data: the table does not fit the plan
      4  the privacy budget refuses
      5  a bad or foreign release file or ledger
      6  another run for the same dataset is under way
    """


for command in (release, query, refine, inspect, plan, ledger):
    main.add_command(command)
