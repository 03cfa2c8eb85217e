"""Evaluation of a solution from any solver: its costs, constraints, bounds, and optimality."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import instance
from .optimality import FOLLOWS, MANY, Optimality, optimality_at
from .problem import Problem
from .requirements import DURATION, Requirement, broken_by, judged
from .solution import Solution


class Share(NamedTuple):
    """The value of one cost.

    - `name`: the place of the cost in the problem, and its residual.
    """

    name: str
    value: float


class Appraisal(NamedTuple):
    """The result of `appraise`.

    - `costs`: the value of each cost.
    - `requirements`: constraints and bounds, each with its values.
    - `missed`: the largest defect of a step, under the problem's scheme or the rule of a collocation.
    - `optimality`: None for a collocation, whose states do not follow from the controls, for a motion with larger defects,
      or for more than 3000 controls.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> found = rbd.control.appraise(problem, rbd.control.solve(problem, solver, guess))
    >>> print(isinstance(found, rbd.control.Appraisal), [one.name for one in found.requirements])
    True ['constraints[0] (at the end)', 'constraints[1] (at the end)', 'bounds.control', 'bounds.q']
    """

    costs: tuple[Share, ...]
    requirements: tuple[Requirement, ...]
    missed: float
    optimality: Optimality | None

    def broken(self, tolerance: float) -> tuple[str, ...]:
        """Returns descriptions of violations larger than a tolerance, the largest first."""
        return tuple(broken_by(self.requirements, tolerance))


def appraise(problem: Problem, solution: Solution) -> Appraisal:
    """Evaluates costs, constraints and optimality of a solution from any solver.

    The evaluation computes second derivatives of all stages and a matrix of all controls, in double precision on the host.

    Args:
      problem: The problem.
      solution: A solution of it.

    Returns:
      An `Appraisal`.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> found = rbd.control.appraise(problem, rbd.control.solve(problem, solver, guess))
    >>> found.optimality.minimum, [one.name for one in found.costs]
    (True, ['running[0]: Effort'])
    """
    owner = "control.appraise"
    instance(owner, "problem", problem, Problem, "a control.Problem")
    instance(owner, "solution", solution, Solution, "what control.solve returns")
    seen, found = judged(problem, solution), None
    if (
        seen.finite
        and seen.missed <= FOLLOWS
        and solution.control.size <= MANY
        and solution.control_nodes is None
    ):
        found = optimality_at(problem, solution, seen)
    charged = bool(problem.duration_cost)
    costs = tuple(Share(name, value) for name, value in seen.costs if charged or name != DURATION)
    return Appraisal(costs, seen.requirements, seen.missed, found)
