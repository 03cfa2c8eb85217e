"""Whiteness of errors, tested with noise of known autocorrelation."""

import numpy as np
import pytest

from rbd_jax.identify import LogError, whiteness


def lasting(share: float, count: int, seed: int = 0) -> np.ndarray:
    """Returns first-order autoregressive errors: r_k = share^k, s = (1 + share) / (1 - share)."""
    from scipy.signal import lfilter

    return lfilter([1.0], [1.0, -share], np.random.default_rng(seed).normal(size=count + 500))[500:]


def test_white_noise_is_white():
    """The Ljung-Box test rejects at its nominal level, and white errors are not reported as correlated."""
    found = [whiteness(np.random.default_rng(seed).normal(size=2000), 0.01) for seed in range(300)]
    p = np.array([one.p for one in found])
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(p < level) - level) < 4 * np.sqrt(level * (1 - level) / len(p))
    assert all(one.white for one in found)
    assert abs(np.mean([one.lasting for one in found]) - 1) < 0.05
    assert "tau elbow are white" in found[0].in_words("tau elbow")


@pytest.mark.parametrize("share, tolerance", [(0.5, 0.1), (0.8, 0.15), (0.95, 0.3), (-0.5, 0.15)])
def test_errors_that_last(share, tolerance):
    """A first-order autoregression has the expected autocorrelation and correlation time."""
    found = whiteness(lasting(share, 40_000), 0.005)
    expected = (1 + share) / (1 - share)
    assert abs(found.lasting / expected - 1) < tolerance
    np.testing.assert_allclose(found.autocorrelation[:4], share ** np.arange(4), atol=0.03)
    assert not found.white and found.p < 1e-10
    assert abs(found.effective / (40_000 / expected) - 1) < 2 * tolerance
    assert found.narrow == max(1.0, np.sqrt(found.lasting))
    said = found.in_words("q knee")
    assert ("alternate" in said) == (share < 0)
    assert ("too narrow, by up to" in said) == (share > 0)


def test_the_mean_scatters_as_lasting_errors_say():
    """n / s is the effective number of samples: the variance of the mean is σ² s / n."""
    means = [np.mean(lasting(0.8, 4000, seed)) for seed in range(200)]
    found = whiteness(lasting(0.8, 40_000, 1000), 0.01)
    sigma = np.std(lasting(0.8, 40_000, 1001))
    assert abs(np.std(means) / (sigma / np.sqrt(4000) * found.narrow) - 1) < 0.15


def test_the_statistic_is_that_of_ljung_and_box():
    e = lasting(0.1, 500)
    n, lags = len(e), 12
    r = np.array([np.sum(e[k:] * e[: n - k]) for k in range(1, lags + 1)]) / np.sum(e**2)
    expected = n * (n + 2) * np.sum(r**2 / (n - np.arange(1, lags + 1)))
    found = whiteness(e, 0.01, lags=lags)
    np.testing.assert_allclose(found.statistic, expected, rtol=1e-10)
    assert found.lags == 12


def test_gaps_and_several_runs():
    """Missing samples are ignored, and the end of one run is not adjacent to the start of the next."""
    e = lasting(0.8, 40_000)
    e[np.random.default_rng(1).random(len(e)) < 0.3] = np.nan
    found = whiteness(e, 0.01)
    assert found.samples == np.isfinite(e).sum()
    np.testing.assert_allclose(found.autocorrelation[:4], 0.8 ** np.arange(4), atol=0.03)
    # Constant errors of opposite signs in two runs would cancel if they were adjacent.
    runs = whiteness([np.ones(100), -np.ones(100)], 0.01)
    np.testing.assert_allclose(runs.autocorrelation[:50], 1, atol=1e-10)


def test_what_is_off_throughout_lasts():
    """The mean is not subtracted."""
    found = whiteness(1 + 0.1 * np.random.default_rng(0).normal(size=1000), 0.01)
    assert not found.white and found.lasting > 100


def test_refusals():
    with pytest.raises(LogError, match="three or more"):
        whiteness(np.array([1.0, np.nan, 2.0]), 0.1)
    with pytest.raises(LogError, match="all errors are zero"):
        whiteness(np.zeros(10), 0.1)
    with pytest.raises(ValueError, match="lags"):
        whiteness(np.ones(10), 0.1, lags=0)
