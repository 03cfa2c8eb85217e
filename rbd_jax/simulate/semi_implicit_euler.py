"""The semi-implicit (symplectic) Euler scheme."""

from .scheme import SUCCESS, Scheme
from .state import State


class SemiImplicitEuler(Scheme):
    """`v⁺ = v + h v̇(t, q, v)`, then `q⁺ = q ⊕ h v⁺`: first order, one evaluation (Sueda eqs. 1.28, 1.29).

    Symplectic, and so without drift of energy, where the mass matrix is constant: slides, a single hinge. Otherwise the
    velocity-product forces enter at the start of the step and the energy drifts at first order in h; a free body
    that spins and falls fast gains of the order `½ m (ω v h)²` a step.
    """

    def step(self, system, time, state, memory, dt):
        v = state.v + dt * system.acceleration(time, state)
        own = state.internal + dt * system.own_rate(time, state)
        return State(system.move(state.q, dt * v), v, own), memory, SUCCESS
