"""What a solution is worth, whoever found it: what it costs and by what, what it keeps to, and whether it is a minimum."""

from __future__ import annotations

from typing import NamedTuple

from .._arguments import instance
from .optimality import FOLLOWS, MANY, About, Optimality, about, optimality_at
from .problem import Problem
from .requirements import Requirement, name_of
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
    - `missed`: the most that a step of the problem's scheme misses the next state.
    - `optimality`: None where states do not follow from the controls, or there are more than 3000 of these.
    """

    costs: tuple[Share, ...]
    requirements: tuple[Requirement, ...]
    missed: float
    optimality: Optimality | None

    def broken(self, tolerance: float) -> tuple[str, ...]:
        """What is broken by more than a tolerance, each in words."""
        return tuple(
            f"{one.name}: {one.worst()}" for one in self.requirements if not one.violation <= tolerance
        )


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
    local = about(problem, solution)
    requirements, missed, found = local.requirements(problem, solution), local.missed_most, None
    if local.finite and missed <= FOLLOWS and solution.control.size <= MANY:
        found = optimality_at(problem, solution, local, requirements)
    return Appraisal(_costs(problem, local), requirements, missed, found)


def _costs(problem: Problem, local: About) -> tuple[Share, ...]:
    named = [f"running[{i}]: {name_of(one)}" for i, one in enumerate(problem.running)]
    shares = list(zip([*named, "duration_cost"], local.running))
    if not float(problem.duration_cost):
        shares.pop()
    shares += [
        (f"terminal[{i}]: {name_of(one)}", value)
        for i, (one, value) in enumerate(zip(problem.terminal, local.terminal))
    ]
    return tuple(Share(name, float(value)) for name, value in shares)
