"""Multiple shooting by an interior-point method."""

from __future__ import annotations

from typing import Any

from .interior_point import InteriorPoint
from .shots import Shots


class Shooting(InteriorPoint):
    """Multiple shooting by an interior-point method.

    States and controls of all knots are unknowns. The step from each knot is that of the problem's scheme, and must end at the
    next one: the search may begin with states that do not follow on each other, and passes through such. Arguments are those of
    `InteriorPoint`.

    >>> model = rbd.load("pendulum")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.zeros(1), jnp.zeros(1)),
    ...     steps=20,
    ...     dt=0.05,
    ...     running=[0.1 * rbd.control.Effort()],
    ...     constraints=[rbd.control.Constraint(rbd.control.Posture(jnp.array([1.0])), at="end")],
    ... )
    >>> solution = rbd.control.solve(problem, rbd.control.Shooting())
    >>> print(solution.q[-1], solution.code)
    [1.] 0
    """

    def __init__(self, **options: Any):
        super().__init__(**options)

    def transcribed(self, stages):
        return Shots(stages)
