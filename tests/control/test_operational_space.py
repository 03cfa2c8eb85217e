"""Operational-space control: accelerations are those asked for, one task before the other, whatever holds the robot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arms import accelerating, planar_arm
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax.control import CenterOfMass, Orientation, Position, Posture, Task, operational_space


AT = jnp.array([0.3, 0.5, -0.9, 0.7])
FAST = jnp.array([0.4, -1.0, 0.8, 0.3])
TARGET = jnp.array([0.4, 0.0, 1.2])
TIP = Task(Position("tip", TARGET), rate=10.0)


@pytest.fixture(scope="module")
def arm():
    return planar_arm()


def asked(value, rate, speed=10.0):
    return -(speed**2) * value - 2 * speed * rate


@pytest.fixture(scope="module")
def done(arm):
    """How the tip accelerates, and how the joints do, with some tasks; and the forces."""

    def run(tasks, **options):
        tau = operational_space(arm, rbd.State(AT, FAST), tasks, **options)
        a = rbd.acceleration(arm, rbd.State(AT, FAST), tau)
        return tau, a, accelerating(TIP.residual, arm, AT, FAST, a)

    return run


def test_the_task_accelerates_as_asked(done):
    _, _, (value, rate, second) = done([TIP], damping=0.0)
    assert np.abs(value).max() > 0.1 and np.abs(rate).max() > 0.1
    assert_close(second[jnp.array([0, 2])], asked(value, rate)[jnp.array([0, 2])], 1e-6)


def test_it_is_what_khatib_writes(arm, done):
    tau, _, _ = done([TIP], damping=0.0, rest=0.0)
    point, plane = jnp.array([0.0, 0.0, 0.5]), np.array([3, 5])
    J = rbd.jacobian(arm, AT, "link3", point, frame="world_aligned")[plane]
    rate = rbd.jacobian_derivative(arm, AT, FAST, "link3", point, frame="world_aligned")[plane]
    at = rbd.forward_kinematics(arm, AT)[arm.body_index("link3")]
    off = (at.position + at.rotation @ point - TARGET)[plane - 3]
    feels = jnp.linalg.inv(J @ jnp.linalg.inv(rbd.mass_matrix(arm, AT)) @ J.T)
    expected = J.T @ feels @ (asked(off, J @ FAST) - rate @ FAST) + rbd.bias_force(arm, AT, FAST)
    assert_close(tau, expected, 1e-6)


def test_what_comes_second_does_not_disturb_the_first(done):
    first = done([TIP], damping=0.0)
    both = done([TIP, Task(Posture(), rate=30.0)], damping=0.0)
    assert_close(both[2][2], first[2][2], 1e-6)
    assert np.abs(both[1] - first[1]).max() > 1
    # By itself the second has what it asks for.
    _, a, _ = done([Task(Posture(), rate=30.0), TIP], damping=0.0)
    assert_close(a, asked(AT, FAST, 30.0), 1e-6)


def test_what_nothing_asks_for_comes_to_rest(done):
    _, a, _ = done([], rest=4.0)
    assert_close(a, -4 * FAST, 1e-6)


def moving_target(t):
    turn = jnp.stack([jnp.cos(2 * t), jnp.zeros_like(t), jnp.sin(2 * t)])
    return jnp.array([0.5, 0.0, 1.0]) + 0.2 * turn


def test_targets_that_move_are_followed(arm):
    tasks = lambda t: [Task(Position("tip", moving_target(t)), rate=15.0), Posture(AT)]
    policy = lambda t, state: operational_space(arm, state, tasks, time=t)
    path = rbd.rollout(
        arm, rbd.State(AT, jnp.zeros(4)), policy, dt=0.002, steps=500, scheme=rbd.RungeKutta4()
    )
    links = jax.vmap(lambda q: rbd.forward_kinematics(arm, q))(path.q)
    tips = links.position[:, 3] + 0.5 * links.rotation[:, 3, :, 2]
    off = np.linalg.norm(tips - jax.vmap(moving_target)(path.t), axis=1)
    assert off[0] > 0.1
    assert off[-1] < 1e-2 * off[0]
    np.testing.assert_array_less(off[350:], 0.05 * off[0])


@pytest.mark.parametrize("name", ["target", "q", "v"])
def test_derivatives(arm, name):
    given = {"target": TARGET, "q": AT, "v": FAST}
    by = jnp.asarray(np.random.default_rng(0).normal(size=given[name].shape))

    def forces(s):
        now = given | {name: given[name] + s * by}
        return operational_space(
            arm, rbd.State(now["q"], now["v"]), [Position("tip", now["target"]), Posture()]
        )

    change = jax.jvp(forces, (jnp.zeros(()),), (jnp.ones(()),))[1]
    assert_close(change, quotient(forces, 1e-6), 1e-6)


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_straight_arms_are_given_finite_forces(dtype):
    arm, q = planar_arm(dtype=dtype), jnp.zeros(4, dtype)
    far = Task(Position("tip", (3.0, 0.0, 4.0)), rate=10.0)
    forces = lambda q: operational_space(arm, rbd.State(q, jnp.zeros(4, dtype)), [far, Posture()])
    tau, by = forces(q), jax.jacfwd(forces)(q)
    assert tau.dtype == dtype
    assert np.isfinite(tau).all() and np.isfinite(by).all()
    assert np.abs(tau).max() < 1e5


def test_a_batch_is_each_by_itself(arm):
    states = rbd.State(jnp.stack([AT, -AT]), jnp.stack([FAST, 0 * FAST]))
    forces = lambda state: operational_space(arm, state, [TIP, Posture()])
    assert_close(jax.vmap(forces)(states)[1], forces(rbd.State(-AT, 0 * FAST)), 1e-8)


def test_loops_stay_closed():
    slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    state = rbd.State(jnp.array([0.6, -2 * 0.6]), jnp.zeros(2))
    end = Position(rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0)), (0.0, 0.0, -1.2))
    tau = operational_space(model, state, [Task(end, rate=10.0)], damping=0.0)
    a = rbd.constrained_dynamics(model, state.q, state.v, tau).acceleration
    value, _, second = accelerating(end, model, state.q, state.v, a)
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
    tasks = [Task(CenterOfMass(goal), rate=5.0), Task(Orientation("trunk", jnp.eye(3)), rate=5.0)]
    tau = operational_space(standing, rbd.State(q, jnp.zeros(18)), tasks, contacts=soles, damping=0.0)
    assert not np.abs(tau[:6]).any()
    # What follows, with the feet held.
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
