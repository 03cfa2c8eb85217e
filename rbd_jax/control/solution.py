"""What a solver returns: the motion, what it costs, by how much it misses, and a feedback around it."""

from __future__ import annotations

import enum
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int

from ..simulate import State


class Code(enum.IntEnum):
    """How a solver ended. Anything but zero is no solution."""

    #: The conditions of a minimum hold to the tolerance, and so do the constraints.
    CONVERGED = 0
    #: As many iterations as allowed.
    NOT_CONVERGED = 1
    #: No step along the direction of search makes it better, and the conditions do not hold.
    STALLED = 2
    #: The first motion, or its cost, is not finite.
    NOT_FINITE = 3
    #: What is violated cannot be made less: the constraints contradict each other, or a goal is out of reach.
    INFEASIBLE = 4
    #: There is no least value: it goes down without end.
    UNBOUNDED = 5


class Solution(eqx.Module):
    """A motion found for a problem.

    - `t`, `q`, `v`: (steps + 1, ...), the first state first; `own` as in a `State`.
    - `control`: what was decided on, (steps, nu).
    - `dt`: the length of the steps.
    - `cost`: what it costs, without the constraints.
    - `code`: a `Code`. `iterations`: how many times the problem was linearized.
    - `violation`: the most by which a constraint or bound is broken, or a step misses the next state.
    - `stationarity`: the most by which the derivative of the Lagrangian by a control or state is not zero, in units of the cost.
    - `gains`: a feedback around it, `u = u_k + K_k (x ⊖ x_k)`: (steps, nu, nx). None of solvers that find none.
    - `costates`: the multipliers of the steps, (steps + 1, nx): the derivative of the remaining cost by the state. None of
      solvers that find none.
    - `control_nodes`: of a collocation, whose controls are not held, those of the knots, and of the middles of the steps too by
      Hermite and Simpson's rule: (steps + 1, nu) or (2 steps + 1, nu), evenly spaced in time. `control` is then the mean.
    - `multipliers`: of constraints and bounds, as the solver has them, for a warm start.
    """

    t: Float[Array, "*batch knots"]
    q: Float[Array, "*batch knots nq"]
    v: Float[Array, "*batch knots nv"]
    control: Float[Array, "*batch steps nu"]
    dt: Float[Array, "*batch"]
    cost: Float[Array, "*batch"]
    code: Int[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    violation: Float[Array, "*batch"]
    stationarity: Float[Array, "*batch"]
    gains: Float[Array, "*batch steps nu nx"] | None
    costates: Float[Array, "*batch knots nx"] | None
    own: Float[Array, "*batch knots own"] | None = None
    control_nodes: Float[Array, "*batch nodes nu"] | None = None
    multipliers: Any = None

    @property
    def states(self) -> State:
        """The states of all knots."""
        return State(self.q, self.v, self.own)
