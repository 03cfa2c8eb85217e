"""`appraise` agrees with derivatives of a rollout under the solution's controls."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


C: Any = rbd.control
NOTHING = jax.device_put(np.zeros(1))


def ball():
    """Returns a body on a ball joint, whose configuration is a quaternion."""
    builder = rbd.ModelBuilder(name="ball")
    solid = rbd.Inertia.from_mass_com(1.3, (0.1, -0.2, -0.5), np.diag([0.1, 0.2, 0.15]))
    builder.add_body("bob", joint=rbd.joints.Spherical(), inertia=solid)
    return builder.build()


def problem_of(model, q, v, steps=5, **changes):
    """Returns a problem with running and terminal costs."""
    goal = rbd.integrate(model, q, np.full(model.nv, 0.3))
    given: dict[str, Any] = dict(
        running=[0.1 * C.Effort(), C.Value(lambda t, state, control: jnp.sum(jnp.cos(state.v)) + t)],
        terminal=[5.0 * C.Posture(goal), C.Velocity()],
    )
    return C.Problem(model, rbd.State(q, v), steps=steps, dt=0.1, **(given | changes))


def motion(problem, control, dt=None):
    """Returns the motion under given controls as a `Solution`."""
    dt = problem.dt if dt is None else dt
    path = rbd.rollout(problem.model, problem.state, control, dt=dt)
    zero, none = jax.device_put((np.zeros(()), np.zeros((), np.int32)))
    return C.Solution(
        t=path.t, q=path.q, v=path.v, control=control, dt=dt, cost=zero, code=none, iterations=none,
        violation=zero, stationarity=zero, gains=None, costates=None,
    )  # fmt: skip


def cost_of(problem, control, dt=None):
    """Returns the cost by its definition, for a given time step."""
    dt = problem.dt if dt is None else dt
    path = rbd.rollout(problem.model, problem.state, control, dt=dt)
    q, v = path.q, path.v
    goal, weight = problem.terminal[0].residual.target, problem.terminal[0].weight
    rate = (
        0.05 * jnp.sum(control**2, axis=1)
        + jnp.sum(jnp.cos(v[:-1]), axis=1)
        + path.t[:-1]
        + problem.duration_cost
    )
    away = rbd.difference(problem.model, goal, q[-1])
    return jnp.sum(dt * rate) + 0.5 * weight * jnp.sum(away**2) + 0.5 * jnp.sum(v[-1] ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pendulum", "ball"])
def test_curvatures_are_those_of_a_rollout(kind, key):
    """For any motion, stationary or not, and on any manifold."""
    model = rbd.load("pendulum") if kind == "pendulum" else ball()
    q = rbd.random_configuration(model, key)
    problem = problem_of(model, q, jax.device_put(np.full(model.nv, 0.7)))
    control = jax.random.normal(key, (5, model.nv))
    found = C.appraise(problem, motion(problem, control))
    of = lambda u: cost_of(problem, u.reshape(control.shape))
    both = jax.jit(lambda u: (of(u), jax.grad(of)(u), jax.hessian(of)(u)))
    cost, slope, hessian = map(np.asarray, both(np.asarray(control).reshape(-1)))
    np.testing.assert_allclose(sum(one.value for one in found.costs), cost, rtol=1e-12)
    values = np.linalg.eigvalsh(hessian)
    np.testing.assert_allclose(found.optimality.gradient, np.abs(slope).max(), rtol=1e-9)
    np.testing.assert_allclose(found.optimality.curvature, [values[0], values[-1]], rtol=1e-6, atol=1e-7)
    assert found.missed < 1e-12 and not found.requirements and found.optimality.acting == 0
    if values[0] > 0:
        np.testing.assert_allclose(
            found.optimality.gain, 0.5 * slope @ np.linalg.solve(hessian, slope), rtol=1e-5
        )


#: Optimal controls, time step and cost of the problem below, by `Shooting(tolerance=1e-12)`.
OPTIMUM = [
    4.999999999983275, 4.999999999949049, 4.4790098974681865, 3.466543859986244, 2.3393397692289164, 2.052285474620785,
    2.6072994962156177, 3.1534685561151683, 3.688939839002567, 4.211896820532691, 3.6531094086088105, 1.8527101151810388,
]  # fmt: skip
STEP, COST = 0.05825241360302575, 1.8542655246761894


@pytest.fixture(scope="module", params=["known", pytest.param("solved", marks=pytest.mark.slow)])
def reaching(request):
    """Returns a pendulum that reaches a position with active bounds and free duration, and its solution."""
    problem = problem_of(
        rbd.load("pendulum"),
        NOTHING,
        NOTHING,
        steps=12,
        running=[0.1 * C.Effort()],
        terminal=[],
        constraints=[
            C.Constraint(C.Posture(np.array([0.6])), at="end"),
            C.Constraint(lambda t, state, control: state.v, upper=1.0, at="all"),
        ],
        bounds=C.Bounds(control=(-5.0, 5.0), q=(-1.0, 1.0)),
        duration=(0.5, 3.0),
        duration_cost=2.0,
    )
    if request.param == "solved":
        return problem, C.solve(problem, C.Shooting())
    control, step, cost = jax.device_put((np.array(OPTIMUM)[:, None], np.array(STEP), np.array(COST)))
    return problem, replace(motion(problem, control, step), cost=cost)


@pytest.mark.slow
@pytest.mark.parametrize("reaching", ["solved"], indirect=True)
def test_a_solver_finds_what_is_known(reaching):
    _, solution = reaching
    np.testing.assert_allclose(np.asarray(solution.control)[:, 0], OPTIMUM, atol=2e-6)
    np.testing.assert_allclose([solution.dt, solution.cost], [STEP, COST], rtol=1e-7)


def test_a_solution_is_a_minimum(reaching):
    problem, solution = reaching
    found = C.appraise(problem, solution)
    assert solution.code == C.Code.CONVERGED
    assert found.optimality.minimum and found.optimality.gradient < 1e-5 and abs(found.optimality.gain) < 1e-8
    assert found.broken(1e-6) == ()
    assert [one.name for one in found.costs] == ["running[0]: Effort", "duration_cost"]
    np.testing.assert_allclose(sum(one.value for one in found.costs), solution.cost, rtol=1e-10)
    by_name = {one.name: one for one in found.requirements}
    names = [
        "constraints[0] (at the end)",
        "constraints[1] (at all knots)",
        "bounds.control",
        "bounds.q",
        "duration",
    ]
    assert list(by_name) == names
    assert by_name["constraints[1] (at all knots)"].values.shape == (13, 1)
    assert found.optimality.acting >= 2 and by_name["constraints[0] (at the end)"].acting.all()
    # One-sided bounds are active only where they are reached.
    speeds = by_name["constraints[1] (at all knots)"]
    np.testing.assert_array_equal(speeds.acting, np.abs(speeds.values - 1.0) < 1e-5)
    assert speeds.acting.any() and not speeds.acting.all()


def test_what_is_none_is_told(reaching):
    """With other controls the slope is not zero. Violations are reported with their place and size."""
    problem, solution = reaching
    control = np.array(solution.control)
    control[3] += 0.2
    other = motion(problem, jax.device_put(control), solution.dt)
    found = C.appraise(problem, other)
    # The slope of the effort is dt · 0.1 · 0.2 = 1.2e-3, less the part that multipliers balance.
    assert found.optimality.gradient > 1e-4 and found.optimality.gain > 1e-5
    first = found.requirements[0]
    off = abs(np.asarray(other.q)[-1, 0] - 0.6)
    np.testing.assert_allclose(first.violation, off, rtol=1e-9)
    worst, goal = found.broken(1e-6)
    assert goal.startswith("constraints[0] (at the end): Posture is 0.")
    assert f"should be 0: off by {off:.2g}" in goal and float(worst.split("off by ")[1]) >= off
    # If a step does not end where the next begins, this is no motion of the problem, and optimality is not reported.
    q = np.array(solution.q)
    q[5] += 0.1
    broken = replace(solution, q=jax.device_put(q))
    found = C.appraise(problem, broken)
    assert found.optimality is None and abs(found.missed - 0.1) < 0.05


@pytest.mark.slow
def test_a_saddle_is_no_minimum():
    """The motion is stationary, but any effort gives a lower cost."""
    model = rbd.load("pendulum")
    problem = C.Problem(
        model,
        rbd.State(NOTHING, NOTHING),
        steps=4,
        dt=0.1,
        running=[C.Value(lambda t, state, control: state.q[0] ** 2 - control[0] ** 2)],
    )
    found = C.appraise(problem, motion(problem, jax.device_put(np.zeros((4, 1))))).optimality
    assert found.gradient < 1e-12 and not found.minimum and found.curvature[0] < 0


def test_not_a_number_is_no_solution(unchecked):
    problem = problem_of(rbd.load("pendulum"), NOTHING, NOTHING)
    solution = motion(problem, jax.device_put(np.zeros((5, 1))))
    q = np.array(solution.q)
    q[2] = np.nan
    found = C.appraise(problem, replace(solution, q=jax.device_put(q)))
    assert found.optimality is None and not np.isfinite(found.costs[1].value) or not np.isfinite(found.missed)
    with pytest.raises(ValueError, match="control.appraise: solution is a int; it takes what control.solve"):
        C.appraise(problem, 3)
