"""The backward-differentiation formula of second order, in the chart at the current configuration."""

import math

import jax.numpy as jnp

from .._core.failures import first_failure
from ._implicit import implicit_stage
from .scheme import Scheme


#: Coefficient a of the L-stable, diagonally implicit Runge–Kutta scheme of the first step: its stages are at `a h` and `h`.
FIRST = (2 - math.sqrt(2)) / 2


class BDF2(Scheme):
    """The scheme `3/2 ξ⁺ + 1/2 ξ⁻ = h ξ̇⁺` with `q⁺ = q ⊕ ξ⁺` and the previous `q⁻ = q ⊕ ξ⁻`: second order, stiff.

    The velocity v follows the same formula. The first step uses the two-stage singly diagonally implicit Runge–Kutta scheme. Its
    second stage and a step of the formula are the same equations with other constants, which are the memory.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.BDF2())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    fallible = True
    closes_loops = True
    stiff = True

    def init(self, system, time, state, dt):
        """Computes the first stage of the Runge–Kutta step."""
        span = FIRST * dt
        still = jnp.zeros_like(state.v)
        stage, step, code = implicit_stage(system, time + span, state, still, state.v, state.internal, span)
        share = (1 - FIRST) / FIRST
        v, own = (a + share * (b - a) for a, b in ((state.v, stage.v), (state.internal, stage.internal)))
        return share * step, v, own, span, code

    def step(self, here, memory, dt):
        system, state = here.system, here.state
        *constants, earlier = memory
        end, _, code = implicit_stage(system, here.time + dt, state, *constants)
        back = system.difference(end.q, state.q)
        v, own = ((4 * b - a) / 3 for a, b in ((state.v, end.v), (state.internal, end.internal)))
        memory = -back / 3, v, own, 2 * dt / 3, jnp.zeros_like(earlier)
        return end, memory, first_failure(earlier, code)
