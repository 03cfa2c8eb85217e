"""Solving a problem: what a solver is, where it begins, and the one function that calls it."""

from __future__ import annotations

import abc
import os
from dataclasses import replace
from typing import Any, Self, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .._arguments import instance, number
from .._array import is_known
from .._compile import compiled
from ..checkpoints import Checkpoint
from ..simulate import State
from ._stages import Point, Stages
from .problem import Problem
from .solution import Solution
from .stepwise import OnIteration, stepwise


class Guess(eqx.Module):
    """Where a search begins.

    - `control`: (steps, nu), by default zero.
    - `states`: a `State` with steps + 1 rows, which need not follow on each other; by default where the controls lead.
    - `multipliers`: a solver's own, of an earlier solution.
    """

    control: Float[Array, "steps nu"] | None = None
    states: State | None = None
    dt: Float[Array, ""] | None = None
    multipliers: Any = None

    @staticmethod
    def of(solution: Solution) -> Guess:
        """The motion of a solution."""
        return Guess(solution.control, solution.states, solution.dt, solution.multipliers)


class Start(eqx.Module):
    """A guess in full: the first point, controls of all steps, and points of all knots where these were given."""

    first: Point
    control: Float[Array, "steps nu"]
    points: Point | None
    multipliers: Any = None

    def motion(self, stages: Stages) -> Point:
        """The points: where they were not given, those that the controls lead to."""
        return stages.rolled_out(self.first, self.control) if self.points is None else self.points


#: What a search hands from iteration to iteration: a PyTree of arrays, always of the same structure. All that the rest of the
#: search depends on is in it, so that one that was interrupted goes on as if it had not been.
Search: TypeAlias = Any


class Solver(eqx.Module):
    """A method for problems of optimal control, as a sequence of iterations that can be interrupted after each.

    A subclass has the four methods below; `search` is the same for all.

    - `max_iterations`: how many iterations it makes at most.
    """

    max_iterations: eqx.AbstractVar[int]

    @abc.abstractmethod
    def begin(self, stages: Stages, start: Start) -> Search:
        """Before the first iteration."""

    @abc.abstractmethod
    def going_on(self, search: Search) -> Bool[Array, ""]:
        """Whether there is another iteration to make."""

    @abc.abstractmethod
    def iterate(self, stages: Stages, search: Search) -> Search:
        """One iteration."""

    @abc.abstractmethod
    def finish(self, stages: Stages, search: Search) -> Solution:
        """What was found so far, with a code: the solution, if there is nothing more to do."""

    def allowing(self, iterations: int) -> Self:
        """The same method with so many iterations at most."""
        return replace(self, max_iterations=iterations)

    def search(self, stages: Stages, start: Start) -> Solution:
        """All iterations; under `jit` and `vmap`."""
        end = lax.while_loop(
            self.going_on, lambda search: self.iterate(stages, search), self.begin(stages, start)
        )
        return self.finish(stages, end)


def solve(
    problem: Problem,
    solver: Solver | None = None,
    guess: Guess | Solution | None = None,
    *,
    on_iteration: OnIteration | None = None,
    checkpoint: Checkpoint | str | os.PathLike | None = None,
) -> Solution:
    """The motion of least cost.

    - `solver`: by default `control.DDP()`.
    - `guess`: where the search begins, or an earlier solution.
    - `on_iteration`: called after each iteration with how many there were, the cost, and by how much constraints are broken.
    - `checkpoint`: a file to save to on the way and to go on from, with the same result to the last bit: see `rbd.Checkpoint`.
      A solver that allows more iterations than before goes on where it had ended.

    The last two are for a search of its own; with neither of them it is one compiled program, which is part of others under
    `jax.jit` and `jax.vmap`.
    """
    owner = "control.solve"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    if solver is None:
        from .ddp import DDP

        solver = DDP()
    instance(owner, "solver", solver, Solver, "a solver, such as control.DDP()")
    guess = Guess() if guess is None else Guess.of(guess) if isinstance(guess, Solution) else guess
    instance(owner, "guess", guess, Guess, "a control.Guess, or an earlier solution")
    guess = _checked(owner, problem, guess)
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


def started(stages: Stages, guess: Guess) -> Start:
    """A guess in full."""
    control = jnp.zeros((stages.steps, stages.nu), stages.dtype) if guess.control is None else guess.control
    first = stages.first if guess.dt is None else stages.first._replace(dt=guess.dt.astype(stages.dtype))
    if guess.states is None:
        return Start(first, control, None, guess.multipliers)
    given = guess.states
    own = first.state.internal
    rows = State(
        given.q,
        given.v,
        jnp.broadcast_to(own, (stages.steps + 1, own.size)) if given.own is None else given.own,
    )
    rows = jax.tree.map(lambda one, many: many.astype(one.dtype).at[0].set(one), first.state, rows)
    points = Point(rows, jnp.broadcast_to(first.dt, (stages.steps + 1,)))
    return Start(first, control, points, guess.multipliers)


def _checked(owner: str, problem: Problem, guess: Guess) -> Guess:
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
