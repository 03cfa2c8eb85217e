"""Solving a problem: the one function that calls a solver."""

from __future__ import annotations

from .._arguments import instance, number
from .._compile import compiled
from ..simulate import State
from ._stages import Stages
from .ddp import DDP
from .problem import Problem
from .solution import Solution
from .solver import Guess, Solver, started


def solve(problem: Problem, solver: Solver | None = None, guess: Guess | Solution | None = None) -> Solution:
    """The motion of least cost, as a solver finds it.

    Outside `jit` it compiles itself, once for the structure of the problem.

    **Arguments**

    - `solver`: by default `DDP()`.
    - `guess`: where the search begins: a `Guess`, or an earlier `Solution` of a problem of the same size; by default controls of
      zero.

    >>> model = rbd.load("pendulum")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.array([0.5]), jnp.zeros(1)),
    ...     steps=50,
    ...     dt=0.02,
    ...     running=[1e-2 * rbd.control.Effort()],
    ...     terminal=[10.0 * rbd.control.Posture(jnp.array([1.0])), rbd.control.Velocity()],
    ... )
    >>> solution = rbd.control.solve(problem)
    >>> print(solution.code, solution.q[-1])
    0 [0.978]
    """
    owner = "control.solve"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    solver = DDP() if solver is None else solver
    instance(owner, "solver", solver, Solver, "a solver, such as control.DDP()")
    solver.refuse(problem)
    return _solved(problem, solver, checked_guess(owner, problem, guess))


@compiled
def _solved(problem: Problem, solver: Solver, guess: Guess) -> Solution:
    stages = Stages(problem)
    return solver.search(stages, started(stages, guess))


def checked_guess(owner: str, problem: Problem, guess: Guess | Solution | None) -> Guess:
    """A guess, or an earlier solution as one, that fits a problem."""
    guess = Guess() if guess is None else Guess.of(guess) if isinstance(guess, Solution) else guess
    instance(owner, "guess", guess, Guess, "a control.Guess, or an earlier solution")
    dtype, steps = problem.dt.dtype, problem.steps
    control, states = guess.control, guess.states
    if control is not None:
        control = number(owner, "guess.control", control, (steps, problem.nu), dtype=dtype)
    if states is not None:
        instance(owner, "guess.states", states, State, "a State with a row for each knot")
        q = number(owner, "guess.states.q", states.q, (steps + 1, problem.model.nq), dtype=dtype)
        v = number(owner, "guess.states.v", states.v, (steps + 1, problem.model.nv), dtype=dtype)
        states = State(q, v, states.own)
    return Guess(control, states, guess.dt, guess.multipliers)
