"""What a solution is worth, whoever found it: what it costs and by what, what it keeps to, and whether it is a minimum."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import instance
from .optimality import FOLLOWS, MANY, Optimality, optimality_at
from .problem import Problem
from .requirements import DURATION, Requirement, broken_by, judged
from .solution import Solution


class Share(NamedTuple):
    """What one of the costs comes to.

    - `name`: where it is in the problem, and what it is of.
    """

    name: str
    value: float


class Appraisal(NamedTuple):
    """What `appraise` found.

    - `costs`: what each cost comes to.
    - `requirements`: constraints and bounds, each with its numbers.
    - `missed`: the most that a step misses the next state: of the problem's scheme, or of the rule of a collocation.
    - `optimality`: None of a collocation, where states do not follow from the controls, or of more than 3000 controls.

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
        """What is broken by more than a tolerance, each in words, the worst first."""
        return tuple(broken_by(self.requirements, tolerance))


def appraise(problem: Problem, solution: Solution) -> Appraisal:
    """What a solution costs and by what, what it keeps to, and whether it is a minimum; whatever found it.

    It takes the second derivatives of all stages and a matrix of all controls, in double precision on the host.

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
