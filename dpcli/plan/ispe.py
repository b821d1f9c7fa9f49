"""What a release may ask of the mechanism ``ispe``."""

from __future__ import annotations

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
from dpcli.plan.promise import Strict
from dpcli.privacy.exact import exact_text, parse_epsilon

SHARE = Fraction(3, 4)
MOST_CELLS = 1 << 24


def _share(value: Any) -> Fraction:
    share = parse_epsilon(value)
    if not 0 < share < 1:
        raise ValueError(f"must lie between 0 and 1, for both measurements need epsilon, not {value}")
    return share


def _positive(value: Any) -> float:
    try:
        number = float(str(value).strip())
    except ValueError:
        number = 0.0
    if not (isfinite(number) and number > 0):
        raise ValueError(f"must be a number above 0, not {value!r}")
    return number


class Threshold(Strict):
    """A threshold in units of the noise."""

    noise: Annotated[float, BeforeValidator(_positive)] = Field(
        description="Standard deviations of a cell's noise."
    )


def _threshold(value: Any) -> float | Threshold:
    if isinstance(value, Threshold):
        return value
    if isinstance(value, Mapping):
        if set(value) != {"noise"}:
            raise ValueError("must be a number of rows, or {noise: …} in standard deviations of the noise")
        return Threshold(noise=_positive(value["noise"]))
    return _positive(value)


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
    window: int = Field(
        SIZE, ge=3, le=999, description="The length of the window, an odd number of categories."
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
    distance: Positive = Field(
        1.0, ge=1, description="How far neighbours may lie apart: 1 shares a face, 1.5 also an edge."
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
