"""The interior-point method on a linear system of two sliding masses, against quadratic programs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sliders import BOUNDED, IMPOSSIBLE, INF, STEPS, changed, motion_of, posed, reference
from support import assert_close

import rbd_jax as rbd


C: Any = rbd.control
SOLVER = C.Shooting(hessian="gauss-newton")


@pytest.fixture(scope="module")
def problem():
    return posed()


@pytest.mark.parametrize("bounds", BOUNDED.values(), ids=BOUNDED)
def test_it_is_the_quadratic_programs_minimum(problem, bounds):
    solution = C.solve(changed(problem, **bounds), SOLVER)
    u, cost = reference(**bounds)
    assert solution.code == C.Code.CONVERGED
    assert_close(solution.control, u, 2e-5)
    np.testing.assert_allclose(solution.cost, cost, rtol=1e-6)
    q, v = motion_of(np.asarray(solution.control))
    assert_close(solution.q, q, 1e-8)
    assert_close(solution.v, v, 1e-8)
    assert solution.violation <= 1e-8


def test_a_quadratic_program_without_bounds_is_one_step(problem):
    """The duplicated goal counts once, because rows may be dependent."""
    assert C.solve(problem, SOLVER).iterations <= 4


def test_an_inside_that_is_a_point_is_found(problem):
    """The bounds allow a single final position, and the goal's row is present a third and fourth time."""
    pinned = changed(problem, q=((-INF, -INF), (0.3, INF)), v=((0.0, -INF), (INF, INF)))
    solution = C.solve(pinned, SOLVER)
    assert solution.code == C.Code.CONVERGED and solution.violation <= 1e-8


@pytest.mark.parametrize("bounds", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_is_said_to_be_infeasible(problem, bounds):
    solution = C.solve(changed(problem, **bounds), SOLVER)
    assert C.Code(int(solution.code)) == C.Code.INFEASIBLE
    assert solution.violation > 1e-3
    asked = changed(problem, **bounds)
    assert C.explain(asked, solution).startswith("infeasible") and "off by" in C.explain(asked, solution)
    # The result is as close as possible and still a motion.
    assert_close(solution.q, motion_of(np.asarray(solution.control))[0], 1e-6)


def test_bounds_that_cross_are_infeasible(problem):
    """Crossing bounds are rejected where their values are known; under `jit` the result is a code."""
    with pytest.raises(ValueError, match="the bounds cross"):
        changed(problem, control=((1.0, 0.0), (-1.0, 0.0)))
    crossing = eqx.tree_at(
        lambda p: p.bounds.control, problem, jax.device_put((np.array([1.0, 0.0]), np.array([-1.0, 0.0])))
    )
    solution = C.solve(crossing, SOLVER)
    assert C.Code(int(solution.code)) == C.Code.INFEASIBLE and np.isfinite(solution.q).all()
    said = C.explain(crossing, solution)
    assert said.startswith("infeasible") and "bounds.control: " in said and "off by 2" in said


@pytest.mark.slow
def test_multipliers_of_the_steps_are_slopes_of_what_remains(problem):
    bounded = changed(problem, control=((-1.0, -1.0), (1.2, 1.0)))
    solution = C.solve(bounded, SOLVER)
    step = 1e-5

    def moved(side):
        start = rbd.State(*jax.device_put((np.array([side * step, 0.0]), np.zeros(2))))
        return float(C.solve(bounded.starting(start), SOLVER, solution).cost)

    slope = (moved(1) - moved(-1)) / (2 * step)
    np.testing.assert_allclose(np.asarray(solution.costates)[0, 0], slope, rtol=1e-5)


@pytest.mark.slow
def test_a_search_goes_on_from_where_another_ended(problem):
    bounded = changed(problem, control=((-1.0, -1.0), (1.2, 1.0)))
    other = changed(problem, control=((-1.0, -1.0), (1.25, 1.0)))
    cold, warm = C.solve(other, SOLVER), C.solve(other, SOLVER, C.solve(bounded, SOLVER))
    assert warm.code == C.Code.CONVERGED and warm.iterations < cold.iterations
    assert_close(warm.control, cold.control, 1e-5)
    assert np.asarray(warm.control).max() > 1.2 + 1e-3


@pytest.mark.slow
def test_states_of_a_guess_need_not_follow_on_each_other(problem):
    draw = np.random.default_rng(0)
    states = rbd.State(
        jnp.asarray(draw.normal(size=(STEPS + 1, 2))), jnp.asarray(draw.normal(size=(STEPS + 1, 2)))
    )
    bounded = changed(problem, control=((-2.0, -1.0), (1.2, 1.0)))
    found, expected = C.solve(bounded, SOLVER, C.Guess(states=states)), C.solve(bounded, SOLVER)
    assert found.code == C.Code.CONVERGED
    assert_close(found.control, expected.control, 1e-6)


@pytest.mark.slow
def test_a_batch_is_one_by_one(problem):
    """One problem of the batch is infeasible and does not affect the others."""
    goals = np.concatenate([np.linspace(-0.3, 0.3, 15)[:, None] * np.ones((1, 2)), [[9.0, 0.0]]])
    of = lambda goal: changed(problem, goal=goal, control=((-1.5, -1.5), (1.5, 1.5)))
    whole = jax.device_get(jax.jit(jax.vmap(lambda goal: C.solve(of(goal), SOLVER)))(goals))
    for at in (0, 3, 14, 15):
        alone = C.solve(of(goals[at]), SOLVER)
        assert alone.code == whole.code[at] and alone.iterations == whole.iterations[at]
        assert_close(whole.control[at], alone.control, 1e-9)
    assert whole.code[-1] == C.Code.INFEASIBLE and not whole.code[:-1].any()


@pytest.mark.slow
def test_float32(problem):
    bounded = changed(problem, control=((-2.0, -1.0), (1.2, 1.0)))
    is_real = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
    cast = lambda x: jax.device_put(np.asarray(x, np.float32)) if is_real(x) else x
    single = jax.tree.map(cast, bounded)
    solution = C.solve(single, SOLVER)
    assert solution.q.dtype == jnp.float32 and solution.code == C.Code.CONVERGED
    expected = C.solve(bounded, SOLVER)
    assert_close(solution.q, expected.q, 2e-4)
    # The error comes from products of multipliers and gaps of up to 1e-4, with gaps of a third and a curvature of dt.
    assert_close(solution.control, expected.control, 1e-2)


@pytest.mark.slow
def test_what_is_not_finite_is_said(problem):
    guess = C.Guess(control=jax.device_put(np.full((STEPS, 2), 1e200)))
    assert C.solve(problem, SOLVER, guess).code == C.Code.NOT_FINITE


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: C.Collocation("simpson"), "rule is 'simpson'"),
        (lambda: C.Shooting(hessian="none"), "hessian is 'none'"),
        (lambda: C.Shooting(tolerance=-1.0), "control.Shooting: tolerance is -1.0; it is a positive number"),
        (lambda: C.Collocation(barrier=0.0), "control.Collocation: barrier is 0.0; it is a positive number"),
        (lambda: C.Shooting(max_iterations=0), "max_iterations"),
    ],
)
def test_options_that_make_no_sense_are_refused(unchecked, make, message):
    with pytest.raises(ValueError, match=message):
        make()
