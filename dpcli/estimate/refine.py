"""Refining a release file: post-processing that is written down in the file it makes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcli.errors import UsageError
from dpcli.estimate.law import unit_variance
from dpcli.estimate.threshold import Thresholding
from dpcli.release.file import Release, write_release
from dpcli.release.target import check_name, existing


def refine(release: Release, *, threshold: bool, output: Path, replace: bool) -> None:
    """Write a release with the asked-for steps applied. No privacy is spent: only noisy values are used."""
    metadata = release.metadata
    if not threshold:
        raise UsageError("No step is asked for. Use --threshold.")
    if "threshold" in metadata.steps:
        raise UsageError(f"{release.path} is thresholded already.")
    check_name(output)
    existing(output, metadata.dataset, metadata.name, "replace" if replace else "fail")
    strategy = metadata.strategy
    thresholding = Thresholding(strategy, unit_variance(metadata.noise.scale), fitted=True)
    steps = [*metadata.steps, "threshold"]
    name = hashlib.sha256("|".join([metadata.id, *steps]).encode()).hexdigest()[:32]
    refined = metadata.model_copy(update={"id": name, "steps": steps, "parents": [metadata.id]})
    slabs = (thresholding.counts(thresholding.coefficients(slab)) for slab in _slabs(release, strategy.slab))
    write_release(output, refined, slabs, replace=replace)


def _slabs(release: Release, size: int) -> Iterator[NDArray[Any]]:
    """Yield runs of whole slabs, whatever the file's row groups are."""
    waiting: list[NDArray[Any]] = []
    length = 0
    for block in release.blocks():
        waiting.append(block)
        length += len(block)
        if length >= size:
            joined = np.concatenate(waiting)
            whole = length // size * size
            yield joined[:whole]
            waiting, length = [joined[whole:]], length - whole
