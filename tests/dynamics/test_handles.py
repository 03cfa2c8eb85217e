"""Articulated bodies assembled by their handles reproduce the mechanism (book §7.1 to §7.5)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, case_of, compiled, some_inertia, some_placement
from support import differences

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints
from rbd_jax.dynamics import ArticulatedBody, Handles, handles
from rbd_jax.spatial import cross_force, cross_motion


AXIS = np.array([0.3, 1.0, -0.2])


def hinge(placement: rbd.Transform, axis=AXIS):
    """Returns S and T of a hinge at a placement, and a T_a with `T_aᵀ S = 1` that is no multiple of S."""
    own = jax.device_put(np.concatenate([axis / np.linalg.norm(axis), np.zeros(3)]))
    subspace = placement.motion(own)[:, None]
    constraints = jnp.linalg.svd(subspace)[0][:, 1:]
    drive = subspace[:, 0] / jnp.sum(subspace**2) + constraints @ jnp.array([0.3, -0.2, 0.1, 0.4, -0.5])
    return subspace, constraints, drive


# General relations.


@pytest.mark.slow
@pytest.mark.parametrize("name", ("forest", "floating", "mixed"))
def test_handles_are_bodies_under_forces(name):
    """`a = Φ f + b` (7.4): forward dynamics gives the same for all handles, under additional forces on them."""
    case = case_of(name)
    model, bodies = case.model, [case.model.nb - 1, 0, case.model.nb // 2]

    def both(model, q, v, tau, f_ext):
        more = jnp.zeros_like(f_ext).at[jnp.array(bodies)].set(jnp.sin(jnp.arange(18.0)).reshape(3, 6))
        a = rbd.forward_dynamics(model, q, v, tau, f_ext + more)
        expected = rbd.body_accelerations(model, q, v, a)[jnp.array(bodies)]
        found = handles(model, q, v, tau, bodies, f_ext)
        return found.accelerations(more[jnp.array(bodies)]), expected

    s = case.states
    assert_close(*compiled(both)(model, s.q, s.v, s.a, s.f_ext))


def chain(first: int, last: int, base: bool):
    """Returns the links from `first` to before `last` of one chain; without a base the first body is free."""
    rng, builder = np.random.default_rng(4), rbd.ModelBuilder(gravity=(0.4, -0.7, -9.6))
    parent = "world"
    for i in range(5):
        placement, inertia, axis = some_placement(rng), some_inertia(rng), rng.normal(size=3)
        if not first <= i < last:
            continue
        joint = joints.Revolute(AXIS if i == 2 else axis)
        if i == first and not base:
            joint, placement = joints.Free(), rbd.Transform.identity()
        builder.add_body(f"{i}", parent, joint, placement, inertia)
        parent = f"{i}"
    return builder.build()


@pytest.mark.slow
def test_two_halves_of_a_chain_make_the_chain():
    """A moving chain, cut at a driven hinge and reassembled, has Φ and b of the complete chain for all handles (eq. 7.63)."""
    whole, lower, upper = chain(0, 5, True), chain(0, 2, True), chain(2, 5, False)
    q, v, tau = np.random.default_rng(5).normal(size=(3, 5))

    @jax.jit
    def run(q, v, tau):
        frames, twists = rbd.forward_kinematics(whole, q), rbd.body_velocities(whole, q, v, "body")
        quaternion = rbd.lie.quaternion.from_matrix(frames.rotation[2])
        free_q = jnp.concatenate([frames.position[2], quaternion, q[3:]])
        free_v = jnp.concatenate([twists[2], v[3:]])
        cut = handles(lower, q[:2], v[:2], tau[:2], ["0", "1"])
        flying = handles(upper, free_q, free_v, jnp.concatenate([jnp.zeros(6), tau[3:]]), ["2", "4"])
        subspace, constraints, drive = hinge(frames[2])
        moving = rbd.body_velocities(whole, q, v)[2]
        product = cross_motion(moving, subspace[:, 0] * v[2])
        made = cut.beside(flying).joined(1, 2, constraints, drive * tau[2], product)
        return made, handles(whole, q, v, tau, ["0", "1", "2", "4"])

    made, expected = run(q, v, tau)
    assert_close(made.mobility, expected.mobility)
    assert_close(made.free, expected.free)
    assert_close(made.only([3, 0]).mobility[:6, 6:], expected.mobility[18:, :6])


def test_the_three_formulae_of_table_7_2_are_one():
    """The standard formula and variant 2 give the same I and p, and variant 1 their inverse: `Φ = I⁻¹`, `b = -I⁻¹ p`.

    Table 7.2; also `I^a S = 0` of (7.23).
    """
    rng = np.random.default_rng(1)
    inertias, placements = [some_inertia(rng) for _ in range(2)], [some_placement(rng) for _ in range(3)]
    *biases, product = rng.normal(size=(3, 6))
    tau = np.array([0.7])

    @jax.jit
    def run(inertias, placements, biases, product):
        *bodies, hinged = placements
        parts = zip(inertias, bodies, biases, strict=True)
        first, second = (ArticulatedBody(own.placed(place).matrix, bias) for own, place, bias in parts)
        subspace, constraints, drive = hinge(hinged)
        standard = first.carrying(second, subspace, jnp.asarray(tau), product)
        variant = first.constrained_to(second, constraints, drive * tau, product)
        inverse = [
            Handles(jnp.linalg.inv(x.inertia), -jnp.linalg.solve(x.inertia, x.bias)) for x in (first, second)
        ]
        made = inverse[0].beside(inverse[1]).joined(0, 1, constraints, drive * tau, product).only([0])
        return first.inertia, subspace, standard, variant, made

    alone, subspace, standard, variant, made = jax.device_get(run(inertias, placements, biases, product))
    assert_close(variant.inertia, standard.inertia)
    # T_a changes the bearing loads, but not the motion (example 3.2).
    assert_close(variant.bias, standard.bias)
    assert_close(made.mobility @ standard.inertia, np.eye(6))
    assert_close(made.free, -np.linalg.solve(standard.inertia, standard.bias))
    # `I^a S = 0`: the other body has no inertia along the joint.
    assert_close((standard.inertia - alone) @ subspace, np.zeros((6, 1)))


def test_a_body_on_a_joint():
    """A moving body on a rolling joint: the three derivations of §3.6 and the library give the same equation of motion.

    The apparent inverse inertia `Φ = S (Sᵀ I S)⁻¹ Sᵀ` (3.54) and b (3.55); the system (3.60) with the constraint force;
    and `H = Sᵀ I S` (3.63), `C = Sᵀ (I Ṡ q̇ + p)` (3.64).
    """
    rng, builder = np.random.default_rng(7), rbd.ModelBuilder(gravity=(0.4, -0.7, -9.6))
    builder.add_body("wheel", "world", joints.RackAndPinion(0.3), some_placement(rng), some_inertia(rng))
    model = builder.build()
    q, v, tau, push = np.array([0.7]), np.array([1.3]), np.array([0.6]), rng.normal(size=6)

    @jax.jit
    def run(q, v, tau, f):
        inertia = model.inertias[0].placed(rbd.forward_kinematics(model, q)[0])
        moving = inertia.momentum(rbd.body_velocities(model, q, v)[0])
        weight = inertia.momentum(jnp.concatenate([jnp.zeros(3), model.gravity]))
        bias = cross_force(rbd.body_velocities(model, q, v)[0], moving) - weight
        subspace, rate = rbd.jacobian(model, q, "wheel"), rbd.jacobian_derivative(model, q, v, "wheel") @ v
        seen = handles(model, q, v, tau, ["wheel"])
        a = rbd.forward_dynamics(model, q, v, tau, {"wheel": f})
        maximal = rbd.body_accelerations(model, q, v, a)[0]
        own = rbd.mass_matrix(model, q), rbd.bias_force(model, q, v), a, maximal
        return (inertia.matrix, bias, subspace, rate), (seen.mobility, seen.free), own

    numbers, seen, own = jax.device_get(run(q, v, tau, push))
    (inertia, bias, s, rate), (mobility, free), (mass, force, a, accelerated) = numbers, seen, own
    mobile = s @ np.linalg.inv(s.T @ inertia @ s)
    assert_close(mobility, mobile @ s.T)
    assert_close(free, rate - mobility @ (inertia @ rate + bias) + mobile @ tau)
    assert_close(mass, s.T @ inertia @ s)
    assert_close(force, s.T @ (inertia @ rate + bias))
    # Tᵀ a = Tᵀ Ṡ q̇, and a drive that is dual to S.
    constraints = np.linalg.svd(s)[0][:, 1:]
    drive = s[:, 0] / np.sum(s**2) * tau
    system = np.block([[inertia, constraints], [constraints.T, np.zeros((5, 5))]])
    right = np.concatenate([drive + push - bias, constraints.T @ rate])
    solved = np.linalg.solve(system, right)
    assert_close(solved[:6], accelerated)
    assert_close(s @ a + rate, accelerated)
    assert_close(s.T @ constraints, np.zeros((1, 5)))


# Loops.


@pytest.mark.slow
def test_a_loop_is_closed_by_joining_two_handles():
    """A planar four-bar closed by a revolute joint: three of its five constraints are redundant, and Y has rank two."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    tip = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    rod = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))
    builder.add_body("crank", "world", joints.Revolute(), inertia=rod)
    builder.add_body("coupler", "crank", joints.Revolute(), tip, rod)
    builder.add_body("follower", "world", joints.Revolute(), tip, rod)
    loop = rc.LoopJoint("coupler", tip, "follower", tip, joints.Revolute())
    tree = builder.build()
    model = rbd.add_constraints(tree, loop)
    q, v, tau = (
        0.8 * jnp.array([1.0, -1.0, 1.0]),
        1.3 * jnp.array([1.0, -1.0, 1.0]),
        jnp.array([0.5, -0.7, 0.2]),
    )
    frames, twists = rbd.forward_kinematics(tree, q), rbd.body_velocities(tree, q, v)
    _, constraints, _ = hinge(frames[1] @ tip, np.array([0.0, 0.0, 1.0]))
    product = cross_motion(twists[2], twists[2] - twists[1])
    bodies = ["crank", "coupler", "follower"]
    open_loop = handles(tree, q, v, tau, bodies)
    made = open_loop.joined(1, 2, constraints, jnp.zeros(6), product)
    a = rbd.constrained_dynamics(model, q, v, tau).acceleration
    assert_close(made.accelerations(jnp.zeros((3, 6))), rbd.body_accelerations(model, q, v, a), 1e-9)
    assert np.linalg.matrix_rank(made.mobility, 1e-9) == 1  # the mobility of the mechanism
    again = made.joined(1, 2, constraints, jnp.zeros(6), product)
    assert_close(again.free, made.free, 1e-9)


