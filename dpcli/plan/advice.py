"""How to split ispe's epsilon: the expected error by the share of the cells, from a simple model. No data.

A region has n cells, which differ from the region's mean by independent deviations of standard deviation τ.
With the share s of epsilon, a cell's noise has the variance v1 and a region count's noise v2, the variances
of discrete Laplace noise of scales Δ/(sε) and Δ/((1 − s)ε). Least squares of the count and of the sum of the
cells knows the region's sum with the variance

    Var T = 1/(1/(n v1) + 1/v2).

A cell is estimated by the region's mean T/n plus what the noisy cell deviates from the mean of the noisy
cells, times τ²/(τ² + v1). Mean and deviation have independent errors, so that the variance of a cell is

    V = Var T/n² + (1 − 1/n) τ² v1/(τ² + v1).

Without regions, s → 1, the second measurement says nothing: Var T = n v1. Where cells have nothing in common,
τ → ∞, their neighbours say nothing: V = Var T/n² + (1 − 1/n) v1.

The three kinds of data in ``KINDS`` are assumptions. So is that the regions are known: in fact they are grown
from the noisy cells, so that a small share also finds them worse, which is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dpcli.estimate.law import unit_variance
from dpcli.plan.schema import CubeRelease, Plan
from dpcli.privacy.cost import scale_for
from dpcli.privacy.exact import exact_text
from dpcli.strategy.partition import Partition

SHARES = tuple(Fraction(tenths, 10) for tenths in (3, 5, 6, 7, 8, 9))
KINDS = {"rough": (4, 1.0), "medium": (25, 0.3), "smooth": (100, 0.0)}
"""What the data may be like: n, and τ in standard deviations of a cell's noise had it all of epsilon."""


@dataclass(frozen=True)
class Advice:
    """What to expect of a release by ispe with some share: root mean square errors by kind of data."""

    release: str
    share: Fraction
    planned: bool
    cell: dict[str, float]
    region: dict[str, float]

    def record(self) -> dict[str, object]:
        """Return the advice as the fields that are printed; a cube may be too small for a kind of data."""
        found: dict[str, object] = {
            "release": self.release,
            "share": exact_text(self.share),
            "planned": self.planned,
        }
        for kind in KINDS:
            found |= {f"{kind}_cell": self.cell.get(kind), f"{kind}_sum": self.region.get(kind)}
        return found


def errors(n: int, tau: float, v1: float, v2: float) -> tuple[float, float]:
    """Return the root mean square errors of a cell and of a region's sum."""
    known = min(v1, v2) == 0  # with so much epsilon there is next to no noise
    total = 0.0 if known else 1 / (1 / (n * v1) + 1 / v2)
    shrunk = tau**2 * v1 / (tau**2 + v1) if v1 else 0.0
    return sqrt(total / n**2 + (1 - 1 / n) * shrunk), sqrt(total)


def advise(plan: Plan) -> list[Advice]:
    """Return for each release by ispe what to expect of some shares, the planned one among them."""
    return [
        _advice(plan, spec, share)
        for spec in plan.releases
        if spec.mechanism == "ispe"
        for share in sorted({*SHARES, spec.cell_share})
    ]


def best_shares(advice: Sequence[Advice]) -> list[str]:
    """Say for each release which of the shares is best, for each kind of data."""
    sentences = []
    for name in dict.fromkeys(each.release for each in advice):
        these = [each for each in advice if each.release == name]
        words = [
            f"{kind} data ({n} cells in a region): {_best(these, kind)}"
            for kind, (n, _) in KINDS.items()
            if kind in these[0].cell
        ]
        if words:
            sentences.append(
                f"Release '{name}': the best of these shares of epsilon for ispe's cells, by a simple model"
                f" of the data: {'; '.join(words)}. The model takes the regions as known; a small share finds"
                " them worse."
            )
    return sentences


def _best(advice: Sequence[Advice], kind: str) -> str:
    cell = min(advice, key=lambda each: each.cell[kind])
    region = min(advice, key=lambda each: each.region[kind])
    return f"{exact_text(cell.share)} for a cell, {exact_text(region.share)} for a region's sum"


def _advice(plan: Plan, spec: CubeRelease, share: Fraction) -> Advice:
    epsilon, privacy = plan.shares()[spec.name], plan.privacy

    def variance(part: Fraction) -> float:
        scale = scale_for(
            Partition, part, privacy.neighbors, privacy.rows_per_person
        )  # cells have its norm too
        return unit_variance(scale)

    found = {
        kind: errors(
            n,
            deviations * sqrt(variance(epsilon)),
            variance(epsilon * share),
            variance(epsilon * (1 - share)),
        )
        for kind, (n, deviations) in KINDS.items()
        if n <= plan.domain_of(spec).size
    }
    cell, region = ({kind: both[k] for kind, both in found.items()} for k in (0, 1))
    return Advice(spec.name, share, share == spec.cell_share, cell, region)
