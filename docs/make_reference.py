"""Write docs/cli.md from the commands' own help: ``python docs/make_reference.py``. A test compares them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from dpcli.cli import main

TARGET = Path(__file__).parent / "cli.md"


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, with the words that call them."""
    yield path, command
    if isinstance(command, click.Group):
        for name, child in sorted(command.commands.items()):
            yield from commands(child, (*path, name))


def reference() -> str:
    """Return the whole reference as Markdown."""
    parts = ["# Commands", "Made from `--help` by `make docs`; do not edit."]
    for path, command in commands(main, ("dpcli",)):
        context = click.Context(
            command, info_name=" ".join(path), terminal_width=100, **main.context_settings
        )
        parts += [f"## {' '.join(path)}", f"```text\n{command.get_help(context)}\n```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
