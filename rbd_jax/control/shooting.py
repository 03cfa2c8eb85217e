"""Multiple shooting with an interior-point method."""

from __future__ import annotations

from typing import Any

from .interior_point import InteriorPoint
from .shots import Shots


class Shooting(InteriorPoint):
    """Multiple shooting with an interior-point method.

    The unknowns are the states and controls of all knots. The step of the problem's scheme from each knot must end at the
    next knot. The initial guess and the iterates may have gaps between the end of a step and the next knot. Arguments are
    those of `InteriorPoint`.

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
