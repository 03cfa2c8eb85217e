"""The search for a configuration in which targets and constraints all vanish: damped Gauss–Newton steps from many starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.array import vecmat
from ..optimize.bounded import bounded_minimum
from ._configurations import At, Local, Rows, apart, empty


#: A start is given up after so many steps in succession that gain less than this share.
SLOW_STEPS, SLOW = 5, 0.05
#: The least damping, of the present cost. It vanishes with that, and the last steps are Gauss and Newton's (Sugihara 2011).
DAMPING = 0.1


class Lane(NamedTuple):
    """One of the searches that go on side by side, from one start after the other.

    - `local`, `value`: the best of the present start, and what it costs; `step`: where to look next.
    - `damping`; `steps`, `slow`: of the present start, how many there were, and how many in succession that gained little.
    - `start`: the present one; `best`, `least`, `best_start`: of those given up.
    """

    local: Local
    value: Float[Array, ""]
    step: Float[Array, "nv"]
    damping: Float[Array, ""]
    steps: Int[Array, ""]
    slow: Int[Array, ""]
    start: Int[Array, ""]
    reached: Bool[Array, ""]
    best: Float[Array, "nq"]
    least: Float[Array, ""]
    best_start: Int[Array, ""]


class Found(NamedTuple):
    """The configuration found first, or the best that there was; from which start, and whether all vanishes there."""

    q: Float[Array, "nq"]
    start: Int[Array, ""]
    reached: Bool[Array, ""]
    iterations: Int[Array, ""]


class Search(NamedTuple):
    """How to search.

    - `at`: what is known at `q ⊕ step`; `rows`: whose its rows are.
    - `tolerance`: what counts as zero.
    - `draw`: where a start is, by its number; `starts`, `max_steps`: how many there are, and steps of each.
    """

    at: At
    rows: Rows
    tolerance: Float[Array, ""]
    draw: Callable[[Int[Array, ""]], Float[Array, "nq"]]
    starts: int
    max_steps: int

    def run(self, still: Float[Array, "nv"], at_once: int) -> Found:
        """The first success, so many searches going on at once."""

        def begin(start):
            here, endless, none = self.draw(start), jnp.asarray(jnp.inf, still.dtype), jnp.int32(0)
            local, damping = empty(self.at, here, still), jnp.asarray(DAMPING, still.dtype)
            return Lane(
                local, endless, still, damping, none, none, start, jnp.asarray(False), here, endless, start
            )

        def going_on(carry):
            return ~jnp.any(carry[0].reached) & jnp.any(carry[0].start < self.starts)

        begun, advance = begin(jnp.int32(0)), lambda lane: self.advance(lane, at_once)
        if at_once > 1:
            begun, advance = jax.vmap(begin)(jnp.arange(at_once, dtype=jnp.int32)), jax.vmap(advance)
        step = lambda carry: (advance(carry[0]), carry[1] + at_once)
        lanes, iterations = lax.while_loop(going_on, step, (begun, jnp.int32(0)))
        if at_once > 1:
            place = jnp.where(jnp.any(lanes.reached), jnp.argmax(lanes.reached), jnp.argmin(lanes.least))
            lanes = jax.tree.map(lambda x: x[place], lanes)
        return Found(
            jnp.where(lanes.reached, lanes.local.q, lanes.best),
            jnp.where(lanes.reached, lanes.start, lanes.best_start),
            lanes.reached,
            iterations,
        )

    def advance(self, lane: Lane, stride: int) -> Lane:
        """One more look: at the end of a step, or at another start."""
        trial = self.at(lane.local.q, lane.step)
        after = self.cost(trial)
        better = after < lane.value
        local = jax.tree.map(lambda new, old: jnp.where(better, new, old), trial, lane.local)
        value = jnp.where(better, after, lane.value)
        steps = lane.steps + 1
        slow = jnp.where(value < (1 - SLOW) * lane.value, 0, lane.slow + 1)
        reached = self.within(local)
        over = ~reached & ((slow >= SLOW_STEPS) | (steps >= self.max_steps))
        record = over & (value < lane.least)
        start = jnp.where(over, lane.start + stride, lane.start)
        q = lax.cond(over, lambda: self.draw(start), lambda: local.q)
        damping = jnp.where(better, jnp.maximum(lane.damping / 5, DAMPING), 4 * lane.damping)
        return Lane(
            local._replace(q=q),
            jnp.where(over, jnp.inf, value),
            jnp.where(over, 0, self.step(local, value, damping)),
            jnp.where(over, DAMPING, damping),
            jnp.where(over, 0, steps),
            jnp.where(over, 0, slow),
            start,
            reached,
            jnp.where(record, local.q, lane.best),
            jnp.where(record, value, lane.least),
            jnp.where(record, lane.start, lane.best_start),
        )

    def step(self, local: Local, value: Float[Array, ""], damping: Float[Array, ""]) -> Float[Array, "nv"]:
        """Where to look next."""
        off, jacobian = apart(local), local.jacobian
        counts = (off != 0) | (local.low == local.high)
        weight = jnp.where(counts, local.weight, 0)[self.searched]
        off, jacobian = off[self.searched], jacobian[self.searched]
        slope = vecmat(weight * off, jacobian)
        # A sum of products in place of a product of matrices, which on a CPU is a call out of the loop.
        curvature = jnp.sum(jacobian[:, :, None] * (weight[:, None] * jacobian)[:, None, :], axis=0)
        largest = jnp.max(jnp.diagonal(curvature))
        least = 10 * jnp.finfo(slope.dtype).eps * jnp.where(largest > 0, largest, 1)
        shift = jnp.maximum(damping * jnp.minimum(value, largest), least)
        damped = curvature + shift * jnp.eye(len(slope), dtype=slope.dtype)
        return bounded_minimum(damped, slope, local.least, local.most)

    @property
    def searched(self) -> slice:
        """The rows that are to vanish: those of targets and constraints."""
        return slice(0, self.rows.constraints.stop)

    def cost(self, local: Local) -> Float[Array, ""]:
        """Half the sum of squares; infinite where it is none."""
        cost = 0.5 * jnp.sum((local.weight * apart(local) ** 2)[self.searched])
        return jnp.where(jnp.isfinite(cost), cost, jnp.inf)

    def within(self, local: Local) -> Bool[Array, ""]:
        """Whether all vanishes."""
        small = (jnp.abs(apart(local)) <= self.tolerance) | (local.weight == 0)
        return jnp.all(small[self.searched])