# The book's example.


def test_the_box_and_the_cylinder_of_example_7_1():
    """Printed `I^A` for a cylinder that rotates about x and slides along y in the slot of a box."""
    m1, m2, i1, i2 = 2.0, 3.0, 0.4, 0.7
    balls = [np.diag([i, i, i, m, m, m]) for i, m in ((i1, m1), (i2, m2))]
    printed = np.diag([i1, i1 + i2, i1 + i2, m1 + m2, m1, m1 + m2])
    moves, holds = np.eye(6)[:, [0, 4]], np.eye(6)[:, [1, 2, 3, 5]]

    @jax.jit
    def run(balls, moves, holds, nothing):
        box, cylinder = (ArticulatedBody(ball, nothing) for ball in balls)
        carried = box.carrying(cylinder, moves, nothing[:2], nothing).inertia
        constrained = box.constrained_to(cylinder, holds, nothing, nothing).inertia
        one, two = (Handles(jnp.linalg.inv(x.inertia), nothing) for x in (box, cylinder))
        return carried, constrained, one.beside(two).joined(0, 1, holds, nothing, nothing).only([0]).mobility

    carried, constrained, mobility = run(balls, moves, holds, np.zeros(6))
    assert_close(carried, printed)
    assert_close(constrained, printed)
    assert_close(mobility, np.linalg.inv(printed))

    builder = rbd.ModelBuilder()
    inertia = lambda m, i: rbd.Inertia.from_mass_com(m, (0.0, 0.0, 0.0), i * np.eye(3))
    builder.add_body("box", "world", joints.Free(), inertia=inertia(m1, i1))
    slot = joints.Composite((joints.Prismatic((0.0, 1.0, 0.0)), joints.Revolute((1.0, 0.0, 0.0))))
    builder.add_body("cylinder", "box", slot, inertia=inertia(m2, i2))
    model = builder.build()
    neutral = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert_close(rbd.operational_inertia(model, neutral, "box"), printed)


