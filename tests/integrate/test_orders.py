"""The order of every scheme, on manifolds that are not flat and with a model that changes in time."""

import jax.numpy as jnp
import numpy as np
import pytest
from schemes import EXPLICIT, IMPLICIT, ORDERS, VARIATIONAL, scheme
from simulated import SPIN, compiled, floating_pair, heavy_top, moving

import rbd_jax as rbd


def orders(model, state, name, dt, rows):
    """The slopes of the error after `rows` steps, from two halvings of the step. One function serves all three."""
    path = compiled(lambda dt: rbd.rollout(model, state, dt=dt, steps=4 * rows, scheme=scheme(name)))
    paths = [path(dt / n) for n in (1, 2, 4)]
    tight = scheme("RKMK45", rtol=1e-13, atol=1e-13, max_steps=4000)
    exact = compiled(lambda s: rbd.rollout(model, s, dt=rows * dt, steps=1, scheme=tight).final)(state)
    errors = []
    for n, path in zip((1, 2, 4), paths):
        assert path.code == 0
        step = rbd.difference(model, path.q[n * rows], exact.q)
        errors.append(np.linalg.norm(np.concatenate([step, path.v[n * rows] - exact.v])))
    return np.log2(np.array(errors[:-1]) / errors[1:])


def shaken(time):
    return 0.05 * jnp.sin(40 * time)[None]


def test_there_is_nothing_else():
    """The lists below name every scheme with fixed steps."""
    from importlib import import_module

    room = import_module("rbd_jax.integrate")
    classes = {
        kind for kind in vars(room).values() if isinstance(kind, type) and issubclass(kind, room.Scheme)
    }
    listed = {type(scheme(name)) for name in ORDERS}
    assert classes - listed == {room.Scheme, room.Adaptive, room.RKMK45}


@pytest.mark.parametrize("name", [*EXPLICIT, *IMPLICIT])
def test_of_a_top_whose_pivot_is_shaken(name):
    """The fast heavy top; stages must also be at the right times."""
    found = orders(heavy_top(shaken), SPIN, name, 1 / 4000, 20)
    np.testing.assert_allclose(found, ORDERS[name], atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIATIONAL)
def test_of_a_top(name):
    np.testing.assert_allclose(orders(heavy_top(), SPIN, name, 1 / 4000, 20), 2, atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_of_a_floating_body_that_carries_another(name):
    model = floating_pair((0.3, -0.2, -9.81), rbd.joints.Spherical())
    np.testing.assert_allclose(orders(model, moving(model), name, 1 / 400, 20), ORDERS[name], atol=0.15)
