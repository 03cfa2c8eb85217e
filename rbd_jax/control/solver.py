"""What a solver of problems of optimal control is, and where it begins."""

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
    """Where a search begins.

    - `control`: (steps, nu), by default zero.
    - `states`: a `State` with steps + 1 rows, which need not follow on each other; by default where the controls lead.
    - `dt`: where that is free.
    - `control_nodes`: for a collocation, as a `Solution` has them.
    - `multipliers`: a solver's own, of an earlier solution.

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
        """The motion of a solution."""
        return Guess(
            solution.control, solution.states, solution.dt, solution.control_nodes, solution.multipliers
        )


class Start(eqx.Module):
    """A guess in full: the first point, controls of all steps, and points of all knots where these were given."""

    first: Point
    control: Float[Array, "steps nu"]
    points: Point | None
    nodes: Float[Array, "nodes nu"] | None = None
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

    >>> print(isinstance(rbd.control.DDP(max_iterations=10), rbd.control.Solver), rbd.control.DDP().max_iterations)
    True 500
    """

    max_iterations: eqx.AbstractVar[int]

    def refuse(self, problem: Problem) -> None:
        """An error for problems that it does not solve, before anything is compiled."""

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

    def transcribed(self, stages: Stages) -> Transcription:
        """The program whose conditions of a minimum its solutions fulfil."""
        return Shots(stages)

    def allowing(self, iterations: int) -> Solver:
        """The same method with so many iterations at most."""
        return replace(self, max_iterations=iterations)

    def search(self, stages: Stages, start: Start) -> Solution:
        """All iterations; under `jit` and `vmap`."""
        return self.searched(stages, self.begin(stages, start))

    def searched(self, stages: Stages, search: Search) -> Solution:
        """All iterations from where a search is."""
        return self.finish(
            stages,
            lax.while_loop(lambda now: self.going_on(now), lambda now: self.iterate(stages, now), search),
        )


def started(stages: Stages, guess: Guess) -> Start:
    """A guess in full."""
    control = jnp.zeros((stages.steps, stages.nu), stages.dtype) if guess.control is None else guess.control
    # Where it is not free the problem says it, whatever it was in the solution that the guess is of.
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
