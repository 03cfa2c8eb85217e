"""The midpoint variational scheme in generalized coordinates."""

import jax
import jax.numpy as jnp

from ._variational import Variational
from .state import State


class VariationalMidpoint(Variational):
    """`L_d = h L(q ⊕ ξ/2, ξ/h)`, forces at the midpoint: second order, symplectic for every model.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.VariationalMidpoint())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    def missing(self, system, time, start, end, dt, momentum):
        half, middle = dt / 2 * start.v, self._middle(system, start, end, dt)
        by_q, by_v = self._gradients(system, time, middle, dt)
        # The midpoint lies as far behind the end as before it: its share comes from there, and so does the start's.
        places, steps = jnp.stack([end.q, middle.q]), jnp.stack([-2 * half, -half])
        first, second = jax.vmap(system.chart_velocity_transposed)(places, steps, jnp.stack([momentum, by_q]))
        return by_v - dt / 2 * second - first

    def end_momentum(self, system, time, start, end, dt):
        half = dt / 2 * start.v
        by_q, by_v = self._gradients(system, time, self._middle(system, start, end, dt), dt)
        by_rate = by_v + dt / 2 * system.chart_velocity_transposed(start.q, half, by_q)
        return system.chart_rate_transposed(start.q, 2 * half, by_rate)

    def own_rate(self, system, time, start, end, dt):
        return system.own_rate(time + dt / 2, self._middle(system, start, end, dt))

    def _middle(self, system, start, end, dt):
        return State(system.move(start.q, dt / 2 * start.v), start.v, (start.internal + end.internal) / 2)

    def _gradients(self, system, time, middle, dt):
        """`∂L/∂q` with the forces, and `∂L/∂v`."""
        now = time + dt / 2
        by_q, by_v = system.lagrangian_gradients(now, middle.q, middle.v)
        return by_q + system.force(now, middle), by_v
