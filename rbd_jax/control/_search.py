"""Search for a configuration at which targets and constraints vanish, by damped Gauss-Newton steps from many starts."""

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


#: A start is abandoned after this number of consecutive steps that each reduce the cost by less than this share.
SLOW_STEPS, SLOW = 5, 0.05
#: Least damping, relative to the current cost. It vanishes with the cost: the last steps are Gauss-Newton's (Sugihara 2011).
DAMPING = 0.1


class Lane(NamedTuple):
    """One of the parallel searches, which processes starts in sequence.

    - `local`, `value`: the best iterate of the current start, and its cost. `step`: the step to the next trial.
    - `damping`.
    - `steps`, `slow`: of the current start, the number of steps, and of consecutive steps with little progress.
    - `start`: the current start.
    - `best`, `least`, `best_start`: the best result of abandoned starts, its cost, and its start.
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
    """The first solution, or the best configuration without one, with its start, and whether all rows vanish there."""

    q: Float[Array, "nq"]
    start: Int[Array, ""]
    reached: Bool[Array, ""]
    iterations: Int[Array, ""]


class Search(NamedTuple):
    """The parameters of a search.

    - `at`: returns the linearization at `q ⊕ step`. `rows`: its rows.
    - `tolerance`: values up to this size count as zero.
    - `draw`: returns the configuration of a start, given its number.
    - `starts`, `max_steps`: maximum numbers of starts, and of steps of each.
    """

    at: At
    rows: Rows
    tolerance: Float[Array, ""]
    draw: Callable[[Int[Array, ""]], Float[Array, "nq"]]
    starts: int
    max_steps: int

    def run(self, still: Float[Array, "nv"], at_once: int) -> Found:
        """Returns the first solution, with `at_once` searches in parallel."""

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
        """Evaluates one trial: the end of a step, or another start."""
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
        """Returns the step to the next trial."""
        off, jacobian = apart(local), local.jacobian
        counts = (off != 0) | (local.low == local.high)
        weight = jnp.where(counts, local.weight, 0)[self.searched]
        off, jacobian = off[self.searched], jacobian[self.searched]
        slope = vecmat(weight * off, jacobian)
        # A sum of products stays within the loop; a matrix product is a call out of it on a CPU.
        curvature = jnp.sum(jacobian[:, :, None] * (weight[:, None] * jacobian)[:, None, :], axis=0)
        largest = jnp.max(jnp.diagonal(curvature))
        least = 10 * jnp.finfo(slope.dtype).eps * jnp.where(largest > 0, largest, 1)
        shift = jnp.maximum(damping * jnp.minimum(value, largest), least)
        damped = curvature + shift * jnp.eye(len(slope), dtype=slope.dtype)
        return bounded_minimum(damped, slope, local.least, local.most)

    @property
    def searched(self) -> slice:
        """The rows of targets and constraints, which must vanish."""
        return slice(0, self.rows.constraints.stop)

    def cost(self, local: Local) -> Float[Array, ""]:
        """Returns half the weighted sum of squares; infinite if it is not finite."""
        cost = 0.5 * jnp.sum((local.weight * apart(local) ** 2)[self.searched])
        return jnp.where(jnp.isfinite(cost), cost, jnp.inf)

    def within(self, local: Local) -> Bool[Array, ""]:
        """Returns whether all rows vanish."""
        small = (jnp.abs(apart(local)) <= self.tolerance) | (local.weight == 0)
        return jnp.all(small[self.searched])
