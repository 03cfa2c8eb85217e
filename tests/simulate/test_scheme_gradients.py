"""Gradients through a few steps of every scheme match finite differences, under jit and vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from schemes import ORDERS, scheme
from simulated import floating_pair, moving, pendulum

import rbd_jax as rbd


def check(model, rule, tolerance, seeds=2):
    """Compares gradients with respect to initial state, control, masses and the time step."""
    controls = jnp.asarray(np.random.default_rng(1).normal(size=(3, model.nv)))
    given = [
        ravel_pytree((model.inertias, moving(model, n), controls, jnp.asarray(0.02))) for n in range(seeds)
    ]
    unravel, x = given[0][1], np.stack([flat for flat, _ in given])

    def value(x):
        inertias, state, controls, dt = unravel(x)
        changed = eqx.tree_at(lambda m: m.inertias, model, inertias)
        end = rbd.rollout(changed, state, controls, dt=dt, scheme=rule).final
        return jnp.sum(jnp.sin(jnp.concatenate([end.q, end.v])))

    directions = np.random.default_rng(2).normal(size=(6, x.shape[1])) / np.sqrt(x.shape[1])
    moved = x[:, None, None] + 1e-4 * np.array([-2, -1, 1, 2])[:, None, None] * directions
    values = jax.jit(jax.vmap(value))(moved.reshape(-1, x.shape[1])).reshape(seeds, 4, 6)
    expected = np.einsum("k,skd->sd", np.array([1, -8, 8, -1]) / 12e-4, values)
    found = np.asarray(jax.jit(jax.vmap(jax.grad(value)))(x)) @ directions.T
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ImplicitMidpoint", "BDF2"])
def test_of_a_pendulum(name):
    check(pendulum(1, damping=0.1), scheme(name), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ORDERS, "RKMK45"])
def test_of_a_floating_pair(name):
    """A free joint and a spherical one. The arm's smallest moment of inertia is large compared with the differences."""
    arm = rbd.Inertia.box(1.0, (0.3, 0.4, 1.0), (0.0, 0.0, -0.5))
    check(floating_pair((0.3, -0.2, -9.81), rbd.joints.Spherical(), arm), scheme(name), 1e-6)


@pytest.mark.slow
def test_memory_of_a_long_gradient():
    """The gradient of 100,000 steps with checkpoints takes less than a gigabyte and is finite."""
    model = pendulum(2, damping=0.1)

    def value(state):
        path = rbd.rollout(model, state, dt=1e-3, steps=100_000, save_every=100, checkpoint=True)
        return jnp.sum(path.final.q)

    done = jax.jit(jax.grad(value)).lower(moving(model)).compile()
    memory = done.memory_analysis()
    assert memory.temp_size_in_bytes + memory.output_size_in_bytes < 2**30
    assert np.isfinite(ravel_pytree(done(moving(model)))[0]).all()
