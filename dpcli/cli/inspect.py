"""``dpcli inspect``: what a release file says about itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dpcli import api
from dpcli.cli.common import Output, command, open_and_warn

if TYPE_CHECKING:
    from dpcli.release.file import Release


@click.command(no_args_is_help=True)
@click.argument("release", type=click.Path(readable=False))
@click.option("--verify", is_flag=True, help="Also read every count and label and check them.")
@command
def inspect(output: Output, release: str, verify: bool) -> None:
    """Show a release file's guarantee, in words and numbers, and its attributes.

    The file's epsilon is recomputed from the strategy and the noise that it describes; a file that claims
    less than it spent is refused. --format json prints the file's whole metadata.

    \b
    Examples:
      dpcli inspect cube.parquet
      dpcli inspect cube.parquet --verify --format json
    """
    opened = open_and_warn(output, release)
    if verify:
        api.verify(opened)
        output.note("Every count matches its digest, and every label is in its place.")
    if output.form == "json":
        output.text(json.dumps(opened.metadata.document(), indent=2, ensure_ascii=False))
        return
    if output.form == "table":
        from dpcli.cli.render import readable

        output.text(
            "\n".join(f"{what:12} {readable(value)}" for what, value in _summary(opened).items()) + "\n"
        )
    output.records(_attributes(opened))
    if output.form == "table":
        output.text("\n".join(["", "The guarantee:", *(f"- {line}" for line in api.guarantee(opened))]))


def _summary(release: Release) -> dict[str, str]:
    from dpcli.privacy.exact import exact_text

    metadata = release.metadata
    return {
        "release": f"{metadata.name} of dataset {metadata.dataset}, id {metadata.id}",
        "made": f"by {metadata.tool}" + (f" at {metadata.created}" if metadata.created else ""),
        "cells": f"{release.domain.size:,}",
        "mechanism": metadata.mechanism,
        "measured": api.measured(release),
        **({"refined": "by threshold: answers have no interval"} if metadata.steps else {}),
        "epsilon": f"{exact_text(metadata.privacy.epsilon)}, {metadata.privacy.neighbors} neighbours"
        f" (recomputed from strategy and noise: {exact_text(metadata.spent())})",
        "noise": f"{metadata.noise.law}, scale {exact_text(metadata.noise.scale)}"
        + (f"; on regions {exact_text(metadata.regions.scale)}" if metadata.regions else ""),
        "randomness": metadata.randomness if metadata.private else "seeded: NOT PRIVATE",
    }


def _attributes(release: Release) -> list[dict[str, object]]:
    domain = release.domain
    return [
        {
            "attribute": name,
            "kind": attribute.kind,
            "categories": attribute.size,
            "first": str(attribute.labels()[0]),
            "last": "(missing)" if attribute.labels()[-1] is None else str(attribute.labels()[-1]),
            "outside": attribute.outside,
            "missing": attribute.missing,
        }
        for name, attribute in zip(domain.names, domain.attributes, strict=True)
    ]
