"""The subspaces of joints: dual bases, the split of a wrench, and the book's gear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import FAMILIES

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.joints.subspaces import dual


SLOW = pytest.mark.slow
EVERY_DAY = ("fixed", "revolute", "euler zyx", "free")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EVERY_DAY else SLOW) for name in FAMILIES]
)
def test_bases_are_dual(name):
    """A wrench is the sum of its two parts, only the active one does work, and τ does not depend on T_a.

    Book eqs. 3.26, 3.34 to 3.38, table 3.1.
    """
    joint, rng = FAMILIES[name], np.random.default_rng(0)
    q = joint.random(jax.random.key(2)).astype(float)
    wrench, other = jnp.asarray(rng.normal(size=6)), jnp.asarray(rng.normal(size=(6, joint.nv)))

    @jax.jit
    def of(q):
        both = joints.subspaces(joint, q), joints.subspaces(joint, q, other)
        return [(own, own.split(wrench), own.wrench(*own.split(wrench))) for own in both]

    efforts = []
    for own, (tau, multipliers), again in of(q):
        np.testing.assert_allclose(own.active.T @ own.motion, np.eye(joint.nv), atol=1e-10)
        np.testing.assert_allclose(own.constraint.T @ own.motion, 0, atol=1e-12)
        np.testing.assert_allclose(own.constraint.T @ own.constraint, np.eye(6 - joint.nv), atol=1e-12)
        np.testing.assert_allclose(again, wrench, atol=1e-10)
        np.testing.assert_allclose(tau, own.motion.T @ wrench, atol=1e-12)
        assert multipliers.shape == (6 - joint.nv,)
        efforts.append(tau)
    np.testing.assert_allclose(*efforts, atol=1e-12)


@pytest.mark.parametrize("r", [0.2, 0.5])
def test_the_gear_of_the_book(r):
    """Book example 3.2: `T_a = [0 0 1 0 -1/r 0]ᵀ`. The bearing supports the tooth force and the rest of a pure torque."""
    teeth = jnp.asarray(np.array([[0, 0, -r, 0, 1.0, 0]]).T)
    transmitted = jnp.array([0.1, 0.2, 3.0, 4.0, 5.0, 6.0])

    @jax.jit
    def both():
        geared, pure = (joints.subspaces(joints.Revolute(), jnp.zeros(1), active) for active in (teeth, None))
        return geared, pure, [own.constraint @ own.split(transmitted)[1] for own in (geared, pure)]

    geared, pure, bearing = both()
    np.testing.assert_allclose(geared.active[:, 0], [0, 0, 1, 0, -1 / r, 0], atol=1e-14)
    np.testing.assert_allclose(pure.active[:, 0], [0, 0, 1, 0, 0, 0], atol=1e-14)
    np.testing.assert_allclose(bearing[0] - bearing[1], [0, 0, 0, 0, 3.0 / r, 0], atol=1e-12)


def test_wrenches_of_a_model_split():
    """The result of `joint_wrenches` splits into the efforts, less the armature's share, and the bearing forces."""
    model = rbd.load("arm7")
    moving = [index for index in range(model.nb) if model.joint(index).nv]
    q, v, tau = np.random.default_rng(1).normal(size=(3, model.nv))

    @jax.jit
    def efforts(q, v, tau):
        """Returns the active part of the wrench of each joint, and the transmitted effort."""
        a = rbd.forward_dynamics(model, q, v, tau)
        wrenches, left = rbd.joint_wrenches(model, q, v, a), tau - model.armature * a
        split = lambda i: joints.subspaces(model.joint(i), q[model.q_slice(i)]).split(wrenches[i])[0]
        return [(split(i), left[model.v_slice(i)]) for i in moving]

    for found, expected in efforts(q, v, tau):
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.slow
def test_an_active_loop_joint_is_one_of_the_tree():
    """A torque or gear in a loop's hinge, as forces on both bodies, gives the same motion as the hinge in the tree.

    The multipliers are the bearing's force: with the gear they change by the tooth force.
    """
    rod = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))
    graph = rbd.GraphBuilder(gravity=(0, -9.81, 0))
    arcs = ("a", "world", "crank", (0, 0, 0), None), ("b", "crank", "coupler", (1, 0, 0), None)
    for arc in (
        *arcs,
        ("d", "world", "follower", (1, 0, 0), None),
        ("c", "coupler", "follower", (1, 0, 0), (1, 0, 0)),
    ):
        graph.add_joint(*arc[:3], joints.Revolute(), *arc[3:])
    for name in ("coupler", "crank", "follower"):
        graph.add_body(name, rod)
    model, other = graph.build(tree=["a", "b", "d"]), graph.build(tree=["a", "b", "c"])
    torque = jnp.array([2.5])
    q = jnp.array([{"a": 0.7, "b": -0.7, "d": 0.7}[name] for name in model.joint_names])
    v = q / 0.7
    teeth = jnp.array([[0, 0, -0.3, 0, 1.0, 0]]).T
    found = []
    for active in (None, teeth):
        own = rbd.constraints.loop_subspaces(model, q, 0, active)
        assert model.constraints[0].bodies == ("coupler", "follower")
        np.testing.assert_allclose(own.active.T @ own.motion, [[1.0]], atol=1e-12)
        np.testing.assert_allclose(own.constraint.T @ own.motion, 0, atol=1e-12)
        at = rbd.forward_kinematics(model, q)[model.body_index("follower")] @ model.constraints[0].frames[1]
        pushed = at.force(own.wrench(torque, jnp.zeros(5)))
        f_ext = {"follower": pushed, "coupler": -pushed}
        found.append((own, rbd.constrained_dynamics(model, q, v, jnp.zeros(3), f_ext)))
    (plain, pure), (_, geared) = found
    np.testing.assert_allclose(geared.acceleration, pure.acceleration, atol=1e-10)
    there = rbd.transfer_state(model, other, q, v)
    tau = jnp.zeros(3).at[other.v_slice("c")].set(torque)
    moving = rbd.constrained_dynamics(other, *there, tau)
    for joint in ("a", "b"):
        one, two = moving.acceleration[other.v_slice(joint)], pure.acceleration[model.v_slice(joint)]
        np.testing.assert_allclose(one, two, atol=1e-9)
    # In the plane, where closure determines the multipliers, the bearing supports exactly the tooth force.
    left = plain.constraint @ (geared.multipliers - pure.multipliers)
    np.testing.assert_allclose(left[3:5], [0, torque[0] / 0.3], atol=1e-8)
    # By the free body diagram, the total of both is the same wrench.
    np.testing.assert_allclose(
        plain.wrench(torque, pure.multipliers)[2:5],
        found[1][0].wrench(torque, geared.multipliers)[2:5],
        atol=1e-8,
    )


