"""The policy gradient is the gradient of the simulated return, per sample."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from push import SMALL, Push, cart, push

from rbd_jax.learn.short_horizon_actor_critic import _learned


class Torn(Push):
    """A push whose reward has no derivative left of `from_where`, and is not finite further left."""

    from_where: float = -0.3
    broken: float = -100.0

    def reward(self, before, action, now):
        x = now.q[0]
        # At zero the square root is finite, with an infinite derivative times zero.
        torn = jnp.sqrt(jnp.maximum(x - self.from_where, 0.0))
        return x - 1e-3 * torn + jnp.log(jnp.minimum(x - self.broken, 1.0))


@functools.cache
def compiled(config):
    """Returns functions for all tasks of one type: a learner with its flat parameters, the loss, and its gradient."""

    @jax.jit
    def begun(task, key):
        learner = config.begin(task, key)
        # The initial weights are too close to zero for a sharp test.
        moved = lambda x: x + 0.3 * jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape)
        where = lambda one: (*_learned(one.policy), one.target)
        learner = eqx.tree_at(where, learner, jax.tree.map(moved, where(learner)))
        return learner, ravel_pytree(_learned(learner.policy))[0]

    def loss(row, probe, task, learner, noise):
        tree = ravel_pytree(_learned(learner.policy))[1]
        value, seen = config._loss(tree(row), probe, task, learner, noise)
        return value, seen[2]

    return begun, jax.jit(loss), jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))


def of_loss(task, config=SMALL):
    """Returns the actor's loss as a function of flat parameters and the probe, its gradient, and the parameters."""
    begun, loss, gradient = compiled(config)
    learner, row = begun(task, jax.random.key(0))
    noise = np.random.default_rng(1).normal(size=(config.horizon, config.environments, 1))
    of = lambda function: lambda row, probe: function(row, probe, task, learner, noise)
    return of(loss), of(gradient), row


@pytest.fixture(scope="module")
def plain():
    # Episodes have three steps, so horizons contain two episode ends.
    return of_loss(push(episode_length=3))


@pytest.mark.slow
def test_it_is_the_slope_of_the_loss(plain):
    loss, gradient, row = plain
    probe = np.zeros(SMALL.environments)
    (found, dropped), moments = gradient(row, probe)
    assert np.asarray(moments.truncated).any() and not np.asarray(dropped).any()
    for seed in range(3):
        along = np.random.default_rng(seed).normal(size=row.shape)
        step = 1e-5
        slope = (loss(row + step * along, probe)[0] - loss(row - step * along, probe)[0]) / (2 * step)
        np.testing.assert_allclose(np.asarray(found) @ along, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_steep_samples_are_cut(plain):
    _, gradient, row = plain
    probe = np.zeros(SMALL.environments)
    (found, _), _ = gradient(row, probe)
    _, gradient, row = of_loss(push(episode_length=3), dataclasses.replace(SMALL, steepest=1e-3))
    (cut, dropped), _ = gradient(row, probe)
    assert 0 < np.linalg.norm(cut) < 0.5 * np.linalg.norm(found) and not np.asarray(dropped).any()


def test_derivatives_that_are_no_numbers_are_left_out_and_counted():
    loss, gradient, row = of_loss(Torn(cart(), dt=0.1, episode_length=30))
    probe = np.zeros(SMALL.environments)
    (found, dropped), moments = gradient(row, probe)
    left = np.asarray(moments.reached)[..., 0] <= -0.3
    assert left.any() and not left.all() and not np.asarray(moments.lost).any()
    # Each sample counts once per drop; the other samples are unaffected.
    np.testing.assert_array_equal(dropped, left.sum(axis=0))
    assert np.isfinite(found).all() and np.linalg.norm(found) > 0


def test_samples_that_come_to_no_number_are_begun_anew():
    task = Torn(cart(), dt=0.1, episode_length=30, broken=-0.3)
    _, gradient, row = of_loss(task)
    (found, _), moments = gradient(row, np.zeros(SMALL.environments))
    lost = np.asarray(moments.lost)
    assert lost.any() and not lost.all() and (np.asarray(moments.terminated) >= lost).all()
    assert np.isfinite(found).all()
    for x in (moments.reward, moments.reached):
        assert np.isfinite(x).all()
