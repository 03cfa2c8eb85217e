"""Floating-base mechanisms, and the mechanism as a single body (book §9.3 to §9.5)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import POINT, apply, assert_close, build, case_of, compiled, some_states
from jax.flatten_util import ravel_pytree
from reference import Mechanism, joint_tables
from support import differences

import rbd_jax as rbd
from rbd_jax import joints


def geared():
    """Returns a floating base with armature and a mimic joint."""
    bodies = [
        ("base", "world", joints.Free()),
        ("plate", "base", joints.Fixed()),
        ("arm", "plate", joints.Revolute((1.0, -2.0, 0.5))),
        ("finger", "base", joints.Prismatic((0.2, 1.0, 0.0))),
        ("tip", "arm", joints.Universal((1.0, 0.2, 0.1), (0.3, 1.0, -0.2))),
    ]
    along = {"finger": {"mimic": rbd.Mimic("arm", -0.7, 0.4)}, "arm": {"armature": 0.3}}
    along["base"] = {"armature": np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])}
    return build("geared", bodies, seed=8, **along)


def observe(model, q, v, a, f_ext):
    """Returns all floating-base quantities, and the quantities that they must agree with."""
    n = model.nv - 6
    tau = jnp.cos(jnp.arange(float(n)))
    forward = rbd.floating_base_forward_dynamics(model, q, v, tau, f_ext)
    inverse = jax.vmap(lambda own: tuple(rbd.floating_base_inverse_dynamics(model, q, v, own, f_ext)))
    (base, base_back), (needed, tau_back) = inverse(jnp.stack([a[6:], forward.joint_acceleration]))
    equation = rbd.floating_base_equation(model, q, v, f_ext)
    hybrid = rbd.hybrid_dynamics(model, q, v, 0 * a, a, jnp.arange(model.nv) >= 6, f_ext)
    heavier = replace(model, gravity=3 * model.gravity + 1)
    return {
        "base": base,
        "needed": needed,
        "hybrid": (hybrid.acceleration[:6], hybrid.tau[6:]),
        "all forces": rbd.inverse_dynamics(model, q, v, jnp.concatenate([base, a[6:]]), f_ext),
        "forward": tuple(forward),
        "forward, heavier": rbd.floating_base_forward_dynamics(heavier, q, v, tau, f_ext).joint_acceleration,
        "free joint": rbd.forward_dynamics(model, q, v, jnp.concatenate([jnp.zeros(6), tau]), f_ext),
        "back": (base_back, tau_back),
        "solved": tuple(equation.solve(tau)),
        "tau": tau,
        "equation": equation,
        "reduced": equation.reduced_inertia,
        "reduced bias": equation.reduced_bias,
        "reduced alone": rbd.floating_base_mass_matrix(model, q),
        "mobility": rbd.solve_mass_matrix(model, q, jnp.eye(model.nv)),
        "response": rbd.floating_base_jacobian(model, q, 0, frame="body"),
        "full momentum": rbd.centroidal_momentum_matrix(model, q),
    }


def observe_body(model, q, v, a, f_ext):
    """Returns results for the last body, with joints at rest and moving."""
    last = model.nb - 1
    equation = rbd.floating_base_equation(model, q, v, f_ext)
    without_joints = equation.solve(equation.reduced_bias).base_acceleration
    base = rbd.floating_base_inverse_dynamics(model, q, v, a[6:], f_ext).base_acceleration
    accelerations = jax.vmap(lambda a: rbd.body_accelerations(model, q, v, a)[last])
    whole = jnp.stack([jnp.concatenate([base, a[6:]]), jnp.concatenate([without_joints, 0 * a[6:]])])
    return {
        "jacobian": rbd.floating_base_jacobian(model, q, last, POINT, "world_aligned"),
        "full jacobian": rbd.jacobian(model, q, last, POINT, "world_aligned"),
        "world jacobian": rbd.floating_base_jacobian(model, q, last),
        "accelerations": accelerations(whole),
    }


@pytest.fixture(
    scope="module",
    params=["floating", *(pytest.param(x, marks=pytest.mark.slow) for x in ("mixed", "geared"))],
)
def seen(request):
    if request.param == "geared":
        model = geared()
        states = some_states(model)
    else:
        model, states = case_of(request.param).model, case_of(request.param).states
    return model, states, compiled(observe)(model, states.q, states.v, states.a, states.f_ext)


# Relations between the algorithms.


def test_nothing_drives_the_base(seen):
    """With the computed base acceleration the base forces are zero, and the joint forces are those of inverse dynamics."""
    _, _, found = seen
    scale = np.abs(found["all forces"]).max()
    np.testing.assert_allclose(found["all forces"][:, :6], 0, atol=1e-12 * max(scale, 1))
    assert_close(found["needed"], found["all forces"][:, 6:], 1e-13)


def test_it_is_the_mechanism_on_a_free_joint(seen):
    """Inverse dynamics is hybrid dynamics with an undriven base; all three forms of forward dynamics agree with a free
    joint.

    The third form is the equation of motion by its coefficients, book table 9.5 and eq. 9.13.
    """
    _, _, found = seen
    for a, b in zip((found["base"], found["needed"]), found["hybrid"], strict=True):
        assert_close(a, b, 1e-12)
    whole = found["free joint"][:, :6], found["free joint"][:, 6:]
    for way in ("forward", "solved"):
        for a, b in zip(found[way], whole, strict=True):
            assert_close(a, b, 1e-11)


def test_forward_and_inverse_dynamics_undo_each_other(seen):
    _, _, found = seen
    assert_close(found["back"][0], found["forward"][0], 1e-11)
    assert_close(found["back"][1], found["tau"], 1e-11)


def test_gravity_has_no_part_in_how_joints_accelerate(seen):
    _, _, found = seen
    model, _, _ = seen
    if not np.asarray(model.armature[:6]).any():
        np.testing.assert_array_equal(found["forward"][1], found["forward, heavier"])


def test_reduced_inertia(seen):
    """(9.15) is the inverse of the joints' block of `M⁻¹`, for forces at the joints only; (9.14) is its equation."""
    _, _, found = seen
    joints = found["mobility"][:, 6:, 6:]
    assert_close(found["reduced"] @ joints, np.broadcast_to(np.eye(joints.shape[-1]), joints.shape), 1e-10)
    np.testing.assert_allclose(found["reduced alone"], found["reduced"], rtol=1e-12)
    needed = apply(found["reduced"], found["solved"][1]) + found["reduced bias"]
    assert_close(needed, found["tau"], 1e-11)


