"""The implicit Euler scheme, the backward-differentiation formula of first order."""

import jax.numpy as jnp

from ._implicit import implicit_stage
from .scheme import Scheme


class BDF1(Scheme):
    """The scheme `q⁺ = q ⊕ h v⁺`, `v⁺ = v + h v̇(t⁺, q⁺, v⁺)`: first order; it damps all motion that it does not resolve.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.BDF1())
    >>> print(path.q[-1], int(path.code))
    [-0.476] 0
    """

    fallible = True
    closes_loops = True
    stiff = True

    def step(self, here, memory, dt):
        state = here.state
        still = jnp.zeros_like(state.v)
        end, _, code = implicit_stage(here.system, here.time + dt, state, still, state.v, state.internal, dt)
        return end, memory, code
