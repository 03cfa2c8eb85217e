"""Derivative matrices of constrained accelerations and multipliers agree with automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import four_bar
from support import assert_close
from test_elimination import random_mechanism

import rbd_jax as rbd
from rbd_jax import constraints as rc


def compared(model, q, v, method="auto", stabilization=None, f_ext=None):
    """Compares the six matrices with forward-mode derivatives along the tangent space."""
    tau = np.random.default_rng(0).normal(size=model.nv)
    options = {"f_ext": f_ext, "method": method, "stabilization": stabilization}

    def moved(dq, v, tau):
        found = rbd.constrained_dynamics(model, rbd.integrate(model, q, dq), v, tau, **options)
        return tuple(found)

    @jax.jit
    def both(q, v, tau):
        return (
            rbd.constrained_dynamics_derivatives(model, q, v, tau, **options),
            jax.jacfwd(moved, argnums=(0, 1, 2))(np.zeros(model.nv), v, tau),
        )

    found, (acceleration, multipliers) = both(q, v, tau)
    for one, other in zip(found, acceleration, strict=True):
        assert_close(one, other, 1e-9, "acceleration")
    parts = found.multipliers_by_q, found.multipliers_by_v, found.multipliers_by_tau
    for one, other in zip(parts, multipliers, strict=True):
        assert_close(one, other, 1e-9, "multipliers")


def closed(angle, rate):
    turn = np.array([1.0, -1.0, 1.0])
    return angle * turn, rate * turn


@pytest.mark.slow
@pytest.mark.parametrize("method", ["elimination", "range_space", "null_space", "kkt"])
@pytest.mark.parametrize("loop", ["hinge", "revolute"])
def test_four_bar(loop, method):
    """All methods, with and without redundant rows; with external forces and Baumgarte stabilization."""
    model = four_bar(loop)
    f_ext = np.random.default_rng(1).normal(size=(model.nb, 6))
    compared(model, *closed(0.7, 1.3), method, rc.Baumgarte(3.0, 4.0), f_ext)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_mechanisms(seed):
    """Random mechanisms have joints and constraints of all families, including quaternions."""
    model, q = random_mechanism(seed)
    v = rbd.project_velocity(model, q, jnp.asarray(np.random.default_rng(seed).normal(size=model.nv)))
    compared(model, q, v)


@pytest.mark.slow
def test_without_constraints():
    """Without constraints they are the derivatives of forward dynamics."""
    model = rc.without_constraints(four_bar())
    q, v = closed(0.7, 1.3)
    found = rbd.constrained_dynamics_derivatives(model, q, v, v)
    for one, other in zip(found, rbd.forward_dynamics_derivatives(model, q, v, v), strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.multipliers_by_q.shape == (0, 3)
