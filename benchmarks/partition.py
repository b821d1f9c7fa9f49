"""Smoothing and growing regions on a million cells against numpy: `python benchmarks/partition.py`.

The floor is the least that any rule must do: the differences between all neighbouring cells, in numpy.
"""

import time
from collections.abc import Callable

import numpy as np

from dpcli.partition.regions import grow
from dpcli.partition.smoothing import smooth

SIDE = 1000
SCALE = 1 / 0.15
ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def differences(values: np.ndarray) -> list[np.ndarray]:
    return [np.abs(np.diff(values, axis=axis)) for axis in range(values.ndim)]


def main() -> None:
    noise = np.random.default_rng(0).laplace(0, SCALE, (SIDE, SIDE))
    wave = np.linspace(0, 6, SIDE)
    noisy = 60 * np.sin(wave)[:, None] * np.cos(wave) + noise
    smoothed = smooth(noisy)

    def grown(values: np.ndarray, criterion: str, distance: float) -> Callable[[], np.ndarray]:
        return lambda: grow(values, criterion=criterion, distance=distance)

    tasks: dict[str, Callable[[], np.ndarray]] = {
        "smoothing, gaussian": lambda: smooth(noisy),
        "smoothing, median": lambda: smooth(noisy, method="median"),
    }
    for criterion in ("running-mean", "frontier"):
        for distance in (1, 1.5):
            tasks[f"{criterion}, smooth data, d = {distance}"] = grown(smoothed, criterion, distance)
            tasks[f"{criterion}, pure noise, d = {distance}"] = grown(noise, criterion, distance)

    print(f"{SIDE} × {SIDE} cells, best of {ROUNDS} interleaved rounds\n")
    print(f"{'':<36} {'regions':>8} {'ours, ms':>9} {'numpy, ms':>10} {'ours/numpy':>11}")
    for name, task in tasks.items():
        ours, floor = [], []
        for _ in range(ROUNDS):
            ours.append(seconds(task))
            floor.append(seconds(lambda: differences(noisy)))
        regions = "" if name.startswith("smoothing") else f"{task().max() + 1:,}"
        a, b = min(ours) * 1e3, min(floor) * 1e3
        print(f"{name:<36} {regions:>8} {a:>9.1f} {b:>10.2f} {a / b:>11.1f}")


if __name__ == "__main__":
    main()
