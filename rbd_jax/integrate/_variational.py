"""Schemes from a discrete Lagrangian (Marsden & West 2001): what they share.

`L_d(q0, q1)` approximates the action over a step. The discrete Euler–Lagrange equations in momentum form, with the impulses
of non-conservative forces and of the loops' multipliers at both ends, are

    p0 + F0 + G0ᵀ λ = -D1 L_d(q0, q1),    g(q1) = 0,        p1 = D2 L_d(q0, q1) + F1.

Derivatives are on the tangent space, `q ⊕ ε`. With `q1 = q0 ⊕ ξ` they are `dexp⁻¹` transposed, once for each end:
`δξ = dexp_ξ⁻¹ δq1 - dexp_{-ξ}⁻¹ δq0`. The first equation is solved times `dexp_{-ξ}ᵀ`, which leaves no inverse in it. Such a
scheme is symplectic, keeps the momenta that belong to symmetries of L_d to round-off, and its energy stays in a band.
"""

from __future__ import annotations

import abc

from jaxtyping import Array, Float

from ._implicit import solve_motion
from ._scheme import Scheme
from ._system import State, System


class Variational(Scheme):
    """A scheme given by the slopes of its discrete Lagrangian, for `q1 = q0 ⊕ h v`."""

    fallible = True

    @abc.abstractmethod
    def missing(self, system: System, time, q0, q1, v, dt, momentum) -> Float[Array, "nv"]:
        """`dexp_{-ξ}ᵀ (-D1 L_d - F0 - momentum)`: zero where the step starts with the momentum."""

    @abc.abstractmethod
    def end_momentum(self, system: System, time, q0, q1, v, dt) -> Float[Array, "nv"]:
        """`D2 L_d + F1`."""

    def step(self, system, time, state, memory, dt):
        before = system.momentum(time, state.q, state.v)

        def equations(v, multipliers):
            end = system.move(state.q, dt * v)
            momentum = before + dt * system.constraint_force(time, state.q, multipliers)
            missing = self.missing(system, time, state.q, end, v, dt, momentum)
            return missing / dt, system.constraint_residual(time + dt, end) / dt

        mean, _, code = solve_motion(system, equations, state.v)
        end = system.move(state.q, dt * mean)
        after = self.end_momentum(system, time, state.q, end, mean, dt)
        v = system.admissible(time + dt, end, system.velocity(time + dt, end, after))
        return State(end, v), memory, code
