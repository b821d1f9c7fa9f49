"""Privelet*: the corrected thresholds, and what thresholding does to a release."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpcli.data.hierarchy import Hierarchy
from dpcli.errors import UsageError
from dpcli.estimate.threshold import Thresholding, soft_threshold, thresholds
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.nominal import NominalWavelet
from dpcli.strategy.tree import Tree

SUBBAND = np.array([[-9, 7, 4, -3, 2, -1, 0.5, 0]])


@pytest.mark.parametrize(("scale", "theta"), [(1, 0.314991), (2, 1.471544), (3, 5.330730)])
def test_the_worked_thresholds(scale: int, theta: float) -> None:
    assert thresholds(SUBBAND, 2 * scale**2)[0] == pytest.approx(theta, abs=1e-6)


@given(arrays(np.float64, (3, 9), elements=st.floats(-100, 100)), st.floats(0.01, 500))
def test_the_sum_of_squares_falls_to_what_noise_does_not_explain(noisy: np.ndarray, variance: float) -> None:
    left = (soft_threshold(noisy, variance) ** 2).sum(axis=1)
    target = np.maximum((noisy**2).sum(axis=1) - 9 * variance, 0)
    assert np.allclose(left, target, rtol=1e-6, atol=1e-6 * max(1.0, float((noisy**2).max())))


def test_thresholding_keeps_signs_and_order() -> None:
    shrunk = soft_threshold(SUBBAND, 8.0)
    assert np.all(np.sign(shrunk) * np.sign(SUBBAND) >= 0)
    assert np.all(np.abs(shrunk) <= np.abs(SUBBAND))


HIERARCHY = Hierarchy.from_nested({"a": ["b", "c"], "d": ["e", "f", "g"]})
STRATEGIES = [
    Strategy((Identity(3), Haar(13))),
    Strategy((Haar(8), NominalWavelet.from_hierarchy(HIERARCHY))),
    Strategy((Identity(2), NominalWavelet.flat(5), Haar(7))),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("fitted", [False, True])
def test_without_noise_nothing_changes(strategy: Strategy, fitted: bool) -> None:
    counts = np.random.default_rng(0).poisson(20, int(np.prod(strategy.shape)))
    thresholding = Thresholding(strategy, 0.0, fitted=fitted)
    assert np.allclose(thresholding.counts(thresholding.coefficients(counts)), counts)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_total_is_never_thresholded(strategy: Strategy) -> None:
    counts = np.random.default_rng(0).poisson(20, int(np.prod(strategy.shape))).astype(float)
    thresholding = Thresholding(strategy, 1e9, fitted=True)
    smooth = thresholding.counts(thresholding.coefficients(counts))
    slabs = (-1, strategy.slab)
    assert np.allclose(smooth.reshape(slabs).sum(axis=1), counts.reshape(slabs).sum(axis=1))


def test_noise_of_fitted_coefficients_is_what_is_taken_out() -> None:
    """The variance of coefficients of reconstructed counts is that of a unit draw times the assumed factor."""
    strategy = STRATEGIES[1]
    thresholding = Thresholding(strategy, 1.0, fitted=True)
    weights = np.multiply.outer(*(axis.weights for axis in strategy.inner)).ravel()
    noise = np.random.default_rng(0).normal(size=(20_000, len(weights))) * weights
    counts = np.stack([strategy.inverse(row) for row in noise[:4000]])
    spread = np.stack([thresholding.coefficients(row)[0] for row in counts]).std(axis=0)
    assert np.allclose(spread, thresholding._unit, rtol=0.08)


def test_smooth_data_with_noise_become_more_exact() -> None:
    generator = np.random.default_rng(1)
    strategy = Strategy((Haar(256),))
    truth = np.repeat([5.0, 40.0, 11.0, 0.0], 64)
    noisy = strategy.inverse(strategy.forward(truth.astype(int)) + generator.laplace(0, 20, (1, 256)))
    thresholding = Thresholding(strategy, 800.0, fitted=True)
    smooth = thresholding.counts(thresholding.coefficients(noisy))
    assert np.mean((smooth - truth) ** 2) < 0.5 * np.mean((noisy - truth) ** 2)


@pytest.mark.parametrize("axes", [(Identity(3),), (Tree.kary(8, 2),), (Haar(4), Identity(3))])
def test_only_wavelets_can_be_thresholded(axes: tuple) -> None:
    with pytest.raises(UsageError, match="Thresholding needs wavelets on every attribute that is not direct"):
        Thresholding(Strategy(axes), 1.0, fitted=True)
