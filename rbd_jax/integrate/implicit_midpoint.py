"""The implicit midpoint rule on the manifold."""

from ._implicit import solve_motion
from ._scheme import Scheme
from ._system import State


class ImplicitMidpoint(Scheme):
    """The equations of motion at `q ⊕ ξ/2` with the velocity `ξ/h = (v + v⁺)/2`, and `q⁺ = q ⊕ ξ`: second order.

    Symmetric in time. Symplectic where the mass matrix is constant; for the symplectic rule of any model see
    `VariationalMidpoint`.
    """

    fallible = True

    def step(self, system, time, state, memory, dt):
        middle = time + dt / 2

        def equations(v, multipliers):
            q = system.move(state.q, dt / 2 * v)
            missing = system.residual(middle, q, v, 2 * (v - state.v) / dt)
            end = system.move(state.q, dt * v)
            return (
                missing - system.constraint_force(middle, q, multipliers),
                system.constraint_residual(time + dt, end) / dt,
            )

        v, _, code = solve_motion(system, equations, state.v)
        end = system.move(state.q, dt * v)
        return State(end, system.admissible(time + dt, end, 2 * v - state.v)), memory, code
