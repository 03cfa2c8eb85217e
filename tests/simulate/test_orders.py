"""The order of every scheme, on curved manifolds and with a time-dependent model."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from schemes import EXPLICIT, IMPLICIT, ORDERS, VARIATIONAL, scheme
from simulated import SPIN, floating_pair, heavy_top, moving

import rbd_jax as rbd


@functools.cache
def top(motion=None):
    return heavy_top(motion), SPIN


@functools.cache
def pair():
    model = floating_pair((0.3, -0.2, -9.81), rbd.joints.Spherical())
    return model, moving(model)


@functools.cache
def exact(case, span):
    model, state = case()
    tight = scheme("RKMK45", rtol=1e-13, atol=1e-13, max_steps=4000)
    return jax.jit(lambda s: rbd.rollout(model, s, dt=span, steps=1, scheme=tight).final)(state)


def orders(case, name, dt, rows=20):
    """Returns the slopes of the error after `rows` steps, from two halvings of the step.

    A single compiled function serves all three step sizes.
    """
    model, state = case()
    end, errors = exact(case, rows * dt), []

    @jax.jit
    def run(dt, end):
        path = rbd.rollout(model, state, dt=dt, steps=4 * rows, scheme=scheme(name))
        steps = jax.vmap(lambda q: rbd.difference(model, q, end.q))(path.q)
        return jnp.concatenate([steps, path.v - end.v[None]], axis=1), path.code

    for n in (1, 2, 4):
        off, code = run(dt / n, end)
        assert code == 0
        errors.append(np.linalg.norm(np.asarray(off)[n * rows]))
    return np.log2(np.array(errors[:-1]) / errors[1:])


def shaken_top():
    return top(shaken)


def shaken(time):
    return 0.05 * jnp.sin(40 * time)[None]


def test_there_is_nothing_else():
    """The lists below contain every scheme with fixed steps."""
    classes = {kind for kind in vars(rbd).values() if isinstance(kind, type) and issubclass(kind, rbd.Scheme)}
    listed = {type(scheme(name)) for name in ORDERS}
    assert {x for x in classes - listed if not inspect.isabstract(x)} == {rbd.Adaptive, rbd.RKMK45}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXPLICIT, *IMPLICIT])
def test_of_a_top_whose_pivot_is_shaken(name):
    """The fast heavy top with a moving pivot; stages must also be at the right times.

    Müller & Terze 2013 eqs. 35 to 37 are those of Munthe-Kaas.
    """
    found = orders(shaken_top, name, 1 / 4000)
    np.testing.assert_allclose(found, ORDERS[name], atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIATIONAL)
def test_of_a_top(name):
    np.testing.assert_allclose(orders(top, name, 1 / 4000), 2, atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_of_a_floating_body_that_carries_another(name):
    """A free joint and a spherical one. With steps a quarter as long, fourth order ends in rounding errors."""
    np.testing.assert_allclose(orders(pair, name, 1 / 100), ORDERS[name], atol=0.15)
