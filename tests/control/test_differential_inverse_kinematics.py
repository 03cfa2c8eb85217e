"""Differential inverse kinematics: errors decay at their rates, as far as limits and constraints allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arms import planar_arm
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax.control import (
    Bounds,
    Code,
    Constraint,
    Position,
    Posture,
    Task,
    Velocity,
    differential_inverse_kinematics,
)


AT = jax.device_put(np.array([0.3, 0.5, -0.9, 0.7]))
TARGET = jax.device_put(np.array([0.4, 0.0, 1.2]))
DT = 0.01


@pytest.fixture(scope="module")
def arm():
    return planar_arm()


def tip(arm, q):
    frame = rbd.forward_kinematics(arm, q)
    return frame.position[3] + 0.5 * frame.rotation[3, :, 2]


def test_errors_decay_at_their_rate(arm):
    tasks = [Task(Position("tip", TARGET), rate=3.0)]

    @jax.jit
    def run(q):
        found = differential_inverse_kinematics(arm, q, tasks, DT, bounds=Bounds(), damping=1e-9)
        place, change = jax.jvp(lambda q: tip(arm, q), (q,), (found.v,))
        return found.converged, found.missing, place, change

    converged, missing, place, change = map(np.asarray, run(AT))
    assert converged
    assert_close(change, -3 * (place - TARGET), 1e-6)
    assert_close(missing, np.zeros(3), 1e-6)


def test_the_step_is_the_damped_least_squares_one(arm):
    tasks = [Task(Position("tip", TARGET), 2.0, rate=3.0)]
    found = differential_inverse_kinematics(arm, AT, tasks, DT, damping=0.1)
    place, J = map(np.asarray, jax.jit(lambda q: (tip(arm, q), jax.jacfwd(lambda q: tip(arm, q))(q)))(AT))
    wanted = -3 * (place - TARGET)
    assert_close(found.v, np.linalg.solve(2 * J.T @ J + 0.1 * np.eye(4), 2 * J.T @ wanted), 1e-7)


def test_targets_that_move_are_followed_without_lag(arm):
    target = lambda t: TARGET + 0.2 * jnp.stack([jnp.sin(2 * t), 0 * t, jnp.cos(2 * t)])
    tasks = lambda t: [Task(Position("tip", target(t)), rate=10.0)]

    def step(q, t):
        found = differential_inverse_kinematics(arm, q, tasks, DT, time=t)
        return rbd.integrate(arm, q, DT * found.v), (tip(arm, q) - target(t), found.code)

    off, codes = map(np.asarray, jax.lax.scan(step, AT, DT * np.arange(200.0))[1])
    assert not codes.any()
    off = np.linalg.norm(off, axis=1)
    assert off[0] > 0.2 and off[100:].max() < 5e-3


def test_limits_of_speeds_and_joints_are_kept(arm):
    bounds = Bounds(q=(-np.ones(4), np.ones(4)), v=(-0.5, 0.5))
    far = Task(Posture(np.array([3.0, -3.0, 0.2, 0.0])), rate=5.0)

    def step(q, _):
        found = differential_inverse_kinematics(arm, q, [far], DT, bounds=bounds)
        return rbd.integrate(arm, q, DT * found.v), (q, found.v, found.code)

    q, v, codes = map(np.asarray, jax.lax.scan(step, np.zeros(4), length=300)[1])
    assert not codes.any()
    assert np.abs(v).max() <= 0.5 and np.abs(v).max() > 0.499
    assert np.abs(q).max() <= 1 + 1e-12
    assert_close(q[-1], [1.0, -1.0, 0.2, 0.0], 1e-5)


def test_by_default_the_limits_are_those_of_the_model(arm):
    found = differential_inverse_kinematics(arm, AT, [Task(Posture(), rate=1e3)], 1e-3)
    assert_close(np.abs(found.v), np.full(4, 5.0), 1e-6)


def test_constraints_are_kept_and_what_is_held_is_still(arm):
    height = Constraint(Position("tip", (0.0, 0.0, 0.0)), lower=np.array([-9.0, -9.0, 1.4]))
    start = np.array([0.1, 0.2, 0.3, 0.2])

    def step(q, _):
        found = differential_inverse_kinematics(
            arm, q, [Position("tip", TARGET)], DT, constraints=[height], constraint_rate=5.0, hold=["link1"]
        )
        return rbd.integrate(arm, q, DT * found.v), (q, tip(arm, q), found.code)

    q, path, codes = map(np.asarray, jax.lax.scan(step, start, length=150)[1])
    assert not codes.any()
    assert path[0, 2] > 1.41 and path[:, 2].min() > 1.4 - 1e-3
    assert_close(path[-1], [TARGET[0], 0.0, 1.4], 2e-3)
    assert_close(q[:, 1], np.full(150, 0.2), 1e-12)


def test_equalities_and_loops_hold():
    slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    end = Position(rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0)), (0.0, 0.0, -1.2))

    def step(q, _):
        found = differential_inverse_kinematics(model, q, [end], 0.02)
        return rbd.integrate(model, q, 0.02 * found.v), found.converged

    q, converged = map(np.asarray, jax.lax.scan(step, np.array([0.6, -1.2]), length=60))
    assert converged.all()
    assert_close(np.cos(q[0]) + np.cos(q[0] + q[1]), 1.2, 1e-3)
    assert_close(np.sin(q[0]) + np.sin(q[0] + q[1]), 0.0, 1e-3)


def test_velocities_can_be_asked_for_and_what_contradicts_is_told(arm):
    wanted = np.array([0.1, -0.2, 0.3, 0.0])
    assert_close(
        differential_inverse_kinematics(arm, AT, [Velocity(wanted)], DT, damping=0.0).v, wanted, 1e-7
    )
    still, away = Constraint(Velocity()), Constraint(Velocity(), lower=0.1)
    found = differential_inverse_kinematics(arm, AT, [Posture()], DT, constraints=[still, away])
    assert found.code == Code.INFEASIBLE and not found.converged


GIVEN = {"q": AT, "target": TARGET, "speed": np.array([5.0, 0.1, 5.0, 5.0])}


@pytest.fixture(scope="module")
def along(arm):
    """A compiled function that returns a command and its derivative along a direction of the inputs."""

    def command(given):
        bounds, tasks = Bounds(v=(-given["speed"], given["speed"])), [Position("tip", given["target"])]
        return differential_inverse_kinematics(arm, given["q"], tasks, DT, bounds=bounds, damping=1e-2).v

    @jax.jit
    def run(s, by):
        return jax.jvp(command, ({name: GIVEN[name] + s * by[name] for name in GIVEN},), (by,))

    return run


@pytest.mark.parametrize("name", ["q", "target", "speed"])
def test_derivatives_also_at_limits(along, name):
    by = {other: np.zeros(x.shape) for other, x in GIVEN.items()}
    by[name] = np.random.default_rng(2).normal(size=by[name].shape)
    value, change = map(np.asarray, along(0.0, by))
    assert_close(np.abs(value[1]), 0.1, 1e-8)
    assert_close(change, quotient(lambda s: np.asarray(along(s, by)[0]), 1e-5), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_straight_arms_and_both_precisions(dtype):
    arm, straight = planar_arm(dtype=dtype), np.zeros(4, dtype)
    velocity = lambda q: differential_inverse_kinematics(arm, q, [Position("tip", (0.0, 0.0, 3.0))], DT).v
    found, by = jax.jit(lambda q: (velocity(q), jax.jacfwd(velocity)(q)))(straight)
    assert found.dtype == dtype
    assert np.isfinite(found).all() and np.isfinite(by).all()
    both = np.asarray(jax.jit(jax.vmap(velocity))(np.stack([straight, straight + np.ones(4, dtype) / 10])))
    assert_close(both[0], found, 1e-3)


def test_bad_input(arm, unchecked):
    with pytest.raises(TypeError, match="differential_inverse_kinematics: tasks"):
        differential_inverse_kinematics(arm, AT, 1.0, DT)
    with pytest.raises(ValueError, match="differential_inverse_kinematics: dt is 0"):
        differential_inverse_kinematics(arm, AT, [Posture()], 0.0)
    with pytest.raises(ValueError, match="constraint_rate is -1"):
        differential_inverse_kinematics(arm, AT, [Posture()], DT, constraint_rate=-1.0)
