"""Constrained dynamics: the equations hold, methods agree, redundant rows have no effect, and derivatives are correct."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import (
    L1,
    L2,
    ROD,
    TIP,
    four_bar,
    inertia,
    loose,
    placement,
    slider_closure,
    slider_loop,
    tree,
)

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


METHODS = ("range_space", "kkt", "null_space")


def tied():
    """Returns free bodies, a mimic and a driven joint, with constraints that are not satisfied.

    One constraint is duplicated.
    """
    rng = np.random.default_rng(4)
    ball = rc.Connect("ball", (0.1, 0.2, 0.0), "other", (0.0, 0.3, 0.1))
    return rbd.add_constraints(
        loose(),
        ball,
        rc.LoopJoint("leg", placement(rng), "tail", placement(rng), joints.Cylindrical()),
        ball,
        rc.CoordinateCoupling({"arm": (0.1, 2.0), "leg": (0.0, -1.0)}),
    )


def tied_hinges():
    """Returns two planar arms whose tips are connected in space by a duplicated constraint; one arm has another link."""
    rng = np.random.default_rng(4)
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="hinges")
    builder.add_body("left", "world", joints.Revolute(), inertia=inertia(rng))
    builder.add_body("link", "left", joints.Revolute(), TIP, inertia(rng))
    builder.add_body("leg", "world", joints.Revolute(), TIP, inertia(rng))
    ball = rc.Connect("left", (0.5, 0.2, 0.0), "leg", (0.3, 0.4, 0.0))
    return rbd.add_constraints(builder.build(), ball, ball)


@functools.cache
def solved(make, methods):
    """Returns a model, its generalized force, and the results of each method in a random state."""
    model = make()
    rng = np.random.default_rng(6)
    v, tau = rng.normal(size=(2, model.nv))
    wrench = {"leg": rng.normal(size=6)}

    @jax.jit
    def run(model, v, tau):
        q = rbd.random_configuration(model, jax.random.key(2))
        jacobian, bias = rbd.constraint_jacobian(model, q), rbd.constraint_bias(model, q, v)
        needed = lambda a: rbd.inverse_dynamics(model, q, v, a, wrench)
        motions = [rbd.constrained_dynamics(model, q, v, tau, wrench, method) for method in methods]
        return jacobian, bias, motions, [needed(motion.acceleration) for motion in motions]

    return model, tau, jax.device_get(run(model, v, tau))


@pytest.mark.parametrize(
    "make, methods, rows, rank",
    [
        (tied_hinges, METHODS[:1], 6, 2),
        pytest.param(tied, METHODS, 11, 8, marks=pytest.mark.slow),  # three duplicated rows
    ],
)
def test_the_equations_hold_and_the_methods_agree(make, methods, rows, rank):
    """Book eqs. 3.17, 8.6, 8.32; the methods are (8.36), (8.38) and (8.46). Sueda eqs. 2.98 to 2.103, 2.121 to 2.124."""
    model, tau, (jacobian, bias, motions, needed) = solved(make, methods)
    least = np.linalg.pinv(jacobian.T) @ (needed[0] - tau)
    assert jacobian.shape == (rows, model.nv)
    for motion, force in zip(motions, needed):
        np.testing.assert_allclose(force, tau + motion.multipliers @ jacobian, atol=1e-9)
        np.testing.assert_allclose(jacobian @ motion.acceleration, -bias, atol=1e-9)
        np.testing.assert_allclose(motion.acceleration, motions[0].acceleration, atol=1e-9)
        np.testing.assert_allclose(motion.multipliers, least, atol=1e-9)
        assert motion.rank == rank


RHOMBUS = np.array([1.0, -1.0, 1.0])


@functools.cache
def two_models():
    """Returns a model with compatible constraints, and the model with an additional contradictory constraint."""
    builder = rbd.ModelBuilder(name="pair")
    builder.add_body("a", "world", joints.Revolute(), inertia=ROD)
    builder.add_body("b", "world", joints.Revolute(), TIP, ROD)
    builder.add_constraint(rc.CoordinateCoupling({"a": (0.0, 1.0), "b": (0.0, -1.0)}))
    builder.add_constraint(rc.PrescribedCoordinate("a", lambda t: 3.0 * t**2))
    fine = builder.build()
    builder.add_constraint(rc.PrescribedCoordinate("b", lambda t: 0.0 * t))
    return fine, builder.build()


@jax.jit
@jax.vmap
def rhombus(angle, rate, load):
    q, v, tau = angle * RHOMBUS, rate * RHOMBUS, load * np.array([1.0, 0.0, 0.0])
    return tuple(rbd.constrained_dynamics(four_bar(loop), q, v, tau) for loop in ("hinge", "revolute"))


@pytest.mark.slow
def test_a_redundant_loop_moves_like_one_that_is_not():
    """A planar four-bar with five rows has rank two (book §8.10) and the rhombus' motion, known in closed form (book
    eq. 8.41).
    """
    angle, rate, load = np.array([0.3, 1.1, 2.0]), np.array([0.7, -0.4, 2.0]), np.array([0.5, -1.0, 2.0])
    two, five = rhombus(angle, rate, load)
    np.testing.assert_allclose(five.acceleration, two.acceleration, atol=1e-10)
    # The coupler does not rotate: (1/3 + 1/3 + 1) θ̈ = load - g (1/2 + 1/2 + 1) cos θ.
    expected = (load - 2 * 9.81 * jnp.cos(angle)) / (5 / 3)
    np.testing.assert_allclose(two.acceleration, expected[:, None] * RHOMBUS[None], atol=1e-10)
    assert (np.asarray(two.rank) == 2).all() and (np.asarray(five.rank) == 2).all()
    model = four_bar("revolute")
    assert five.multipliers.shape == (3, 5)
    count = jax.jit(lambda angle: rbd.mobility(model, angle * RHOMBUS))
    assert count(1.1) == 1
    assert count(0.0) == 2  # in a line: rhombus or antiparallelogram


def turned(x, loop_mass):
    """Returns a scalar that depends on every acceleration and multiplier of a redundant four-bar."""
    angle, rate, *tau = x
    model = four_bar("revolute")
    heavier = rbd.Inertia.from_parameters(model.inertias.parameters * loop_mass)
    model = eqx.tree_at(lambda it: it.inertias, model, heavier)
    motion = rbd.constrained_dynamics(model, angle * RHOMBUS, rate * RHOMBUS, jnp.stack(tau))
    return motion.acceleration @ np.array([1.0, 0.4, 0.2]) + motion.multipliers @ np.arange(1.0, 6.0)


@pytest.mark.slow
def test_derivatives_with_redundant_constraints():
    """Derivatives of accelerations and minimum-norm multipliers by state, load and inertia; finite where the rank drops."""
    x, mass = jnp.array([1.1, 0.7, 0.3, -0.2, 0.5]), jnp.array(1.3)
    gradient = jax.jit(jax.grad(turned, (0, 1)))
    (by_x, by_mass), step = gradient(x, mass), 1e-5
    several = jax.jit(jax.vmap(turned))
    steps = step * np.eye(6)
    points = jnp.concatenate([x, mass[None]])
    moved = jnp.concatenate([points[None] + steps, points[None] - steps])
    values = several(moved[:, :5], moved[:, 5])
    expected = (values[:6] - values[6:]) / (2 * step)
    np.testing.assert_allclose(jnp.append(by_x, by_mass), expected, rtol=1e-7, atol=1e-7)
    for angle in (0.0, jnp.pi):  # rods in a line
        by_x, by_mass = gradient(x.at[0].set(angle), mass)
        assert np.isfinite(by_x).all() and np.isfinite(by_mass)


@pytest.mark.slow
def test_a_derivative_with_redundant_constraints():
    """A directional derivative in forward mode; finite where the rank drops."""
    x, mass = jnp.array([1.1, 0.7, 0.3, -0.2, 0.5]), jnp.array(1.3)
    direction = np.array([0.3, -0.2, 0.1, 0.4, 0.5])

    @jax.jit
    @jax.vmap
    def run(x):
        return jax.jvp(lambda x: turned(x, mass), (x,), (direction,))

    points = x[None] + np.array([0.0, 1e-5, -1e-5])[:, None] * direction[None]
    values, slopes = run(jnp.concatenate([points, x.at[0].set(0.0)[None], x.at[0].set(jnp.pi)[None]]))
    np.testing.assert_allclose(slopes[0], (values[1] - values[2]) / 2e-5, rtol=1e-7)
    assert np.isfinite(slopes).all()


@pytest.mark.slow
def test_second_derivatives_with_redundant_constraints():
    """A directional second derivative agrees with second differences."""
    x, mass = jnp.array([1.1, 0.7, 0.3, -0.2, 0.5]), jnp.array(1.3)
    several = jax.jit(jax.vmap(turned))
    forward = jax.jit(
        lambda x, dx: jax.jvp(lambda x: jax.jvp(lambda x: turned(x, mass), (x,), (dx,))[1], (x,), (dx,))[1]
    )
    direction = np.array([0.3, -0.2, 0.1, 0.4, 0.5])
    line = several(x[None] + np.arange(-1.0, 2.0)[:, None] * 1e-3 * direction[None], jnp.full(3, mass))
    np.testing.assert_allclose(forward(x, direction), (line[0] - 2 * line[1] + line[2]) / 1e-6, rtol=1e-5)


@pytest.mark.slow
def test_second_derivatives():
    """Second derivatives for a point on a rod by its angle, where solutions depend on the matrix of the linear system."""
    builder = rbd.ModelBuilder(name="point on a rod")
    point = rbd.Inertia.from_mass_com(1.3, (0.0, 0.0, 0.0), np.zeros((3, 3)))
    builder.add_body("point", "world", joints.Translational(), inertia=point)
    builder.add_constraint(rc.Distance("world", None, "point", None, 1.0))
    model, load = builder.build(), np.array([0.3, -0.2, 0.5])

    def motion(angle):
        out, along = jnp.stack([jnp.cos(angle), 0 * angle, jnp.sin(angle)]), np.array([0.0, 0.7, 0.0])
        return jnp.concatenate([*rbd.constrained_dynamics(model, out, along, load, method="kkt")])

    slope = lambda angle: jax.jvp(motion, (angle,), (1.0,))[1]
    again = lambda angle: (slope(angle), jax.jvp(slope, (angle,), (1.0,))[1])
    slopes, seconds = jax.jit(jax.vmap(again))(0.4 + np.array([0.0, 1e-5, -1e-5]))
    np.testing.assert_allclose(seconds[0], (slopes[1] - slopes[2]) / 2e-5, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_loop_closure_function():
    """Book figure 8.3, eqs. 3.11 and 3.12: G and g in closed form, the same motion from γ and constraints, and Ex. 8.2."""
    model, y, rate = slider_loop(), jnp.array([0.6, 0.2]), jnp.array([0.9, -0.4])
    tau = jnp.array([0.4, -0.3, 1.2, 0.5])

    @jax.jit
    def run(model):
        closed = rc.close(model, slider_closure, y, rate)
        reduced = rc.closure_dynamics(model, slider_closure, y, rate, tau)
        motion = rbd.constrained_dynamics(model, closed.q, closed.v, tau)
        jacobian = rbd.constraint_jacobian(model, closed.q)
        residual = rbd.constraint_residual(model, closed.q)
        bias = rbd.constraint_bias(model, closed.q, closed.v)
        efforts = rbd.constrained_inverse_dynamics(
            model, closed.q, closed.v, motion.acceleration, actuators=("slider", "hand")
        )
        needed = rbd.inverse_dynamics(model, closed.q, closed.v, motion.acceleration)
        again = rbd.constrained_dynamics(model, closed.q, closed.v, efforts.tau)
        one = rbd.constrained_inverse_dynamics(
            model, closed.q, closed.v, motion.acceleration, actuators=("hand",)
        )
        everything = rbd.constrained_inverse_dynamics(model, closed.q, closed.v, motion.acceleration)
        return closed, reduced, motion, jacobian, residual, bias, efforts, needed, again, one, everything

    closed, reduced, motion, jacobian, residual, bias, efforts, needed, again, one, everything = run(model)
    np.testing.assert_allclose(residual, 0, atol=1e-15)
    d = np.sqrt(L1**2 + L2**2 - 2 * L1 * L2 * np.cos(0.6))
    u1, u2 = (L2**2 - L1 * L2 * np.cos(0.6)) / d**2, L1 * L2 * np.sin(0.6) / d
    np.testing.assert_allclose([u1, u2], [1.3851004219, 0.6240732742], atol=1e-10)
    np.testing.assert_allclose(closed.jacobian, [[1, 0], [u1, 0], [u2, 0], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(closed.bias, [0, -1.0868354496, 0.3557292905, 0], atol=1e-10)
    np.testing.assert_allclose(jacobian @ closed.jacobian, 0, atol=1e-14)
    np.testing.assert_allclose(jacobian @ closed.bias, -bias, atol=1e-13)
    np.testing.assert_allclose(motion.acceleration, closed.jacobian @ reduced + closed.bias, atol=1e-10)
    assert motion.rank == 2 and jacobian.shape == (5, 4)
    # Ex. 8.2: motors at the slider and the hand.
    u = np.array([[1 / u2, u1 / u2, 1, 0], [0, 0, 0, 1]]) @ np.asarray(needed)
    np.testing.assert_allclose(efforts.tau, [0, 0, *u], atol=1e-10)
    np.testing.assert_allclose(again.acceleration, motion.acceleration, atol=1e-9)
    np.testing.assert_allclose(efforts.unmet, 0, atol=1e-10)
    np.testing.assert_allclose(needed, efforts.tau + efforts.multipliers @ jacobian, atol=1e-10)
    assert np.abs(one.unmet).max() > 1e-2  # one motor for two degrees of freedom
    assert np.linalg.norm(everything.tau) < np.linalg.norm(
        tau
    )  # four motors for two degrees of freedom: minimum norm
    np.testing.assert_allclose(everything.unmet, 0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "joint, frame", [(joints.Free, "com"), ({"arm": joints.Free3D, "leg": joints.Free3D}, "body")]
)
def test_maximal_coordinates_are_the_same_mechanism(joint, frame):
    """The tree and its free bodies under joint constraints have the same accelerations, and states round-trip.

    Book eqs. 3.74 and 8.64; Sueda eqs. 1.69 to 1.74.
    """
    model = tree()
    maximal = rbd.maximal_coordinates(model, joint, frame)
    rng = np.random.default_rng(8)
    q = jax.jit(rbd.random_configuration)(model, jax.random.key(5))
    v = rng.normal(size=model.nv)

    @jax.jit
    def run(model, maximal, q, v):
        a = rbd.forward_dynamics(model, q, v, jnp.zeros_like(v))
        free_q, free_v = rbd.to_maximal(model, maximal, q, v, frame)
        motion = rbd.constrained_dynamics(maximal, free_q, free_v, jnp.zeros(maximal.nv))
        there = rbd.body_accelerations(maximal, free_q, free_v, motion.acceleration)
        broken = rbd.constraint_residual(maximal, free_q), rbd.constraint_velocity(maximal, free_q, free_v)
        back_q, back_v = rbd.from_maximal(model, maximal, free_q, free_v, frame)
        apart = rbd.difference(model, q, back_q), back_v - v
        return rbd.body_accelerations(model, q, v, a), there, broken, apart, motion.rank

    here, there, broken, apart, rank = run(model, maximal, q, v)
    np.testing.assert_allclose(there, here, atol=1e-8)
    assert rank == maximal.nv - model.nv
    for x in (*broken, *apart):
        np.testing.assert_allclose(x, 0, atol=1e-9)


EITHER = pytest.mark.parametrize(
    "method", ["elimination", pytest.param("null_space", marks=pytest.mark.slow)]
)


@EITHER
@pytest.mark.slow
def test_what_fits_leaves_nothing(method):
    """Two compatible prescribed motions of coupled joints leave no residual."""
    model, still = two_models()[0], np.zeros(2)
    motion = jax.jit(lambda: rbd.constrained_dynamics(model, still, still, still, method=method))()
    assert int(motion.rank) == 2
    np.testing.assert_allclose(motion.acceleration, 6.0, atol=1e-12)
    np.testing.assert_allclose(motion.unmet, 0, atol=1e-12)


@EITHER
def test_contradictions_are_told(method):
    """With a contradictory third constraint, every method returns the least-squares solution and reports the residual."""
    model, still = two_models()[1], np.zeros(2)
    motion = jax.jit(lambda: rbd.constrained_dynamics(model, still, still, still, method=method))()
    # Rows (1, -1), (1, 0), (0, 1): the vector (1, -1, 1) is outside their range.
    assert int(motion.rank) == 2
    np.testing.assert_allclose(motion.unmet, [-2.0, 2.0, -2.0], atol=1e-12)
    np.testing.assert_allclose(motion.acceleration, [4.0, 2.0], atol=1e-12)
