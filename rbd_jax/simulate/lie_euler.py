"""The explicit Euler scheme on the manifold."""

from .scheme import SUCCESS, Scheme
from .state import State


class LieEuler(Scheme):
    """`q⁺ = q ⊕ h v`, `v⁺ = v + h v̇(t, q, v)`: first order, one evaluation. Oscillations grow; see `SemiImplicitEuler`."""

    def step(self, system, time, state, memory, dt):
        v = state.v + dt * system.acceleration(time, state)
        own = state.internal + dt * system.own_rate(time, state)
        return State(system.move(state.q, dt * state.v), v, own), memory, SUCCESS
