"""Operational-space control produces the commanded accelerations with task priorities, for fixed and standing robots."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arms import accelerating, planar_arm
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax.control import CenterOfMass, Orientation, Position, Posture, Task, operational_space


AT = jax.device_put(np.array([0.3, 0.5, -0.9, 0.7]))
FAST = jax.device_put(np.array([0.4, -1.0, 0.8, 0.3]))
TARGET = jax.device_put(np.array([0.4, 0.0, 1.2]))
STILL = jax.device_put(np.zeros(4))
TIP = Task(Position("tip", TARGET), rate=10.0)


@pytest.fixture(scope="module")
def arm():
    return planar_arm()


def asked(value, rate, speed=10.0):
    return -(speed**2) * np.asarray(value) - 2 * speed * np.asarray(rate)


POSTURE = Task(Posture(), rate=30.0)
TASKS = {"tip": [TIP], "tip and posture": [TIP, POSTURE], "posture and tip": [POSTURE, TIP], "nothing": []}


@functools.cache
def compiled(name):
    arm, state = planar_arm(), rbd.State(AT, FAST)

    def run(damping, rest):
        tau = operational_space(arm, state, TASKS[name], damping=damping, rest=rest)
        a = rbd.acceleration(arm, state, tau)
        return tau, a, accelerating(TIP.residual, arm, AT, FAST, a)

    return jax.jit(run)


def done(name, damping=0.0, rest=5.0):
    """Returns forces for tasks, accelerations of the joints, and the motion of the tip."""
    return jax.device_get(compiled(name)(damping, rest))


def test_the_task_accelerates_as_asked():
    _, _, (value, rate, second) = done("tip")
    assert np.abs(value).max() > 0.1 and np.abs(rate).max() > 0.1
    assert_close(second[[0, 2]], asked(value, rate)[[0, 2]], 1e-6)


def test_it_is_what_khatib_writes(arm):
    tau, _, _ = done("tip", rest=0.0)
    point, plane = np.array([0.0, 0.0, 0.5]), np.array([3, 5])

    @jax.jit
    def parts(q, v):
        at = rbd.forward_kinematics(arm, q)[arm.body_index("link3")]
        J = rbd.jacobian(arm, q, "link3", point, frame="world_aligned")
        rate = rbd.jacobian_derivative(arm, q, v, "link3", point, frame="world_aligned")
        return at.position + at.rotation @ point, J, rate, rbd.mass_matrix(arm, q), rbd.bias_force(arm, q, v)

    place, J, rate, mass, bias = map(np.asarray, parts(AT, FAST))
    J, rate, off, v = J[plane], rate[plane], (place - TARGET)[plane - 3], np.asarray(FAST)
    feels = np.linalg.inv(J @ np.linalg.inv(mass) @ J.T)
    assert_close(tau, J.T @ feels @ (asked(off, J @ v) - rate @ v) + bias, 1e-6)


def test_what_comes_second_does_not_disturb_the_first():
    first, both = done("tip"), done("tip and posture")
    assert_close(both[2][2], first[2][2], 1e-6)
    assert np.abs(both[1] - first[1]).max() > 1
    # The second task alone is achieved exactly.
    _, a, _ = done("posture and tip")
    assert_close(a, asked(AT, FAST, 30.0), 1e-6)


def test_what_nothing_asks_for_comes_to_rest():
    _, a, _ = done("nothing", damping=1e-4, rest=4.0)
    assert_close(a, -4 * np.asarray(FAST), 1e-6)


def moving_target(t):
    turn = jnp.stack([jnp.cos(2 * t), jnp.zeros_like(t), jnp.sin(2 * t)])
    return jnp.array([0.5, 0.0, 1.0]) + 0.2 * turn


@pytest.mark.slow
def test_targets_that_move_are_followed(arm):
    tasks = lambda t: [Task(Position("tip", moving_target(t)), rate=15.0), Posture(AT)]
    policy = lambda t, state: operational_space(arm, state, tasks, time=t)

    @jax.jit
    def missed(state):
        path = rbd.rollout(arm, state, policy, dt=0.002, steps=500, scheme=rbd.RungeKutta4())
        links = jax.vmap(lambda q: rbd.forward_kinematics(arm, q))(path.q)
        return links.position[:, 3] + 0.5 * links.rotation[:, 3, :, 2] - jax.vmap(moving_target)(path.t)

    off = np.linalg.norm(missed(rbd.State(AT, STILL)), axis=1)
    assert off[0] > 0.1
    assert off[-1] < 1e-2 * off[0]
    np.testing.assert_array_less(off[350:], 0.05 * off[0])


GIVEN = {"target": TARGET, "q": AT, "v": FAST}


@pytest.fixture(scope="module")
def along(arm):
    """A compiled function that returns forces and their derivative along a direction of the inputs."""

    def forces(given):
        tasks = [Position("tip", given["target"]), Posture()]
        return operational_space(arm, rbd.State(given["q"], given["v"]), tasks)

    @jax.jit
    def run(s, by):
        return jax.jvp(forces, ({name: GIVEN[name] + s * by[name] for name in GIVEN},), (by,))

    return run


@pytest.mark.parametrize("name", ["target", "q", "v"])
def test_derivatives(along, name):
    by = {other: np.zeros(x.shape) for other, x in GIVEN.items()}
    by[name] = np.random.default_rng(0).normal(size=by[name].shape)
    assert_close(along(0.0, by)[1], quotient(lambda s: np.asarray(along(s, by)[0]), 1e-6), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_straight_arms_are_given_finite_forces(dtype):
    arm = planar_arm(dtype=dtype)
    far = Task(Position("tip", (3.0, 0.0, 4.0)), rate=10.0)
    forces = lambda q: operational_space(arm, rbd.State(q, jnp.zeros(4, dtype)), [far, Posture()])
    tau, by = jax.jit(lambda q: (forces(q), jax.jacfwd(forces)(q)))(np.zeros(4, dtype))
    assert tau.dtype == dtype
    assert np.isfinite(tau).all() and np.isfinite(by).all()
    assert np.abs(tau).max() < 1e5


@pytest.mark.slow
def test_a_batch_is_each_by_itself(arm):
    forces = lambda q, v: operational_space(arm, rbd.State(q, v), [TIP, Posture()])
    q, v = np.stack([AT, np.negative(AT)]), np.stack([FAST, STILL])
    assert_close(jax.jit(jax.vmap(forces))(q, v)[1], jax.jit(forces)(q[1], v[1]), 1e-8)


@pytest.mark.slow
def test_loops_stay_closed():
    slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    end = Position(rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0)), (0.0, 0.0, -1.2))

    @jax.jit
    def end_of(q, v):
        tau = operational_space(model, rbd.State(q, v), [Task(end, rate=10.0)], damping=0.0)
        a = rbd.constrained_dynamics(model, q, v, tau).acceleration
        return accelerating(end, model, q, v, a)

    value, _, second = map(np.asarray, end_of(np.array([0.6, -2 * 0.6]), np.zeros(2)))
    assert_close(second, [0.0, 0.0, -100 * value[2]], 1e-6)


FEET = [f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")]
SOLE = (0.0, 0.0, -0.02)


@pytest.fixture(scope="module")
def standing():
    model = rbd.load("quadruped")
    return rbd.detach(rbd.detach(model, "sensor"), "actuator")


@pytest.mark.slow
def test_a_robot_on_feet_pushes_itself_off(standing):
    q = rbd.neutral(standing)
    soles = [rbd.sensors.OnBody(foot, SOLE) for foot in FEET]
    goal = rbd.center_of_mass(standing, q) + jnp.array([0.02, 0.01, -0.03])
    tasks = [Task(CenterOfMass(goal), rate=5.0), Task(Orientation("trunk", np.eye(3)), rate=5.0)]
    tau = operational_space(standing, rbd.State(q, jnp.zeros(18)), tasks, contacts=soles, damping=0.0)
    assert not np.abs(tau[:6]).any()
    # Accelerations that follow from the forces with the feet held.
    J = np.concatenate(
        [rbd.jacobian(standing, q, foot, jnp.array(SOLE), frame="world_aligned")[3:] for foot in FEET]
    )
    M, h = rbd.mass_matrix(standing, q), rbd.bias_force(standing, q, jnp.zeros(18))
    held = np.block([[np.asarray(M), -J.T], [J, np.zeros((12, 12))]])
    a = np.linalg.solve(held, np.concatenate([tau - h, np.zeros(12)]))[:18]
    assert_close(rbd.center_of_mass_jacobian(standing, q) @ a, -25 * np.array([-0.02, -0.01, 0.03]), 1e-5)
    assert_close(a[:3], np.zeros(3), 1e-5)


def test_bad_input(arm, unchecked):
    state = rbd.State(AT, FAST)
    with pytest.raises(TypeError, match="operational_space: tasks"):
        operational_space(arm, state, 3.0)
    with pytest.raises(ValueError, match="operational_space: damping is -1"):
        operational_space(arm, state, [TIP], damping=-1)
    with pytest.raises(ValueError, match="no site or body 'top'"):
        operational_space(arm, state, [Position("top")])