def test_the_part_of_a_force_that_moves_a_body():
    """Book eq. 3.28, example 3.1: `f_a = I S (Sᵀ I S)⁻¹ Sᵀ f` for any basis of S; the rest causes no motion."""
    rng = np.random.default_rng(2)
    spread = rng.normal(size=(6, 6))
    inertia, wrench = spread @ spread.T, jnp.asarray(rng.normal(size=6))
    joint, q = joints.Composite((joints.Universal(), joints.RackAndPinion(0.3))), jnp.array([0.3, -0.8, 0.5])
    own = np.asarray(jax.jit(lambda q: joint.motion_subspace(q))(q))

    @jax.jit
    def part_that_moves(basis):
        found = dual(basis, inertia @ basis)
        tau, _ = found.split(wrench)
        return found.wrench(tau, jnp.zeros(3))

    moving = [np.asarray(part_that_moves(basis)) for basis in (own, own @ rng.normal(size=(3, 3)))]
    np.testing.assert_allclose(*moving, atol=1e-10)
    expected = inertia @ own @ np.linalg.inv(own.T @ inertia @ own) @ own.T @ wrench
    np.testing.assert_allclose(moving[0], expected, atol=1e-10)
    np.testing.assert_allclose(own.T @ (wrench - moving[0]), 0, atol=1e-10)
    # It accelerates the body along the joint, as if there were no joint.
    acceleration = np.linalg.solve(inertia, moving[0])
    np.testing.assert_allclose(own @ np.linalg.lstsq(own, acceleration)[0], acceleration, atol=1e-9)
