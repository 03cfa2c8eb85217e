"""The classical Runge–Kutta scheme on the configuration manifold, after Munthe-Kaas.

Within a step the configuration is `q ⊕ ξ` with ξ in the tangent space at the step's start, where vectors may be added. The
rate of ξ is the velocity seen through the derivative of the chart; that derivative comes from the joint's own
`difference`, so that the order is four for every joint.
"""

import jax
import jax.numpy as jnp
from jax import lax

from ..model import difference, integrate
from ._scheme import Scheme, State


class RungeKutta4(Scheme):
    """Fourth order, four evaluations a step."""

    def step(self, model, acceleration, time, state, dt):
        # Each stage needs the one before it alone, so that one loop over the four compiles the dynamics once.
        def stage(rates, share):
            displacement, v = share * dt * rates[0], state.v + share * dt * rates[1]
            now = State(integrate(model, state.q, displacement), v)

            def chart(step):
                return difference(model, state.q, integrate(model, now.q, step * v))

            zero, one = jnp.zeros((), v.dtype), jnp.ones((), v.dtype)
            rates = jax.jvp(chart, (zero,), (one,))[1], acceleration(time + share * dt, now)
            return rates, rates

        shares = jnp.array([0.0, 0.5, 0.5, 1.0], state.v.dtype)
        weights = jnp.array([1.0, 2.0, 2.0, 1.0], state.v.dtype) / 6
        _, rates = lax.scan(stage, (jnp.zeros_like(state.v),) * 2, shares)
        displacement, change = (dt * jnp.sum(weights[:, None] * rate, axis=0) for rate in rates)
        return State(integrate(model, state.q, displacement), state.v + change)
