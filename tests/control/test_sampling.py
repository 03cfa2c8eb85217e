"""Sampling-based solvers: MPPI and the cross-entropy method."""

import functools
import re
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.control._sampling import coloured, interpolated
from rbd_jax.control._stages import Stages


STEPS, DT = 12, 0.1
KINDS = {"MPPI": rbd.control.MPPI, "CEM": rbd.control.CEM}


@functools.cache
def cart(dtype=jnp.float64):
    """Returns a mass of 1 kg on a slide: a linear system."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    mass = rbd.Inertia.from_mass_com(1.0, (0, 0, 0), np.eye(3))
    builder.add_body("cart", joint=rbd.joints.Prismatic(axis=(1, 0, 0)), inertia=mass)
    return rbd.astype(builder.build(), dtype)


def problem_of(model, **options):
    """Returns the problem to reach the origin from a distance of one meter at a quadratic cost."""
    given = {
        "running": [0.1 * rbd.control.Effort(), rbd.control.Posture()],
        "terminal": [5.0 * rbd.control.Posture(), rbd.control.Velocity()],
        "steps": STEPS,
        "dt": DT,
    }
    start = rbd.State(jax.device_put(np.ones(1, model.dtype)), jax.device_put(np.zeros(1, model.dtype)))
    return rbd.control.Problem(model, start, **given | options)


@pytest.fixture(scope="module")
def linear():
    return problem_of(cart())


def rolled_out(problem, control):
    """Simulates controls with `rollout`."""
    return rbd.rollout(problem.model, problem.state, control, dt=problem.dt)


def cost_of(problem):
    """A compiled function that returns the cost of controls."""

    @jax.jit
    def cost(control):
        stages = Stages(problem)
        return stages.total(stages.rolled_out(stages.first, control), control)

    return cost


@pytest.fixture(scope="module")
def linear_cost(linear):
    return cost_of(linear)


def least_cost(problem, cost):
    """Returns the minimum cost of a linear-quadratic problem."""
    flat, nothing = lambda u: cost(u[:, None]), np.zeros(problem.steps)
    slope, curvature = jax.jit(lambda u: (jax.grad(flat)(u), jax.hessian(flat)(u)))(nothing)
    return float(flat(nothing)) - 0.5 * np.asarray(slope) @ np.linalg.solve(curvature, slope)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_of_a_linear_quadratic_problem(kind, linear, linear_cost):
    found = rbd.control.solve(linear, KINDS[kind](spread=2.0, max_iterations=60, tolerance=1e-4))
    assert found.code == rbd.control.Code.CONVERGED and found.iterations < 60
    best = float(least_cost(linear, linear_cost))
    assert best <= found.cost <= best * (1 + 1e-3)
    # Half of the last samples have the same cost, to the tolerance.
    assert 0 <= found.stationarity <= 1e-4 * found.cost
    path = rolled_out(linear, found.control)
    np.testing.assert_allclose(found.q, path.q, atol=1e-12)
    np.testing.assert_allclose(found.t, path.t, atol=1e-12)
    assert found.gains is None and found.costates is None


@pytest.fixture(scope="module", params=KINDS)
def quick(request):
    """A solver with few iterations and samples."""
    return KINDS[request.param](samples=24, max_iterations=3, spread=2.0, knots=5)


def with_key(solver, key):
    return eqx.tree_at(lambda one: one.key, solver, key)


def apart(x, y):
    return np.abs(np.asarray(x) - np.asarray(y)).max()


#: Both solvers share this code, so that the default run tests one of them.
one_every_day = pytest.mark.parametrize(
    "quick", [pytest.param("MPPI", marks=pytest.mark.slow), "CEM"], indirect=True
)


def test_the_same_key_finds_the_same_motion(linear, quick):
    first, again = (rbd.control.solve(linear, with_key(quick, jax.random.key(3))) for _ in range(2))
    np.testing.assert_array_equal(first.control, again.control)
    other = rbd.control.solve(linear, with_key(quick, jax.random.key(4)))
    assert apart(first.control, other.control) > 1e-3
    np.testing.assert_array_equal(
        rbd.control.solve(
            linear, type(quick)(samples=24, max_iterations=3, spread=2.0, knots=5, key=3)
        ).control,
        first.control,
    )


@one_every_day
def test_a_search_goes_on_with_other_samples(linear, quick):
    first = rbd.control.solve(linear, quick)
    more = rbd.control.solve(linear, quick, first)
    assert more.cost <= first.cost
    anew = rbd.control.solve(linear, quick, rbd.control.Guess(first.control))
    assert apart(more.control, anew.control) > 1e-6
    assert first.multipliers.count == 3 and more.multipliers.count == 6


@pytest.mark.slow
@one_every_day
def test_in_a_batch_and_within_jit_as_alone(linear, quick):
    starts = rbd.State(np.array([[1.0], [-0.5], [0.2]]), np.array([[0.0], [1.0], [-1.0]]))
    solved = lambda state: rbd.control.solve(linear.starting(state), quick)
    alone = [solved(jax.tree.map(lambda x, i=i: x[i], starts)) for i in range(3)]
    for many in (jax.jit(jax.vmap(solved)), rbd.batch_map(solved)):
        together = jax.device_get(many(starts))
        for i, one in enumerate(alone):
            np.testing.assert_allclose(together.control[i], one.control, atol=1e-12)
            np.testing.assert_allclose(together.cost[i], one.cost, atol=1e-12)


@one_every_day
def test_keys_in_a_batch(linear, quick):
    keys = jax.random.split(jax.random.key(0), 3)
    costs = np.asarray(jax.vmap(lambda key: rbd.control.solve(linear, with_key(quick, key)).cost)(keys))
    assert len(np.unique(costs)) == 3
    assert costs[1] == pytest.approx(float(rbd.control.solve(linear, with_key(quick, keys[1])).cost))


@pytest.mark.slow
@one_every_day
def test_in_single_precision(linear_cost, quick):
    found = rbd.control.solve(problem_of(cart(jnp.float32)), quick)
    assert {x.dtype for x in (found.q, found.control, found.cost, found.violation)} == {jnp.dtype("float32")}
    assert found.cost < 0.7 * float(linear_cost(np.zeros((STEPS, 1))))
    cost = float(linear_cost(np.asarray(found.control, np.float64)))
    assert found.cost == pytest.approx(cost, rel=1e-4)


@pytest.mark.parametrize(
    "interpolation", [*(pytest.param(x, marks=pytest.mark.slow) for x in ("zero-order", "linear")), "cubic"]
)
def test_bounds_of_controls_are_kept_exactly(interpolation):
    # By default the standard deviation is a quarter of the bounds' range, so that many samples are clipped.
    bounds = rbd.control.Bounds(control=(-1.1, 0.3))
    problem = problem_of(cart(), bounds=bounds)
    solver = rbd.control.CEM(samples=32, max_iterations=4, knots=4, interpolation=interpolation, color=1.0)
    beyond = rbd.control.Guess(jax.device_put(np.full((STEPS, 1), 7.0)))
    found = rbd.control.solve(problem, solver, beyond)
    control = np.asarray(found.control)
    assert control.min() >= -1.1 and control.max() <= 0.3
    assert control.min() < -1.0
    assert found.violation == 0


@pytest.mark.parametrize("kind", ["MPPI", pytest.param("CEM", marks=pytest.mark.slow)])
def test_motions_that_fail_count_for_nothing(kind):
    """The cost is NaN beyond some force, and its slope leads there."""
    wall = lambda t, state, control: jnp.where(control[0] < -1.5, jnp.nan, 10 * control[0])
    problem = problem_of(cart(), running=[rbd.control.Value(wall)], terminal=[])
    found = rbd.control.solve(problem, KINDS[kind](samples=64, max_iterations=30, spread=1.0, color=2.0))
    assert found.code != rbd.control.Code.NOT_FINITE
    control = np.asarray(found.control)
    assert np.isfinite(control).all() and np.isfinite(found.cost)
    assert control.min() >= -1.5 and control.max() < -0.8


@pytest.mark.parametrize("kind", [pytest.param("MPPI", marks=pytest.mark.slow), "CEM"])
def test_all_motions_fail(kind):
    problem = problem_of(cart(), running=[rbd.control.Value(lambda t, state, control: jnp.nan * state.q[0])])
    guess = jax.device_put(np.linspace(-1.0, 1.0, STEPS)[:, None])
    found = rbd.control.solve(
        problem, KINDS[kind](samples=8, max_iterations=2, spread=1.0), rbd.control.Guess(guess)
    )
    assert found.code == rbd.control.Code.NOT_FINITE
    np.testing.assert_array_equal(found.control, guess)


@pytest.mark.slow
def test_a_cost_without_slope():
    """The cost is the time away from the goal, whose derivative is zero almost everywhere."""
    away = rbd.control.Value(lambda t, state, control: jnp.where(jnp.abs(state.q[0]) > 0.1, 1.0, 0.0))
    problem = problem_of(
        cart(), running=[away], terminal=[], steps=20, bounds=rbd.control.Bounds(control=(-5.0, 5.0))
    )
    found = rbd.control.solve(
        problem, rbd.control.MPPI(samples=128, max_iterations=20, knots=6, interpolation="linear")
    )
    # With 5 N to the middle and 5 N back it takes 2 sqrt(0.9 / 5) s to reach the goal and stop there.
    assert 0.6 <= found.cost <= 1.2


def test_constraints_and_bounds_of_states(linear, linear_cost):
    """The fastest motion is infeasible: the speed is bounded, and the middle must be passed at a given time."""
    passed = rbd.control.Constraint(lambda t, state, control: state.q - 0.4, at=[8])
    short_of = rbd.control.Constraint(rbd.control.Posture(), lower=0.0, at="all")
    options = {"constraints": [passed, short_of], "bounds": rbd.control.Bounds(v=(-0.9, jnp.inf))}
    problem = problem_of(cart(), **options)
    solver = rbd.control.CEM(samples=128, max_iterations=60, spread=2.0, color=1.0, constraint_tolerance=5e-3)
    found = rbd.control.solve(problem, solver)
    q, v = np.asarray(found.q), np.asarray(found.v)
    broken = [abs(q[8, 0] - 0.4), *(-q[:, 0]), *(-0.9 - v[1:, 0])]
    assert found.violation == pytest.approx(float(max(broken)), abs=1e-12)
    assert found.violation < 5e-3
    free = rbd.control.solve(linear, solver)
    assert np.min(free.v) < -0.95 and found.cost > free.cost
    # The reported cost has no penalties.
    assert found.cost == pytest.approx(float(linear_cost(found.control)), abs=1e-12)


@pytest.mark.slow
def test_a_violation_is_told():
    """The goal is out of reach."""
    goal = rbd.control.Constraint(rbd.control.Posture(np.array([9.0])), at="end")
    problem = problem_of(cart(), constraints=[goal], bounds=rbd.control.Bounds(control=(-1.0, 1.0)))
    found = rbd.control.solve(problem, rbd.control.CEM(samples=32, max_iterations=20, knots=2))
    assert found.code == rbd.control.Code.NOT_CONVERGED
    assert found.violation == pytest.approx(9 - np.asarray(found.q)[-1, 0], abs=1e-12)
    assert np.min(found.control) > 0.9


# Sampling.


@pytest.mark.parametrize("kind", ["zero-order", "linear", "cubic"])
@pytest.mark.parametrize("knots, steps", [(1, 4), (2, 5), (4, 4), (5, 17), (1, 1)])
def test_curves(kind, knots, steps):
    curves = interpolated(kind, knots, steps)
    assert curves.shape == (steps, knots)
    np.testing.assert_allclose(curves.sum(1), 1, atol=1e-14)  # constants are preserved
    if knots > 1 and kind != "zero-order":
        line = np.linspace(-1, 2, knots)
        np.testing.assert_allclose(curves @ line, np.linspace(-1, 2, steps), atol=1e-14)
    if knots == steps:
        np.testing.assert_allclose(curves, np.eye(knots), atol=1e-14)
    if kind == "zero-order":
        held = curves.sum(0)
        assert held.max() - held.min() <= 1  # each is held for the same number of steps


@pytest.mark.parametrize("color", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_coloured_noise(color):
    factor = coloured(color, 16)
    correlation = factor @ factor.T
    np.testing.assert_allclose(np.diag(correlation), 1, atol=1e-8)
    assert (correlation[0, 1] > 0.3) == (color >= 1)
    if not color:
        np.testing.assert_array_equal(factor, np.eye(16))
    # Correlation with the next step increases with redder noise.
    assert color == 0 or correlation[0, 1] > (coloured(color / 2, 16) @ coloured(color / 2, 16).T)[0, 1]


def test_weights():
    costs = np.array([3.0, 1.0, np.inf, 1.5, 2.0])
    failed, equal = np.full(3, np.inf), np.full(3, 2.0)
    mppi, cem = (functools.partial(kind, spread=1.0) for kind in (rbd.control.MPPI, rbd.control.CEM))
    cases = [
        *((mppi(temperature=x), costs) for x in (1e6, 1e-6, 0.5)),
        *((mppi(), x) for x in (costs, 7 * costs - 3)),
        *((cem(samples=5, elites=x), costs) for x in (3, 5)),
        *((solver, x) for x in (failed, equal) for solver in (mppi(), cem(samples=3))),
    ]
    weights = jax.jit(lambda given: [one._weights(x) for (one, _), x in zip(cases, given, strict=True)])
    hot, cold, own, first, scaled, elites, few, *others = map(np.asarray, weights([x for _, x in cases]))
    np.testing.assert_allclose(hot, [0.25, 0.25, 0, 0.25, 0.25], atol=1e-5)
    np.testing.assert_allclose(cold, [0, 1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(own, np.exp(-2 * costs) / np.exp(-2 * costs).sum())
    np.testing.assert_allclose(scaled, first)
    np.testing.assert_allclose(elites, [0, 1 / 3, 0, 1 / 3, 1 / 3])
    np.testing.assert_allclose(few, [0.25, 0.25, 0, 0.25, 0.25])
    np.testing.assert_array_equal(others[:2], 2 * [[1, 0, 0]])
    np.testing.assert_allclose(np.sum(others[2:], axis=1), [1, 1])


# Errors.

WRONG = {
    "samples": ({"samples": 0}, "samples is 0; it is a positive integer"),
    "iterations": ({"max_iterations": 2.5}, "max_iterations is 2.5"),
    "knots": ({"knots": -1}, "knots is -1"),
    "interpolation": (
        {"interpolation": "quintic"},
        "interpolation is 'quintic'; it must be one of 'zero-order'",
    ),
    "color": ({"color": -1.0}, "color is -1.0; it cannot be less than 0"),
    "spread": ({"spread": 0.0}, "spread is 0.0; it must be the standard deviation"),
    "adaptation": ({"adaptation": 1.5}, "adaptation is 1.5; it cannot be more than 1"),
    "penalty": ({"penalty": -1.0}, "penalty is -1.0"),
    "tolerance": ({"tolerance": np.nan}, "tolerance is nan"),
    "key": ({"key": "me"}, "key is 'me'; it must be a random key"),
    "a key of floats": ({"key": np.zeros(2)}, "it must be a random key"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options, message", WRONG.values(), ids=WRONG)
@pytest.mark.usefixtures("unchecked")
def test_wrong_options(kind, options, message):
    with pytest.raises((ValueError, TypeError), match=f"control.{kind}: .*{re.escape(message)}"):
        KINDS[kind](**{"spread": 1.0} | options)


def test_options_of_one_alone():
    with pytest.raises(ValueError, match="control.MPPI: temperature is -1.0; it must be greater than 0"):
        rbd.control.MPPI(temperature=-1.0)
    with pytest.raises(ValueError, match="control.CEM: elites is 9, and there are only 8 samples"):
        rbd.control.CEM(samples=8, elites=9)


def test_problems_that_do_not_fit(linear):
    solver = rbd.control.MPPI(spread=1.0)
    with pytest.raises(ValueError, match="control.MPPI: the duration of the problem is free"):
        rbd.control.solve(replace(linear, duration=(1.0, 2.0)), solver)
    with pytest.raises(ValueError, match="control.CEM: knots is 99, and the problem has only 12 steps"):
        rbd.control.solve(linear, rbd.control.CEM(spread=1.0, knots=99))
    with pytest.raises(ValueError, match="control.MPPI: spread is missing.*Bounds.of"):
        rbd.control.solve(linear, rbd.control.MPPI())
    half = replace(linear, bounds=rbd.control.Bounds(control=(-1.0, jnp.inf)))
    with pytest.raises(ValueError, match="control.CEM: spread is missing"):
        rbd.control.solve(half, rbd.control.CEM())
    with pytest.raises(ValueError, match=r"control.CEM: spread has shape \(3,\).*there are 1: slide|cart"):
        rbd.control.solve(linear, rbd.control.CEM(spread=np.ones(3)))
