"""Joints with prescribed velocities, others driven by forces: hybrid dynamics over time (Sueda's notes, §2.9)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints, joints


at = rbd.Transform.from_xyz_rpy
TIP = at((1.0, 0.0, 0.0))
ROD = rbd.Inertia.box(1.0, (1.0, 0.1, 0.2), (0.5, 0.0, 0.1))


def arm():
    """Returns a ball joint between two hinges, without springs or dampers."""
    builder = rbd.ModelBuilder(name="arm")
    builder.add_body("crank", "world", joints.Revolute((0.0, 0.2, 1.0)), inertia=ROD)
    builder.add_body("ball", "crank", joints.Spherical(), TIP, ROD)
    builder.add_body("hand", "ball", joints.Revolute((0.3, 1.0, 0.0)), TIP, ROD)
    return builder.build()


def four_bar(*more, **along):
    """Returns two cranks and a coupler of length 1, closed by a hinge: `q = (θ, -θ, θ)`."""
    builder = rbd.ModelBuilder((0.0, -9.81, 0.0), "four-bar")
    builder.add_body("crank", "world", joints.Revolute(), inertia=ROD, **along)
    builder.add_body("coupler", "crank", joints.Revolute(), TIP, ROD, **along)
    builder.add_body("follower", "world", joints.Revolute(), TIP, ROD, **along)
    for constraint in (constraints.HingeLoop("coupler", TIP, "follower", TIP), *more):
        builder.add_constraint(constraint)
    return builder.build()


@pytest.mark.slow
def test_a_step_is_hybrid_dynamics():
    """Velocities prescribed at the end of the step equal prescribed accelerations (2.107), also in derivatives."""
    model, h = arm(), 0.01
    rng = np.random.default_rng(0)
    start = rbd.State(rbd.neutral(model).at[0].set(0.4), jnp.asarray(rng.normal(size=model.nv)))
    controls = jnp.asarray(rng.normal(size=(1, model.nv)))
    led = ("hand", "ball")
    flags = jnp.array([False, True, True, True, True])

    @jax.jit
    def run(controls):
        def roll(controls):
            scheme = rbd.LinearlyImplicitEuler(prescribed=led)
            return rbd.rollout(model, start, controls, dt=h, scheme=scheme).v[-1]

        def hybrid(controls):
            a = (controls[0] - start.v) / h
            motion = rbd.hybrid_dynamics(model, start.q, start.v, controls[0], a, led)
            return start.v + h * motion.acceleration

        return [(way(controls), jax.jacrev(way)(controls)) for way in (roll, hybrid)]

    (rolled, slope), (expected, expected_slope) = run(controls)
    np.testing.assert_allclose(rolled, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rolled[flags], controls[0, flags], rtol=0, atol=1e-14)
    np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_led_crank_in_a_loop():
    """With implicit springs and dampers in a loop, the crank has its prescribed motion, and the loop follows."""
    model, h = four_bar(stiffness=50.0, damping=2.0), 0.01
    angle = 0.7
    start = rbd.State(jnp.array([angle, -angle, angle]), jnp.array([1.0, -1.0, 1.0]))
    speeds = jnp.cos(jnp.arange(40.0) * 0.1)
    # Controls of the coupler and the follower, which the prescribed crank balances.
    controls = jnp.stack([speeds, 0.3 * speeds, -0.2 * speeds], axis=1)
    coordinate = constraints.PrescribedCoordinate("crank", lambda time: angle + speeds[0] * time)
    led_by_constraint = four_bar(coordinate, stiffness=50.0, damping=2.0)

    @jax.jit
    def run(model, other):
        scheme = rbd.LinearlyImplicitEuler(prescribed=("crank",))
        path = rbd.rollout(model, start, controls, dt=h, scheme=scheme)
        residual = jax.vmap(lambda q: rbd.constraint_residual(model, q))(path.q)
        force = controls[:1].at[0, 0].set(0.0)
        one = rbd.rollout(other, start, force, dt=h, scheme=rbd.LinearlyImplicitEuler(baumgarte=0.0))
        return path, residual, one.v[-1]

    path, residual, one = run(model, led_by_constraint)
    np.testing.assert_allclose(path.v[1:, 0], speeds, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.q[1:, 0], angle + h * np.cumsum(speeds), atol=1e-12)
    np.testing.assert_allclose(path.v[1], one, rtol=0, atol=1e-10)
    assert np.abs(residual).max() < 1e-3  # first order in the step
    np.testing.assert_allclose(path.q, path.q[:, :1] * jnp.array([[1.0, -1.0, 1.0]]), atol=2e-3)


@pytest.mark.slow
def test_a_led_crank_by_accelerations():
    """The direct solution of (2.106) gives motion and torque of a `PrescribedCoordinate`, for all methods."""
    rate = 3.0
    coordinate = constraints.PrescribedCoordinate("crank", lambda time: 0.7 + time + 0.5 * rate * time**2)
    model, tau = four_bar(coordinate), jnp.array([0.4, -0.3, 0.2])
    q, v = jnp.array([0.7, -0.7, 0.7]), jnp.array([1.0, -1.0, 1.0])

    @jax.jit
    def run(model):
        motions = [
            rbd.constrained_dynamics(model, q, v, tau, method=method)
            for method in ("range_space", "null_space", "kkt")
        ]
        loop = constraints.without_constraints(model)
        loop = rbd.add_constraints(loop, model.constraints[0])
        parts = rbd.constraint_jacobian(loop, q), rbd.constraint_bias(loop, q, v)
        return motions, parts, rbd.mass_matrix(model, q), rbd.bias_force(model, q, v)

    motions, (G, bias), M, C = run(model)
    rows = np.vstack([G, [[1.0, 0.0, 0.0]]])
    matrix = np.block([[M, -rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    right = np.concatenate([tau - C, -bias, [rate]])
    expected = np.linalg.lstsq(matrix, right, rcond=None)[0]
    for motion in motions:
        np.testing.assert_allclose(motion.acceleration, expected[:3], atol=1e-9)
        np.testing.assert_allclose(motion.multipliers, expected[3:], atol=1e-8)


def test_names_are_checked():
    scheme = rbd.LinearlyImplicitEuler(prescribed=("krank",))
    start = rbd.State(np.zeros(3), np.zeros(3))
    with pytest.raises(rbd.UnknownNameError, match="no joint 'krank'"):
        jax.jit(lambda start: rbd.rollout(four_bar(), start, dt=0.01, steps=1, scheme=scheme))(start)
