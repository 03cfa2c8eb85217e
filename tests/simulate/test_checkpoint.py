"""Gradients of rollouts, and the memory that they need."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from simulated import moving, pendulum, tumbler
from support import assert_each_close, differences

import rbd_jax as rbd


DT = 0.02


def final_number(path):
    """Returns a scalar that depends on the final state and the whole trajectory."""
    w = np.random.default_rng(5).uniform(0.5, 1.5, path.q.shape[1] + path.v.shape[1])
    return jnp.concatenate([path.q[-1], path.v[-1]]) @ jnp.asarray(w) + jnp.sum(path.q**2) / len(path.q)


@functools.cache
def gradient(checkpoint, save_every):
    """Returns value and gradient of 14 steps with respect to the controls."""
    model = pendulum(1, damping=0.1)
    state = moving(model)

    def value(controls):
        return final_number(
            rbd.rollout(model, state, controls, dt=DT, checkpoint=checkpoint, save_every=save_every)
        )

    return jax.jit(jax.value_and_grad(value))(
        jnp.asarray(np.random.default_rng(1).normal(size=(14, model.nv)))
    )


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint, save_every", [(4, 2), (True, 1), (1, 2), (100, 1)])
def test_checkpoints_change_no_numbers(checkpoint, save_every):
    """Value and gradient are equal for any number of stored states, also if it does not divide the steps."""
    assert_each_close(gradient(checkpoint, save_every), gradient(None, save_every))


@pytest.mark.parametrize(
    "make, scheme",
    [
        pytest.param(pendulum, rbd.SemiImplicitEuler(), marks=pytest.mark.slow),
        pytest.param(tumbler, rbd.SemiImplicitEuler(), marks=pytest.mark.slow),
        pytest.param(tumbler, rbd.RungeKutta4(), marks=pytest.mark.slow),
    ],
)
def test_gradients_are_finite_differences(make, scheme):
    """With respect to initial state, controls and all model parameters; friction is positive because it has a kink at zero."""
    model = make()
    model = dataclasses.replace(model, friction=model.friction + 0.05)
    controls = jnp.asarray(np.random.default_rng(1).normal(size=(5, model.nv)))
    flat, unravel = ravel_pytree((model, moving(model), controls))

    def value(flat):
        model, state, controls = unravel(flat)
        return final_number(rbd.rollout(model, state, controls, dt=DT, scheme=scheme))

    gradient = np.asarray(jax.jit(jax.grad(value))(flat))
    [expected] = differences(jax.jit(jax.vmap(value)), flat[None], 1e-4, order=4)
    np.testing.assert_allclose(gradient, expected, atol=1e-8 * np.abs(expected).max())


def remembered(checkpoint, steps, scheme=None):
    """Returns the bytes that reverse mode stores between its two passes, without the inputs."""
    model, state = pendulum(2), moving(pendulum(2))

    def backward(state):
        def value(state):
            path = rbd.rollout(model, state, dt=DT, steps=steps, checkpoint=checkpoint, scheme=scheme)
            return jnp.sum(path.final.q)

        return jax.vjp(value, state)[1]

    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(backward, state)))


def test_a_step_is_remembered_by_its_state():
    """By default reverse mode stores one state per step for any scheme: about 4 floats here."""
    model = pendulum(2)
    for scheme in (rbd.SemiImplicitEuler(), rbd.RungeKutta4()):
        per_step = (remembered(None, 200, scheme) - remembered(None, 100, scheme)) / 100
        assert 8 * (model.nq + model.nv) <= per_step <= 8 * (model.nq + model.nv + 3)


def test_checkpoints_remember_the_root_of_the_steps():
    """With `checkpoint=True` it stores √T states, and with an integer k every k-th, apart from step numbers."""
    state = 8 * 4
    root = [remembered(True, steps) - 8 * steps for steps in (100, 400, 1600)]
    assert np.diff(root)[0] <= 10 * 1.5 * state and np.diff(root)[1] <= 20 * 1.5 * state
    assert remembered(50, 400) < remembered(10, 400) < remembered(None, 400) / 3


@pytest.mark.slow
def test_compiled_memory_grows_as_the_root():
    """The compiled gradient's temporary memory grows at most fourfold for sixteen times the steps.

    This excludes the rows of the trajectory, the failure code of each row, and the derivative with respect to q.
    """
    model, state = pendulum(4), moving(pendulum(4))

    def memory(checkpoint, steps):
        def value(state):
            path = rbd.rollout(model, state, dt=DT, steps=steps, checkpoint=checkpoint)
            return jnp.sum(path.final.q)

        used = jax.jit(jax.grad(value)).lower(state).compile().memory_analysis().temp_size_in_bytes
        return used - model.dtype.itemsize * (2 * model.nq + model.nv + 1) * (steps + 1)

    plain = [memory(None, steps) for steps in (1024, 16384)]
    root = [memory(True, steps) for steps in (1024, 16384)]
    assert plain[1] > 12 * plain[0] and root[1] < 4 * root[0] and root[1] < plain[1] / 8
