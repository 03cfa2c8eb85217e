"""Receding-horizon control with all solvers."""

import functools
import logging
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from support import assert_close

import rbd_jax as rbd
from rbd_jax._core import jit as compiling
from rbd_jax.control import Code, RecedingHorizon
from rbd_jax.control._stages import Stages


DT = 0.1
Q, R = np.diag([1.0, 0.1]), np.array([[0.1]])


@functools.cache
def cart(mass=1.0, dtype=jnp.float64):
    """Returns a mass on a slide: a linear system."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    inertia = rbd.Inertia.from_mass_com(mass, (0, 0, 0), np.eye(3))
    builder.add_body("cart", joint=rbd.joints.Prismatic(axis=(1, 0, 0)), inertia=inertia)
    return rbd.astype(builder.build(), dtype)


def regulator(dt=DT):
    """Returns the gain and the value matrix of the infinite-horizon regulator, by SciPy."""
    A, B = np.array([[1, dt], [0, 1]]), np.array([[dt**2], [dt]])
    P = scipy.linalg.solve_discrete_are(A, B, dt * Q, dt * R)
    return -np.linalg.solve(dt * R + B.T @ P @ B, B.T @ P @ A), P


K, P = regulator()


def state_of(q, v, dtype=jnp.float64):
    return rbd.State(jax.device_put(np.array([q], dtype)), jax.device_put(np.array([v], dtype)))


START = state_of(1.0, -0.3)
RUNNING = [0.1 * rbd.control.Effort(), rbd.control.Posture(), 0.1 * rbd.control.Velocity()]


def end_of(P):
    """Returns the terminal cost ½ xᵀ P x."""
    root = jnp.asarray(np.linalg.cholesky(P).T)
    return rbd.control.Cost(
        lambda t, state, control: root.astype(state.q.dtype) @ jnp.concatenate([state.q, state.v])
    )


def problem_of(model=None, **options):
    given = {"running": RUNNING, "terminal": [end_of(P)], "steps": 6, "dt": DT}
    return rbd.control.Problem(cart() if model is None else model, START, **given | options)


@pytest.fixture(scope="module")
def problem():
    return problem_of()


@pytest.fixture(scope="module")
def controller(problem):
    return RecedingHorizon(problem, rbd.control.DDP(max_iterations=2))


def simulated(controller, plant=None, start=START, dt=DT, steps=16, **options):
    memory = controller.start(start, **options)
    plant = controller.problem.model if plant is None else plant
    return rbd.rollout(plant, start, controller, memory=memory, dt=dt, steps=steps)


def states_of(path):
    return np.concatenate([path.q, path.v], axis=1)


@pytest.mark.slow
def test_with_the_value_of_an_infinite_time_it_is_the_linear_regulator(controller):
    path = simulated(controller)
    x = states_of(path)
    np.testing.assert_allclose(path.tau, x[:-1] @ K.T, atol=1e-9)
    assert path.memory.plans == 16 and path.memory.failures == 0
    # The planned cost is the value function at the current state.
    np.testing.assert_allclose(path.memory.cost, 0.5 * x[-2] @ P @ x[-2], rtol=1e-9)


@pytest.mark.slow
def test_between_plans_its_feedback_acts(controller):
    """The plant is heavier than the model and is replanned every five steps only.

    With feedback gains the controls are those of the regulator between plans, without gains they are not.
    """
    rare = replace(controller, period=5 * DT)
    path = simulated(rare, cart(1.6))
    assert path.memory.plans == 4
    np.testing.assert_allclose(path.tau, states_of(path)[:-1] @ K.T, atol=1e-9)
    blind = simulated(replace(rare, feedback=False), cart(1.6))
    wrong = np.abs(blind.tau - states_of(blind)[:-1] @ K.T)[:, 0]
    planned = np.arange(16) % 5 == 0
    assert wrong[planned].max() < 1e-9 and wrong[1:5].min() > 0.1


@pytest.mark.slow
def test_step_by_step_as_in_a_rollout_and_compiled_once(controller, caplog):
    path = simulated(controller, dt=DT / 2)
    model, state = controller.problem.model, START
    memory = controller.start(START)
    controller.step(memory, 0.0, state)  # compiles
    rbd.step(model, state, jnp.zeros(1), DT / 2)
    ready = compiling.compilations
    # Times and states in different types.
    times = [0, DT / 2, np.float64(DT), np.float32(1.5 * DT), jnp.float32(2 * DT), jnp.asarray(2.5 * DT)]
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for i, t in enumerate(times):
            given = rbd.State(np.asarray(state.q), np.asarray(state.v)) if i % 2 else state
            tau, memory = controller.step(memory, t, given)
            np.testing.assert_allclose(tau, path.tau[i], atol=1e-6)
            state = rbd.step(model, state, tau, DT / 2)
        # Other parameters of the problem: time step, initial time and mass.
        other = replace(controller, problem=replace(controller.problem, dt=0.11, t0=0.5, model=cart(2.0)))
        other.step(other.start(START), 0.5, START)
    assert compiling.compilations == ready
    messages = [record.getMessage() for record in caplog.records]
    assert not [line for line in messages if "XLA compilation of jit(_stepped)" in line]
    np.testing.assert_allclose(state.q, path.q[6], atol=1e-6)


@pytest.mark.slow
def test_plans_of_other_steps_than_those_of_the_simulation(controller):
    path = simulated(controller, dt=DT / 4)
    assert path.memory.plans == 4
    # Between two plans, controls are those of a regulator about the plan: the held control plus the feedback.
    x = states_of(path)
    for k in range(0, 16, 4):
        held, before = x[k] @ K.T, x[k]
        ahead = np.array([[1, DT], [0, 1]]) @ before + np.array([DT**2, DT]) * held
        for i in range(4):
            there = before + i / 4 * (ahead - before)
            np.testing.assert_allclose(path.tau[k + i], held + (x[k + i] - there) @ K.T, atol=1e-9)
    # With steps longer than the period there is one plan per step.
    assert simulated(replace(controller, period=DT / 2)).memory.plans == 16


# Moving targets.


def test_targets_move_on_with_time(problem):
    """Each plan reads the target rows from its time on, interpolates between rows, and holds the last row."""
    rows = np.random.default_rng(0).normal(size=(11, 1))
    tracking = rbd.control.Along(rbd.control.Posture(rows))
    kept = rbd.control.Constraint(rbd.control.Along(rbd.control.Velocity(rows)), lower=-9.0)
    problem = problem_of(running=[tracking], constraints=[kept], t0=2.0)
    controller = RecedingHorizon(problem, rbd.control.MPPI(spread=1.0))

    @jax.jit
    def at_knots(time):
        """Returns residuals and times at the knots of a plan that begins at a given time."""
        moved = controller._problem_from(time, START)
        stages = Stages(moved)

        def at(k):
            knot = stages.knot(k, stages.first, jnp.zeros(1))
            return moved.running[0].residual(knot), moved.constraints[0].residual(knot), knot.time

        return jax.vmap(at)(jnp.arange(6, dtype=jnp.int32))

    q, v = np.asarray(START.q), np.asarray(START.v)
    for first in (0.0, 3.0, 3.25, 8.0):
        places = np.clip(first + np.arange(6), 0, 10)
        expected = np.interp(places, np.arange(11), rows[:, 0])[:, None]
        residual, speed, time = at_knots(2.0 + DT * first)
        np.testing.assert_allclose(residual, q - expected, atol=1e-12)
        np.testing.assert_allclose(speed, v - expected, atol=1e-12)
        np.testing.assert_allclose(time, 2.0 + DT * (first + np.arange(6)), rtol=1e-6)


@pytest.mark.slow
def test_it_follows_a_path_longer_than_its_horizon():
    """The target oscillates. The horizon contains its future, so that the robot follows without lag."""
    t = np.arange(60.0) * DT
    goal = np.sin(2 * t)[:, None]
    running = [1e-4 * rbd.control.Effort(), rbd.control.Along(rbd.control.Posture(goal))]
    problem = problem_of(running=running, terminal=[], steps=8)
    path = simulated(RecedingHorizon(problem, rbd.control.DDP(max_iterations=1)), steps=50)
    assert np.abs(path.q[10:50] - goal[10:50]).max() < 0.02


# Failures.


@pytest.mark.slow
def test_a_plan_that_fails_is_not_followed(problem):
    """From some time on no plan is possible: the last plan is followed to its end, and its last control is held."""
    forbidden = rbd.control.Value(lambda t, state, control: jnp.where(t > 0.95, jnp.nan, 0.0))
    broken = replace(problem, running=(*problem.running, forbidden))
    controller = RecedingHorizon(broken, rbd.control.DDP(max_iterations=2))
    path = simulated(controller)
    # Plans made at 0.5 s and later reach this time.
    assert path.memory.plans == 16 and path.memory.failures == 11
    assert path.memory.code == Code.NOT_FINITE and path.memory.trust == 0
    np.testing.assert_allclose(path.tau[:10], states_of(path)[:10] @ K.T, atol=1e-9)
    np.testing.assert_allclose(path.tau[10:], np.full((6, 1), path.tau[9]), atol=1e-12)
    assert np.isfinite(path.q).all() and path.code == 0


@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_what_is_measured_is_no_number(controller, what):
    memory = controller.start(START)
    tau, memory = controller.step(memory, 0.0, START)
    planned = np.asarray(memory.plan.control)
    tau, memory = controller.step(memory, DT, state_of(what, 0.0))
    np.testing.assert_allclose(tau, planned[1], atol=1e-12)
    assert memory.failures == 1 and memory.trust == 2
    again, memory = controller.step(memory, 2 * DT, START)
    np.testing.assert_allclose(again, K @ np.array([1.0, -0.3]), atol=1e-9)
    assert memory.failures == 1 and memory.plans == 3
    # At the start there is no plan yet.
    tau, memory = controller.step(controller.start(START), 0.0, state_of(what, 0.0))
    np.testing.assert_array_equal(tau, [0.0])


def test_only_what_is_accepted_is_followed(problem):
    solver = rbd.control.MPPI(samples=8, max_iterations=1, spread=1.0)
    strict = RecedingHorizon(problem, solver, accept=[Code.CONVERGED])
    tau, memory = strict.step(strict.start(START), 0.0, START)
    assert memory.failures == 1 and memory.code == Code.NOT_CONVERGED and tau == 0


# Warm starts.


@pytest.mark.slow
def test_a_guess_for_the_first_plan(problem):
    """From a solution as the guess, one iteration gives a plan of the same quality."""
    pendulum = rbd.load("pendulum")
    start = rbd.State(jnp.array([0.3]), jnp.zeros(1))
    swing = rbd.control.Problem(
        pendulum,
        start,
        steps=25,
        dt=0.06,
        running=[1e-2 * rbd.control.Effort()],
        terminal=[100.0 * rbd.control.Posture(jnp.array([2.5])), 10.0 * rbd.control.Velocity()],
    )
    solution = rbd.control.solve(swing, rbd.control.DDP())
    controller = RecedingHorizon(swing, rbd.control.DDP(max_iterations=1))
    cold = controller.step(controller.start(start), 0.0, start)[1]
    warm = controller.step(controller.start(start, guess=solution), 0.0, start)[1]
    assert solution.code == 0 and warm.cost <= solution.cost * (1 + 1e-6) < cold.cost
    told = controller.step(controller.start(start, guess=rbd.control.Guess(solution.control)), 0.0, start)[1]
    assert told.cost <= solution.cost * (1 + 1e-6)


@pytest.fixture(scope="module")
def begun(problem):
    """A compiled function of time that returns the initial guesses of plans, for three controllers."""
    control = jax.device_put(np.arange(1.0, 7.0)[:, None])
    options = {}, {"tail": lambda t, state: 2 * state.q}, {"warm_start": "states"}
    solver = rbd.control.MPPI(spread=1.0)
    controllers = [RecedingHorizon(problem, solver, **given) for given in options]

    def of(controller, time):
        memory = controller.start(START, guess=rbd.control.Guess(control))
        states = rbd.State(jnp.arange(7.0)[:, None], jnp.ones((7, 1)))
        plan = replace(memory.plan, states=states)
        stages = Stages(controller._problem_from(time, START))
        return controller._moved_on(stages, replace(memory, plan=plan), time)

    return jax.jit(lambda time: [of(controller, time) for controller in controllers])


@pytest.mark.parametrize("place", [0.0, 1.0, 2.5, 9.0])
def test_plans_begin_from_the_one_before(begun, place):
    moved = np.interp(np.arange(6) + place, np.arange(6), np.arange(1.0, 7.0))  # the last control is held
    start, doubled, handed = jax.device_get(begun(place * DT))
    np.testing.assert_allclose(start.control[:, 0], moved, atol=1e-12)
    assert start.points is None
    inside = np.arange(6) + place < 6
    np.testing.assert_allclose(doubled.control[inside, 0], moved[inside], atol=1e-12)
    np.testing.assert_allclose(handed.control[:, 0], moved, atol=1e-12)
    q, v = handed.points.state.q[:, 0], handed.points.state.v[:, 0]
    assert q[0] == np.asarray(START.q)
    known = np.arange(1, 7)[np.arange(1, 7) + place <= 6]
    np.testing.assert_allclose(q[known], known + place, atol=1e-12)
    # Beyond the plan the model is simulated from the plan's last state.
    rest = slice(known[-1] if len(known) else 0, None)
    np.testing.assert_allclose(np.diff(q[rest]), DT * v[rest][1:], atol=1e-12)


def test_a_tail_decides_where_there_is_no_plan(problem):
    tail = lambda t, state: -2.0 * state.q - state.v
    controller = RecedingHorizon(
        problem, rbd.control.MPPI(spread=1.0, samples=1, max_iterations=1), tail=tail
    )
    # With one sample, which is the mean, the plan equals its initial guess.
    _, memory = controller.step(controller.start(START), 0.0, START)
    follow = lambda t, state: -2.0 * state.q - state.v
    path = rbd.rollout(problem.model, START, follow, dt=DT, steps=6)
    np.testing.assert_allclose(memory.plan.control, path.tau, atol=1e-12)


# Delayed plans.


@pytest.mark.slow
def test_plans_that_take_time(problem):
    """Each plan is for the time when it is ready. With an exact model only the first control differs."""
    controller = RecedingHorizon(problem, rbd.control.DDP(max_iterations=2), delay=DT)
    path = simulated(controller)
    np.testing.assert_array_equal(path.tau[0], [0.0])
    np.testing.assert_allclose(path.tau[1:], states_of(path)[1:-1] @ K.T, atol=1e-9)
    assert path.memory.plans == 16
    # Half a step, with simulation steps in between.
    controller = RecedingHorizon(problem, rbd.control.DDP(max_iterations=2), delay=DT / 2)
    path = simulated(controller, dt=DT / 2)
    np.testing.assert_array_equal(path.tau[0], [0.0])
    assert np.abs(path.tau[1:4]).min() > 0.1 and abs(path.q[-1, 0]) < 0.6
    assert path.memory.plan.time == pytest.approx(7.5 * DT) and path.memory.failures == 0


# Other solvers, and transformations.


@pytest.mark.slow
@pytest.mark.parametrize("kind", [rbd.control.MPPI, rbd.control.CEM])
def test_around_samples(problem, kind):
    solver = kind(samples=64, max_iterations=3, spread=2.0, knots=4)
    path = simulated(RecedingHorizon(problem, solver), steps=30)
    q, v = states_of(path)[-1]
    assert abs(q) < 0.1 and abs(v) < 0.2
    # Every plan draws new samples.
    assert path.memory.plan.multipliers.count > 60


@pytest.mark.slow
@pytest.mark.parametrize("warm_start", ["controls", "states"])
@pytest.mark.parametrize("kind", [rbd.control.Shooting, rbd.control.Collocation])
def test_around_interior_points(problem, kind, warm_start):
    """With bounds on controls and velocities the motion ends at rest and stays within the speed limit."""
    bounds = rbd.control.Bounds(control=(-4.0, 4.0), v=(-0.8, 0.8))
    bounded = replace(problem, bounds=bounds)
    controller = RecedingHorizon(bounded, kind(max_iterations=15), warm_start=warm_start)
    path = simulated(controller, steps=40)
    assert path.memory.failures == 0
    assert path.v.min() > -0.8 - 0.05 and abs(path.q[-1, 0]) < 0.02 and abs(path.v[-1, 0]) < 0.05


@pytest.mark.slow
def test_in_a_batch(controller):
    starts = rbd.State(jax.device_put(np.array([[1.0], [-0.4]])), jax.device_put(np.array([[-0.3], [0.0]])))
    first = lambda state: controller.step(controller.start(state), 0.0, state)
    tau, memory = jax.vmap(first)(starts)
    np.testing.assert_allclose(tau, states_of(starts) @ K.T, atol=1e-9)
    np.testing.assert_array_equal(memory.plans, [1, 1])
    for i in range(2):
        alone = first(jax.tree.map(lambda x, i=i: x[i], starts))[1]
        np.testing.assert_allclose(memory.plan.control[i], alone.plan.control, atol=1e-9)


@pytest.mark.slow
def test_in_single_precision():
    start, given = (
        state_of(1.0, -0.3, jnp.float32),
        {"steps": 6, "dt": DT, "running": RUNNING, "terminal": [end_of(P)]},
    )
    problem = rbd.control.Problem(cart(dtype=jnp.float32), start, **given)
    controller = RecedingHorizon(problem, rbd.control.DDP(max_iterations=2))
    tau, memory = controller.step(controller.start(start), 0.0, start)
    assert tau.dtype == memory.cost.dtype == memory.plan.gains.dtype == jnp.float32
    assert_close(tau, K @ np.array([1.0, -0.3]), 1e-5)


@pytest.mark.slow
def test_actuators_are_told_and_bounds_kept():
    model = rbd.load("cartpole")
    start = rbd.State(jnp.array([0.0, 0.4]), jnp.zeros(2))
    problem = rbd.control.Problem(
        model,
        start,
        steps=20,
        dt=0.04,
        running=[1e-3 * rbd.control.Effort(), rbd.control.Posture(), 0.1 * rbd.control.Velocity()],
        terminal=[10.0 * rbd.control.Posture(), rbd.control.Velocity()],
        bounds=rbd.control.Bounds(control=(-6.0, 8.0)),
    )
    controller = RecedingHorizon(problem, rbd.control.DDP(max_iterations=2))
    path = simulated(controller, dt=0.02, start=start, steps=150)
    assert path.u.min() >= -6.0 and path.u.max() <= 8.0 and (path.u.min() == -6.0 or path.u.max() == 8.0)
    assert abs(path.q[-1, 1]) < 0.05
    told, _ = controller.step(controller.start(start), 0.0, start)
    assert isinstance(told, rbd.Controls) and told.u.shape == (1,) and told.tau is None


# Errors.

WRONG = {
    "problem": (lambda p: RecedingHorizon(p.model), "problem is a Model; it takes a control.Problem"),
    "solver": (lambda p: RecedingHorizon(p, "DDP"), "solver is a str; it takes a solver"),
    "a solver that cannot": (
        lambda p: RecedingHorizon(p, rbd.control.MPPI()),
        "control.MPPI: spread is missing",
    ),
    "period": (lambda p: RecedingHorizon(p, period=0.0), "period is 0.0; it must be greater than 0"),
    "delay": (lambda p: RecedingHorizon(p, delay=-1.0), "delay is -1.0; it must be greater than 0"),
    "a long delay": (
        lambda p: RecedingHorizon(p, delay=0.2),
        "delay is 0.2 s and the period 0.1 s.*longer period",
    ),
    "warm_start": (
        lambda p: RecedingHorizon(p, warm_start="all"),
        "warm_start is 'all'; it must be one of 'controls', 's",
    ),
    "feedback": (lambda p: RecedingHorizon(p, feedback=1), "feedback is 1; it must be True or False"),
    "tail": (lambda p: RecedingHorizon(p, tail=3), r"tail is 3; it must be a policy \(t, state\) -> control"),
    "state": (lambda p: RecedingHorizon(p).start(START.q), "RecedingHorizon.start: state is a"),
    "guess": (lambda p: RecedingHorizon(p).start(START, guess=3), "RecedingHorizon.start: guess is a int"),
    "memory": (lambda p: RecedingHorizon(p).step(None, 0.0, START), "step: memory is a NoneType"),
    "q": (
        lambda p: RecedingHorizon(p).start(rbd.State(np.zeros(2), np.zeros(1))),
        r"state.q has shape \(2,\); it must have shape \(1,\)",
    ),
    "own": (
        lambda p: RecedingHorizon(p).start(rbd.State(np.zeros(1), np.zeros(1), np.zeros(3))),
        r"state.own has shape \(3,\).*State\(state.q, state.v\)",
    ),
    "what a tail returns": (
        lambda p: (lambda c: c.step(c.start(START), 0.0, START))(
            RecedingHorizon(p, tail=lambda t, state: jnp.zeros(2))
        ),
        r"tail returned an array of shape \(2,\)",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("make, message", WRONG.values(), ids=WRONG)
def test_wrong_arguments(problem, make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(problem)


def test_its_numbers_are_leaves(controller):
    """Parameters of a controller can be replaced by `eqx.tree_at`."""
    leaves = [x for x in jax.tree.leaves(controller) if isinstance(x, jax.Array)]
    assert len(leaves) > 10
    later = eqx.tree_at(lambda one: one.period, controller, jnp.asarray(2 * DT))
    memory, state = later.start(START), START
    for k in range(16):
        tau, memory = later.step(memory, k * DT, state)
        state = rbd.step(controller.problem.model, state, tau, DT)
    assert memory.plans == 8
