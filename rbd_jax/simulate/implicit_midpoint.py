"""The implicit midpoint rule on the manifold."""

from ._implicit import solve_motion
from .scheme import Scheme
from .state import State


class ImplicitMidpoint(Scheme):
    """The equations of motion at `q ⊕ ξ/2` with the velocity `ξ/h = (v + v⁺)/2`, and `q⁺ = q ⊕ ξ`: second order.

    The scheme is symmetric in time, and symplectic if the mass matrix is constant. `VariationalMidpoint` is symplectic for any
    model.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.ImplicitMidpoint())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    fallible = True
    closes_loops = True
    stiff = True

    def step(self, here, memory, dt):
        system, state, held = here.system, here.state, here.system.constraint_rows > 0

        def ended(v, own):
            return system.evaluate(here.time + dt, State(system.move(state.q, dt * v), v, own))

        def equations(v, own, multipliers):
            reached = State(system.move(state.q, dt / 2 * v), v, (state.internal + own) / 2)
            middle = system.evaluate(here.time + dt / 2, reached).prepared()
            return (
                middle.residual(2 * (v - state.v) / dt) - middle.constraint_force(multipliers),
                own - state.internal - dt * middle.own_rate(),
                ended(v, own).constraint_gap(dt, middle.constraint_velocity) if held else multipliers,
            )

        (v, own, _), code = solve_motion(equations, (state.v, state.internal), system.constraint_rows)
        end, last = system.move(state.q, dt * v), 2 * v - state.v
        return State(end, ended(v, own).admissible(last) if held else last, own), memory, code
