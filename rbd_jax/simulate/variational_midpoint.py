"""The midpoint variational scheme in generalized coordinates."""

import jax
import jax.numpy as jnp

from ._variational import Variational
from .state import State
from .step_data import StepData


class VariationalMidpoint(Variational):
    """The scheme `L_d = h L(q ⊕ ξ/2, ξ/h)`, with the forces at the midpoint: second order, symplectic for every model.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.VariationalMidpoint())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    def missing(self, start, end, dt, momentum):
        half, middle = dt / 2 * start.v, self._middle(start, end, dt)
        by_q, by_v = self._gradients(middle)
        # The start and the midpoint lie at -ξ and -ξ/2 from the end and the midpoint: both terms use transposed charts there.
        places, steps = jnp.stack([end.q, middle.q]), jnp.stack([-2 * half, -half])
        carried = jax.vmap(start.system.chart_velocity_transposed)
        first, second = carried(places, steps, jnp.stack([momentum, by_q]))
        return by_v - dt / 2 * second - first, middle.own_rate()

    def end_momentum(self, start, end, dt):
        system, half = start.system, dt / 2 * start.v
        by_q, by_v = self._gradients(self._middle(start, end, dt))
        by_rate = by_v + dt / 2 * system.chart_velocity_transposed(start.q, half, by_q)
        return system.chart_rate_transposed(start.q, 2 * half, by_rate)

    def _middle(self, start: StepData, end: State, dt) -> StepData:
        moved = start.system.move(start.q, dt / 2 * start.v)
        own = (start.state.internal + end.internal) / 2
        return start.system.evaluate(start.time + dt / 2, State(moved, start.v, own)).prepared()

    def _gradients(self, middle: StepData):
        """Returns `∂L/∂q` with the forces, and `∂L/∂v`."""
        by_q, by_v = middle.lagrangian_gradients()
        return by_q + middle.force(), by_v
