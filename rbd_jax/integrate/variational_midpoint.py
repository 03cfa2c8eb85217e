"""The midpoint variational scheme in generalized coordinates."""

import jax
import jax.numpy as jnp

from ._variational import Variational


class VariationalMidpoint(Variational):
    """`L_d = h L(q ⊕ ξ/2, ξ/h)`, forces at the midpoint: second order, symplectic for every model."""

    def missing(self, system, time, q0, q1, v, dt, momentum):
        half = dt / 2 * v
        q = system.move(q0, half)
        by_q, by_v = self._slopes(system, time, q, v, dt)
        # The midpoint lies as far behind the end as before it: its share comes from there, and so does the start's.
        places, steps = jnp.stack([q1, q]), jnp.stack([-2 * half, -half])
        start, middle = jax.vmap(system.chart_velocity_transposed)(places, steps, jnp.stack([momentum, by_q]))
        return by_v - dt / 2 * middle - start

    def end_momentum(self, system, time, q0, q1, v, dt):
        half = dt / 2 * v
        by_q, by_v = self._slopes(system, time, system.move(q0, half), v, dt)
        by_rate = by_v + dt / 2 * system.chart_velocity_transposed(q0, half, by_q)
        return system.chart_rate_transposed(q0, 2 * half, by_rate)

    def _slopes(self, system, time, q, v, dt):
        """`∂L/∂q` with the forces, and `∂L/∂v`."""
        middle = time + dt / 2
        by_q, by_v = system.slopes(middle, q, v)
        return by_q + system.force(middle, q, v), by_v
