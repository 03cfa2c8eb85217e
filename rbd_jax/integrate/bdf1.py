"""The implicit Euler scheme, the backward-differentiation formula of first order."""

import jax.numpy as jnp

from ._implicit import implicit_stage
from ._scheme import Scheme


class BDF1(Scheme):
    """`q⁺ = q ⊕ h v⁺`, `v⁺ = v + h v̇(t⁺, q⁺, v⁺)`: first order; it damps whatever it does not resolve."""

    fallible = True

    def step(self, system, time, state, memory, dt):
        end, _, code = implicit_stage(system, time + dt, state, jnp.zeros_like(state.v), state.v, dt)
        return end, memory, code
