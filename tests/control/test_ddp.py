"""DDP on a linear system, against quadratic programs, and on a double pendulum, against rollouts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from sliders import BOUNDED, DT, IMPOSSIBLE, MASSES, STEPS, changed, motion_of, posed, reference, sliders
from support import assert_close

import rbd_jax as rbd


C = rbd.control
SOLVER = C.DDP()


def state(q, v=(0.0, 0.0)):
    return rbd.State(jax.device_put(np.array(q)), jax.device_put(np.array(v)))


# Without bounds and constraints: the linear-quadratic regulator.


@pytest.fixture(scope="module")
def regulated():
    return C.Problem(
        sliders(),
        state([0.4, -0.3]),
        steps=STEPS,
        dt=DT,
        running=[C.Effort(np.array([0.1, -0.2])), 0.3 * C.Posture()],
        terminal=[C.Cost(C.Posture(np.array([0.3, 0.2])), np.array([5.0, 7.0])), 2.0 * C.Velocity()],
    )


def dense(start=(0.4, -0.3), control=None):
    """Returns bounded controls and their cost, by linear least squares."""
    flat = np.eye(2 * STEPS + 1)[:, : 2 * STEPS]

    def rows(u):
        q, v = motion_of(u.reshape(STEPS, 2), start)
        parts = [u.reshape(STEPS, 2) - [0.1, -0.2], np.sqrt(0.3) * q[:-1]]
        parts = [np.sqrt(DT) * part for part in parts]
        parts += [np.sqrt([5.0, 7.0]) * (q[-1] - [0.3, 0.2]), np.sqrt(2.0) * v[-1]]
        return np.concatenate([part.ravel() for part in parts])

    offset = rows(np.zeros(2 * STEPS))
    matrix = np.stack([rows(column) - offset for column in flat[:-1]], axis=1)
    low, high = (-np.inf, np.inf) if control is None else (np.tile(side, STEPS) for side in control)
    found = scipy.optimize.lsq_linear(matrix, -offset, (low, high), tol=1e-15, method="bvls")
    return found.x.reshape(STEPS, 2), 0.5 * np.sum((matrix @ found.x + offset) ** 2)


@pytest.mark.slow
def test_a_linear_problem_with_squares_is_one_step(regulated):
    solution = C.solve(regulated, SOLVER)
    u, cost = dense()
    assert solution.code == C.Code.CONVERGED and solution.iterations == 1
    assert_close(solution.control, u, 1e-11)
    np.testing.assert_allclose(solution.cost, cost, rtol=1e-12)
    assert solution.stationarity < 1e-12 and solution.violation == 0


@pytest.mark.slow
def test_gains_and_costates_are_derivatives_by_the_state(regulated):
    """For a linear problem the feedback is exact: it predicts the first control from another initial state."""
    solution = jax.device_get(C.solve(regulated, SOLVER))
    q = np.asarray(regulated.state.q)
    for j, (dq, dv) in enumerate(np.eye(4).reshape(4, 2, 2)):
        other, back = (
            jax.device_get(C.solve(regulated.starting(state(q + step * dq, step * dv)), SOLVER))
            for step in (0.1, -0.1)
        )
        expected = solution.control[0] + 0.1 * solution.gains[0][:, j]
        assert_close(other.control[0], expected, 1e-11)
        np.testing.assert_allclose((other.cost - back.cost) / 0.2, solution.costates[0, j], rtol=1e-9)


@pytest.mark.slow
def test_a_search_from_a_solution_takes_no_step(regulated):
    solution = C.solve(regulated, SOLVER)
    again = C.solve(regulated, SOLVER, solution)
    assert again.code == C.Code.CONVERGED and again.iterations <= 1
    assert_close(again.control, solution.control, 1e-12)


# With bounds and constraints: quadratic programs.

BOXES = {
    "both sides": ((-0.2, -0.3), (0.3, 0.1)),
    "one side": ((-np.inf, -np.inf), (0.05, np.inf)),
    "none acts": ((-9.0, -9.0), (9.0, 9.0)),
    "nothing between": ((0.1, -1.0), (0.1, 1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("control", BOXES.values(), ids=BOXES)
def test_bounds_on_controls_are_a_quadratic_programs(boxed, control):
    pair = tuple(jax.device_put(np.array(side)) for side in control)
    problem = dataclasses.replace(boxed, bounds=dataclasses.replace(boxed.bounds, control=pair))
    solution = C.solve(problem, SOLVER)
    u, cost = dense(control=(np.array(control[0]) - 1e-12, np.array(control[1]) + 1e-12))
    assert solution.code == C.Code.CONVERGED
    assert_close(solution.control, u, 1e-6)
    np.testing.assert_allclose(solution.cost, cost, rtol=1e-9)
    found, (lower, upper) = np.asarray(solution.control), control
    assert np.all(found >= lower) and np.all(found <= upper)  # exactly
    at_bound = (found <= lower) | (found >= upper)
    assert not np.any(np.asarray(solution.gains)[at_bound])  # no feedback at bounds


@pytest.fixture(scope="module")
def boxed(regulated):
    wide = np.full(2, np.inf)
    return dataclasses.replace(regulated, bounds=C.Bounds(control=(-wide, wide)))


@pytest.fixture(scope="module")
def problem():
    return posed()


@pytest.mark.parametrize("bounds", BOUNDED.values(), ids=BOUNDED)
def test_constraints_are_a_quadratic_programs(problem, bounds):
    solution = C.solve(changed(problem, **bounds), SOLVER)
    u, cost = reference(**bounds)
    assert solution.code == C.Code.CONVERGED and solution.violation <= 1e-6
    assert_close(solution.control, u, 2e-4)
    np.testing.assert_allclose(solution.cost, cost, rtol=1e-5)
    q, v = motion_of(np.asarray(solution.control))
    assert_close(solution.q, q, 1e-12)
    assert_close(solution.v, v, 1e-12)


@pytest.mark.slow
def test_a_warm_start_knows_the_multipliers(problem):
    bounds = dict(v=((-0.1, -np.inf), (0.35, 0.25)))
    cold = C.solve(changed(problem, **bounds), SOLVER)
    again = C.solve(changed(problem, **bounds), SOLVER, cold)
    assert again.code == C.Code.CONVERGED and again.iterations <= 1 < cold.iterations
    near = C.solve(changed(problem, goal=(0.301, 0.2), **bounds), SOLVER, cold)
    assert near.code == C.Code.CONVERGED and near.iterations < cold.iterations


@pytest.mark.parametrize("bounds", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_is_said_to_be_infeasible(problem, bounds):
    asked = changed(problem, **bounds)
    solution = C.solve(asked, SOLVER)
    assert C.Code(int(solution.code)) == C.Code.INFEASIBLE
    assert solution.violation > 1e-3
    said = C.explain(asked, solution)
    assert said.startswith("infeasible") and "constraints[" in said and "off by" in said


@pytest.mark.slow
def test_states_of_a_guess_need_not_follow_on_each_other(problem):
    draw = np.random.default_rng(0)
    states = state(draw.normal(size=(STEPS + 1, 2)), draw.normal(size=(STEPS + 1, 2)))
    bounded = changed(problem, control=((-2.0, -1.0), (1.2, 1.0)))
    found, expected = C.solve(bounded, SOLVER, C.Guess(states=states)), C.solve(bounded, SOLVER)
    assert found.code == C.Code.CONVERGED and found.violation <= 1e-6
    assert_close(found.control, expected.control, 1e-5)
    assert_close(found.q, motion_of(np.asarray(found.control))[0], 1e-6)


@pytest.mark.slow
def test_float32(problem):
    bounds = dict(control=((-2.0, -1.0), (2.0, 1.0)), v=((-0.1, -np.inf), (0.35, 0.25)))
    single = jax.tree.map(lambda x: jax.device_put(np.asarray(x, np.float32)), changed(problem, **bounds))
    solution, expected = C.solve(single, SOLVER), C.solve(changed(problem, **bounds), SOLVER)
    assert solution.q.dtype == jnp.float32 and solution.code == C.Code.CONVERGED
    assert solution.violation < 2e-4
    assert_close(solution.q, expected.q, 1e-3)
    np.testing.assert_allclose(solution.cost, expected.cost, rtol=1e-2)


@pytest.mark.slow
def test_a_batch_is_one_by_one(problem):
    """One problem of the batch is infeasible and does not affect the others."""
    goals = np.concatenate([np.linspace(-0.3, 0.3, 5)[:, None] * np.ones((1, 2)), [[9.0, 0.0]]])
    of = lambda goal: changed(problem, goal=goal, control=((-1.5, -1.5), (1.5, 1.5)))
    whole = jax.device_get(jax.jit(jax.vmap(lambda goal: C.solve(of(goal), SOLVER)))(goals))
    for at in (0, 3, 5):
        alone = C.solve(of(goals[at]), SOLVER)
        assert alone.code == whole.code[at] and alone.iterations == whole.iterations[at]
        assert_close(whole.control[at], alone.control, 1e-7)
    assert whole.code[-1] == C.Code.INFEASIBLE and not whole.code[:-1].any()
    assert "6 problems" in repr(whole) and "1 INFEASIBLE" in repr(whole)


# The duration as a variable.


@pytest.mark.slow
def test_the_duration_is_the_best(problem):
    """From rest to rest the duration minimizes the sum of squared controls and elapsed time, by the closed-form cost."""
    steps, goal, price = 20, 0.5, 0.4
    model, mass = sliders(), np.array([MASSES.sum(), MASSES[1]])
    problem = C.Problem(
        model,
        state([0.0, 0.0]),
        steps=steps,
        dt=0.08,
        running=[C.Effort()],
        constraints=[
            C.Constraint(C.Posture(np.array([goal, 0.0])), at="end"),
            C.Constraint(C.Velocity(), at="end"),
        ],
        duration=(0.5, 6.0),
        duration_cost=price,
    )

    def least(dt):
        position = dt**2 * np.arange(steps, 0, -1) / mass[0]
        rows = np.stack([position, np.full(steps, dt / mass[0])])
        u = rows.T @ np.linalg.solve(rows @ rows.T, [goal, 0])
        return dt * (0.5 * np.sum(u**2) + steps * price)

    best = scipy.optimize.minimize_scalar(least, bounds=(0.01, 0.5), options=dict(xatol=1e-12))
    solution = C.solve(problem, SOLVER)
    assert solution.code == C.Code.CONVERGED and solution.violation <= 1e-6
    np.testing.assert_allclose(solution.dt, best.x, rtol=1e-4)
    np.testing.assert_allclose(solution.cost, best.fun, rtol=1e-5)  # limited by the constraint tolerance
    np.testing.assert_allclose(solution.t[-1], steps * solution.dt)
    short = dataclasses.replace(problem, duration=(jnp.array(0.5), jnp.array(1.0)))
    held = C.solve(short, SOLVER)
    assert held.code == C.Code.CONVERGED
    np.testing.assert_allclose(held.dt * steps, 1.0, rtol=1e-9)  # at its bound
    np.testing.assert_allclose(held.cost, least(1.0 / steps), rtol=1e-5)
    assert C.optimality(problem, solution).minimum


# Nonlinear: a double pendulum that is held up by motors, the second of which is weak.


@pytest.fixture(scope="module")
def links():
    model = rbd.load("double_pendulum")
    return C.Problem(
        model,
        state([0.3, 0.0], [0.5, 0.0]),
        steps=20,
        dt=0.05,
        running=[1e-2 * C.Effort(), 0.1 * C.Velocity()],
        terminal=[20.0 * C.Posture(np.array([2.0, -1.0])), 2.0 * C.Velocity()],
        bounds=C.Bounds(control=(np.array([-40.0, -6.0]), np.array([40.0, 6.0]))),
    )


@pytest.fixture(scope="module")
def solved(links):
    return C.solve(links, SOLVER)


def cost_of(problem, control):
    """Returns the cost of controls, by `rbd.rollout` and plain sums."""
    path = rbd.rollout(problem.model, problem.state, control, dt=problem.dt)
    rate = 0.5e-2 * jnp.sum(control**2) + 0.05 * jnp.sum(path.v[:-1] ** 2)
    miss = path.q[-1] - jnp.array([2.0, -1.0])
    return problem.dt * rate + 10.0 * jnp.sum(miss**2) + jnp.sum(path.v[-1] ** 2)


def test_slopes_vanish_by_differences_of_rollouts(links, solved):
    """The slope is zero where a control is within its bounds, and points out of them at a bound."""
    assert solved.code == C.Code.CONVERGED
    control, (lower, upper) = np.asarray(solved.control), links.bounds.control
    step, count = 1e-4, control.size
    moves = step * np.concatenate([np.eye(count), -np.eye(count), np.zeros((1, count))])
    of = jax.jit(jax.vmap(lambda u: cost_of(links, u)))
    *costs, cost = np.asarray(of(control + moves.reshape(-1, *control.shape)))
    np.testing.assert_allclose(cost, solved.cost, rtol=1e-12)
    slopes = (np.subtract(*np.split(np.array(costs), 2)) / (2 * step)).reshape(control.shape)
    low, high = control <= np.asarray(lower), control >= np.asarray(upper)
    assert (low | high).any() and not (low | high).all()
    size = np.abs(slopes).max()
    assert np.abs(slopes[~low & ~high]).max() < 1e-4 * size
    assert (slopes[low] > 0).all() and (slopes[high] < 0).all()


@pytest.mark.slow
def test_it_is_a_minimum_of_second_order(links, solved):
    found = C.optimality(links, solved)
    assert found.minimum and found.gradient < 1e-5 and found.violation < 1e-9 and found.acting > 0
    assert "a strict minimum" in repr(found)


@pytest.mark.slow
def test_second_derivatives_of_dynamics_save_steps(links, solved):
    exact = C.solve(links, C.DDP(hessian="full"))
    assert exact.code == C.Code.CONVERGED and exact.iterations <= solved.iterations
    assert_close(exact.control, solved.control, 1e-4)
    np.testing.assert_allclose(exact.cost, solved.cost, rtol=1e-9)


@pytest.mark.slow
def test_states_as_a_guess_lead_to_the_same(links, solved):
    line = np.linspace(links.state.q, [2.0, -1.0], links.steps + 1)
    guess = C.Guess(states=state(line, np.zeros_like(line)))
    found = C.solve(links, SOLVER, guess)
    assert found.code == C.Code.CONVERGED and found.violation < 1e-6
    np.testing.assert_allclose(found.cost, solved.cost, rtol=1e-6)


def test_a_trajectory_and_a_feedback_follow_it(links, solved):
    path = solved.trajectory(links)
    rolled = rbd.rollout(links.model, links.state, path.tau, dt=links.dt)
    assert_close(rolled.q, path.q, 1e-12)
    t, q, v = (np.asarray(x) for x in (solved.t, solved.q, solved.v))
    assert_close(jax.jit(lambda t: path.at(links.model, t).v)(t[3]), v[3], 1e-9)
    policy = solved.policy(links)
    follow = jax.jit(lambda state: rbd.rollout(links.model, state, policy, dt=links.dt, steps=links.steps))
    assert_close(follow(links.state).q, q, 1e-9)
    pushed = state(np.asarray(links.state.q) + 0.05, links.state.v)
    held, open_loop = follow(pushed), rbd.rollout(links.model, pushed, path.tau, dt=links.dt)
    miss = lambda one: np.linalg.norm(np.asarray(one.q)[-1] - q[-1])
    assert miss(held) < 0.5 * miss(open_loop)
    lower, upper = (np.asarray(side) for side in links.bounds.control)
    assert np.all(np.asarray(held.tau) >= lower) and np.all(np.asarray(held.tau) <= upper)


def test_it_says_how_it_went(links, solved):
    assert "CONVERGED after" in repr(solved) and "20 steps from t = 0 to 1" in repr(solved)
    assert C.explain(links, solved).startswith("converged: ")
    control = np.array(solved.control)
    control[4, 1] = 9.0
    beyond = dataclasses.replace(solved, control=jax.device_put(control))
    said = C.explain(links, beyond)
    assert "bounds.control: elbow" in said and "(knot 4)" in said and "should be at most 6" in said
    assert "misses the next state" in said
    with pytest.raises(ValueError, match="solution is a batch of 2"):
        C.explain(links, jax.tree.map(lambda x: np.stack([x, x]), solved))


@pytest.mark.slow
def test_what_is_not_finite_is_said(links):
    wide = dataclasses.replace(links, bounds=C.Bounds(control=(np.full(2, -1e300), np.full(2, 1e300))))
    found = C.solve(wide, SOLVER, C.Guess(control=jax.device_put(np.full((20, 2), 1e200))))
    assert found.code == C.Code.NOT_FINITE
    assert "not finite from" in C.explain(wide, found)


@pytest.mark.slow
def test_few_iterations_are_no_solution(links, solved):
    found = C.solve(links, C.DDP(max_iterations=2))
    assert found.code == C.Code.NOT_CONVERGED and found.iterations == 2
    on = C.solve(links, C.DDP(max_iterations=500), found)
    np.testing.assert_allclose(on.cost, solved.cost, rtol=1e-9)


# Invalid input.

BAD = {
    "hessian": (lambda: C.DDP(hessian="newton"), "control.DDP: hessian is 'newton'"),
    "tolerance": (lambda: C.DDP(tolerance=0.0), "control.DDP: tolerance is 0.0; it is a positive number"),
    "iterations": (lambda: C.DDP(max_iterations=0), "control.DDP: max_iterations is 0"),
    "crossing bounds": (lambda: C.Bounds(control=(1.0, -1.0)), "bounds cross"),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=BAD)
def test_options_that_make_no_sense_are_refused(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_does_not_fit_is_refused(links, unchecked):
    with pytest.raises(
        ValueError, match=r"guess.control has shape \(3, 2\); it is an array of shape \(20, 2\)"
    ):
        C.solve(links, SOLVER, C.Guess(control=np.zeros((3, 2))))
    wrong = dataclasses.replace(links, bounds=C.Bounds(control=(np.zeros(3), np.ones(3))))
    with pytest.raises(ValueError, match=r"control.Bounds: control has shape \(3,\)"):
        C.solve(wrong, SOLVER)
    with pytest.raises(ValueError, match="problem is a Model; it takes a control.Problem"):
        C.solve(links.model, SOLVER)
    with pytest.raises(ValueError, match="a function requires the control at the last knot"):
        C.solve(dataclasses.replace(links, terminal=(C.Cost(C.Effort()),)), SOLVER)


def test_what_nothing_drives_is_refused():
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.box(1.0, (0.1, 0.1, 0.1))
    builder.add_body("box", joint=rbd.joints.Free(), inertia=inertia)
    model = builder.build()
    with pytest.raises(ValueError, match="nothing drives model"):
        C.Problem(model, rbd.State(rbd.neutral(model), np.zeros(6)), steps=2, dt=0.1)


def test_delayed_actuators_are_refused():
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.box(1.0, (0.1, 0.1, 0.1))
    builder.add_body("box", joint=rbd.joints.Prismatic((1, 0, 0)), joint_name="slide", inertia=inertia)
    builder.attach(rbd.actuators.Motor("late", "slide", delay=0.1))
    with pytest.raises(ValueError, match="actuator 'late' of model .* has a delay"):
        C.Problem(builder.build(), state([0.0], [0.0]), steps=2, dt=0.1)


@pytest.mark.slow
def test_ranges_of_actuators_that_are_the_bounds_change_nothing():
    """A cart swings its pole up, and its motor is at its limits part of the time."""

    def problem(most):
        model = rbd.detach(rbd.load("cartpole"), "actuator")
        return C.Problem(
            rbd.attach(model, rbd.actuators.Motor("motor", "slide", control_range=(-most, most))),
            rbd.State(jnp.array([0.0, jnp.pi]), jnp.zeros(2)),
            steps=80,
            dt=0.025,
            running=[1e-3 * C.Effort(), 0.1 * C.Posture()],
            terminal=[100 * C.Posture(), 10 * C.Velocity()],
            bounds=C.Bounds(control=(-20.0, 20.0)),
        )

    solve = jax.jit(lambda problem: C.solve(problem, C.DDP(hessian="gauss-newton", max_iterations=150)))
    wide, narrow = solve(problem(1000.0)), solve(problem(20.0))
    assert wide.code == narrow.code == C.Code.CONVERGED
    assert np.sum(np.abs(narrow.control) == 20.0) > 5
    assert narrow.iterations == wide.iterations
    assert_close(narrow.control, wide.control, 1e-9)
