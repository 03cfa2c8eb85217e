"""Search by samples: MPPI and the cross-entropy method."""

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


def cart(dtype=jnp.float64):
    """A mass of 1 kg on a slide, with nothing else: a linear system."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    mass = rbd.Inertia.from_mass_com(1.0, (0, 0, 0), jnp.eye(3))
    builder.add_body("cart", joint=rbd.joints.Prismatic(axis=(1, 0, 0)), inertia=mass)
    return rbd.astype(builder.build(), dtype)


def problem_of(model, **options):
    """To the origin from one metre away, at a quadratic cost."""
    given = {
        "running": [0.1 * rbd.control.Effort(), rbd.control.Posture()],
        "terminal": [5.0 * rbd.control.Posture(), rbd.control.Velocity()],
        "steps": STEPS,
        "dt": DT,
    }
    start = rbd.State(jnp.ones(1, model.dtype), jnp.zeros(1, model.dtype))
    return rbd.control.Problem(model, start, **given | options)


@pytest.fixture(scope="module")
def linear():
    return problem_of(cart())


def rolled_out(problem, control):
    """A motion by the simulation itself."""
    return rbd.rollout(problem.model, problem.state, control, dt=problem.dt)


def least_cost(problem):
    """What the motion of a linear-quadratic problem costs at best."""
    stages = Stages(problem)
    cost = lambda u: stages.total(stages.rolled_out(stages.first, u[:, None]), u[:, None])
    nothing = jnp.zeros(problem.steps)
    value, slope, curvature = cost(nothing), jax.grad(cost)(nothing), jax.hessian(cost)(nothing)
    return value - 0.5 * slope @ jnp.linalg.solve(curvature, slope)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_of_a_linear_quadratic_problem(kind, linear):
    found = rbd.control.solve(linear, KINDS[kind](spread=2.0, max_iterations=60, tolerance=1e-4))
    assert found.code == rbd.control.Code.CONVERGED and found.iterations < 60
    best = float(least_cost(linear))
    assert best <= found.cost <= best * (1 + 1e-3)
    # Half of the last samples were as good, to the tolerance.
    assert 0 <= found.stationarity <= 1e-4 * found.cost
    path = rolled_out(linear, found.control)
    np.testing.assert_allclose(found.q, path.q, atol=1e-12)
    np.testing.assert_allclose(found.t, path.t, atol=1e-12)
    assert found.gains is None and found.costates is None


@pytest.fixture(scope="module", params=KINDS)
def quick(request):
    """A few iterations with few numbers."""
    return KINDS[request.param](samples=24, max_iterations=3, spread=2.0, knots=5)


def with_key(solver, key):
    return eqx.tree_at(lambda one: one.key, solver, key)


def test_the_same_key_finds_the_same_motion(linear, quick):
    first, again = (rbd.control.solve(linear, with_key(quick, jax.random.key(3))) for _ in range(2))
    np.testing.assert_array_equal(first.control, again.control)
    other = rbd.control.solve(linear, with_key(quick, jax.random.key(4)))
    assert np.abs(first.control - other.control).max() > 1e-3
    np.testing.assert_array_equal(
        rbd.control.solve(
            linear, type(quick)(samples=24, max_iterations=3, spread=2.0, knots=5, key=3)
        ).control,
        first.control,
    )


def test_a_search_goes_on_with_other_samples(linear, quick):
    first = rbd.control.solve(linear, quick)
    more = rbd.control.solve(linear, quick, first)
    assert more.cost <= first.cost
    anew = rbd.control.solve(linear, quick, rbd.control.Guess(first.control))
    assert np.abs(more.control - anew.control).max() > 1e-6
    assert first.multipliers.count == 3 and more.multipliers.count == 6


def test_in_a_batch_and_within_jit_as_alone(linear, quick):
    starts = rbd.State(jnp.array([[1.0], [-0.5], [0.2]]), jnp.array([[0.0], [1.0], [-1.0]]))
    solved = lambda state: rbd.control.solve(linear.starting(state), quick)
    alone = [solved(jax.tree.map(lambda x, i=i: x[i], starts)) for i in range(3)]
    for many in (jax.jit(jax.vmap(solved)), rbd.batch_map(solved)):
        together = many(starts)
        for i, one in enumerate(alone):
            np.testing.assert_allclose(together.control[i], one.control, atol=1e-12)
            np.testing.assert_allclose(together.cost[i], one.cost, atol=1e-12)


def test_keys_in_a_batch(linear, quick):
    keys = jax.random.split(jax.random.key(0), 3)
    costs = jax.vmap(lambda key: rbd.control.solve(linear, with_key(quick, key)).cost)(keys)
    assert len(np.unique(costs)) == 3
    assert costs[1] == pytest.approx(float(rbd.control.solve(linear, with_key(quick, keys[1])).cost))


def test_in_single_precision(linear, quick):
    found = rbd.control.solve(problem_of(cart(jnp.float32)), quick)
    assert {x.dtype for x in (found.q, found.control, found.cost, found.violation)} == {jnp.dtype("float32")}
    assert found.cost < 0.7 * problem_cost(linear, jnp.zeros((STEPS, 1)))
    assert found.cost == pytest.approx(problem_cost(linear, found.control), rel=1e-4)


def problem_cost(problem, control):
    stages = Stages(problem)
    return float(
        stages.total(
            stages.rolled_out(stages.first, control.astype(jnp.float64)), control.astype(jnp.float64)
        )
    )


@pytest.mark.parametrize("interpolation", ["zero-order", "linear", "cubic"])
def test_bounds_of_controls_are_kept_exactly(interpolation):
    # By default samples lie a quarter of the bounds apart, so many are cut off.
    bounds = rbd.control.Bounds(control=(-1.1, 0.3))
    problem = problem_of(cart(), bounds=bounds)
    solver = rbd.control.CEM(samples=32, max_iterations=4, knots=4, interpolation=interpolation, color=1.0)
    beyond = rbd.control.Guess(jnp.full((STEPS, 1), 7.0))
    found = rbd.control.solve(problem, solver, beyond)
    assert found.control.min() >= -1.1 and found.control.max() <= 0.3
    assert found.control.min() < -1.0
    assert found.violation == 0


@pytest.mark.parametrize("kind", KINDS)
def test_motions_that_fail_count_for_nothing(kind):
    """A cost that is no number beyond some force, in a landscape that leads there."""
    wall = lambda t, state, control: jnp.where(control[0] < -1.5, jnp.nan, 10 * control[0])
    problem = problem_of(cart(), running=[rbd.control.Value(wall)], terminal=[])
    found = rbd.control.solve(problem, KINDS[kind](samples=64, max_iterations=30, spread=1.0, color=2.0))
    assert found.code != rbd.control.Code.NOT_FINITE
    assert np.isfinite(found.control).all() and np.isfinite(found.cost)
    assert found.control.min() >= -1.5 and found.control.max() < -0.8


@pytest.mark.parametrize("kind", KINDS)
def test_all_motions_fail(kind):
    problem = problem_of(cart(), running=[rbd.control.Value(lambda t, state, control: jnp.nan * state.q[0])])
    guess = jnp.linspace(-1.0, 1.0, STEPS)[:, None]
    found = rbd.control.solve(
        problem, KINDS[kind](samples=8, max_iterations=2, spread=1.0), rbd.control.Guess(guess)
    )
    assert found.code == rbd.control.Code.NOT_FINITE
    np.testing.assert_array_equal(found.control, guess)


def test_a_cost_without_slope():
    """Only the time away from the goal counts: a derivative would be zero everywhere."""
    away = rbd.control.Value(lambda t, state, control: jnp.where(jnp.abs(state.q[0]) > 0.1, 1.0, 0.0))
    problem = problem_of(
        cart(), running=[away], terminal=[], steps=20, bounds=rbd.control.Bounds(control=(-5.0, 5.0))
    )
    found = rbd.control.solve(
        problem, rbd.control.MPPI(samples=128, max_iterations=20, knots=6, interpolation="linear")
    )
    # With 5 N to the middle and 5 N back it takes 2 sqrt(0.9 / 5) s to come near and stop there.
    assert 0.6 <= found.cost <= 1.2


def test_constraints_and_bounds_of_states(linear):
    """The fast way is forbidden: the speed is bounded, and the middle has to be passed at a given time."""
    passed = rbd.control.Constraint(lambda t, state, control: state.q - 0.4, at=[8])
    short_of = rbd.control.Constraint(rbd.control.Posture(), lower=0.0, at="all")
    options = {"constraints": [passed, short_of], "bounds": rbd.control.Bounds(v=(-0.9, jnp.inf))}
    problem = problem_of(cart(), **options)
    solver = rbd.control.CEM(samples=128, max_iterations=60, spread=2.0, color=1.0, constraint_tolerance=5e-3)
    found = rbd.control.solve(problem, solver)
    broken = [abs(found.q[8, 0] - 0.4), *(-found.q[:, 0]), *(-0.9 - found.v[1:, 0])]
    assert found.violation == pytest.approx(float(max(broken)), abs=1e-12)
    assert found.violation < 5e-3
    free = rbd.control.solve(linear, solver)
    assert min(free.v[:, 0]) < -0.95 and found.cost > free.cost
    # What it costs is without penalties.
    assert found.cost == pytest.approx(problem_cost(linear, found.control), abs=1e-12)


def test_a_violation_is_told():
    """A goal out of reach."""
    goal = rbd.control.Constraint(rbd.control.Posture(jnp.array([9.0])), at="end")
    problem = problem_of(cart(), constraints=[goal], bounds=rbd.control.Bounds(control=(-1.0, 1.0)))
    found = rbd.control.solve(problem, rbd.control.CEM(samples=32, max_iterations=20, knots=2))
    assert found.code == rbd.control.Code.NOT_CONVERGED
    assert found.violation == pytest.approx(9 - float(found.q[-1, 0]), abs=1e-12)
    assert found.control.min() > 0.9


# What samples are made of.


@pytest.mark.parametrize("kind", ["zero-order", "linear", "cubic"])
@pytest.mark.parametrize("knots, steps", [(1, 4), (2, 5), (4, 4), (5, 17), (1, 1)])
def test_curves(kind, knots, steps):
    curves = interpolated(kind, knots, steps)
    assert curves.shape == (steps, knots)
    np.testing.assert_allclose(curves.sum(1), 1, atol=1e-14)  # what is constant stays so
    if knots > 1 and kind != "zero-order":
        line = np.linspace(-1, 2, knots)
        np.testing.assert_allclose(curves @ line, np.linspace(-1, 2, steps), atol=1e-14)
    if knots == steps:
        np.testing.assert_allclose(curves, np.eye(knots), atol=1e-14)
    if kind == "zero-order":
        held = curves.sum(0)
        assert held.max() - held.min() <= 1  # each for as many steps


@pytest.mark.parametrize("color", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_coloured_noise(color):
    factor = coloured(color, 16)
    correlation = factor @ factor.T
    np.testing.assert_allclose(np.diag(correlation), 1, atol=1e-8)
    assert (correlation[0, 1] > 0.3) == (color >= 1)
    if not color:
        np.testing.assert_array_equal(factor, np.eye(16))
    # As in the spectrum: what is next is more alike for redder noise.
    assert color == 0 or correlation[0, 1] > (coloured(color / 2, 16) @ coloured(color / 2, 16).T)[0, 1]


def test_weights():
    costs = jnp.array([3.0, 1.0, jnp.inf, 1.5, 2.0])
    hot, cold = (rbd.control.MPPI(spread=1.0, temperature=x)._weights(costs) for x in (1e6, 1e-6))
    np.testing.assert_allclose(hot, [0.25, 0.25, 0, 0.25, 0.25], atol=1e-5)
    np.testing.assert_allclose(cold, [0, 1, 0, 0, 0], atol=1e-12)
    own = rbd.control.MPPI(spread=1.0, temperature=0.5)._weights(costs)
    np.testing.assert_allclose(own, np.exp(-2 * np.array(costs)) / np.exp(-2 * np.array(costs)).sum())
    scaled = rbd.control.MPPI(spread=1.0)._weights(costs)
    np.testing.assert_allclose(rbd.control.MPPI(spread=1.0)._weights(7 * costs - 3), scaled)
    elites = rbd.control.CEM(spread=1.0, samples=5, elites=3)._weights(costs)
    np.testing.assert_allclose(elites, [0, 1 / 3, 0, 1 / 3, 1 / 3])
    few = rbd.control.CEM(spread=1.0, samples=5, elites=5)._weights(costs)
    np.testing.assert_allclose(few, [0.25, 0.25, 0, 0.25, 0.25])
    for solver in (rbd.control.MPPI(spread=1.0), rbd.control.CEM(samples=3, spread=1.0)):
        np.testing.assert_array_equal(solver._weights(jnp.full(3, jnp.inf)), [1, 0, 0])
        np.testing.assert_allclose(solver._weights(jnp.full(3, 2.0)).sum(), 1)


# Errors.

WRONG = {
    "samples": ({"samples": 0}, "samples is 0; it is a positive integer"),
    "iterations": ({"max_iterations": 2.5}, "max_iterations is 2.5"),
    "knots": ({"knots": -1}, "knots is -1"),
    "interpolation": ({"interpolation": "quintic"}, "interpolation is 'quintic'; it is one of 'zero-order'"),
    "color": ({"color": -1.0}, "color is -1.0; it cannot be less than 0"),
    "spread": ({"spread": 0.0}, "spread is 0.0; it is the standard deviation"),
    "adaptation": ({"adaptation": 1.5}, "adaptation is 1.5; it cannot be more than 1"),
    "penalty": ({"penalty": -1.0}, "penalty is -1.0"),
    "tolerance": ({"tolerance": np.nan}, "tolerance is nan"),
    "key": ({"key": "me"}, "key is 'me'; it is a random key"),
    "a key of floats": ({"key": jnp.zeros(2)}, "it is a random key"),
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
        rbd.control.solve(linear, rbd.control.CEM(spread=jnp.ones(3)))
