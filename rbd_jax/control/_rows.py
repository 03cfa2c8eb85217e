"""Constraints and bounds on states as rows of an augmented Lagrangian.

The rows of a knot are the constraints that hold there, with dense Jacobians, followed by the bounded entries of the state.
The Jacobian of the latter is a part of the unit matrix. The last knot has separate rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.array import rowwise, transpose, vecmat
from ._expansion import Expansions
from ._stages import Point, Stages


#: A penalty grows by a factor, up to a maximum, if the error of its row did not decrease to a share.
GROWTH, NEARER, MOST = 10.0, 0.25, 1e10
#: The problem is infeasible if the violation does not decrease to this share in this number of consecutive updates.
LESS, IDLE = 0.9, 6


class Rows(NamedTuple):
    """A value for each row: at all knots where a step begins, and at the end."""

    path: Float[Array, "*steps path"]
    end: Float[Array, "end"]


class Held(NamedTuple):
    """Multipliers and penalties of all rows, and the error of each row when these were last changed.

    - `best`: the least violation so far. `idle`: the number of consecutive updates without a smaller violation.
    """

    multipliers: Rows
    penalties: Rows
    error: Rows
    best: Float[Array, ""]
    idle: Int[Array, ""]


class Pressed(NamedTuple):
    """The terms that rows add to the cost of one knot, expanded; see `Held`.

    - `pressing`: the multipliers as the penalties estimate them. `weight`: the penalties of active rows.
    - `jacobian`: of the dense rows.
    """

    pressing: Float[Array, "*steps rows"]
    weight: Float[Array, "*steps rows"]
    jacobian: Float[Array, "*steps dense z"]


class Keeping:
    """The constraints and state bounds of a motion."""

    def __init__(self, stages: Stages, expansions: Expansions):
        self.stages, self.expansions, self.dtype = stages, expansions, stages.dtype
        lower, upper, equal = stages.constraint_bounds()
        ends = np.cumsum([0, *stages.constraint_sizes])
        held = [one.knots(stages.steps) for one in stages.constraints]
        places = lambda at: np.concatenate(
            [
                np.zeros(0, int),
                *(
                    np.arange(a, b)
                    for a, b, there in zip(ends[:-1], ends[1:], held, strict=True)
                    if at(there)
                ),
            ]
        )
        self.on_path = [one for one, there in zip(stages.constraints, held, strict=True) if there[:-1].any()]
        self.at_end = [one for one, there in zip(stages.constraints, held, strict=True) if there[-1]]
        path, end = places(lambda there: there[:-1].any()), places(lambda there: there[-1])
        self.columns = _bounded(stages)
        low, high = (side[self.columns] for side in stages.state_bounds())
        start = jnp.arange(stages.steps)[:, None] == 0  # the first state is given

        def sides(rows, state, open):
            states = jnp.where(start, open, state[None])
            return Rows(
                jnp.concatenate([rows[:-1, path], states], axis=1), jnp.concatenate([rows[-1, end], state])
            )

        self.lower, self.upper = sides(lower, low, -jnp.inf), sides(upper, high, jnp.inf)
        unequal = np.zeros(len(self.columns), bool)
        self.equal = Rows(np.concatenate([equal[path], unequal]), np.concatenate([equal[end], unequal]))  # pyright: ignore[reportArgumentType]
        self.dense = Rows(len(path), len(end))  # pyright: ignore[reportArgumentType]
        self.any = bool(self.lower.path.size or self.lower.end.size)

    # Values.

    def at(self, index, point: Point, control) -> Float[Array, "rows"]:
        """Returns the rows at a knot."""
        knot = self.stages.knot(index, point, control)
        held = self.at_end if control is None else self.on_path
        values = self.stages.state_values(point)[self.columns]
        return jnp.concatenate([jnp.zeros(0, self.dtype), *(one.residual(knot) for one in held), values])

    def jacobian(self, index, point: Point, control) -> Float[Array, "dense z"]:
        """Returns the Jacobian of the dense rows at a knot with respect to its point and control."""
        held = self.at_end if control is None else self.on_path
        none = jnp.zeros((0, self.stages.nx + (0 if control is None else self.stages.nu)), self.dtype)
        ask = self.expansions.jacobian
        return jnp.concatenate([none, *(ask(one.residual, index, point, control) for one in held)])

    def beyond(self, rows: Rows) -> Rows:
        """Returns the violation of the bounds of each row."""
        return jax.tree.map(lambda x, low, high: x - jnp.clip(x, low, high), rows, self.lower, self.upper)

    def violation(self, rows: Rows) -> Float[Array, ""]:
        """Returns the largest violation."""
        return most(self.beyond(rows), self.dtype)

    # Costs.

    def _shifted(self, rows: Rows, held: Held) -> Rows:
        return self.beyond(
            jax.tree.map(lambda x, by, penalty: x + by / penalty, rows, held.multipliers, held.penalties)
        )

    def pressing(self, rows: Rows, held: Held) -> Rows:
        """Returns the multipliers as the penalties estimate them."""
        return jax.tree.map(jnp.multiply, held.penalties, self._shifted(rows, held))

    def cost(self, rows: Rows, held: Held) -> Float[Array, ""]:
        """Returns the cost of the rows."""
        each = jax.tree.map(
            lambda penalty, x: jnp.sum(0.5 * penalty * x**2), held.penalties, self._shifted(rows, held)
        )
        return each.path + each.end

    def missed(self, rows: Rows, held: Held) -> Float[Array, ""]:
        """Returns the penalty of the errors, which an update of multipliers can reduce."""
        each = jax.tree.map(
            lambda penalty, x: jnp.sum(0.5 * penalty * x**2), held.penalties, self.errors(rows, held)
        )
        return each.path + each.end

    def pressed(self, rows: Rows, held: Held, jacobians: Rows) -> tuple[Pressed, Pressed]:
        """Returns the terms that rows add to the cost, at the knots where a step begins and at the end."""
        pressing = self.pressing(rows, held)

        def weight(push, penalty, low, high, equal):
            there = np.broadcast_to(equal, low.shape) & (jnp.isfinite(low) | jnp.isfinite(high))
            return jnp.where((push != 0) | there, penalty, 0)

        weights = jax.tree.map(weight, pressing, held.penalties, self.lower, self.upper, self.equal)
        return self.pressed_by(pressing, weights, jacobians)

    def pressed_by(self, multipliers: Rows, weights: Rows | None, jacobians: Rows) -> tuple[Pressed, Pressed]:
        """Returns the same terms for known multipliers and weights, by default zero weights."""
        with_weights = jax.tree.map(jnp.zeros_like, multipliers) if weights is None else weights
        path, end = (Pressed(*parts) for parts in zip(multipliers, with_weights, jacobians, strict=True))
        return path, end

    def slope(self, pressed: Pressed) -> Float[Array, "z"]:
        """Returns the terms that the rows of one knot add to the slope of the cost."""
        dense = len(pressed.jacobian)
        own = self._spread(pressed.pressing[dense:], pressed.jacobian.shape[1])
        return own + vecmat(pressed.pressing[:dense], pressed.jacobian) if dense else own

    def curvature(self, pressed: Pressed) -> Float[Array, "z z"]:
        """Returns the terms that these rows add to the curvature, from first derivatives."""
        dense, size = pressed.jacobian.shape
        own = self._spread(pressed.weight[dense:], size)
        diagonal = jnp.where(np.eye(size, dtype=bool), own[:, None], 0)
        if not dense:
            return diagonal
        weighted = pressed.weight[:dense, None] * pressed.jacobian
        return diagonal + rowwise(transpose(pressed.jacobian), weighted)

    def _spread(self, values, size: int) -> Float[Array, "z"]:
        """Returns values of the bounded entries of a state at their places among all changes."""
        places = np.full(size, len(self.columns))
        places[self.columns] = np.arange(len(self.columns))
        return jnp.concatenate([values, jnp.zeros(1, self.dtype)])[places]

    # Multipliers.

    def begin(self, given: Any) -> Held:
        """Returns the initial multipliers. A penalty of zero stands for one that `started` determines."""
        zeros = jax.tree.map(jnp.zeros_like, self.lower)
        if isinstance(given, Held) and jax.tree.map(jnp.shape, given.multipliers) == jax.tree.map(
            jnp.shape, zeros
        ):
            return given
        far = jnp.asarray(jnp.inf, self.dtype)
        return Held(zeros, zeros, jax.tree.map(lambda x: x + jnp.inf, zeros), far, jnp.int32(0))

    def fits(self, held: Held) -> bool:
        """Returns whether multipliers are of a problem of the same size."""
        return jax.tree.map(jnp.shape, held.multipliers) == jax.tree.map(jnp.shape, self.lower)

    def started(self, held: Held, rows: Rows, cost, penalty: float | None) -> Held:
        """Sets missing penalties. By default the violation then costs about ten times as much as the motion."""
        if penalty is None:
            squares = jax.tree.map(lambda x: 0.5 * jnp.sum(x**2), self.beyond(rows))
            size = jnp.maximum(squares.path + squares.end, 1e-3)
            start = jnp.clip(10 * jnp.maximum(jnp.abs(cost), 1e-3) / size, 1e-3, 1e4)
        else:
            start = jnp.asarray(penalty, self.dtype)
        return held._replace(
            penalties=jax.tree.map(lambda old: jnp.where(old > 0, old, start), held.penalties)
        )

    def errors(self, rows: Rows, held: Held) -> Rows:
        """Returns the error of each row: the larger of its violation and the next change of its multiplier over its penalty."""

        def error(push, multiplier, penalty, beyond):
            return jnp.maximum(jnp.abs(push - multiplier) / penalty, jnp.abs(beyond))

        return jax.tree.map(
            error, self.pressing(rows, held), held.multipliers, held.penalties, self.beyond(rows)
        )

    def updated(self, rows: Rows, held: Held, allowed) -> Held:
        """Returns the multipliers as estimated, and larger penalties for rows whose error decreases too slowly."""
        errors = self.errors(rows, held)

        def grown(penalty, error, before):
            slow = (error > NEARER * before) & (error > allowed)
            return jnp.where(slow, jnp.minimum(penalty * GROWTH, MOST), penalty)

        penalties = jax.tree.map(grown, held.penalties, errors, held.error)
        violation = self.violation(rows)
        idle = jnp.where(violation > LESS * held.best, held.idle + 1, 0)
        best = jnp.minimum(violation, held.best)
        return Held(self.pressing(rows, held), penalties, errors, best, idle)

    def hopeless(self, held: Held) -> Bool[Array, ""]:
        """Returns whether larger penalties no longer reduce the violation."""
        return held.idle >= IDLE


def most(rows: Rows, dtype) -> Float[Array, ""]:
    """Returns the largest absolute value of a row, or zero without rows."""
    sizes = jax.tree.map(lambda x: jnp.max(jnp.abs(x), initial=0), rows)
    return jnp.maximum(sizes.path, sizes.end).astype(dtype)


def _bounded(stages: Stages) -> np.ndarray:
    """Returns the indices of the entries of a state that have bounds.

    The finiteness of bounds is unknown at compile time, so all entries of a given bound count.
    """
    bounds, nv = stages.problem.bounds, stages.nv
    given = [np.full(nv, pair is not None) for pair in (bounds.q, bounds.v)]
    return np.flatnonzero(np.concatenate(given))
