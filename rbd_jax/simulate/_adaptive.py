"""The loop of schemes with adaptive steps: pairs of explicit Runge–Kutta schemes of Munthe-Kaas.

Within each interval of a rollout, the scheme makes as many steps as the tolerances require; the last step ends at the end of
the interval. Every step uses the chart at its own start, so it stays far from the border of the chart.

Plain control flow searches for the steps, and only the accepted ones are differentiated. They are replayed with lengths that are
constant shares of the interval. Rejected steps and the step size controller have no effect on derivatives.
"""

from __future__ import annotations

import abc
import functools
from typing import NamedTuple

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, Float

from .._core.array import is_known
from .._core.derivatives import custom_jvp
from ._explicit import Displacement, advanced, combined, stage_rates, table
from .result import Result
from .scheme import Scheme
from .state import State
from .system import System


#: Safety factor of the step size, and the bounds of its change from one step to the next.
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0

#: Exponents of the controller for the present and the previous error, times the order (Söderlind 2002).
PRESENT, BEFORE = 0.7, 0.4


def tolerance(name: str, value) -> float:
    """Returns a tolerance as a plain number; it is chosen with the scheme, before tracing."""
    if not is_known(value):
        raise ValueError(
            f"{name} of an adaptive scheme is traced, like an argument of jax.jit; it must be a plain number"
        )
    number = np.asarray(value)
    if number.shape != () or number.dtype.kind not in "fiu" or not 0 <= number < np.inf:
        raise ValueError(
            f"{name} of an adaptive scheme is {value!r}; it must be a finite number, zero or more"
        )
    return float(number)


class Pair(NamedTuple):
    """A Runge–Kutta scheme of order `order`, with the weights of the rates that estimate its error."""

    stages: tuple[Displacement, ...]
    end: Displacement
    error: Displacement
    order: int

    def step(self, system: System, time, state: State, dt) -> tuple[State, Float[Array, "errors"]]:
        """Returns the state after a step, and the estimated error of configuration, velocity and internal states of forces."""

        def rate(displacement, v):
            return system.chart_rate(state.q, displacement, v)

        rates, _ = stage_rates(system, time, state, dt, self.stages, rate)
        end, error = table((self.end, self.error), len(rates[0]))
        (off,), *missed = combined(error, rates, dt)
        return advanced(system, state, end, rates, dt), jnp.concatenate([off, *missed])


