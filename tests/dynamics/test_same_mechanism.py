"""Different descriptions of the same mechanism have the same dynamics."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    ALGORITHMS,
    FOLLOWS,
    apply,
    assert_close,
    build,
    compiled,
    coupled,
    outline,
    some_states,
    transpose,
)

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.lie import SO3


# Two traversals of the tree.


EVERY_DAY = ("acceleration", "jacobian rate, world")
OTHERS = tuple(name for group in ALGORITHMS for name in group if name not in EVERY_DAY)


@pytest.fixture(scope="module")
def by_levels(cases):
    case = cases("forest")
    assert case.model.topology.traversal == "scan"
    return case.algorithms(rbd.with_traversal(case.model, "levels"), groups=(EVERY_DAY, OTHERS))


@pytest.mark.parametrize(
    "name", [*EVERY_DAY, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_both_walks_give_the_same(cases, by_levels, name):
    assert_close(by_levels[name], cases("forest").seen[name])


# Welds and locks.


def forces(model, q, v, a):
    return {
        "tau": rbd.inverse_dynamics(model, q, v, a),
        "acceleration": rbd.forward_dynamics(model, q, v, a),
        "mass matrix": rbd.mass_matrix(model, q),
    }


@pytest.mark.slow
def test_fused_welds_leave_the_dynamics_as_they_are(cases):
    case = cases("forest")
    fused = rbd.fuse_fixed(case.model)
    assert fused.nb == case.model.nb - 3 and fused.nv == case.model.nv
    states = case.states.q, case.states.v, case.states.a
    jax.tree.map(assert_close, compiled(forces)(fused, *states), compiled(forces)(case.model, *states))


@pytest.mark.slow
def test_a_locked_joint_is_one_that_does_not_move(cases):
    case, at = cases("chain"), 0.6
    locked = rbd.lock_joints(case.model, {"link2": at})
    own = np.array([0, 1, 3, 4, 5])
    q, v, a = case.states.q, case.states.v, case.states.a
    seen = compiled(forces)(locked, q[:, own], v[:, own], a[:, own])
    turned, moving, pushed = q.copy(), v.copy(), a.copy()
    turned[:, 2], moving[:, 2], pushed[:, 2] = at, 0, 0
    whole = compiled(forces)(case.model, turned, moving, pushed)
    assert_close(seen["tau"], whole["tau"][:, own])
    assert_close(seen["mass matrix"], whole["mass matrix"][:, own][:, :, own])


# Coupled joints.


@pytest.mark.slow
def test_coupled_joints_are_free_ones_projected(cases):
    """With `q_all = G q + offset`: `M = Gᵀ M_all G`, and likewise for all forces (book eqs. 3.20 and 3.21)."""
    case, free = cases("coupled"), coupled(free=True)
    # a, b, c, d, e, f; of the independent coordinates: a, b, d, f
    g, offset = np.zeros((8, 6)), np.zeros(5)
    for row, (factor, shift) in zip((0, 2, 4), FOLLOWS.values()):
        g[row, 0], offset[row] = factor, shift
    g[1, 1] = g[3, 2] = 1
    g[5:, 3:] = np.eye(3)
    q = np.concatenate([apply(g[:5, :3], case.states.q[:, :3]) + offset, case.states.q[:, 3:]], axis=1)
    v, a = (apply(g, x) for x in (case.states.v, case.states.a))
    whole = compiled(outline)(free, q, v, a, case.states.f_ext)
    for key in ("frames", "kinetic energy", "potential energy", "momentum"):
        assert_close(case.motion["now"][key], whole[key])
    seen = case.seen
    assert_close(seen["accelerations, world"], whole["accelerations, world"])
    for key in ("mass matrix", "coriolis"):
        assert_close(seen[key], g.T @ whole[key] @ g)
    assert_close(seen["bias, external"], apply(g.T, whole["bias, external"]))
    assert_close(seen["jacobian rate, world"], whole["jacobian rate, world"] @ g)


# Precision and massless bodies.


@pytest.mark.slow
def test_single_precision_is_good_far_from_the_worlds_origin(cases):
    """The trees are about 50 m away, where positions have a resolution of 4 µm; the dynamics do not lose accuracy."""
    case = cases("forest")
    single = (x.astype(np.float32) for x in (case.states.q, case.states.v, case.states.a))
    rounded = compiled(forces)(rbd.astype(case.model, jnp.float32), *single)
    exact = compiled(forces)(case.model, case.states.q, case.states.v, case.states.a)
    for key, value in exact.items():
        assert rounded[key].dtype == np.float32
        # Single precision has 6e-8, and the mass matrices have a condition number of about 100.
        assert_close(rounded[key], value, 2e-5)


def forces_and_bias(model, q, v, a):
    return forces(model, q, v, a), rbd.bias_force(model, q, v)


def test_massless_bodies_within_need_no_care(cases):
    """Two inner bodies are massless, one with armature: the recursion still solves `M a = tau - bias`."""
    case = cases("chain")
    parameters, armature = np.array(case.model.inertias.parameters), np.array(case.model.armature)
    parameters[[1, 3]], armature[3] = 0, 0.2
    parameters, armature = jax.device_put((parameters, armature))
    model = replace(case.model, inertias=rbd.Inertia.from_parameters(parameters), armature=armature)
    seen, bias = compiled(forces_and_bias)(model, case.states.q, case.states.v, case.states.a)
    right = case.states.a - bias
    expected = np.linalg.solve(seen["mass matrix"], right[..., None])[..., 0]
    assert_close(seen["acceleration"], expected)


# Different joints for the same motion.


AXIS1, AXIS2 = (1.0, 0.2, 0.1), (0.3, 1.0, -0.2)


def serial(kind):
    """Returns the same arm with a universal joint, a composite of two revolutes, or two revolutes with a massless body
    between.
    """
    link = joints.Prismatic((1.0, 0.0, 0.3))
    arm = joints.Revolute((0.0, 1.0, 0.2))
    fork = {
        "universal": joints.Universal(AXIS1, AXIS2),
        "composite": joints.Composite((joints.Revolute(AXIS1), joints.Revolute(AXIS2))),
    }
    plain = build("serial", [("arm", "world", arm), ("fork", "arm", joints.Fixed()), ("link", "fork", link)])
    builder = rbd.ModelBuilder(plain.gravity, "serial")
    for index, (name, parent, joint) in enumerate(
        [("arm", "world", arm), ("fork", "arm", None), ("link", "fork", link)]
    ):
        placement, inertia = plain.placements[index], plain.inertias[index]
        if name != "fork":
            builder.add_body(name, parent, joint, placement, inertia)
        elif kind in fork:
            builder.add_body(name, parent, fork[kind], placement, inertia)
        else:
            builder.add_body("cross", parent, joints.Revolute(AXIS1), placement)
            builder.add_body(name, "cross", joints.Revolute(AXIS2), None, inertia)
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["universal", "composite"])
def test_a_joint_of_two_turns_is_two_joints(kind):
    """Two hinges with a massless body between them equal a universal joint and a composite joint."""
    hinges = serial("revolutes")
    states = some_states(hinges)
    states = states.q, states.v, states.a
    jax.tree.map(assert_close, compiled(forces)(serial(kind), *states), compiled(forces)(hinges, *states))


def body_and_arm(joint):
    return build(
        "body and arm", [("body", "world", joint), ("arm", "body", joints.Revolute((0.3, 0.0, 1.0)))]
    )


def outcome(model, q, v, tau):
    """Returns the externally visible motion under the forces."""
    a = rbd.forward_dynamics(model, q, v, tau)
    return {
        "velocities": rbd.body_velocities(model, q, v),
        "accelerations": rbd.body_accelerations(model, q, v, a),
        "inner": a[-1],
    }


def by_another(q, v, tau, subspace):
    """Returns v and tau for a joint with identity subspace, for the same motion as a joint with `subspace`."""
    return apply(subspace, v), np.linalg.solve(transpose(subspace), tau[..., None])[..., 0]


@pytest.mark.slow
def test_free_motion_in_other_velocities():
    """`Free` has its velocity in the body frame, `Free3D` partly in the world: `v_body = S v`, `tau = Sᵀ tau_body`."""
    free, other = body_and_arm(joints.Free()), body_and_arm(joints.Free3D())
    states = some_states(other)
    q, v, tau = np.asarray(states.q), np.asarray(states.v), np.asarray(states.a)
    rotation = np.asarray(rbd.lie.quaternion.to_matrix(jax.device_put(q[:, 3:7])))
    subspace = np.zeros((len(q), 6, 6))
    subspace[:, :3, 3:], subspace[:, 3:, :3] = np.eye(3), transpose(rotation)
    own_v, own_tau = by_another(q, v[:, :6], tau[:, :6], subspace)
    v_free, tau_free = (
        jnp.asarray(np.concatenate([x, y[:, 6:]], axis=1)) for x, y in ((own_v, v), (own_tau, tau))
    )
    seen = compiled(outcome)(free, states.q, v_free, tau_free)
    jax.tree.map(assert_close, seen, compiled(outcome)(other, states.q, states.v, states.a))


@pytest.mark.slow
@pytest.mark.parametrize(
    "joint", [joints.SphericalEuler("zyx"), joints.SphericalExponential()], ids=["euler", "exponential"]
)
def test_spherical_motion_in_other_coordinates(joint):
    """Angles or a rotation vector instead of a quaternion: `ω = S q̇`, `tau = Sᵀ n`."""
    ball, other = body_and_arm(joints.Spherical()), body_and_arm(joint)
    states = some_states(other)
    tables = jax.jit(jax.vmap(lambda q: (joint.transform(q).rotation, joint.motion_subspace(q)[:3])))
    rotation, subspace = tables(states.q[:, :3])
    quaternion = SO3.log(rotation)
    q = jnp.concatenate([jax.vmap(rbd.lie.quaternion.exp)(quaternion), states.q[:, 3:]], axis=1)
    own = by_another(q, states.v[:, :3], states.a[:, :3], np.asarray(subspace))
    v, tau = (jnp.asarray(np.concatenate([x, y[:, 3:]], axis=1)) for x, y in zip(own, (states.v, states.a)))
    seen = compiled(outcome)(ball, q, v, tau)
    jax.tree.map(assert_close, seen, compiled(outcome)(other, states.q, states.v, states.a))
