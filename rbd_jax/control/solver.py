"""The protocol of solvers of optimal control, and their initial guesses."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..simulate.state import State
from ._stages import Point, Stages
from .problem import Problem
from .shots import Shots
from .solution import Solution
from .transcription import Transcription


class Guess(eqx.Module):
    """The initial guess of a search.

    - `control`: (steps, nu), by default zero.
    - `states`: a `State` with steps + 1 rows, which may have gaps between the end of a step and the next row. By default the
      states that follow from the controls.
    - `dt`: the length of the steps, if the duration is free.
    - `control_nodes`: for a collocation, as in a `Solution`.
    - `multipliers`: of an earlier solution, in the form of the solver.

    >>> guess = rbd.control.Guess(control=jnp.zeros((50, 1)))
    >>> print(guess.control.shape, guess.states)
    (50, 1) None
    """

    control: Float[Array, "steps nu"] | None = None
    states: State | None = None
    dt: Float[Array, ""] | None = None
    control_nodes: Float[Array, "nodes nu"] | None = None
    multipliers: Any = None

    @staticmethod
    def of(solution: Solution) -> Guess:
        """Returns the motion of a solution."""
        return Guess(
            solution.control, solution.states, solution.dt, solution.control_nodes, solution.multipliers
        )


class Start(eqx.Module):
    """A complete guess: the first point, the controls of all steps, and the points of all knots if given."""

    first: Point
    control: Float[Array, "steps nu"]
    points: Point | None
    nodes: Float[Array, "nodes nu"] | None = None
    multipliers: Any = None

    def motion(self, stages: Stages) -> Point:
        """Returns the points; if they are not given, those that follow from the controls."""
        return stages.rolled_out(self.first, self.control) if self.points is None else self.points


#: The state of a search between iterations: a PyTree of arrays with a fixed structure. It determines the rest of the search,
#: so an interrupted search can resume.
Search: TypeAlias = Any


class Solver(eqx.Module):
    """A method for problems of optimal control, as a sequence of iterations that can be interrupted after each.

    A subclass defines the four abstract methods; `search` is common to all.

    - `max_iterations`: maximum number of iterations.

    >>> print(isinstance(rbd.control.DDP(max_iterations=10), rbd.control.Solver), rbd.control.DDP().max_iterations)
    True 500
    """

    max_iterations: eqx.AbstractVar[int]

    def refuse(self, problem: Problem) -> None:
        """Raises an error for problems that the method cannot solve, before compilation."""

    @abc.abstractmethod
    def begin(self, stages: Stages, start: Start) -> Search:
        """Returns the state before the first iteration."""

    @abc.abstractmethod
    def going_on(self, search: Search) -> Bool[Array, ""]:
        """Returns whether another iteration is necessary."""

    @abc.abstractmethod
    def iterate(self, stages: Stages, search: Search) -> Search:
        """Returns the state after another iteration."""

    @abc.abstractmethod
    def finish(self, stages: Stages, search: Search) -> Solution:
        """Returns the current solution, with a code."""

    def transcribed(self, stages: Stages) -> Transcription:
        """Returns the program whose optimality conditions its solutions satisfy."""
        return Shots(stages)

    def allowing(self, iterations: int) -> Solver:
        """Returns the same method with another maximum number of iterations."""
        return replace(self, max_iterations=iterations)

    def search(self, stages: Stages, start: Start) -> Solution:
        """Runs all iterations, also under `jit` and `vmap`."""
        return self.searched(stages, self.begin(stages, start))

    def searched(self, stages: Stages, search: Search) -> Solution:
        """Runs all remaining iterations from a state."""
        return self.finish(
            stages,
            lax.while_loop(lambda now: self.going_on(now), lambda now: self.iterate(stages, now), search),
        )


def started(stages: Stages, guess: Guess) -> Start:
    """Returns a complete guess."""
    control = jnp.zeros((stages.steps, stages.nu), stages.dtype) if guess.control is None else guess.control
    # If the duration is not free, the problem determines dt, and not the solution that the guess comes from.
    dt = guess.dt if stages.free else None
    first = stages.first if dt is None else stages.first._replace(dt=dt.astype(stages.dtype))
    if guess.states is None:
        return Start(first, control, None, guess.control_nodes, guess.multipliers)
    given = guess.states
    own = first.state.internal
    rows = State(
        given.q,
        given.v,
        jnp.broadcast_to(own, (stages.steps + 1, own.size)) if given.own is None else given.own,
    )
    rows = jax.tree.map(lambda one, many: many.astype(one.dtype).at[0].set(one), first.state, rows)
    points = Point(rows, jnp.broadcast_to(first.dt, (stages.steps + 1,)))
    return Start(first, control, points, guess.control_nodes, guess.multipliers)
