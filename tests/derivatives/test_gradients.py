"""Derivatives of the dynamics by all numbers are finite and agree with finite differences, also at special states."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import (
    FAMILIES,
    GROUPS,
    MODELS,
    branched_model,
    dynamics_scalar,
    entry_names,
    points,
    straight_arm,
    weights,
)
from support import assert_close, differences

import rbd_jax as rbd


@functools.cache
def observed(name):
    """Returns the points, the inverse of flattening, the compiled gradient and the compiled function."""
    x, unravel = points(MODELS[name]())
    scalar = dynamics_scalar(unravel)
    return x, unravel, jax.jit(jax.vmap(jax.grad(scalar))), jax.jit(jax.vmap(scalar))


def directions(x):
    """Returns a random step for each row of `x` along all its finite entries."""
    steps = np.random.default_rng(1).normal(size=x.shape)
    return np.where(np.isfinite(x), steps, 0)


def test_every_family_is_covered():
    assert {family for families in GROUPS.values() for family in families} == set(FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_finite_differences(name):
    """By q, v, tau, a, f_ext and every leaf of the model, including placements, gravity and joint parameters."""
    x, unravel, gradient, scalar = observed(name)
    names = entry_names(unravel(x[0]))
    found = gradient(x)
    assert_close(found, differences(scalar, x), 1e-6, names=names, axis=-1)
    limits = [any(limit in path for limit in ("lower", "upper", "_limit")) for path in names]
    assert not np.asarray(found)[:, limits].any()
    # Leaves that are not limits have an effect.
    for leaf in (
        ".mass",
        ".first_moment",
        ".rotational",
        ".armature",
        ".damping",
        ".friction",
        "['tau']",
        "['v']",
    ):
        assert np.asarray(found)[:, [leaf in path for path in names]].any(), leaf


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_forward_and_reverse_mode_agree(name):
    """`jvp` along a direction is the gradient along it."""
    x, unravel, gradient, _ = observed(name)
    scalar = dynamics_scalar(unravel)
    steps = directions(x)
    slope = jax.jit(jax.vmap(lambda x, step: jax.jvp(scalar, (x,), (step,))[1]))(x, steps)
    size = np.abs(np.asarray(gradient(x)) * steps).sum(axis=1)
    assert_close((slope - np.sum(gradient(x) * steps, axis=1)) / size, np.zeros(len(x)), 1e-13, axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_curvatures_are_finite_differences(name):
    """Second derivatives along a direction, forward over reverse, are differences of gradients."""
    x, unravel, gradient, _ = observed(name)
    scalar = dynamics_scalar(unravel)
    steps = directions(x)
    curvature = jax.jit(jax.vmap(lambda x, step: jax.jvp(jax.grad(scalar), (x,), (step,))[1]))(x, steps)
    h = 1e-5
    moved = [gradient(x + i * h * steps) for i in (-2, -1, 1, 2)]
    assert_close(curvature, (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * h), 1e-5, axis=-1)


@pytest.mark.slow
def test_hessian_of_a_straight_arm():
    """All second derivatives at coincident axes and at rest are finite, symmetric, and agree with differences."""
    x, unravel, gradient, _ = observed("straight arm")
    hessian = np.asarray(jax.jit(jax.vmap(jax.hessian(dynamics_scalar(unravel))))(x[1:3]))
    assert_close(hessian, np.swapaxes(hessian, 1, 2), 1e-12, axis=-1)
    assert_close(hessian, np.swapaxes(differences(gradient, x[1:3]), 1, 2), 1e-5, axis=-1)


def test_massless_bodies_between():
    """Armature alone makes joints of massless bodies regular, so that forward dynamics still inverts inverse dynamics."""
    model = straight_arm()
    q, v, tau = np.zeros((3, model.nv))
    a = rbd.forward_dynamics(model, q, v, tau + 1)
    np.testing.assert_allclose(rbd.inverse_dynamics(model, q, v, a), tau + 1, rtol=1e-12)


@pytest.mark.slow
def test_knot_of_a_spline():
    """The second derivative of a spline has a kink at each knot, where derivatives are those from the right."""
    x, unravel, gradient, _ = observed("splines")
    model = MODELS["splines"]()
    names = entry_names(unravel(x[0]))
    at = names.index("['q']") + model.q_slice("spline curve").start
    places = np.array([0.0, 1e-9, 1.0, 1 + 1e-9, 6.0, 6 + 1e-9])
    x = np.tile(x[0], (len(places), 1))
    x[:, at] = places
    found = gradient(x)
    assert_close(found[::2], found[1::2], 1e-7, names=names, axis=-1)


@pytest.mark.slow
def test_walks_have_the_same_gradients():
    """On a forest both traversals, sequential and by levels, have the same gradients."""
    x, unravel, _, _ = observed("mixed")

    def walked(traversal):
        def scalar(flat):
            given = unravel(flat)
            return given | {"model": rbd.with_traversal(given["model"], traversal)}

        return jax.jit(jax.vmap(jax.grad(dynamics_scalar(scalar))))(x)

    assert_close(walked("levels"), walked("scan"), 1e-12, axis=-1)


@pytest.mark.slow
def test_batched_models_are_a_loop():
    """Values and gradients for models batched in some leaves only, by a tree of axes, agree with a loop."""
    model = branched_model()
    q, v = rbd.random_configuration(model, jax.random.key(1)), jnp.arange(float(model.nv)) / 3
    factors = jnp.array([0.5, 1.0, 2.0])

    def heavier(factor):
        def leaves(m):
            return m.inertias, m.placements.position, m.armature

        scaled = jax.tree.map(lambda leaf: factor * leaf, leaves(model))
        return eqx.tree_at(leaves, model, scaled)

    def energy_gradient(model, q):
        def value(model, q):
            return weights(model.nv) @ rbd.forward_dynamics(model, q, v, jnp.ones(model.nv))

        return jax.value_and_grad(value, argnums=(0, 1))(model, q)

    batched = jax.vmap(heavier)(factors)
    shared = jax.tree.map(lambda leaf: None, model)
    axes = eqx.tree_at(
        lambda m: (m.inertias, m.placements.position, m.armature),
        shared,
        jax.tree.map(lambda leaf: 0, (model.inertias, model.placements.position, model.armature)),
        is_leaf=lambda leaf: leaf is None,
    )
    thinned = jax.tree.map(
        lambda axis, many, one: one if axis is None else many, axes, batched, model, is_leaf=_none
    )
    together = jax.jit(jax.vmap(energy_gradient, in_axes=(axes, None)))(thinned, q)
    alone = jax.jit(energy_gradient)
    for i, factor in enumerate(factors):
        expected = jax.tree.leaves(alone(heavier(factor), q))
        for found, one in zip(jax.tree.leaves(together), expected, strict=True):
            assert_close(found[i].reshape(-1), one.reshape(-1), 1e-12, axis=-1)
    # Equinox's `filter_vmap`, with every array of the model batched.
    accelerate = jax.jit(jax.vmap(lambda m: rbd.forward_dynamics(m, q, v, v)))
    filtered = eqx.filter_vmap(lambda m: rbd.forward_dynamics(m, q, v, v))(batched)
    assert_close(filtered, accelerate(batched), 1e-12, axis=-1)


def _none(leaf):
    return leaf is None
