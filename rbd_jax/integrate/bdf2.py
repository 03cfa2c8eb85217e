"""The backward-differentiation formula of second order, in the chart at the current configuration."""

import math

import jax.numpy as jnp

from ._implicit import implicit_stage
from ._result import first_failure
from ._scheme import Scheme


#: Of the diagonally implicit Runge–Kutta scheme that makes the first step: stages at `a h` and at `h`, L-stable.
FIRST = (2 - math.sqrt(2)) / 2


class BDF2(Scheme):
    """`3/2 ξ⁺ + 1/2 ξ⁻ = h ξ̇⁺` with `q⁺ = q ⊕ ξ⁺` and the previous `q⁻ = q ⊕ ξ⁻`, and alike for v: second order, stiff.

    The first step is one of the two-stage singly diagonally implicit Runge–Kutta scheme. Its second stage and a step
    of the formula are the same equations with other constants, which are the memory.
    """

    fallible = True

    def init(self, system, time, state, dt):
        """The first stage of the Runge–Kutta step."""
        span = FIRST * dt
        stage, step, code = implicit_stage(system, time + span, state, jnp.zeros_like(state.v), state.v, span)
        share = (1 - FIRST) / FIRST
        return share * step, state.v + share * (stage.v - state.v), span, code

    def step(self, system, time, state, memory, dt):
        displacement, velocity, span, earlier = memory
        end, _, code = implicit_stage(system, time + dt, state, displacement, velocity, span)
        back = system.difference(end.q, state.q)
        memory = -back / 3, (4 * end.v - state.v) / 3, 2 * dt / 3, jnp.zeros_like(earlier)
        return end, memory, first_failure(earlier, code)
