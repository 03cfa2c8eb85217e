"""The semi-implicit (symplectic) Euler scheme."""

from ..model import integrate
from ._scheme import Scheme, State


class SemiImplicitEuler(Scheme):
    """`v⁺ = v + h v̇(t, q, v)`, then `q⁺ = q ⊕ h v⁺`: first order, one evaluation.

    Symplectic, and so without drift of energy, where the mass matrix is constant: slides, a single hinge. Otherwise the
    velocity-product forces enter at the start of the step and the energy drifts at first order in h; a free body
    that spins and falls fast gains of the order `½ m (ω v h)²` a step.
    """

    def step(self, model, acceleration, time, state, dt):
        v = state.v + dt * acceleration(time, state)
        return State(integrate(model, state.q, dt * v), v)
