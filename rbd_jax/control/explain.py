"""A solution in words: how the search ended, and what is violated by how much and where."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .._arguments import instance
from .._compile import compiled
from ._stages import Point, Stages
from .problem import Problem
from .requirements import requirements_of
from .solution import Code, Solution


#: So many violations are told of, the worst first.
TOLD = 5

_ENDED = {
    Code.CONVERGED: "converged",
    Code.NOT_CONVERGED: "not converged, as many iterations were made as are allowed",
    Code.STALLED: "stalled, no step makes it better and it is no minimum",
    Code.NOT_FINITE: "not finite, neither is the first motion, its cost or their derivatives",
    Code.INFEASIBLE: "infeasible, what is violated cannot be made less",
    Code.UNBOUNDED: "unbounded, the cost goes down without end",
}


def explain(problem: Problem, solution: Solution, tolerance: float | None = None) -> str:
    """How a search ended, in words: the code, the cost, and which constraints and bounds are violated, by how much and where.

    - `tolerance`: violations that are no larger are not told; by default 1e-6, in float32 1e-4.

    >>> model = rbd.load("arm7")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(7), jnp.zeros(7)),
    ...     steps=10,
    ...     dt=0.05,
    ...     running=[1e-4 * rbd.control.Velocity(), 1e-6 * rbd.control.Effort()],
    ...     constraints=[rbd.control.Constraint(rbd.control.Position("tool", jnp.array([2.0, 0.0, 0.5])), at="end")],
    ... )
    >>> print(rbd.control.explain(problem, rbd.control.solve(problem)))
    """
    owner = "control.explain"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "what control.solve returns")
    if np.ndim(solution.code):
        raise ValueError(f"{owner}: solution is a batch of {np.size(solution.code)}; explain one of them")
    code = Code(int(solution.code))
    first = f"{_ENDED[code]}: {int(solution.iterations)} iterations, a cost of {float(solution.cost):.6g}"
    if code == Code.STALLED:
        first += f", derivatives of up to {float(solution.stationarity):.2g} are left"
    if not np.isfinite(np.asarray(solution.q)).all() or not np.isfinite(np.asarray(solution.cost)):
        return f"{first}\n- {_where_not_finite(solution)}"
    allowed = max(1e-6, float(jnp.finfo(solution.q.dtype).eps) ** 0.5 / 3) if tolerance is None else tolerance
    *rows, missed = (np.asarray(x, float) for x in _looked_at(problem, solution))
    found = [one for one in requirements_of(problem, solution, *rows) if not one.violation <= allowed]
    broken = [f"{one.name}: {one.worst()}" for one in sorted(found, key=lambda one: -one.violation)]
    far = np.abs(missed).max(axis=1, initial=0)
    if solution.control_nodes is None and not far.max() <= allowed:
        broken.append(f"the step from knot {np.argmax(far)} misses the next state by up to {far.max():.3g}")
    more = [f"and {len(broken) - TOLD} more"] if len(broken) > TOLD else []
    return "\n".join([first, *(f"- {line}" for line in (*broken[:TOLD], *more))])


def _where_not_finite(solution: Solution) -> str:
    finite = [np.isfinite(np.asarray(x)).all(axis=1) for x in (solution.q, solution.v)]
    finite = np.logical_and(*finite)
    if finite.all():
        return "the motion is finite, what is asked of it is not"
    knot = int(np.argmin(finite))
    return (
        f"the motion is not finite from {float(solution.t[knot]):.4g} s (knot {knot}) on: begin with controls under which it "
        "stays near, or take shorter steps"
    )


@compiled
def _looked_at(problem: Problem, solution: Solution):
    """Constraints at all knots, numbers of the states that have bounds, bounds of constraints, and what the steps miss."""
    stages = Stages(problem)
    dt = jnp.broadcast_to(solution.dt, (stages.steps + 1,)).astype(stages.dtype)
    points = Point(solution.states, dt)

    def at(index, point, control, after):
        gap = stages.difference(stages.advance(index, point, control), after)
        return stages.constrained(index, point, control), stages.state_values(point), gap

    given = stages.before(points), solution.control, stages.after(points)
    rows, values, gaps = stages.over_stages(at, *given)
    last = stages.last(points)
    end = stages.constrained(jnp.int32(stages.steps), last, None)
    lower, upper, _ = stages.constraint_bounds()
    values = jnp.concatenate([values, stages.state_values(last)[None]])
    return jnp.concatenate([rows, end[None]]), values, lower, upper, gaps
