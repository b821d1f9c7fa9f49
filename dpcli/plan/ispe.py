"""What a release may ask of the mechanism ``ispe``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from dpcli.partition.method import (
    ITERATIONS,
    SIGMA,
    SIZE,
    THRESHOLD_IN_NOISE,
    Criterion,
    Partitioning,
    Smoothing,
)
from dpcli.plan.promise import Strict, shown
from dpcli.privacy.exact import SMALLEST, exact_text, parse_epsilon

SHARE = Fraction(3, 4)
MOST_CELLS = 1 << 24
FURTHEST = 5
"""The largest distance of neighbours: each cell is compared with all cells as near as that."""
WIDEST = 999
"""The longest window."""


def _share(value: Any) -> Fraction:
    try:
        share = parse_epsilon(value)
        fits = SMALLEST <= share <= 1 - SMALLEST
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"must be a decimal from 1e-9 to {exact_text(1 - SMALLEST)}, such as {exact_text(SHARE)}, for"
            f" cells and regions both need some of epsilon; not {shown(value)}"
        )
    return share


def _positive(value: Any) -> float:
    number = _number(value)
    if number is None:
        raise ValueError(f"must be a number above 0, not {shown(value)}")
    return number


def _number(value: Any) -> float | None:
    """Read a finite number above 0."""
    try:
        number = float(str(value).strip())
    except ValueError:
        return None
    return number if isfinite(number) and number > 0 else None


def _distance(value: Any) -> float:
    number = _number(value)
    if number is None or not 1 <= number <= FURTHEST:
        raise ValueError(f"must be a number from 1 to {FURTHEST}, not {shown(value)}")
    return number


def _window(value: Any) -> Any:
    if re.fullmatch(r"\d{1,9}", str(value)) and not (int(value) % 2 and 3 <= int(value) <= WIDEST):
        raise ValueError(f"must be an odd number from 3 to {WIDEST}, not {shown(value)}")
    return value


class Threshold(Strict):
    """A threshold in units of the noise."""

    noise: Annotated[float, BeforeValidator(_positive)] = Field(
        description="Standard deviations of a cell's noise."
    )


def _threshold(value: Any) -> float | Threshold:
    if isinstance(value, Threshold):
        return value
    in_noise = isinstance(value, Mapping) and set(value) == {"noise"}
    number = _number(value["noise"] if in_noise else value)
    if number is None:
        given = f"{{noise: {shown(value['noise'])}}}" if in_noise else shown(value)
        raise ValueError(
            f"must be a number of rows above 0, such as 6, or {{noise: {THRESHOLD_IN_NOISE}}}, in standard"
            f" deviations of the noise; not {given}"
        )
    return Threshold(noise=number) if in_noise else number


_NUMBER = {"type": ["number", "string"]}
Positive = Annotated[float, BeforeValidator(_positive), WithJsonSchema(_NUMBER)]


class Ispe(Strict):
    """The budget's split, and how regions are found between the two measurements."""

    share: Annotated[
        Fraction,
        BeforeValidator(_share),
        PlainSerializer(exact_text, return_type=str),
        WithJsonSchema(_NUMBER),
    ] = Field(
        SHARE,
        description="The share of the release's epsilon for the cells, from 0 to 1; regions get the rest.",
    )
    smoothing: Smoothing = Field(
        "gaussian", description="How the noisy cells are smoothed before regions are grown."
    )
    iterations: int = Field(ITERATIONS, ge=1, le=1000, description="How often they are smoothed.")
    sigma: Positive = Field(SIGMA, description="The width of the Gaussian window, in categories.")
    window: Annotated[int, BeforeValidator(_window)] = Field(
        SIZE, ge=3, le=WIDEST, description="The length of the window, an odd number of categories."
    )
    criterion: Criterion = Field(
        "running-mean",
        description="What a cell must be like to join a region: its mean so far, or the cell next to it.",
    )
    threshold: Annotated[
        Any,
        PlainValidator(
            _threshold,
            json_schema_input_type=float | Threshold,
        ),
    ] = Field(
        Threshold(noise=THRESHOLD_IN_NOISE),
        description="How alike: a number of rows, or {noise: …} in standard deviations of a cell's noise.",
    )
    distance: Annotated[float, BeforeValidator(_distance), WithJsonSchema(_NUMBER)] = Field(
        1.0, description="How far neighbours may lie apart: 1 shares a face, 1.5 also an edge; 5 at most."
    )

    def partitioning(self) -> Partitioning:
        """Return the steps between the two measurements."""
        in_noise = isinstance(self.threshold, Threshold)
        return Partitioning(
            smoothing=self.smoothing,
            iterations=self.iterations,
            sigma=self.sigma,
            window=self.window,
            criterion=self.criterion,
            threshold=self.threshold.noise if in_noise else self.threshold,
            in_noise=in_noise,
            distance=self.distance,
        )


DEFAULT = Ispe.model_validate({})
