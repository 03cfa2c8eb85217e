"""The function that solves a problem with a solver."""

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
    """Returns the motion of least cost, as computed by a solver.

    Outside of `jit` the function compiles once for each structure of the problem. Without `on_iteration` and `checkpoint` it
    is a single compiled program, and works under `jax.jit` and `jax.vmap`. With either of them it needs the host between
    iterations.

    Args:
      problem: The problem.
      solver: By default `DDP()`.
      guess: Start of the search: a `Guess`, or an earlier `Solution` of a problem of the same size; by default zero
        controls.
      on_iteration: Callback after each iteration, with the number of iterations, the cost, and the violation of constraints.
        After resuming from a checkpoint, it is first called for the earlier iterations.
      checkpoint: File for saving and resuming the search, with a bitwise identical result: see `rbd.Checkpoint`. With a
        larger iteration limit, a completed search continues.

    Returns:
      A `Solution`. Check its `code`.

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
            f"{owner}: on_iteration and checkpoint need a host between the iterations, which jax.jit, jax.vmap and jax.grad do "
            "not provide. Omit them."
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
    """Returns a checked guess for a problem, from a guess or an earlier solution."""
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
