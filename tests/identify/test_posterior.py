"""Posterior samples: comparison with quadrature and with known distributions, and diagnostics."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import Posterior


pytestmark = pytest.mark.usefixtures("without_kernels")


MODEL = rbd.load("pendulum")
ARM = rbd.load("double_pendulum")


@jax.jit
def torques(model, q, v, a):
    """Returns the torques that drive a model along a motion."""
    return jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x) - rbd.passive_force(model, *x[:2]))(q, v, a)


def swinging(free, damping, count=30, noise=0.05, seed=0):
    """Returns a problem with torques measured along a swing of the pendulum: `count` samples with known noise."""
    random = np.random.default_rng(seed)
    t = np.arange(count) / 20
    q, v, a = (np.sin(3 * t), 3 * np.cos(3 * t), -9 * np.sin(3 * t))
    truth = replace(MODEL, damping=jax.device_put(np.array([damping])))
    rows = [x[:, None] for x in (q, v, a)]
    tau = np.asarray(torques(truth, *rows)) + noise * random.normal(size=(count, 1))
    log = identify.Log(t, *rows, tau=tau)
    return identify.Problem(MODEL, log, free, identify.EquationError(), noise={"tau": noise})


@pytest.fixture(scope="module")
def bounded():
    """Damping close to zero: the posterior ends at the bound."""
    problem = swinging(identify.damping(), 0.004)
    return problem, identify.solve(problem)


@pytest.fixture(scope="module")
def drawn(bounded):
    return identify.hmc(*bounded, draws=400, chains=4, warmup=150, key=jax.random.key(1))


def test_hmc_is_quadrature(bounded, drawn):
    """Mean, deviation and quantiles match for a posterior that is far from normal."""
    problem, _ = bounded
    values = np.linspace(1e-6, 0.1, 4001)
    loss_at = jax.vmap(lambda value: problem.loss(problem.parameters.unbounded(value[None])))
    loss = np.asarray(jax.jit(loss_at)(values))
    weight = np.exp(loss.min() - loss)
    weight /= weight.sum()
    mean = weight @ values
    deviation = np.sqrt(weight @ (values - mean) ** 2)
    error = deviation / np.sqrt(drawn.effective_draws[0])
    assert weight[0] > 0.1 * weight.max()  # the posterior ends at the bound
    assert abs(drawn.mean[0] - mean) < 4 * error
    assert abs(drawn.standard_errors[0] / deviation - 1) < 0.15
    share = np.cumsum(weight)
    for level in (0.1, 0.5, 0.9):
        expected = values[np.searchsorted(share, level)]
        assert abs(np.mean(drawn.values < expected) - level) < 0.06


@pytest.mark.slow
def test_hmc_of_what_is_nearly_normal_is_laplace():
    """Damping and friction are well observable; the first states of windows are sampled, too."""
    t = np.arange(60) / 30
    truth = identify.Parameters(MODEL, identify.damping()).with_values(jnp.array([0.3]))
    path = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=1 / 30, steps=59)
    q = path.q + 5e-3 * jax.random.normal(jax.random.key(3), path.q.shape)
    log = identify.Log(t, q, tau=np.zeros((60, 1)))
    problem = identify.Problem(MODEL, log, identify.damping(), identify.OutputError(window=1.0, nodes="free"))
    found = identify.solve(problem)
    draws = identify.hmc(problem, found, draws=250, chains=4, warmup=100)
    assert draws.divergences == 0 and 0.6 < draws.accepted < 0.97
    assert (draws.convergence < 1.05).all()
    error = found.standard_errors / np.sqrt(draws.effective_draws)
    assert (np.abs(draws.mean - found.values) < 4 * error + 0.1 * found.standard_errors).all()
    np.testing.assert_allclose(draws.standard_errors, found.standard_errors, rtol=0.15)
    again = identify.hmc(problem, found, draws=250, chains=4, warmup=100)
    assert np.array_equal(again.values, draws.values)


def test_what_nothing_holds_has_no_distribution():
    """The pendulum's torque depends only on the product of mass and length."""
    problem = swinging([identify.masses(), identify.centers_of_mass()], 0.1)
    found = identify.solve(problem)
    assert found.rank < found.parameters.size
    with pytest.raises(identify.LogError, match="neither data nor prior determine .*give a prior"):
        identify.hmc(problem, found)


