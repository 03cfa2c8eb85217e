"""The interior-point method on a linear system, where the answer is a quadratic program's: two masses that slide."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from support import assert_close

import rbd_jax as rbd


C = rbd.control
INF = np.inf
STEPS, DT, MASSES = 12, 0.1, np.array([1.0, 2.0])
OPEN = ((-INF, -INF), (INF, INF))
SOLVER = C.Shooting(hessian="gauss-newton")


@pytest.fixture(scope="module")
def sliders():
    builder = rbd.ModelBuilder(gravity=(0, 0, 0), name="sliders")
    on = "world"
    for name, axis, mass in (("a", (1, 0, 0), MASSES[0]), ("b", (0, 1, 0), MASSES[1])):
        inertia = rbd.Inertia.from_mass_com(mass, (0, 0, 0), np.eye(3))
        builder.add_body(name, parent=on, joint=rbd.joints.Prismatic(axis), inertia=inertia)
        on = name
    return builder.build()


def sum_of(t, state, control):
    return state.q[0] + state.q[1]


@pytest.fixture(scope="module")
def problem(sliders):
    """Two goals at the end, and a sum of positions that can be bounded on the way: all compiled once."""
    goal = C.Posture(jnp.array([0.3, 0.2]))
    wide = (np.array(side) for side in OPEN)
    return C.Problem(
        sliders,
        rbd.State(jnp.zeros(2), jnp.zeros(2)),
        steps=STEPS,
        dt=DT,
        running=[C.Effort(), 0.1 * C.Posture()],
        constraints=[
            C.Constraint(goal, at="end"),
            C.Constraint(goal, at="end"),
            C.Constraint(sum_of, lower=np.array(-INF), upper=np.array(INF), at=[4, 8]),
        ],
        bounds=C.Bounds(control=OPEN, q=OPEN, v=tuple(wide)),
    )


def changed(problem, *, goal=(0.3, 0.2), other=None, total=(-INF, INF), **bounds):
    """The same problem with other numbers."""
    first, second, third = problem.constraints
    at = lambda x: C.Posture(jnp.asarray(x, float))
    pairs = {name: tuple(jnp.asarray(side, float) for side in pair) for name, pair in bounds.items()}
    return dataclasses.replace(
        problem,
        constraints=(
            dataclasses.replace(first, residual=at(goal)),
            dataclasses.replace(second, residual=at(goal if other is None else other)),
            dataclasses.replace(
                third, lower=jnp.asarray(total[0], float), upper=jnp.asarray(total[1], float)
            ),
        ),
        bounds=dataclasses.replace(problem.bounds, **pairs),
    )


def motion_of(u):
    """Positions and velocities of all knots: semi-implicit Euler steps of the two masses."""
    mass = np.array([MASSES.sum(), MASSES[1]])
    v = np.concatenate([np.zeros((1, 2)), np.cumsum(DT * u / mass, axis=0)])
    q = np.concatenate([np.zeros((1, 2)), np.cumsum(DT * v[1:], axis=0)])
    return q, v


def reference(goal=(0.3, 0.2), total=(-INF, INF), control=OPEN, q=OPEN, v=OPEN):
    """The controls of least cost by sequential quadratic programming in SciPy."""
    from itertools import product

    def cost(flat):
        u = flat.reshape(STEPS, 2)
        at, _ = motion_of(u)
        return DT * 0.5 * (np.sum(u**2) + 0.1 * np.sum(at[:-1] ** 2))

    # What cannot move is at its goal already, and its row would be none.
    moves = np.array(control[0]) < np.array(control[1])
    missed = lambda flat: (motion_of(flat.reshape(STEPS, 2))[0][-1] - np.array(goal))[moves]
    held = [{"type": "eq", "fun": missed}]
    sides = [(total, lambda q, v: q[[4, 8]].sum(axis=1)), (q, lambda q, v: q[1:]), (v, lambda q, v: v[1:])]
    for (pair, values), (which, sign) in product(sides, ((0, 1), (1, -1))):
        bound = np.array(pair[which])
        if np.isfinite(bound).any():
            held.append(
                {
                    "type": "ineq",
                    "fun": lambda flat, values=values, bound=bound, sign=sign: np.ravel(
                        np.where(
                            np.isfinite(bound),
                            sign * (values(*motion_of(flat.reshape(STEPS, 2))) - np.nan_to_num(bound)),
                            1,
                        )
                    ),
                }
            )
    limits = list(zip(np.tile(control[0], STEPS), np.tile(control[1], STEPS), strict=True))
    found = scipy.optimize.minimize(
        cost,
        np.zeros(2 * STEPS),
        method="SLSQP",
        bounds=limits,
        constraints=held,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success, found.message
    return found.x.reshape(STEPS, 2), found.fun


BOUNDED = {
    "nothing": {},
    "controls": dict(control=((-2.0, -1.0), (1.2, 1.0))),
    "speeds": dict(v=((-0.1, -INF), (0.35, 0.25))),
    "positions": dict(q=((-INF, 0.0), (0.3, INF)), control=((-1.5, -1.5), (1.5, 1.5))),
    "on the way": dict(total=(0.4, INF)),
    "one value": dict(total=(0.1, 0.1)),
    "none of one control": dict(control=((-INF, 0.0), (INF, 0.0)), goal=(0.3, 0.0)),
}


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
    """And the goal, put twice, counts as once: rows may depend on each other."""
    assert C.solve(problem, SOLVER).iterations <= 4


def test_an_inside_that_is_a_point_is_found(problem):
    """Both bounds leave one place at the end, and the row of the goal is there a third and fourth time."""
    pinned = changed(problem, q=((-INF, -INF), (0.3, INF)), v=((0.0, -INF), (INF, INF)))
    solution = C.solve(pinned, SOLVER)
    assert solution.code == C.Code.CONVERGED and solution.violation <= 1e-8


IMPOSSIBLE = {
    "out of reach": dict(goal=(9.0, 0.0), control=((-1.0, -1.0), (1.0, 1.0))),
    "two goals": dict(other=(0.5, 0.2)),
    "bounds that exclude a constraint": dict(total=(2.0, 3.0), q=((-INF, -INF), (0.5, 0.5))),
    "a goal out of bounds": dict(q=((-INF, -INF), (0.2, INF))),
}


@pytest.mark.parametrize("bounds", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_is_said_to_be_infeasible(problem, bounds):
    solution = C.solve(changed(problem, **bounds), SOLVER)
    assert C.Code(int(solution.code)) == C.Code.INFEASIBLE
    assert solution.violation > 1e-3
    # As near as it gets, and a motion still.
    assert_close(solution.q, motion_of(np.asarray(solution.control))[0], 1e-6)


def test_multipliers_of_the_steps_are_slopes_of_what_remains(problem):
    bounded = changed(problem, control=((-1.0, -1.0), (1.2, 1.0)))
    solution = C.solve(bounded, SOLVER)
    step = 1e-5

    def moved(side):
        q = jnp.array([side * step, 0.0])
        return C.solve(bounded.starting(rbd.State(q, jnp.zeros(2))), SOLVER, solution).cost

    np.testing.assert_allclose(solution.costates[0, 0], (moved(1) - moved(-1)) / (2 * step), rtol=1e-5)


def test_a_search_goes_on_from_where_another_ended(problem):
    bounded = changed(problem, control=((-1.0, -1.0), (1.2, 1.0)))
    cold = C.solve(bounded, SOLVER)
    warm = C.solve(changed(problem, control=((-1.0, -1.0), (1.25, 1.0))), SOLVER, cold)
    assert warm.code == C.Code.CONVERGED and warm.iterations < cold.iterations
    assert np.asarray(warm.control).max() > 1.2 + 1e-3


def test_states_of_a_guess_need_not_follow_on_each_other(problem):
    draw = np.random.default_rng(0)
    states = rbd.State(
        jnp.asarray(draw.normal(size=(STEPS + 1, 2))), jnp.asarray(draw.normal(size=(STEPS + 1, 2)))
    )
    bounded = changed(problem, control=((-2.0, -1.0), (1.2, 1.0)))
    found, expected = C.solve(bounded, SOLVER, C.Guess(states=states)), C.solve(bounded, SOLVER)
    assert found.code == C.Code.CONVERGED
    assert_close(found.control, expected.control, 1e-6)


def test_a_batch_is_one_by_one(problem):
    """One of it is infeasible, and the others are not the worse for it."""
    goals = jnp.concatenate(
        [jnp.linspace(-0.3, 0.3, 15)[:, None] * jnp.ones((1, 2)), jnp.array([[9.0, 0.0]])]
    )
    of = lambda goal: changed(problem, goal=goal, control=((-1.5, -1.5), (1.5, 1.5)))
    whole = jax.jit(jax.vmap(lambda goal: C.solve(of(goal), SOLVER)))(goals)
    for at in (0, 3, 14, 15):
        alone = C.solve(of(goals[at]), SOLVER)
        assert alone.code == whole.code[at] and alone.iterations == whole.iterations[at]
        assert_close(whole.control[at], alone.control, 1e-9)
    assert whole.code[-1] == C.Code.INFEASIBLE and not whole.code[:-1].any()


def test_float32(problem):
    bounded = changed(problem, control=((-2.0, -1.0), (1.2, 1.0)))
    cast = lambda x: x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
    single = jax.tree.map(cast, bounded)
    solution = C.solve(single, SOLVER)
    assert solution.q.dtype == jnp.float32 and solution.code == C.Code.CONVERGED
    expected = C.solve(bounded, SOLVER)
    assert_close(solution.q, expected.q, 2e-4)
    assert_close(solution.control, expected.control, 5e-3)


def test_what_is_not_finite_is_said(problem):
    guess = C.Guess(control=jnp.full((STEPS, 2), 1e200))
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
def test_options_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
