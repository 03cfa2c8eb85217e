"""Solving a problem: the one function that calls a solver."""

from __future__ import annotations

import os

from jaxtyping import Array, Bool

from .._core.arguments import instance, number
from .._core.array import is_known
from .._core.jit import compiled
from ..checkpoints import Checkpoint
from ..simulate.state import State
from ._stages import Stages
from .ddp import DDP
from .problem import Problem
from .sensitivity import with_sensitivities
from .solution import Solution
from .solver import Guess, Search, Solver, started
from .stepwise import OnIteration, stepwise


def solve(
    problem: Problem,
    solver: Solver | None = None,
    guess: Guess | Solution | None = None,
    *,
    on_iteration: OnIteration | None = None,
    checkpoint: Checkpoint | str | os.PathLike | None = None,
) -> Solution:
    """The motion of least cost, as a solver finds it.

    Outside `jit` it compiles itself, once for the structure of the problem.

    **Arguments**

    - `solver`: by default `DDP()`.
    - `guess`: where the search begins: a `Guess`, or an earlier `Solution` of a problem of the same size; by default controls of
      zero.
    - `on_iteration`: called after each iteration with how many there were, the cost, and by how much constraints are broken. A
      search that goes on from a checkpoint calls it for those made before, too.
    - `checkpoint`: a file to save to on the way and to go on from, with the same result to the last bit: see `rbd.Checkpoint`.
      A solver that allows more iterations than before goes on where it had ended.

    The last two are for a search of its own; with neither of them it is one compiled program, which is part of others under
    `jax.jit` and `jax.vmap`.

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
    guess = checked_guess(owner, problem, guess)
    if on_iteration is None and checkpoint is None:
        return _solved(problem, solver, guess)
    if not is_known((problem, solver, guess)):
        raise ValueError(
            f"{owner}: on_iteration and checkpoint need a host between the iterations, and within jax.jit, jax.vmap and jax.grad "
            "there is none; leave them out"
        )
    return stepwise(
        owner,
        lambda: _begun(problem, solver, guess),
        lambda search: _iterated(problem, solver, search),
        lambda search: _looked_at(problem, solver, search),
        most=solver.max_iterations,
        key=lambda: {"problem": problem, "solver": solver.allowing(1), "guess": guess},
        on_iteration=on_iteration,
        checkpoint=checkpoint,
    )


@compiled
def _solved(problem: Problem, solver: Solver, guess: Guess) -> Solution:
    return with_sensitivities(_searched, problem, solver, guess)


def _searched(problem: Problem, solver: Solver, guess: Guess) -> Solution:
    stages = Stages(problem)
    return solver.search(stages, started(stages, guess))


@compiled
def _begun(problem: Problem, solver: Solver, guess: Guess) -> Search:
    stages = Stages(problem)
    return solver.begin(stages, started(stages, guess))


@compiled
def _iterated(problem: Problem, solver: Solver, search: Search) -> Search:
    return solver.iterate(Stages(problem), search)


@compiled
def _looked_at(problem: Problem, solver: Solver, search: Search) -> tuple[Solution, Bool[Array, ""]]:
    return solver.finish(Stages(problem), search), solver.going_on(search)


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
    nodes = guess.control_nodes
    if nodes is not None:
        rows = len(nodes) if len(nodes) in (steps + 1, 2 * steps + 1) else 2 * steps + 1
        nodes = number(owner, "guess.control_nodes", nodes, (rows, problem.nu), dtype=dtype)
    return Guess(control, states, guess.dt, nodes, guess.multipliers)