def test_how_the_base_gives_way(seen):
    """Joint velocities with the base velocity `-(I₀ᶜ)⁻¹ F q̇` have zero momentum and the kinetic energy of `Hᶠˡ`.

    Momentum and energy do not include armature along the base.
    """
    model, _, found = seen
    joint_velocity = found["tau"]
    base = apply(found["response"], joint_velocity)
    equation = found["equation"]
    np.testing.assert_allclose(
        found["response"], -np.linalg.solve(equation.base_inertia, equation.coupling), atol=1e-12
    )
    if np.asarray(model.armature[:6]).any():
        return
    both = np.concatenate([base, joint_velocity], axis=1)
    np.testing.assert_allclose(apply(found["full momentum"], both), 0, atol=1e-11)
    M = np.linalg.inv(found["mobility"])
    energy = np.einsum("si,sij,sj->s", both, M, both)
    assert_close(np.einsum("si,sij,sj->s", joint_velocity, found["reduced"], joint_velocity), energy, 1e-10)


@pytest.mark.slow
def test_floating_jacobian(seen):
    """Example 9.4: `J` for these velocities, the response to an impulse, and `a = Jᶠˡ q̈ + J̇ v - (I₀ᶜ)⁻¹ p₀ᶜ`."""
    model, states, found = seen
    body = compiled(observe_body)(model, states.q, states.v, states.a, states.f_ext)
    full, n = body["full jacobian"], found["tau"].shape[-1]
    null = np.concatenate([found["response"], np.broadcast_to(np.eye(n), (len(full), n, n))], axis=1)
    assert_close(body["jacobian"], full @ null, 1e-12)
    change = apply(found["mobility"][:, :, 6:], found["tau"])  # of v, by an impulse at the joints
    assert_close(apply(body["jacobian"], change[:, 6:]), apply(full, change), 1e-10)
    acceleration, without_joints = np.moveaxis(body["accelerations"], 1, 0)
    expected = apply(body["world jacobian"], states.a[:, 6:]) + without_joints
    assert_close(acceleration, expected, 1e-10)


