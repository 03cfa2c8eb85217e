"""The semi-implicit (symplectic) Euler scheme."""

from ..model import integrate
from ._scheme import Scheme, State


class SemiImplicitEuler(Scheme):
    """`v⁺ = v + h v̇(t, q, v)`, then `q⁺ = q ⊕ h v⁺`: first order, one evaluation, and no drift of energy in the long run."""

    def step(self, model, acceleration, time, state, dt):
        v = state.v + dt * acceleration(time, state)
        return State(integrate(model, state.q, dt * v), v)