class AdaptiveScheme(Scheme):
    """A scheme that keeps the root mean square of the estimated error of each step within tolerances.

    The tolerance is `atol + rtol` for configurations, in radians and meters, and `atol + rtol |x|` for velocities and internal
    states of forces. Both numbers must be nonnegative, and not both zero.
    """

    rtol: eqx.AbstractVar[float]
    atol: eqx.AbstractVar[float]
    max_steps: eqx.AbstractVar[int]

    fallible = True

    def __check_init__(self):
        name = type(self).__name__
        if not isinstance(self.max_steps, int) or self.max_steps < 1:
            raise ValueError(f"{name}: max_steps is {self.max_steps!r}; it must be a positive integer")
        if self.rtol == self.atol == 0:
            raise ValueError(
                f"{name}: rtol and atol are both zero, which no step can satisfy; give one of them"
            )

    @property
    @abc.abstractmethod
    def pair(self) -> Pair:
        """The scheme and its error estimate."""

    def init(self, system, time, state, dt):
        """Returns the share of the interval to try first, and the error of the previous step in units of the tolerance."""
        return jnp.ones_like(dt), jnp.ones_like(dt)

    def step(self, here, memory, dt):
        system, time, state = here.system, here.time, here.state

        # Arrays in the model and the forces become arguments, so that derivatives by them exist.
        def trial(state, time, dt):
            return self.pair.step(system, time, state, dt)

        trial, constants = jax.closure_convert(trial, state, time, dt)

        def attempt(state, time, dt, constants, start, share):
            return trial(state, time + start * dt, share * dt, *constants)

        @custom_jvp
        def interval(memory, *arguments):
            return self._search(attempt, memory, *arguments)[:3]

        @interval.defjvp
        def replayed(primals, tangents):
            end, memory, code, steps, count = self._search(attempt, *primals)

            def replay(*arguments):
                return _replay(attempt, steps, count, self.max_steps, *arguments)

            change = jax.jvp(replay, primals[1:], tangents[1:])[1]
            return (end, memory, code), (change, *jax.tree.map(zero_from_primal, (memory, code)))

        return interval(memory, state, time, dt, constants)

    def within(self, system, time, state, new, dt, share):
        """Returns the state at a share of the interval by integration, because an interval may contain many steps."""
        part = share * dt
        there, _, _ = self.step(system.evaluate(time, state), self.init(system, time, state, part), part)
        return system.settled(time + part, there)

    def _search(self, attempt, memory, state, time, dt, constants):
        """Searches for the steps of an interval.

        Returns:
          The state at the end of the interval, the memory, a code, the starts and shares of the accepted steps, and their number.
        """
        order = self.pair.order
        too_small = jnp.finfo(dt.dtype).eps * (1 + jnp.abs(time / dt))

        def improve(carry):
            state, (share, error_before), start, (starts, shares), count, tried = carry
            last = start + share >= 1
            taken = jnp.where(last, 1 - start, share)
            new, estimate = attempt(state, time, dt, constants, start, taken)
            error = self._scaled(estimate, state, new)
            accepted = error <= 1
            history = jnp.where(accepted, error_before ** (BEFORE / order), 1)
            factor = jnp.clip(
                SAFETY * error ** (-PRESENT / order) * history, SHRINK, jnp.where(accepted, GROW, SAFETY)
            )
            proposed = taken * factor
            # A step shortened by the end of the interval does not reduce the next step size.
            proposed = jnp.where(accepted & last, jnp.maximum(proposed, share), proposed)
            # The next step overwrites a rejected one.
            place = functools.partial(lax.dynamic_update_index_in_dim, index=count, axis=0)
            steps = place(starts, start), place(shares, taken)
            state = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, state)
            start = jnp.where(accepted, jnp.where(last, 1, start + taken), start)
            error_before = jnp.where(accepted, jnp.maximum(error, 1e-4), error_before)
            memory = jnp.minimum(proposed, 1), error_before
            return state, memory, start, steps, count + accepted.astype(count.dtype), tried + 1

        def going_on(carry):
            _, (share, _), start, _, _, tried = carry
            return (start < 1) & (share > too_small) & (tried < self.max_steps)

        none = jnp.zeros(self.max_steps, dt.dtype)
        begin = (state, memory, jnp.zeros_like(dt), (none, none), jnp.int32(0), jnp.int32(0))
        state, memory, start, steps, count, _ = lax.while_loop(going_on, improve, begin)
        stuck = jnp.where(memory[0] > too_small, Result.TOO_MANY_STEPS, Result.STEP_TOO_SMALL)
        code = jnp.where(start < 1, stuck, Result.SUCCESS).astype(jnp.int32)
        return state, memory, code, steps, count

    def _scaled(self, estimate, before: State, after: State):
        """Returns the error in units of the tolerance; infinite if it is not finite."""
        sizes = [
            jnp.maximum(jnp.abs(a), jnp.abs(b))
            for a, b in ((before.v, after.v), (before.internal, after.internal))
        ]
        allowed = self.atol + self.rtol * jnp.concatenate([jnp.ones_like(before.v), *sizes])
        # A model without degrees of freedom has zero error.
        error = jnp.sqrt(jnp.sum((estimate / allowed) ** 2) / max(estimate.size, 1))
        return jnp.where(jnp.isfinite(error), error, jnp.inf)


def _replay(attempt, steps, count, max_steps: int, state, time, dt, constants):
    """Returns the state after the recorded steps, in a loop that supports reverse-mode differentiation."""
    starts, shares = steps

    @jax.checkpoint
    def advance(carry):
        state, number = carry
        return attempt(state, time, dt, constants, starts[number], shares[number])[0], number + 1

    begin = (state, jnp.zeros_like(count))
    return eqxi.while_loop(
        lambda carry: carry[1] < count, advance, begin, max_steps=max_steps, kind="bounded"
    )[0]