def one_body(model, q, v):
    """Returns the mechanism's inertia and average velocity as a single body, about several points."""
    point, center = jnp.array([0.7, -1.2, 0.4]), rbd.center_of_mass(model, q)
    about = jnp.stack([point, center])
    inertias = jax.vmap(lambda at: rbd.locked_inertia(model, q, at).matrix)(about)
    of_base = jnp.zeros_like(v).at[:6].set(v[:6])
    velocities = jax.vmap(lambda v, at: rbd.average_velocity(model, q, v, at))
    of_point, of_center, turning = velocities(jnp.stack([v, v, of_base]), jnp.concatenate([about, about[:1]]))
    return {
        "inertia": {
            "origin": rbd.locked_inertia(model, q).matrix,
            "point": inertias[0],
            "center": inertias[1],
        },
        "centroidal": rbd.centroidal_inertia(model, q).matrix,
        "velocity": {
            "origin": rbd.average_velocity(model, q, v),
            "point": of_point,
            "center": of_center,
        },
        "momentum": rbd.momentum(model, q, v),
        "center": center,
        "center velocity": rbd.center_of_mass_jacobian(model, q) @ v,
        "whole turning": turning,
        "base": rbd.spatial.motion_shift(rbd.body_velocities(model, q, of_base)[0], point),
        "point": point,
    }


@pytest.mark.parametrize(
    "name", ["floating", *(pytest.param(x, marks=pytest.mark.slow) for x in ("forest", "mixed"))]
)
def test_the_whole_as_one_body(name):
    """The locked inertia times the average velocity is the momentum, about every point.

    About the center of mass the linear part is the center's velocity. With locked joints all bodies have the average
    velocity.
    """
    case = case_of(name)
    seen = compiled(one_body)(case.model, case.states.q, case.states.v)
    for at, shift in (("origin", 0 * seen["point"]), ("point", seen["point"]), ("center", seen["center"])):
        k, p = seen["momentum"][:, :3], seen["momentum"][:, 3:]
        about = np.concatenate([k - np.cross(shift, p), p], axis=1)
        assert_close(apply(seen["inertia"][at], seen["velocity"][at]), about, 1e-12)
    assert_close(seen["centroidal"], seen["inertia"]["center"], 1e-12)
    np.testing.assert_allclose(seen["centroidal"][:, :3, 3:], 0, atol=1e-12)
    assert_close(seen["velocity"]["center"][:, 3:], seen["center velocity"], 1e-12)
    if name != "forest":
        assert_close(seen["whole turning"], seen["base"], 1e-12)


