"""Shared parts of schemes from a discrete Lagrangian (Marsden & West 2001).

`L_d(q0, q1)` approximates the action over a step. The discrete Euler–Lagrange equations in momentum form, with the impulses
of non-conservative forces and of the loops' multipliers at both ends, are

    p0 + F0 + G0ᵀ λ = -D1 L_d(q0, q1),    g(q1) = 0,        p1 = D2 L_d(q0, q1) + F1.

Derivatives are on the tangent space, `q ⊕ ε`. With `q1 = q0 ⊕ ξ` they are transposes of `dexp⁻¹`, one for each end:
`δξ = dexp_ξ⁻¹ δq1 - dexp_{-ξ}⁻¹ δq0`. The first equation is multiplied by `dexp_{-ξ}ᵀ`, which removes the inverse. Such a
scheme is symplectic. It conserves the momenta that belong to symmetries of L_d to round-off, and its energy error is bounded.

Constraints on velocities alone become `(A0 v + A1 v)/2 = 0` for the mean velocity, in place of `g(q1) = 0`. Their impulses are
`A0ᵀ λ` at the start, and at the end the impulses that satisfy `A1 v1 = 0`. The scheme stays symmetric in time
(McLachlan & Perlmutter 2006). It is not symplectic then, since nonholonomic motions are not symplectic.
"""

from __future__ import annotations

import abc

from jaxtyping import Array, Float

from ._implicit import solve_motion
from .scheme import Scheme
from .state import State
from .step_data import StepData


class Variational(Scheme):
    """A scheme given by the gradients of its discrete Lagrangian, for `q1 = q0 ⊕ h v`.

    The states at the `start` and the `end` of a step have this mean velocity v.
    """

    fallible = True
    closes_loops = True

    @abc.abstractmethod
    def missing(
        self, start: StepData, end: State, dt, momentum
    ) -> tuple[Float[Array, "nv"], Float[Array, "own"]]:
        """Returns `dexp_{-ξ}ᵀ (-D1 L_d - F0 - momentum)` and the mean rate of the internal states of forces.

        The first result is zero if `momentum` is the momentum at the start of the step.
        """

    @abc.abstractmethod
    def end_momentum(self, start: StepData, end: State, dt) -> Float[Array, "nv"]:
        """Returns `D2 L_d + F1`."""

    def step(self, here, memory, dt):
        system, time, state = here.system, here.time, here.state
        before, here = here.momentum(), here.prepared()

        def ends(v, own) -> tuple[StepData, State]:
            return here.with_velocity(v), State(system.move(state.q, dt * v), v, own)

        def gap(start: StepData, end: State):
            there = system.evaluate(time + dt, end).prepared()
            # Nonholonomic constraints hold for the mean velocity: the gap is the mean of their rates at both ends.
            return there.constraint_gap(
                dt, lambda: (start.constraint_velocity() + there.constraint_velocity()) / 2
            )

        def equations(v, own, multipliers):
            start, end = ends(v, own)
            momentum = before + dt * start.constraint_force(multipliers)
            missing, rate = self.missing(start, end, dt, momentum)
            return (
                missing / dt,
                own - state.internal - dt * rate,
                gap(start, end) if system.constraint_rows else multipliers,
            )

        (mean, own, _), code = solve_motion(equations, (state.v, state.internal), system.constraint_rows)
        start, end = ends(mean, own)
        there = system.evaluate(time + dt, end)
        v = there.admissible(there.velocity(self.end_momentum(start, end, dt)))
        return State(end.q, v, own), memory, code
