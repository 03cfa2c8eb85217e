"""Derivatives of solutions by all parameters of their problems agree with solutions of changed problems."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


C = rbd.control
NAMES = ("t", "q", "v", "control", "control_nodes", "dt", "cost", "costates")


def pendulum(**options):
    """Returns a problem with a goal and active torque limits."""
    return C.Problem(
        rbd.load("pendulum"),
        rbd.State(*jax.device_put((np.array([0.3]), np.zeros(1)))),
        steps=8,
        dt=0.12,
        running=[0.1 * C.Effort(), 0.3 * C.Posture(np.array([0.5]))],
        terminal=[2.0 * C.Velocity()],
        constraints=[C.Constraint(C.Posture(np.array([1.0])), at="end")],
        bounds=C.Bounds(control=(-6.0, 6.0)),
        **options,
    )


def hurried():
    """Returns the pendulum with free duration."""
    return pendulum(duration=(0.5, 5.0), duration_cost=3.0)


def acrobot():
    return C.Problem(
        rbd.load("acrobot"),
        rbd.State(jnp.array([0.1, 0.2]), jnp.array([0.0, 0.3])),
        steps=20,
        dt=0.05,
        running=[0.1 * C.Effort(), C.Posture(jnp.array([0.3, -0.2]))],
        terminal=[10.0 * C.Velocity()],
    )


def reaching():
    """Returns an arm that reaches for a point with active torque limits."""
    model = rbd.load("arm7")
    limit = jnp.array([3.0, 40.0, 3.0, 30.0, 2.0, 3.0, 1.0])
    return C.Problem(
        model,
        rbd.State(jnp.array([0.1, 0.4, 0.1, 0.8, 0.1, 0.3, 0.0]), jnp.zeros(7)),
        steps=12,
        dt=0.05,
        running=[0.01 * C.Effort(), 0.1 * C.Velocity()],
        terminal=[300.0 * C.Position("tool", jnp.array([0.4, 0.2, 0.6])), C.Velocity()],
        bounds=C.Bounds(control=(-limit, limit)),
    )


def turning():
    """Returns a freely rotating body with a wheel."""
    return with_wheel(rbd.joints.Spherical())


def floating():
    """Returns a free-floating body with a wheel."""
    return with_wheel(rbd.joints.Free())


def with_wheel(joint):
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    inertia = lambda mass: rbd.Inertia.from_mass_com(mass, (0.1, 0, 0), 0.1 * mass * np.diag([1.0, 1.2, 1.4]))
    builder.add_body("hull", parent="world", joint=joint, inertia=inertia(2.0))
    builder.add_body("wheel", parent="hull", joint=rbd.joints.Revolute((0, 0.6, 0.8)), inertia=inertia(1.0))
    model = builder.build()
    q = jnp.concatenate([rbd.neutral(model)[:-5], jnp.array([0.8, 0.0, 0.6, 0.0, 0.0])])
    v = jnp.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.2, 0.0])[7 - model.nv :]
    goal = rbd.integrate(model, q, 0.3 * v)
    return C.Problem(
        model,
        rbd.State(q, v),
        steps=8,
        dt=0.08,
        running=[C.Effort(), C.Velocity()],
        terminal=[50.0 * C.Posture(goal)],
        bounds=C.Bounds(control=(-1.0, 1.0)),
    )


PROBLEMS = {f.__name__: f for f in (pendulum, hurried, acrobot, reaching, turning, floating)}
#: The last problem takes long to compile, so that only one solver runs it.
POSED = [
    (solver, problem)
    for solver in ("ddp", "shooting", "trapezoid", "hermite-simpson")
    for problem in PROBLEMS
    if problem != "floating" or solver == "shooting"
]
SOLVERS = {
    # With full second derivatives the last step is exact. Otherwise the cost criterion ends the iterations too early.
    "ddp": C.DDP(hessian="full", tolerance=1e-15, constraint_tolerance=1e-10),
    "shooting": C.Shooting(tolerance=1e-10),
    "trapezoid": C.Collocation("trapezoid", tolerance=1e-10),
    "hermite-simpson": C.Collocation(tolerance=1e-10),
}


def changes_of(model, numbers, seed=0):
    """Returns a change of every parameter of a problem, except for infinite bounds and friction, which is not smooth.

    Rotations remain rotations, and joint axes and quaternions remain unit vectors, because formulas disagree for
    others.
    """
    draw = np.random.default_rng(seed)

    def one(path, x):
        change = jnp.asarray(np.where(np.isfinite(x), draw.normal(size=x.shape), 0) * 0.05, x.dtype)
        name = jax.tree_util.keystr(path[-1:], simple=True)
        if name == "rotation":
            return 0.5 * (change - x @ jnp.swapaxes(change, -1, -2) @ x)
        if name == "axis":
            return change - x * jnp.sum(x * change, axis=-1, keepdims=True)
        return jnp.zeros_like(x) if name == "friction" else change

    changes = jax.tree_util.tree_map_with_path(one, numbers)
    along = jnp.asarray(0.05 * draw.normal(size=model.nv))
    move = lambda v: rbd.integrate(model, numbers.state.q, v)
    change = jax.jvp(move, (jnp.zeros_like(along),), (along,))[1]
    return eqx.tree_at(lambda p: p.state.q, changes, change)


def assert_derivative(found, high, low, step, tolerance):
    for name in NAMES:
        if getattr(high, name) is None:
            continue
        expected = (np.asarray(getattr(high, name)) - np.asarray(getattr(low, name))) / (2 * step)
        error = np.abs(getattr(found, name) - expected).max()
        assert error <= tolerance * max(1, np.abs(expected).max()), (name, error, np.abs(expected).max())


@functools.cache
def posed(solver, problem):
    """Returns the parameters of a problem, and a function that solves it for other parameters from a guess."""
    one = PROBLEMS[problem]()
    numbers, rest = eqx.partition(one, eqx.is_inexact_array)
    none = C.Guess(control=jax.device_put(np.zeros((one.steps, one.nu))))

    @jax.jit
    def solved(numbers, guess):
        return C.solve(eqx.combine(numbers, rest), SOLVERS[solver], guess)

    return numbers, lambda numbers, guess=none: solved(numbers, guess)


@pytest.mark.slow
@pytest.mark.parametrize("solver, problem", POSED)
def test_they_are_those_of_problems_solved_again(solver, problem):
    numbers, solved = posed(solver, problem)
    changes, step = changes_of(PROBLEMS[problem]().model, numbers), 1e-4
    # Reference solutions come from the method with higher accuracy, because DDP stops when the cost no longer changes.
    # They start from the solution itself, because from afar the solver may converge to another minimum.
    exactly = posed("shooting" if solver == "ddp" else solver, problem)[1]
    near = C.Guess.of(exactly(numbers))
    moved = lambda h: exactly(jax.tree.map(lambda x, d: x + h * d, numbers, changes), near)
    high, low = moved(step), moved(-step)
    assert not high.code and not low.code

    # Forward and reverse mode share one linearization, which compiles once.
    solution, along = jax.linearize(solved, numbers)
    change = along(changes)
    assert_derivative(change, high, low, step, 1e-4)
    back = jax.linear_transpose(lambda changes: _chosen(along(changes)), changes)
    (of,) = back(jax.tree.map(jnp.ones_like, _chosen(solution)))
    inner = lambda a, b: np.sum(np.asarray(a) * np.asarray(b))
    total = sum(map(inner, jax.tree.leaves(of), jax.tree.leaves(changes)))
    forward = sum(np.sum(np.asarray(x)) for x in jax.tree.leaves(_chosen(change)))
    np.testing.assert_allclose(total, forward, rtol=1e-6)


def _chosen(solution):
    return [getattr(solution, name) for name in NAMES if getattr(solution, name) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_both_methods_find_the_same_minimum(problem):
    """Differential dynamic programming and multiple shooting solve the same discrete problem."""
    (numbers, by_ddp), (_, by_shooting) = (posed(solver, problem) for solver in ("ddp", "shooting"))
    one, other = by_ddp(numbers), by_shooting(numbers)
    assert not one.code and not other.code
    for name in ("q", "v", "dt", "cost"):
        assert_close(getattr(other, name), getattr(one, name), 1e-6, name)
    # Where the cost is flat, the control is accurate to the square root of the cost's precision.
    assert_close(other.control, one.control, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_gradients_of_a_batch_are_those_one_by_one(solver):
    """Gradients by a single parameter of the problem."""
    numbers, solved = posed(solver, "pendulum")
    place = lambda p: p.constraints[0].residual.target
    slope = jax.grad(lambda goal: solved(eqx.tree_at(place, numbers, goal)).cost)
    goals = jnp.array([[0.7], [0.9], [1.0]])
    together = jax.vmap(slope)(goals)
    for goal, found in zip(goals, together, strict=True):
        assert_close(found, slope(goal), 1e-8)


@pytest.mark.slow
def test_gradients_take_no_more_memory_for_more_iterations():
    """The solver's iterations are not stored: a gradient needs the same memory for a thousand iterations as for ten."""
    numbers, rest = eqx.partition(pendulum(), eqx.is_inexact_array)

    def size(iterations):
        solver = C.DDP(max_iterations=iterations)
        gradient = jax.grad(lambda numbers: C.solve(eqx.combine(numbers, rest), solver).cost)
        memory: Any = jax.jit(gradient).lower(numbers).compile().memory_analysis()
        return memory.temp_size_in_bytes

    assert size(10) == size(1000)


@pytest.mark.slow
@pytest.mark.parametrize("problem, factor", [("pendulum", 1.25), ("floating", 1.001)])
def test_a_guess_does_not_say_how_long_steps_are_that_the_problem_says(problem, factor):
    """The solution for another time step is only an initial guess, and a close one, although its steps do not connect."""
    numbers, solved = posed("ddp", problem)
    longer = eqx.tree_at(lambda p: p.dt, numbers, numbers.dt * factor)
    found, anew = solved(longer, C.Guess.of(solved(numbers))), solved(longer)
    assert not found.code and found.iterations <= anew.iterations
    np.testing.assert_allclose(found.dt, longer.dt)
    assert_close(found.q, anew.q, 1e-6)
