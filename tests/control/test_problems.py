"""The bundled problems are solved by the bundled solvers, and the solutions satisfy their claims."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax._core.errors import UnknownNameError
from rbd_jax.control import problems


C: Any = rbd.control


@pytest.mark.parametrize("name", problems.NAMES)
def test_each_is_a_problem(name):
    """Each has the default precision, a guess with the right shape and a docstring."""
    problem, solver, guess = problems.load(name)
    assert isinstance(problem, C.Problem) and isinstance(solver, C.Solver)
    assert problem.dt.dtype == problem.state.q.dtype == jnp.result_type(float)
    if guess is not None and guess.control is not None:
        assert guess.control.shape == (problem.steps, problem.nu)
    assert problem.constraints and getattr(problems, name).__doc__


def test_a_name_that_is_none():
    with pytest.raises(UnknownNameError, match="there is no problem 'cartpole'.*cartpole_swing_up"):
        problems.load("cartpole")


def test_where_a_thing_lands():
    """The landing point is that of the ballistic flight; derivatives are finite where the object would never land."""
    model = rbd.load("arm7")
    landing = C.Constraint(problems.Landing("tool", (0.0, 0.0), height=0.1), at="end")
    problem = C.Problem(
        model,
        rbd.State(rbd.neutral(model), jax.device_put(np.zeros(7))),
        steps=1,
        dt=0.01,
        constraints=[landing],
    )
    q, v = jax.device_put((0.3 * np.arange(7.0) / 7, np.array([1.0, -2.0, 0.5, -1.0, 0.3, 0.2, 0.1])))

    @jax.jit
    def at(q, v):
        """Returns the residual of the landing, and the position and velocity of the tool."""
        place = rbd.forward_kinematics(model, q).position[-1]
        speed = (rbd.jacobian(model, q, "tool", frame="world_aligned") @ v)[3:]
        return landing.residual(_knot(problem, rbd.State(q, v))), place, speed

    found, place, speed = map(np.asarray, at(q, v))
    time = np.roots(np.array([-0.5 * 9.81, speed[2], place[2] - 0.1])).max()
    np.testing.assert_allclose(found, place[:2] + time * speed[:2], rtol=1e-5)
    high = C.Constraint(problems.Landing("tool", (0.0, 0.0), height=9.0), at="end")
    slope = jax.jit(jax.jacfwd(lambda v: high.residual(_knot(problem, rbd.State(q, v)))))(v)
    assert np.isfinite(slope).all()


def _knot(problem, state):
    from rbd_jax.control.knot import Knot

    return Knot(problem.begin.system, jnp.int32(1), jnp.asarray(0.01), state, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", problems.NAMES)
def test_each_is_solved(name):
    """From its guess each problem converges to a minimum within all limits that ends at rest."""
    problem, solver, guess = problems.load(name)
    solution = C.solve(problem, solver, guess)
    assert solution.code == C.Code.CONVERGED and solution.violation < 1e-6
    found = C.appraise(problem, solution)
    assert found.broken(2e-6) == () and found.missed < 1e-6
    assert found.optimality.minimum and abs(found.optimality.gain) < 1e-5 * solution.cost
    np.testing.assert_allclose(solution.v[-1], 0, atol=1e-5)
    told = jax.vmap(problem.told)(solution.control)
    tau = rbd.Controls(told.u) if problem.told_actuators else told.tau
    path = rbd.rollout(problem.model, problem.state, tau, dt=solution.dt)
    np.testing.assert_allclose(path.q, solution.q, atol=1e-4)


@pytest.mark.slow
def test_the_least_time_by_interior_points():
    """The double pendulum swings up to rest within its effort limits, in a locally minimum time.

    Collocation finds the same in continuous time.
    """
    problem, _, guess = problems.load("double_pendulum_minimum_time")
    shot = C.solve(problem, C.Shooting(max_iterations=1000), guess)
    collocated = C.solve(problem, C.Collocation(max_iterations=1000), shot)
    for solution in (shot, collocated):
        assert solution.code == C.Code.CONVERGED and solution.violation < 1e-6
        assert np.abs(solution.control).max() <= 8.0 and np.abs(solution.v[-1]).max() < 1e-6
        np.testing.assert_allclose(solution.q[-1], [np.pi, 0], atol=1e-6)
        assert C.appraise(problem, solution).broken(1e-6) == ()
    found = C.optimality(problem, shot)
    assert found.minimum and found.gradient < 1e-6 and found.slack < 1e-6 and abs(found.gain) < 1e-8
    np.testing.assert_allclose(collocated.t[-1], shot.t[-1], rtol=2e-2)
