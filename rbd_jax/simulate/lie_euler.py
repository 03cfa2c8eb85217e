"""The explicit Euler scheme on the manifold."""

from .scheme import Scheme, code_of
from .state import State


class LieEuler(Scheme):
    """The scheme `q⁺ = q ⊕ h v`, `v⁺ = v + h v̇(t, q, v)`: first order, one evaluation.

    Oscillations grow; see `SemiImplicitEuler`.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.LieEuler())
    >>> print(path.q[-1])
    [-0.524]
    """

    def step(self, here, memory, dt):
        a, rate, unsolved = here.accelerated()
        moved = State(here.system.move(here.q, dt * here.v), here.v + dt * a, here.state.internal + dt * rate)
        return moved, memory, code_of(unsolved)
