"""The classical Runge–Kutta scheme on the configuration manifold, after Munthe-Kaas.

Within a step the configuration is `q ⊕ ξ` with ξ in the tangent space at the step's start, where vectors may be added. The
rate of ξ is the velocity seen through the derivative of the chart; that derivative comes from the joint's own
`difference`, so that the order is four for every joint.
"""

import jax
import jax.numpy as jnp

from ..model import difference, integrate
from ._scheme import Scheme, State


class RungeKutta4(Scheme):
    """Fourth order, four evaluations a step."""

    def step(self, model, acceleration, time, state, dt):
        def rates(offset, displacement, v):
            q = integrate(model, state.q, displacement)

            def chart(step):
                return difference(model, state.q, integrate(model, q, step * v))

            zero, one = jnp.zeros((), v.dtype), jnp.ones((), v.dtype)
            return jax.jvp(chart, (zero,), (one,))[1], acceleration(time + offset * dt, State(q, v))

        start = jnp.zeros_like(state.v)
        x1, a1 = state.v, acceleration(time, state)
        x2, a2 = rates(0.5, start + dt / 2 * x1, state.v + dt / 2 * a1)
        x3, a3 = rates(0.5, start + dt / 2 * x2, state.v + dt / 2 * a2)
        x4, a4 = rates(1.0, start + dt * x3, state.v + dt * a3)
        displacement = dt / 6 * (x1 + 2 * x2 + 2 * x3 + x4)
        return State(integrate(model, state.q, displacement), state.v + dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4))
