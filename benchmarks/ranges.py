"""The exact error of random ranges, and the time to find a strategy: `python benchmarks/ranges.py [FOLDER]`.

Two thousand ranges of uniform width and then uniform place on 4096 and on 256×256 cells, at epsilon 1 with
add-remove neighbours: the root of the mean exact variance, as a ratio to plain noise on every cell and to
what HDMM's own code reached on the DPBench queries (15.0 and 52.9). FOLDER may hold those queries
(NAME__random__raw.npz with lo and hi).
"""

import os
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from dpcli.data.domain import Domain
from dpcli.estimate.boxes import box_variances
from dpcli.mechanisms import NAMES, Options, strategy_of
from dpcli.privacy.cost import scale_for

HDMM = {(4096,): 15.0, (256, 256): 52.9}
QUERIES = {(4096,): "NETTRACE__random__raw.npz", (256, 256): "Stroke_2D__random__raw.npz"}


def random_boxes(shape: tuple[int, ...], count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Ranges whose width is uniform on 1 … m, and whose place is then uniform."""
    generator = np.random.default_rng(0)
    widths = np.stack([generator.integers(1, size + 1, count) for size in shape], axis=1)
    starts = np.floor(generator.random(widths.shape) * (np.array(shape) - widths + 1)).astype(np.int64)
    return starts, starts + widths


def boxes(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    if len(sys.argv) < 2:
        return random_boxes(shape)
    stored = np.load(Path(sys.argv[1]) / QUERIES[shape])
    return stored["lo"], stored["hi"] + 1


def main() -> None:
    heads = f"{'RMSE':>8}{'of plain':>10}{'of HDMM':>9}{'search':>9}{'again':>8}  seconds"
    print(f"{'cells':<10}{'mechanism':<14}{heads}")
    for shape, hdmm in HDMM.items():
        starts, stops = boxes(shape)
        items = [{"name": f"a{k}", "kind": "ordinal", "range": [0, size - 1]} for k, size in enumerate(shape)]
        domain = Domain.from_description(items)
        floor = 0.0
        for name in NAMES:
            seconds = []
            with tempfile.TemporaryDirectory() as cache:
                os.environ["DPCLI_CACHE"] = cache
                for _ in range(2):
                    start = time.perf_counter()
                    strategy = strategy_of(name, domain, Options(workload="ranges"))
                    seconds.append(time.perf_counter() - start)
            scale = scale_for(strategy, Fraction(1), "add-remove", 1)
            error = float(np.sqrt(box_variances(strategy, scale, starts, stops).mean()))
            floor = floor or error
            cells = "×".join(map(str, shape))
            print(
                f"{cells:<10}{name:<14}{error:>8.2f}{error / floor:>10.2f}{error / hdmm:>9.3f}"
                f"{seconds[0]:>9.1f}{seconds[1]:>10.1f}"
            )


if __name__ == "__main__":
    main()
