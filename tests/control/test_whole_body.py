"""Whole-body control satisfies the equation of motion, limits and friction cones, and tracks tasks as well as these allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arms import accelerating, planar_arm
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax.control import (
    Bounds,
    CenterOfMass,
    Code,
    Constraint,
    Effort,
    Orientation,
    PointContact,
    Position,
    Posture,
    Task,
    Velocity,
    whole_body_control,
)


AT = jax.device_put(np.array([0.3, 0.5, -0.9, 0.7]))
FAST = jax.device_put(np.array([0.4, -1.0, 0.8, 0.3]))
STATE = rbd.State(AT, FAST)
TARGET = jax.device_put(np.array([0.4, 0.0, 1.2]))

#: No limits.
OPEN = Bounds()


@pytest.fixture(scope="module")
def arm():
    return planar_arm()


def test_the_task_accelerates_as_asked_by_forces_that_move_so(arm):
    tip = Position("tip", TARGET)

    @jax.jit
    def run(state):
        found = whole_body_control(arm, state, [Task(tip, rate=10.0)], bounds=OPEN, damping=1e-9)
        a = found.acceleration
        tau = rbd.inverse_dynamics(arm, state.q, state.v, a)
        return found, tau, *accelerating(tip, arm, state.q, state.v, a)

    found, tau, *motion = run(STATE)
    value, rate, second = map(np.asarray, motion)
    assert found.converged
    assert_close(found.missing, np.zeros(3), 1e-5)
    assert_close(found.tau, tau, 1e-6)
    assert_close(second, -100 * value - 20 * rate, 1e-5)


def test_forces_stay_within_their_limits(arm):
    most = np.array([60.0, 4.0, 60.0, 0.5])
    bounds = Bounds(control=(-most, most))
    posture = Task(Posture(), rate=10.0)
    found = whole_body_control(arm, STATE, [posture], bounds=bounds)
    assert found.converged
    tau = np.asarray(found.tau)
    assert (np.abs(tau) <= most).all()
    assert_close(np.abs(tau[1]), 4.0, 1e-6)
    # A bounded least-squares solver gives the optimal accelerations within the effort limits.
    M, h = np.asarray(rbd.mass_matrix(arm, AT)), np.asarray(rbd.bias_force(arm, AT, FAST))
    wanted = -100 * np.asarray(AT) - 20 * np.asarray(FAST)
    scipy = pytest.importorskip("scipy.optimize")
    inverse = np.linalg.inv(M)
    best = scipy.lsq_linear(inverse, np.asarray(wanted + inverse @ h), (-most, most), tol=1e-14)
    assert_close(tau, best.x, 1e-3)


def test_joints_stop_before_their_limits_and_speeds_stay_below_theirs(arm):
    far, dt = Task(Posture(np.array([2.9, 0.0, 0.0, 0.0])), rate=10.0), 0.005
    bounds = Bounds(q=(-np.ones(4), np.ones(4)), v=(-0.8, 0.8))

    def step(state, _):
        found = whole_body_control(arm, state, [far], bounds=bounds, damping=1e-4)
        v = state.v + dt * found.acceleration
        return rbd.State(rbd.integrate(arm, state.q, dt * v), v), (state, found.code)

    still = jax.device_put(np.zeros(4))
    path, codes = jax.device_get(jax.lax.scan(step, rbd.State(still, still), length=500)[1])
    assert not codes.any()
    assert path.q.max() <= 1 + 1e-6 and path.q[-1, 0] > 0.99
    assert 0.75 < np.abs(path.v).max() <= 0.8 + 1e-6


def test_what_cannot_be_is_told(arm):
    along = np.array([1.0, 0.0, 0.0, 0.0])
    racing = rbd.State(jnp.asarray(2.4 * along), jnp.asarray(4.9 * along))
    found = whole_body_control(arm, racing, [Posture()], bounds=Bounds(q=(-2.5, 2.5), control=(-1.0, 1.0)))
    assert found.code == Code.INFEASIBLE and not found.converged
    assert (np.abs(found.tau) <= 1).all()
    assert whole_body_control(arm, racing, [Posture()], bounds=Bounds(control=(-1.0, 1.0))).converged


def test_levels_come_strictly_one_before_the_other(arm):
    tip, rest = Task(Position("tip", TARGET), rate=10.0), Task(Posture(), 1e3, rate=30.0)
    first = whole_body_control(arm, STATE, [[tip], [rest]], bounds=OPEN, damping=1e-9)
    assert first.converged
    missing = np.asarray(first.missing)
    assert_close(missing[:3], np.zeros(3), 1e-4)
    # The second task is tracked exactly in the null space of the first.
    J = np.asarray(rbd.jacobian(arm, AT, "link3", np.array([0.0, 0.0, 0.5]), frame="world_aligned"))[[3, 5]]
    free = np.eye(4) - np.linalg.pinv(J) @ J
    assert_close(free @ missing[3:], np.zeros(4), 1e-3)
    together = whole_body_control(arm, STATE, [tip, rest], bounds=OPEN)
    assert np.abs(np.asarray(together.missing)[:3]).max() > 1


@pytest.mark.slow
def test_constraints_are_approached_and_forces_can_be_tasks(arm):
    low = Constraint(Position("tip", (0.0, 0.0, 0.0)), lower=np.array([-10.0, -10.0, 1.3]))
    tip = Position("tip", TARGET)
    found = whole_body_control(arm, STATE, [tip], bounds=OPEN, constraints=[low], constraint_rate=8.0)
    height = lambda a: [x[2] for x in accelerating(Position("tip", (0.0, 0.0, 1.3)), arm, AT, FAST, a)]
    value, rate, second = height(found.acceleration)
    assert found.converged
    assert_close(second, -64 * value - 16 * rate, 1e-4)
    value, rate, second = height(whole_body_control(arm, STATE, [tip], bounds=OPEN).acceleration)
    assert second < -64 * value - 16 * rate - 0.1
    # An effort task with an upper bound on the control.
    given = np.array([1.0, -2.0, 3.0, 4.0])
    found = whole_body_control(
        arm, STATE, [Effort(given)], bounds=OPEN, constraints=[Constraint(Effort(), upper=2.0)]
    )
    assert_close(found.tau, np.minimum(given, 2.0), 1e-3)


GIVEN = {"q": AT, "v": FAST, "target": TARGET, "strength": np.array([400.0, 4.0, 400.0, 400.0])}


@pytest.fixture(scope="module")
def along(arm):
    """A compiled function that returns forces, accelerations and their derivatives along a direction of the inputs."""

    def command(given):
        bounds = Bounds(control=(-given["strength"], given["strength"]))
        tasks, state = [Position("tip", given["target"]), 0.1 * Velocity()], rbd.State(given["q"], given["v"])
        found = whole_body_control(arm, state, tasks, bounds=bounds, damping=1e-2)
        return found.tau, found.acceleration

    @jax.jit
    def run(s, by):
        return jax.jvp(command, ({name: GIVEN[name] + s * by[name] for name in GIVEN},), (by,))

    return run


@pytest.mark.parametrize("name", ["q", "v", "target", "strength"])
def test_derivatives_also_at_limits(along, name):
    by = {other: np.zeros(x.shape) for other, x in GIVEN.items()}
    by[name] = np.random.default_rng(1).normal(size=by[name].shape)
    (tau, _), change = jax.device_get(along(0.0, by))
    assert_close(np.abs(tau[1]), 4.0, 1e-6)
    values = lambda s: jax.device_get(along(s, by)[0])
    for own, other in zip(change, quotient(values, 1e-4), strict=True):
        assert_close(own, other, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_straight_arms_and_both_precisions(dtype):
    arm, still = planar_arm(dtype=dtype), np.zeros(4, dtype)
    command = lambda q: whole_body_control(
        arm, rbd.State(q, jnp.zeros(4, dtype)), [Position("tip", (0.3, 0.0, 3.0))]
    )
    found = jax.jit(jax.vmap(command))(np.stack([still, still + np.ones(4, dtype) / 10]))
    assert found.tau.dtype == dtype and np.all(found.converged)
    assert np.isfinite(found.tau).all() and (np.abs(found.tau) <= 400).all()
    by = jax.jit(jax.jacfwd(lambda q: command(q).tau))(still)
    assert np.isfinite(by).all()


@pytest.mark.slow
def test_loops_stay_closed():
    slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    state = rbd.State(jax.device_put(np.array([0.6, -2 * 0.6])), jax.device_put(np.array([0.5, -1.0])))
    end = Position(rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0)), (0.0, 0.0, -1.2))
    found = whole_body_control(model, state, [Task(end, rate=10.0)])
    assert found.converged
    a = rbd.constrained_dynamics(model, state.q, state.v, found.tau).acceleration
    assert_close(found.acceleration, a, 1e-5)
    value, rate, second = accelerating(end, model, state.q, state.v, a)
    assert_close(second[2], -100 * value[2] - 20 * rate[2], 1e-4)


@pytest.mark.slow
def test_two_points_of_one_body_share_what_they_bear(arm):
    found = whole_body_control(arm, STATE, [Posture(AT)], contacts=[PointContact("tip", friction=5.0)] * 2)
    assert found.converged
    assert_close(*np.asarray(found.forces), 1e-3)
    # Two points of a rotating body cannot both have zero acceleration; the result is the closest approximation.
    other = PointContact(rbd.sensors.OnBody("link3", (0.0, 0.0, 0.3)), friction=5.0)
    found = whole_body_control(arm, STATE, [Posture(AT)], contacts=[PointContact("tip", friction=5.0), other])
    assert found.converged and np.isfinite(found.tau).all()


FEET = [f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")]
SOLE = (0.0, 0.0, -0.02)
FRICTION = 0.6


@pytest.fixture(scope="module")
def standing():
    model = rbd.load("quadruped")
    return rbd.detach(rbd.detach(model, "sensor"), "actuator")


@pytest.fixture(scope="module")
def commanded(standing):
    """Returns a compiled controller of state, time and friction, with the last foot standing or not."""
    home = rbd.center_of_mass(standing, rbd.neutral(standing))

    @jax.jit
    def command(state, time, friction, last):
        def tasks(t):
            sway = jnp.stack([0.03 * jnp.sin(3 * t), 0.02 * jnp.sin(2 * t), -0.02 + 0.02 * jnp.cos(2 * t)])
            return [
                Task(CenterOfMass(home + sway), 10.0, rate=12.0),
                Task(Orientation("trunk", jnp.eye(3)), rate=12.0),
                Task(Posture(), 1e-3),
            ]

        feet = [
            PointContact(rbd.sensors.OnBody(foot, SOLE), friction=friction, active=stands)
            for foot, stands in zip(FEET, (True, True, True, last), strict=True)
        ]
        return whole_body_control(standing, state, tasks, contacts=feet, time=time)

    return command


STILL = jax.device_put(np.zeros(18))


def soles(model, q):
    at = rbd.forward_kinematics(model, q)
    places = [model.body_index(foot) for foot in FEET]
    return at.position[np.array(places)] + at.rotation[np.array(places)] @ np.array(SOLE)


@pytest.mark.slow
def test_forces_of_contacts_move_it_as_they_should(standing, commanded):
    q = rbd.neutral(standing)
    found = commanded(rbd.State(q, STILL), 0.3, FRICTION, True)
    assert found.converged and not np.abs(found.tau[:6]).any()
    J = [rbd.jacobian(standing, q, foot, jnp.array(SOLE), frame="world_aligned")[3:] for foot in FEET]
    pushed = sum(part.T @ force for part, force in zip(J, found.forces, strict=True))
    missing = rbd.inverse_dynamics(standing, q, STILL, found.acceleration) - found.tau - pushed
    assert_close(missing, np.zeros(18), 1e-5)
    assert_close(np.concatenate([part @ found.acceleration for part in J]), np.zeros(12), 1e-5)


@pytest.mark.slow
def test_a_foot_that_does_not_stand_pushes_nothing(standing, commanded):
    found = commanded(rbd.State(rbd.neutral(standing), STILL), 0.0, FRICTION, False)
    assert found.converged
    assert not np.abs(found.forces[3]).any()
    assert (found.forces[:3, 2] > 0).all()


@pytest.mark.slow
def test_a_base_motion_is_followed_within_friction_cones(standing, commanded):
    dt, slippery = 0.01, 0.12

    @jax.jit
    def motion(state):
        def step(state, t):
            found = commanded(state, t, slippery, True)
            v = state.v + dt * found.acceleration
            return rbd.State(rbd.integrate(standing, state.q, dt * v), v), (state.q, found)

        return jax.lax.scan(step, state, dt * jnp.arange(200.0))[1]

    q, found = motion(rbd.State(rbd.neutral(standing), STILL))
    assert not found.code.any()
    assert (np.abs(found.tau[:, 6:]) <= 25).all()
    along, press = np.linalg.norm(found.forces[..., :2], axis=-1), found.forces[..., 2]
    assert (press > 0).all()
    np.testing.assert_array_less(along, slippery * press + 1e-3)
    assert (along > 0.5 * slippery * press).any()
    assert_close(jax.vmap(lambda q: soles(standing, q))(q[::50]), np.stack([soles(standing, q[0])] * 4), 5e-3)
    t = dt * np.arange(200)
    home = np.asarray(rbd.center_of_mass(standing, q[0]))
    sway = np.stack([0.03 * np.sin(3 * t), 0.02 * np.sin(2 * t), -0.02 + 0.02 * np.cos(2 * t)], axis=1)
    followed = jax.vmap(lambda q: rbd.center_of_mass(standing, q))(q)
    assert np.abs(np.asarray(followed) - home - sway)[100:].max() < 5e-3


@pytest.mark.slow
def test_a_robot_that_stands_on_its_floor_follows_too(standing, commanded):
    """The simulated floor is slightly compliant, which the controller does not model."""
    policy = lambda t, state: commanded(state, t, FRICTION, True).tau
    start = rbd.State(rbd.neutral(standing), STILL)
    ground = rbd.attach(rbd.detach(standing, "contact law"), rbd.contact.Soft())
    path = rbd.rollout(ground, start, policy, dt=0.002, steps=1000, save_every=10)
    assert not path.code.any()
    followed = jax.vmap(lambda q: rbd.center_of_mass(standing, q))(path.q)
    t = np.asarray(path.t)
    sway = np.stack([0.03 * np.sin(3 * t), 0.02 * np.sin(2 * t), -0.02 + 0.02 * np.cos(2 * t)], axis=1)
    assert np.abs(np.asarray(followed - followed[:1]) - sway)[50:].max() < 0.01
    assert np.abs(path.q[:, 4:7]).max() < 0.05


@pytest.mark.parametrize(
    "change, words",
    [
        ({"tasks": 3.0}, "whole_body_control: tasks"),
        ({"edges": 2}, "whole_body_control: edges is 2"),
        ({"damping": -1.0}, "whole_body_control: damping is -1"),
        ({"contacts": ["top"]}, "no site or body 'top'"),
        ({"constraints": [Posture()]}, "whole_body_control: constraints"),
        ({"bounds": Bounds(control=(-np.ones(3), np.ones(3)))}, r"bound of the control has shape \(3,\)"),
    ],
)
def test_bad_input(arm, unchecked, change, words):
    given = {"tasks": [Posture()]} | change
    with pytest.raises((ValueError, TypeError, KeyError), match=words):
        whole_body_control(arm, STATE, given.pop("tasks"), **given)


def test_bad_contacts(unchecked):
    with pytest.raises(ValueError, match="control.PointContact: normal"):
        PointContact("tip", normal=(0, 0, 0))
    with pytest.raises(ValueError, match="control.PointContact: friction is -1"):
        PointContact("tip", friction=-1.0)
    with pytest.raises(ValueError, match=r"control.PointContact: active has shape \(2,\)"):
        PointContact("tip", active=[True, False])
