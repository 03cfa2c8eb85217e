"""Constraints and bounds on states as rows of an augmented Lagrangian.

The rows of a knot are those of the constraints, whose Jacobians are dense, and then the numbers of the state that are bounded,
whose Jacobian is a part of the unit matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import is_known, matmul, transpose, vecmat
from ._stages import Stages


#: Penalties grow by a factor where a row was not brought nearer by a share, up to a most.
GROWTH, NEARER, MOST = 10.0, 0.25, 1e10


class Held(NamedTuple):
    """Multipliers and penalties of all rows, and how far each was from being held when they were last changed."""

    multipliers: Float[Array, "knots rows"]
    penalties: Float[Array, "knots rows"]
    error: Float[Array, "knots rows"]


class Rows:
    """The rows of a problem."""

    def __init__(self, stages: Stages):
        self.stages, self.dtype = stages, stages.dtype
        lower, upper, equal = stages.constraint_bounds()
        self.dense = lower.shape[1]
        self.columns = self._bounded(stages)
        low, high = (side[self.columns] for side in stages.state_bounds())
        free = jnp.full((1, len(self.columns)), jnp.inf, self.dtype)
        below = lambda side, missing: jnp.concatenate(
            [missing, jnp.broadcast_to(side, (stages.steps, len(side)))]
        )
        self.lower = jnp.concatenate([lower, below(low, -free)], axis=1)
        self.upper = jnp.concatenate([upper, below(high, free)], axis=1)
        self.equal = np.concatenate([equal, np.zeros(len(self.columns), bool)])
        self.count = self.dense + len(self.columns)

    @staticmethod
    def _bounded(stages: Stages) -> np.ndarray:
        """Which numbers of a state are bounded: the length of the steps is not among them."""
        bounds = stages.problem.bounds
        if bounds.q is None and bounds.v is None:
            return np.zeros(0, int)
        known = is_known((bounds.q, bounds.v))
        sides = stages.state_bounds()
        size = 2 * stages.nv
        if not known:
            given = [np.full(stages.nv, pair is not None) for pair in (bounds.q, bounds.v)]
            return np.flatnonzero(np.concatenate(given))
        with jax.ensure_compile_time_eval():
            finite = np.isfinite(np.asarray(sides[0])) | np.isfinite(np.asarray(sides[1]))
        return np.flatnonzero(finite[:size])

    # What they are.

    def at(self, index, point, control) -> Float[Array, "rows"]:
        """The values of the rows at a knot."""
        values = self.stages.state_values(point)[self.columns]
        return jnp.concatenate([self.stages.constrained(index, point, control), values])

    def jacobians(self, points, control):
        """How the dense rows of all knots change with points and controls."""
        stages = self.stages
        nothing = jnp.zeros(stages.nx, self.dtype)
        if not self.dense:
            empty = jnp.zeros((stages.steps + 1, 0, stages.nx), self.dtype)
            return empty, jnp.zeros((stages.steps, 0, stages.nu), self.dtype)

        def by_both(index, point, control):
            ask = lambda change, control: stages.constrained(index, stages.move(point, change), control)
            return jax.jacfwd(ask, argnums=(0, 1))(nothing, control)

        by_x, by_u = stages.over_stages(by_both, stages.before(points), control)
        last = stages.last(points)
        end = lambda change: stages.constrained(jnp.int32(stages.steps), stages.move(last, change), None)
        return jnp.concatenate([by_x, jax.jacfwd(end)(nothing)[None]]), by_u

    # Their costs.

    def _beyond(self, values):
        """By how much values are beyond their bounds; not a number only where they are none."""
        return values - jnp.clip(values, self.lower, self.upper)

    def _open(self):
        return jnp.isfinite(self.lower) | jnp.isfinite(self.upper)

    def pressing(self, rows, held: Held) -> Float[Array, "knots rows"]:
        """The multipliers as the penalties estimate them."""
        return held.penalties * self._beyond(rows + held.multipliers / held.penalties)

    def cost(self, rows, held: Held) -> Float[Array, ""]:
        """What the rows cost."""
        if not self.count:
            return jnp.zeros((), self.dtype)
        beyond = self._beyond(rows + held.multipliers / held.penalties)
        return jnp.sum(0.5 * held.penalties * beyond**2)

    def violation(self, rows) -> Float[Array, ""]:
        """The most that a row is beyond its bounds."""
        return jnp.max(jnp.abs(self._beyond(rows)), initial=0)

    def _errors(self, rows, held: Held):
        """How far rows are from being held, and their multipliers from right: as far as the next change of multipliers says."""
        change = jnp.abs(self.pressing(rows, held) - held.multipliers) / held.penalties
        return jnp.maximum(change, jnp.abs(self._beyond(rows)))

    def error(self, rows, held: Held) -> Float[Array, ""]:
        """The most of what is missing, of the rows and of what multipliers say."""
        return jnp.max(self._errors(rows, held), initial=0)

    def added(self, local, rows, held: Held):
        """The costs of a motion to second order, with those of the rows."""
        running, terminal = local.running, local.terminal
        if not self.count:
            return running, terminal
        pressing = self.pressing(rows, held)
        acting = (pressing != 0) | (self.equal[None] & self._open())
        weight = jnp.where(acting, held.penalties, 0)
        dense, n = self.dense, self.stages.nx
        # Of what is bounded of a state, in the places of all its numbers.
        own_slope = jnp.zeros((len(rows), n), self.dtype).at[:, self.columns].set(pressing[:, dense:])
        own_weight = jnp.zeros((len(rows), n), self.dtype).at[:, self.columns].set(weight[:, dense:])
        x = own_slope + vecmat(pressing[:, :dense], local.rows_x)
        weighted = weight[:, :dense, None] * local.rows_x
        xx = (
            matmul(transpose(local.rows_x), weighted)
            + own_weight[:, :, None] * jnp.eye(n, dtype=self.dtype)[None]
        )
        u = vecmat(pressing[:-1, :dense], local.rows_u)
        uu = matmul(transpose(local.rows_u), weight[:-1, :dense, None] * local.rows_u)
        ux = matmul(transpose(local.rows_u), weighted[:-1])
        running = running._replace(
            x=running.x + x[:-1],
            xx=running.xx + xx[:-1],
            u=running.u + u,
            uu=running.uu + uu,
            ux=running.ux + ux,
        )
        return running, terminal._replace(x=terminal.x + x[-1], xx=terminal.xx + xx[-1])

    # Multipliers.

    def begin(self, given: Any) -> Held:
        """Before anything is known."""
        shape = self.stages.steps + 1, self.count
        zeros, unknown = jnp.zeros(shape, self.dtype), jnp.full(shape, -1, self.dtype)
        if isinstance(given, Held) and given.multipliers.shape == shape:
            return given
        return Held(zeros, unknown, zeros + jnp.inf)

    def started(self, held: Held, now) -> Held:
        """With penalties, where none were given: the violation weighs ten times what the cost does."""
        size = 0.5 * jnp.sum(self._beyond(now.rows) ** 2)
        penalty = 10 * jnp.maximum(jnp.abs(now.cost), 1e-3) / jnp.maximum(size, 1e-3)
        penalty = jnp.clip(penalty, 1e-3, 1e4)
        return held._replace(penalties=jnp.where(held.penalties > 0, held.penalties, penalty))

    def updated(self, rows, held: Held, allowed) -> Held:
        """With the multipliers as estimated, and more penalty where that does not help."""
        errors = self._errors(rows, held)
        slow = (errors > NEARER * held.error) & (errors > allowed)
        penalties = jnp.where(slow, jnp.minimum(held.penalties * GROWTH, MOST), held.penalties)
        return Held(self.pressing(rows, held), penalties, errors)

    def hopeless(self, rows, held: Held, allowed):
        """Whether what is violated is not lessened by the largest penalties."""
        beyond = jnp.abs(self._beyond(rows)) > allowed
        return jnp.any(beyond & (held.penalties >= MOST) & (self._errors(rows, held) > NEARER * held.error))

    def final(self, rows, held: Held) -> Held | None:
        """For a warm start."""
        return held._replace(multipliers=self.pressing(rows, held)) if self.count else None