def test_problems_and_estimates_that_do_not_go_together(bounded, monkeypatch):
    problem, found = bounded
    other = swinging([identify.damping(), identify.coulomb()], 0.1)
    with pytest.raises(ValueError, match="no estimate of identify.solve for this problem"):
        identify.hmc(other, found)
    with pytest.raises(TypeError, match="found"):
        identify.hmc(problem, problem)
    monkeypatch.setitem(sys.modules, "blackjax.mcmc", None)
    with pytest.raises(ImportError, match="pip install blackjax"):
        identify.hmc(problem, found)


def arm_estimate(seed=0):
    random = np.random.default_rng(seed)
    t = np.arange(200) / 50
    q = np.stack([np.sin(2 * t), np.sin(3 * t + 1)], axis=1)
    v = np.stack([2 * np.cos(2 * t), 3 * np.cos(3 * t + 1)], axis=1)
    a = -np.array([4.0, 9.0]) * q
    tau = np.asarray(torques(ARM, q, v, a))
    log = identify.Log(t, q, v, a, tau=tau + 0.5 * random.normal(size=(200, 2)))
    return identify.physical_least_squares(ARM, log, [identify.inertias("lower"), identify.damping()])


@pytest.fixture(scope="module")
def arm():
    return arm_estimate()


def test_draws_of_laplace_can_be(arm):
    draws = identify.laplace(arm, 2000)
    assert draws.values.shape == (2000, arm.parameters.size)
    models = draws.models(200)
    assert np.asarray(jax.jit(lambda bodies: bodies.is_physical)(models.inertias)).all()
    low, high = (np.asarray(end) for end in arm.parameters.bounds())
    assert (draws.values >= low).all() and (draws.values <= high).all()
    # If the scatter is small compared with the value, it equals the standard error of the estimate.
    straight = arm.standard_errors < 0.1 * np.abs(arm.values)
    assert straight.any()
    np.testing.assert_allclose(draws.standard_errors[straight], arm.standard_errors[straight], rtol=0.1)


def test_draws_are_correlated_as_the_estimate_is(arm):
    """For values without bounds, the samples have the full covariance."""
    seen = [i for i, name in enumerate(arm.parameters.names) if "damping" in name]
    away = arm.values[seen] > 4 * arm.standard_errors[seen]
    draws = identify.laplace(arm, 20000, key=jax.random.key(2)).values[:, seen][:, away]
    expected = arm.covariance[np.ix_(seen, seen)][np.ix_(away, away)]
    np.testing.assert_allclose(
        np.atleast_2d(np.cov(draws.T)), expected, atol=0.05 * np.abs(expected).max(initial=0) + 1e-30
    )


def test_effective_draws_and_convergence():
    """A process with correlation ρ between draws has (1 - ρ) / (1 + ρ) effective draws per draw."""
    from scipy.signal import lfilter

    random, rho, count = np.random.default_rng(0), 0.8, 20000
    noise = random.normal(size=(4, count)) * np.sqrt(1 - rho**2)
    noise[:, 0] = 0
    chains = lfilter([1.0], [1.0, -rho], noise)
    parameters = identify.Parameters(MODEL, identify.damping())
    one = Posterior(parameters, chains.reshape(-1, 1), chains=4)
    assert abs(one.effective_draws[0] / (4 * count * (1 - rho) / (1 + rho)) - 1) < 0.1
    assert abs(one.convergence[0] - 1) < 0.01
    apart = Posterior(parameters, (chains + np.arange(4)[:, None]).reshape(-1, 1), chains=4)
    assert apart.convergence[0] > 1.2 and apart.effective_draws[0] < 100
    np.testing.assert_allclose(one.intervals(0.9)[0], [-1.645, 1.645], atol=0.08)
    with pytest.raises(ValueError, match="between 0 and 1"):
        one.intervals(95)
    assert "swing damping" in one.table()
