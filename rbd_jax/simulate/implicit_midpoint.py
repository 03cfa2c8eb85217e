"""The implicit midpoint rule on the manifold."""

from ._implicit import solve_motion
from .scheme import Scheme
from .state import State


class ImplicitMidpoint(Scheme):
    """The equations of motion at `q ⊕ ξ/2` with the velocity `ξ/h = (v + v⁺)/2`, and `q⁺ = q ⊕ ξ`: second order.

    Symmetric in time. Symplectic where the mass matrix is constant; for the symplectic rule of any model see
    `VariationalMidpoint`.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.ImplicitMidpoint())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    fallible = True
    closes_loops = True
    stiff = True

    def step(self, system, time, state, memory, dt):
        middle = time + dt / 2

        def equations(v, own, multipliers):
            here = State(system.move(state.q, dt / 2 * v), v, (state.internal + own) / 2)
            missing = system.residual(middle, here, 2 * (v - state.v) / dt)
            end = system.move(state.q, dt * v)
            return (
                missing - system.constraint_force(middle, here.q, multipliers),
                own - state.internal - dt * system.own_rate(middle, here),
                system.constraint_gap(
                    time + dt, end, dt, lambda: system.constraint_velocity(middle, here.q, v)
                ),
            )

        (v, own, _), code = solve_motion(equations, (state.v, state.internal), system.constraint_rows)
        end = system.move(state.q, dt * v)
        return State(end, system.admissible(time + dt, end, 2 * v - state.v), own), memory, code
