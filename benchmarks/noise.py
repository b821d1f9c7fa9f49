"""Exact, cryptographic discrete Laplace noise against numpy's floats: `python benchmarks/noise.py`."""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcli.privacy.noise import DiscreteLaplace, Keystream

SCALES = (2, 20, 1000)
SAMPLES = 10_000_000
ROUNDS = 9


def seconds(draw: Callable[[], object]) -> float:
    start = time.perf_counter()
    draw()
    return time.perf_counter() - start


def main() -> None:
    keystream, generator = Keystream.from_os(), np.random.default_rng()
    print(f"{SAMPLES:,} samples, best of {ROUNDS} interleaved rounds\n")
    print(f"{'scale':>6} {'tables, ms':>11} {'ours, ns':>9} {'numpy, ns':>10} {'ours/numpy':>11}")
    for scale in SCALES:
        built = min(seconds(lambda scale=scale: DiscreteLaplace(Fraction(scale))) for _ in range(ROUNDS))
        law = DiscreteLaplace(Fraction(scale))
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(seconds(lambda law=law: law.sample(keystream, SAMPLES)))
            theirs.append(seconds(lambda scale=scale: generator.laplace(0.0, scale, SAMPLES)))
        a, b = min(ours) / SAMPLES * 1e9, min(theirs) / SAMPLES * 1e9
        print(f"{scale:>6} {built * 1e3:>11.1f} {a:>9.2f} {b:>10.2f} {a / b:>11.2f}")


if __name__ == "__main__":
    main()
