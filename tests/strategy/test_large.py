"""Large slabs, worked on in place, give what small ones give."""

from __future__ import annotations

import numpy as np
import pytest

from dpcli.data.hierarchy import Hierarchy
from dpcli.strategy.axis import Axis
from dpcli.strategy.haar import Haar
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.large import forward_in_place, inverse_in_place, is_large
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.optimized import Optimized
from dpcli.strategy.tree import Tree

HIERARCHY = Hierarchy.from_nested({"a": ["b", "c"], "d": ["e", "f", "g"]})
STRATEGIES: list[tuple[Axis, ...]] = [
    (Haar(7), Haar(9)),
    (Tree.kary(13, 3), NominalWavelet.from_hierarchy(HIERARCHY), Haar(3)),
    (NominalWavelet.flat(4), Tree.kary(6, 2), Optimized(5, 64, 5, (), ((20, 20, 0, 0, 0),))),
]


@pytest.mark.parametrize("axes", STRATEGIES)
def test_in_place_is_the_same(axes: tuple[Axis, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcli.strategy.large.BLOCK_CELLS", 16)
    strategy = Strategy(axes)
    assert is_large(strategy)
    counts = np.random.default_rng(0).poisson(5, strategy.slab)
    coefficients = forward_in_place(strategy, lambda start, stop: counts[start:stop].copy())
    assert np.array_equal(coefficients, strategy.forward(counts))
    back = np.concatenate(list(inverse_in_place(strategy, coefficients.copy())))
    assert np.allclose(back, counts)
    noisy = coefficients + np.random.default_rng(1).integers(-9, 9, coefficients.shape)
    expected = strategy.inverse(noisy)
    assert np.allclose(np.concatenate(list(inverse_in_place(strategy, noisy))), expected)


def test_small_slabs_and_single_axes_are_not_large() -> None:
    assert not is_large(Strategy((Haar(8), Haar(8))))
    assert not is_large(Strategy((Haar(1 << 22),)))