def test_far_from_the_origin_in_single_precision():
    """About the center of mass all digits are correct a kilometer away, except for those of the body positions."""
    model = rbd.astype(rbd.load("quadruped"), jnp.float32)
    q, v = np.array(rbd.neutral(model)), np.sin(np.arange(model.nv, dtype=np.float32))
    far = q.copy()
    far[:3] += np.array([1024.0, -512.0, 0.0], np.float32)

    @jax.jit
    def ask(q):
        return rbd.average_velocity(model, q, v, q[:3]), rbd.centroidal_inertia(model, q).matrix

    there, here = ask(far), ask(q)
    assert there[0].dtype == jnp.float32
    for a, b in zip(there, here, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


# The book's tables as separate implementations.


def test_tables_9_4_and_9_6():
    """Book tables 9.4 and 9.6, one body at a time."""
    case = case_of("floating")
    rows = compiled(joint_tables)(case.model, case.states.q, case.states.v)
    s = case.states
    found = compiled(observe)(case.model, s.q, s.v, s.a, s.f_ext)
    for i in range(len(s.q)):
        mechanism = Mechanism.of(case.model, [{key: x[i] for key, x in row.items()} for row in rows])
        f_ext = s.f_ext[i]
        base, tau = mechanism.floating_rnea(s.a[i], f_ext)
        assert_close(found["base"][i], base, 1e-12)
        assert_close(found["needed"][i], tau, 1e-12)
        given = np.concatenate([np.zeros(6), found["tau"][i]])
        base, acceleration = mechanism.floating_aba(given, f_ext)
        assert_close(found["forward"][0][i], base, 1e-11)
        assert_close(found["forward"][1][i], acceleration, 1e-11)


# Derivatives and arguments.


DIFFERENTIATED = {
    "whole": lambda m, q, v, a, f: (
        rbd.locked_inertia(m, q, a[:3]).parameters,
        rbd.centroidal_inertia(m, q).parameters,
        rbd.average_velocity(m, q, v, a[:3]),
    ),
    "inverse": lambda m, q, v, a, f: tuple(rbd.floating_base_inverse_dynamics(m, q, v, a[6:], f)),
    "forward": lambda m, q, v, a, f: tuple(rbd.floating_base_forward_dynamics(m, q, v, a[6:], f)),
    "equation": lambda m, q, v, a, f: (
        rbd.floating_base_equation(m, q, v, f).reduced_bias,
        rbd.floating_base_mass_matrix(m, q),
        rbd.floating_base_jacobian(m, q, 2, POINT, "body"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", DIFFERENTIATED)
def test_derivatives(what):
    """Derivatives by every parameter of the model and by the state agree with differences."""
    case = case_of("floating")
    s = case.states
    numbers, rest = eqx.partition(case.model, eqx.is_inexact_array)
    given = {"m": (numbers.gravity, numbers.placements, numbers.inertias, numbers.joints, numbers.armature)}
    given |= {"q": s.q[0], "v": s.v[0], "a": s.a[0], "f": s.f_ext[0]}
    flat, unravel = ravel_pytree(given)

    def said(flat):
        x = unravel(flat)
        parts = dict(zip(("gravity", "placements", "inertias", "joints", "armature"), x["m"], strict=True))
        model = eqx.combine(replace(numbers, **parts), rest)
        results = DIFFERENTIATED[what](model, x["q"], x["v"], x["a"], x["f"])
        results = ravel_pytree(results)[0]
        return np.random.default_rng(5).normal(size=(2, len(results))) @ results

    slopes = jax.jit(jax.jacrev(said))(flat)
    expected = differences(jax.jit(jax.vmap(said)), flat[None], 1e-4, 4)[0]
    assert_close(slopes, expected, 1e-7)


def test_refused():
    model = case_of("floating").model
    q, v = case_of("floating").states.q[0], np.zeros(model.nv)
    with pytest.raises(ValueError, match="tau has shape.*besides those of its base; leave out"):
        rbd.floating_base_forward_dynamics(model, q, v, v)
    with pytest.raises(ValueError, match=r"joint_acceleration has shape \(3,\)"):
        rbd.floating_base_inverse_dynamics(model, q, v, np.zeros(3))
    arm, still = rbd.load("double_pendulum"), np.zeros(2)
    with pytest.raises(rbd.ModelError, match="on a Revolute"):
        rbd.floating_base_mass_matrix(arm, still)
    forest = case_of("forest").model
    with pytest.raises(rbd.ModelError, match="2 trees that move"):
        rbd.floating_base_equation(forest, np.zeros(forest.nq), np.zeros(forest.nv))
    with pytest.raises(rbd.ModelError, match="floating_base_jacobian"):
        rbd.floating_base_jacobian(arm, still, 0)
