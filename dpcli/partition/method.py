"""How regions are found in noisy cells: smoothing, then growing (ISPE §§3.2, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.partition.axes import Neighbourhood
    from dpcli.partition.neighbours import IntArray

Smoothing = Literal["gaussian", "median", "none"]
Criterion = Literal["running-mean", "frontier"]

ITERATIONS = 5
"""n_it of ISPE's experiments (Table 1)."""
SIGMA = 0.5
"""σ of the mask that ISPE prints in Appendix B; the text names no σ, its nine entries do."""
SIZE = 3
"""The side of that mask."""
THRESHOLD = 6.0
"""ξ of ISPE's experiments (Table 1)."""
THRESHOLD_IN_NOISE = 0.65
"""ξ by default, in standard deviations of a cell's noise: close to the paper's ξ = 6 at α1 = 0.15."""

LEAST_THRESHOLD = 1e-9
"""ξ where there is next to no noise: equal cells are alike."""


@dataclass(frozen=True)
class Partitioning:
    """The steps between ISPE's two measurements. All of them see noisy values only.

    ``threshold`` ξ is a number of rows, or if ``in_noise`` of standard deviations of a cell's noise.
    """

    smoothing: Smoothing = "gaussian"
    iterations: int = ITERATIONS
    sigma: float = SIGMA
    window: int = SIZE
    criterion: Criterion = "running-mean"
    threshold: float = THRESHOLD_IN_NOISE
    in_noise: bool = True
    distance: float = 1

    def check(self, shape: tuple[int, ...], neighbourhood: Neighbourhood) -> None:
        """Raise ``ValueError`` if a cube of this shape cannot be smoothed so."""
        from dpcli.partition.smoothing import check

        check(
            shape,
            method=self.smoothing,
            iterations=self.iterations,
            sigma=self.sigma,
            size=self.window,
            groups=neighbourhood.groups,
            ordered=neighbourhood.ordered,
        )

    def regions(self, noisy: NDArray[Any], noise_sd: float, neighbourhood: Neighbourhood) -> IntArray:
        """Return each cell's region, numbered from 0 in the order of the regions' first cells."""
        from dpcli.partition.regions import grow
        from dpcli.partition.smoothing import smooth

        smoothed = smooth(
            noisy,
            method=self.smoothing,
            iterations=self.iterations,
            sigma=self.sigma,
            size=self.window,
            groups=neighbourhood.groups,
            ordered=neighbourhood.ordered,
        )
        return grow(
            smoothed,
            criterion=self.criterion,
            threshold=max(self.threshold * noise_sd, LEAST_THRESHOLD) if self.in_noise else self.threshold,
            distance=self.distance,
            groups=neighbourhood.groups,
        )
