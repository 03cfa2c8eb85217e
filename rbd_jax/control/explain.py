"""Description of a solution in words: how the search ended, and the violations with their size and place."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .._core.arguments import instance
from ..optimize.outcome import Code
from .problem import Problem
from .requirements import broken_by, judged
from .solution import Solution


#: Maximum number of violations in the text, the largest first.
TOLD = 5

#: Description of each code.
ENDED = {
    Code.CONVERGED: "converged",
    Code.NOT_CONVERGED: "not converged, the iteration limit was reached",
    Code.STALLED: "stalled, no step improves it and it is not a minimum",
    Code.NOT_FINITE: "not finite, the first motion, its cost or their derivatives are not finite",
    Code.INFEASIBLE: (
        "infeasible, the violation cannot be reduced (a goal is out of reach, or requirements contradict each other)"
    ),
    Code.UNBOUNDED: "unbounded, the cost has no lower bound",
}


def explain(problem: Problem, solution: Solution, tolerance: float | None = None) -> str:
    """Describes how a search ended: the code, the cost, and the violated constraints and bounds with their size and place.

    Args:
      problem: The problem.
      solution: A solution of it.
      tolerance: Violations up to this size are omitted; by default 1e-6, in float32 1e-4.

    Returns:
      A text with one line for each violation.

    >>> model = rbd.load("arm7")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(7), jnp.zeros(7)),
    ...     steps=10,
    ...     dt=0.05,
    ...     running=[1e-4 * rbd.control.Velocity(), 1e-6 * rbd.control.Effort()],
    ...     constraints=[rbd.control.Constraint(rbd.control.Position("tool", jnp.array([2.0, 0.0, 0.5])), at="end")],
    ... )
    >>> said = rbd.control.explain(problem, rbd.control.solve(problem))
    """
    owner = "control.explain"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "what control.solve returns")
    if np.ndim(solution.code):
        raise ValueError(f"{owner}: solution is a batch of {np.size(solution.code)}; explain one of them")
    code = Code(int(solution.code))
    first = f"{ENDED[code]}: {int(solution.iterations)} iterations, a cost of {float(solution.cost):.6g}"
    if code == Code.STALLED:
        first += f", derivatives of up to {float(solution.stationarity):.2g} are left"
    if (bad := _where_not_finite(solution)) is not None:
        return f"{first}\n- {bad}"
    allowed = max(1e-6, float(jnp.finfo(solution.q.dtype).eps) ** 0.5 / 3) if tolerance is None else tolerance
    seen = judged(problem, solution)
    bad = [f"{name} is {value:g}" for name, value in seen.costs if not np.isfinite(value)]
    bad += [line for one in seen.requirements for line in one.not_finite]
    broken = bad or broken_by(seen.requirements, allowed)
    if not seen.missed <= allowed:
        broken.append(
            f"the step from knot {np.argmax(seen.misses)} misses the next state by up to {seen.missed:.3g}"
        )
    more = [f"and {len(broken) - TOLD} more"] if len(broken) > TOLD else []
    return "\n".join([first, *(f"- {line}" for line in (*broken[:TOLD], *more))])


def _where_not_finite(solution: Solution) -> str | None:
    """Returns the first time at which a motion is not finite, in words, or None if it is finite."""
    finite = np.isfinite(np.concatenate([solution.q, solution.v], axis=1)).all(axis=1)
    if finite.all():
        return None
    knot = int(np.argmin(finite))
    return (
        f"the motion is not finite from {float(solution.t[knot]):.4g} s (knot {knot}) on: start from controls that keep it "
        "bounded, or use shorter steps"
    )
