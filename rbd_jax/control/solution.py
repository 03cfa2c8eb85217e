"""The result of a solver: the motion, its cost and violations, and a feedback around it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.array import matvec
from .._core.text import can_be_shown
from ..optimize.outcome import Code
from ..simulate.control import Controls
from ..simulate.state import State
from ..simulate.system import System
from ..simulate.trajectory import Trajectory
from .problem import Problem


class Solution(eqx.Module):
    """A solution of a problem: a motion.

    - `t`, `q`, `v`: (steps + 1, ...), starting with the initial state; `own` as in a `State`.
    - `control`: the decision variables of all steps, (steps, nu).
    - `dt`: the length of the steps.
    - `cost`: the cost, without penalties of constraints.
    - `code`: a `Code`, which `control.explain` describes in words. `iterations`: the number of steps of the search.
    - `violation`: the largest violation of a constraint or bound, or defect of a step.
    - `stationarity`: the largest derivative of the Lagrangian by a control or state, in units of the cost.
    - `gains`: a feedback around the motion, `u = u_k + K_k (x ⊖ x_k)`: (steps, nu, nx). None for solvers that do not compute
      it.
    - `costates`: the multipliers of the steps, (steps + 1, nx): the derivative of the remaining cost by the state. None for
      solvers that do not compute them.
    - `control_nodes`: for a collocation, the controls of the knots and, by the Hermite-Simpson rule, of the middles of the
      steps: (steps + 1, nu) or (2 steps + 1, nu), evenly spaced in time. `control` is then their mean over each step.
    - `multipliers`: of constraints and bounds, in the form of the solver, for a warm start.

    >>> problem = rbd.control.Problem(
    ...     rbd.load("pendulum"),
    ...     rbd.State(jnp.array([0.5]), jnp.zeros(1)),
    ...     steps=50,
    ...     dt=0.02,
    ...     running=[1e-2 * rbd.control.Effort()],
    ...     terminal=[10.0 * rbd.control.Posture(jnp.array([1.0])), rbd.control.Velocity()],
    ... )
    >>> solution = rbd.control.solve(problem)
    >>> print(solution.q.shape, solution.control.shape, rbd.control.Code(int(solution.code)).name)
    (51, 1) (50, 1) CONVERGED
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

    def __repr__(self) -> str:
        return _described(self) if can_be_shown(self) else super().__repr__()

    @property
    def states(self) -> State:
        """The states of all knots."""
        return State(self.q, self.v, self.own)

    def trajectory(self, problem: Problem) -> Trajectory:
        """Returns the motion as a trajectory of `rbd.rollout`, for drawing, interpolation, and evaluation of forces.

        >>> model = rbd.load("pendulum")
        >>> start = rbd.State(jnp.zeros(1), jnp.zeros(1))
        >>> problem = rbd.control.Problem(model, start, steps=10, dt=0.02, running=[rbd.control.Effort()])
        >>> rbd.control.solve(problem).trajectory(problem).q.shape
        (11, 1)
        """
        told = jax.vmap(problem.told)(self.control)
        u = told.u if told.u.shape[-1] else None
        return Trajectory(self.t, self.q, self.v, told.tau, own=self.own, u=u)

    def policy(self, problem: Problem) -> Feedback:
        """Returns a feedback `(t, state) -> control` that follows the motion, as a policy of `rbd.rollout`.

        In the step that begins at `t` the control is `u_k + K_k (x ⊖ x_k)` of the knot k at that time, within the bounds of
        the control; without gains, `u_k`. After the end the feedback of the last step continues.

        >>> model = rbd.load("pendulum")
        >>> problem = rbd.control.Problem(
        ...     model,
        ...     rbd.State(jnp.zeros(1), jnp.zeros(1)),
        ...     steps=50,
        ...     dt=0.02,
        ...     running=[1e-2 * rbd.control.Effort()],
        ...     terminal=[10.0 * rbd.control.Posture(jnp.array([1.0])), rbd.control.Velocity()],
        ... )
        >>> solution = rbd.control.solve(problem)
        >>> pushed = rbd.State(jnp.array([0.1]), jnp.zeros(1))
        >>> path = rbd.rollout(model, pushed, solution.policy(problem), dt=0.02, steps=50)
        >>> path.q.shape
        (51, 1)
        """
        return Feedback(problem, self)


class Feedback(eqx.Module):
    """The feedback around a solution, see `Solution.policy`."""

    problem: Problem
    solution: Solution

    def __call__(self, t: Float[Array, ""], state: State) -> Controls | Float[Array, "nv"]:
        """Returns the model's control for the step that begins at a time in a state."""
        problem, solution = self.problem, self.solution
        dtype = solution.control.dtype
        # The margin covers rounding errors of times of knots.
        place = jnp.floor((jnp.asarray(t, dtype) - solution.t[0]) / solution.dt + 1e-3)
        knot = jnp.clip(place, 0, len(solution.control) - 1).astype(jnp.int32)
        u = solution.control[knot]
        if solution.gains is not None:
            there = jax.tree.map(lambda x: x[knot], solution.states)
            change = _change(problem.begin.system, there, state)
            gain = solution.gains[knot][:, : change.size]
            u = u + matvec(gain, change.astype(dtype))
        if problem.bounds.control is not None:
            lower, upper = (jnp.asarray(side, dtype) for side in problem.bounds.control)
            u = jnp.clip(u, lower, upper)
        told = problem.told(u)
        return Controls(told.u) if problem.told_actuators else told.tau


def _change(system: System, start: State, end: State) -> Float[Array, "nx"]:
    """Returns the change from one state to another."""
    parts = system.difference(start.q, end.q), end.v - start.v, end.internal - start.internal
    return jnp.concatenate(parts)


def _described(solution: Solution) -> str:
    """Returns a description of the result, the cost, and the final state; for a batch, the number of each code."""
    code, cost = np.asarray(solution.code), np.asarray(solution.cost)
    counts, t = np.asarray(solution.iterations), np.asarray(solution.t)
    steps, batch = solution.control.shape[-2], code.shape
    name = lambda kind: Code(kind).name if kind in set(Code) else f"code {kind}"
    span = f"{steps} steps from t = {t[..., 0].min():.4g} to {t[..., -1].max():.4g}"
    numbers = f"violation {np.max(solution.violation):.2g}, stationarity {np.max(solution.stationarity):.2g}"
    if not batch:
        lines = [
            f"Solution: {name(int(code))} after {counts} iterations, {span}",
            f"cost {cost:.6g}, {numbers}",
        ]
        return "\n   ".join([*lines, f"final {jax.tree.map(lambda x: x[-1], solution.states)!r}"])
    lines = [f"Solution: {' x '.join(map(str, batch))} problems of {span}"]
    for kind in np.unique(code):
        which = code == kind
        lines.append(f"{which.sum()} {name(int(kind))} after up to {counts[which].max()} iterations")
    return "\n   ".join([*lines, f"cost {cost.min():.6g} to {cost.max():.6g}, {numbers} at most"])
