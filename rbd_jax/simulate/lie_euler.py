"""The explicit Euler scheme on the manifold."""

from .scheme import SUCCESS, Scheme
from .state import State


class LieEuler(Scheme):
    """`q⁺ = q ⊕ h v`, `v⁺ = v + h v̇(t, q, v)`: first order, one evaluation. Oscillations grow; see `SemiImplicitEuler`.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.LieEuler())
    >>> print(path.q[-1])
    [-0.524]
    """

    def step(self, system, time, state, memory, dt):
        v = state.v + dt * system.acceleration(time, state)
        own = state.internal + dt * system.own_rate(time, state)
        return State(system.move(state.q, dt * state.v), v, own), memory, SUCCESS
