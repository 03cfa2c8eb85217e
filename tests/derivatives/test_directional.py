"""Analytic derivatives of inverse and forward dynamics agree with those of the recursions, to any order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import GROUPS, MODELS, branched_model, mixed_model, states, weights
from support import assert_close

import rbd_jax as rbd
from rbd_jax.dynamics import Motion
from rbd_jax.dynamics.inverse import newton_euler_forces, recursive_newton_euler


def plain(model, q, v, a, f_ext):
    """Inverse dynamics without analytic derivatives."""
    return newton_euler_forces(Motion(model, q, v), a, f_ext) + model.armature * a


def directions(model):
    """Returns states with quaternions of non-unit length, forces and accelerations, and directions of change."""
    q, v = states(model)
    for body in range(model.nb):
        joint = model.joints[model.topology.kind_of[body][0]]
        if joint.quaternion is not None and not model.topology.is_mimic[body]:
            start = model.q_slice(body).start
            q[:, start + joint.quaternion.start : start + joint.quaternion.stop] *= 1.7
    rng = np.random.default_rng(0)
    shapes = (model.nv, (model.nb, 6)), (model.nq, model.nv, model.nv, (model.nb, 6))
    a, f_ext = (rng.normal(size=(len(q), *np.atleast_1d(shape))) for shape in shapes[0])
    changes = tuple(rng.normal(size=(len(q), *np.atleast_1d(shape))) for shape in shapes[1])
    return (q, v, a, f_ext), changes


def one_direction(model):
    """Returns the first state of `directions`, its forces and its direction of change."""
    return jax.device_put(jax.tree.map(lambda x: x[0], directions(model)))


@pytest.mark.slow
@pytest.mark.parametrize("name", (*GROUPS, "mixed", "coupled"))
def test_along_a_direction_of_everything(name):
    """Derivatives by q, v, a and f_ext agree with the recursion to rounding, for joints of all families."""
    model = MODELS[name]()
    at, changes = directions(model)

    def both(at, changes):
        found = jax.jvp(lambda *x: rbd.inverse_dynamics(model, *x), at, changes)[1]
        return found, jax.jvp(lambda *x: plain(model, *x), at, changes)[1]

    found, expected = jax.jit(jax.vmap(both))(at, changes)
    assert_close(found, expected, 1e-12, axis=-1)


@pytest.mark.parametrize("number", [*(pytest.param(i, marks=pytest.mark.slow) for i in range(3)), 3])
def test_one_change_alone(number):
    """The derivative by a single argument is correct when the others do not change."""
    model = branched_model()
    at, changes = one_direction(model)

    @jax.jit
    def both(at, change):
        def of_one(function):
            one = lambda x: function(*at[:number], x, *at[number + 1 :])
            return jax.jvp(one, (at[number],), (change,))[1]

        return of_one(lambda *x: rbd.inverse_dynamics(model, *x)), of_one(lambda *x: plain(model, *x))

    found, expected = both(at, changes[number])
    assert_close(found, expected, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coupled", "branched", "mixed"])
def test_second_derivatives(name):
    """Hessians and nested reverse and forward modes agree with those of the recursion, also by the model.

    The larger models test further nestings of the modes.
    """
    model = {**MODELS, "branched": branched_model}[name]()
    (*at, f_ext), _ = one_direction(model)

    def scalar(dynamics):
        return lambda heavier, *x: weights(model.nv) @ dynamics(_scaled(model, heavier), *x, f_ext)

    def seconds(function):
        by_motion = jax.grad(function, argnums=(1, 2, 3))
        basic = {
            "Hessian": jax.hessian(function, argnums=(1, 2, 3))(1.0, *at),
            "by the model, first": jax.jacfwd(jax.grad(function), argnums=(1, 2, 3))(1.0, *at),
        }
        return (
            basic
            if name == "coupled"
            else basic
            | {
                "reverse over forward": jax.jacrev(jax.jacfwd(function, argnums=(1, 2)), argnums=1)(1.0, *at),
                "by the model, then": jax.jacfwd(by_motion)(1.0, *at),
            }
        )

    found, expected = jax.jit(lambda: (seconds(scalar(rbd.inverse_dynamics)), seconds(scalar(plain))))()
    for name, parts in expected.items():
        for one, other in zip(jax.tree.leaves(found[name]), jax.tree.leaves(parts), strict=True):
            assert_close(one, other, 1e-11, name)


def _scaled(model, factor):
    """Returns the model with heavier bodies, longer links and more gravity."""
    import equinox as eqx

    leaves = lambda m: (m.inertias, m.placements.position, m.gravity)
    return eqx.tree_at(leaves, model, jax.tree.map(lambda leaf: factor * leaf, leaves(model)))


@pytest.mark.slow
@pytest.mark.parametrize("model", [branched_model, mixed_model])
def test_forward_dynamics(model):
    """Forward and reverse mode give the derivative matrices on the tangent space."""
    model = model()
    (q, v, tau, f_ext), _ = one_direction(model)

    def moved(dq, v, tau):
        return rbd.forward_dynamics(model, rbd.integrate(model, q, dq), v, tau, f_ext)

    at = np.zeros(model.nv), v, tau
    everything = jax.jit(
        lambda: (
            rbd.forward_dynamics_derivatives(model, q, v, tau, f_ext),
            jax.jacfwd(moved, argnums=(0, 1, 2))(*at),
            jax.jacrev(moved, argnums=(0, 1, 2))(*at),
        )
    )
    matrices, forward, reverse = everything()
    for expected, one, other in zip(matrices, forward, reverse, strict=True):
        assert_close(one, expected, 1e-11)
        assert_close(other, expected, 1e-11)


@pytest.mark.slow
def test_what_a_motion_knows_may_be_differentiated():
    """Properties of a motion are differentiable, both cached and not, inside and outside of the differentiated function."""
    model = branched_model()
    (q, v, a, _), (dq, *_) = one_direction(model)

    def asked(q):
        motion = Motion(model, q, v).computed("velocities", "inertias")
        force = recursive_newton_euler(motion, a)
        return force @ force + jnp.sum(motion.velocities)

    def anew(q):
        force = plain(model, q, v, a, None)
        return force @ force + jnp.sum(Motion(model, q, v).velocities)

    both = jax.jit(lambda q, dq: [jax.jvp(function, (q,), (dq,))[1] for function in (asked, anew)])
    assert_close(*both(q, dq), 1e-12)