# Derivatives and arguments.


def test_derivatives():
    """Derivatives of the joined body by the parameters of joint and handles, also for singular Y."""
    rng = np.random.default_rng(3)
    spread = rng.normal(size=(12, 12))
    mobility = spread @ spread.T

    def made(x):
        twice = jnp.concatenate([jnp.eye(6)[:, :3], jnp.eye(6)[:, 1:3]], axis=1)  # two of them are duplicated
        constraints = twice + 0.1 * jnp.outer(x[:6], jnp.ones(5))
        scale = 1 + 0.1 * x[:12]
        parts = Handles(mobility * scale[:, None] * scale[None, :], x[:12])
        joined = parts.joined(0, 1, constraints, x[12:18], x[18:24])
        return jnp.concatenate([joined.free, joined.mobility[0]])

    x = rng.uniform(-0.5, 0.5, (2, 24))
    assert_close(
        jax.jit(jax.vmap(jax.jacrev(made)))(x), differences(jax.jit(jax.vmap(made)), x, 1e-3, 4), 1e-7
    )


def test_handles_that_are_not_there():
    eye, nothing = jax.device_put((np.eye(6), np.zeros(6)))
    one = Handles(eye, nothing)
    with pytest.raises(ValueError, match="got handle index 1, but there are only 1"):
        one.joined(0, 1, eye, nothing, nothing)
    with pytest.raises(ValueError, match="between two handles"):
        one.joined(0, 0, eye, nothing, nothing)
