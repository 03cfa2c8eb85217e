"""Constraints and bounds on states as rows of an augmented Lagrangian.

The rows of a knot are those of the constraints that hold there, whose Jacobians are dense, and then the numbers of the state that
are bounded, whose Jacobian is a part of the unit matrix. The end has rows of its own.
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


#: Penalties grow by a factor where a row was not brought nearer by a share, up to a most.
GROWTH, NEARER, MOST = 10.0, 0.25, 1e10
#: A violation that is not lessened by this share so often in a row, while penalties grow, will not be.
LESS, IDLE = 0.9, 6


class Rows(NamedTuple):
    """A number for each row: of all knots where a step begins, and of the end."""

    path: Float[Array, "*steps path"]
    end: Float[Array, "end"]


class Held(NamedTuple):
    """Multipliers and penalties of all rows, and how far each was from being held when they were last changed.

    - `best`: the least violation then so far; `idle`: how often in a row it was not lessened, in spite of more penalty.
    """

    multipliers: Rows
    penalties: Rows
    error: Rows
    best: Float[Array, ""]
    idle: Int[Array, ""]


class Pressed(NamedTuple):
    """What rows add to the cost of one knot: what is expanded of them, see `Held`.

    - `pressing`: the multipliers as the penalties estimate them; `weight`: the penalties of those that act.
    - `jacobian`: of the dense rows.
    """

    pressing: Float[Array, "*steps rows"]
    weight: Float[Array, "*steps rows"]
    jacobian: Float[Array, "*steps dense z"]


class Keeping:
    """What a motion must keep to."""

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

    # What they are.

    def at(self, index, point: Point, control) -> Float[Array, "rows"]:
        """The rows at a knot."""
        knot = self.stages.knot(index, point, control)
        held = self.at_end if control is None else self.on_path
        values = self.stages.state_values(point)[self.columns]
        return jnp.concatenate([jnp.zeros(0, self.dtype), *(one.residual(knot) for one in held), values])

    def jacobian(self, index, point: Point, control) -> Float[Array, "dense z"]:
        """How the dense rows at a knot change with its point and control."""
        held = self.at_end if control is None else self.on_path
        none = jnp.zeros((0, self.stages.nx + (0 if control is None else self.stages.nu)), self.dtype)
        ask = self.expansions.jacobian
        return jnp.concatenate([none, *(ask(one.residual, index, point, control) for one in held)])

    def beyond(self, rows: Rows) -> Rows:
        """By how much rows are beyond their bounds."""
        return jax.tree.map(lambda x, low, high: x - jnp.clip(x, low, high), rows, self.lower, self.upper)

    def violation(self, rows: Rows) -> Float[Array, ""]:
        """The most of that."""
        return most(self.beyond(rows), self.dtype)

    # What they cost.

    def _shifted(self, rows: Rows, held: Held) -> Rows:
        return self.beyond(
            jax.tree.map(lambda x, by, penalty: x + by / penalty, rows, held.multipliers, held.penalties)
        )

    def pressing(self, rows: Rows, held: Held) -> Rows:
        """The multipliers as the penalties estimate them."""
        return jax.tree.map(jnp.multiply, held.penalties, self._shifted(rows, held))

    def cost(self, rows: Rows, held: Held) -> Float[Array, ""]:
        """What the rows cost."""
        each = jax.tree.map(
            lambda penalty, x: jnp.sum(0.5 * penalty * x**2), held.penalties, self._shifted(rows, held)
        )
        return each.path + each.end

    def missed(self, rows: Rows, held: Held) -> Float[Array, ""]:
        """What the penalties of errors come to: what is left for multipliers to do."""
        each = jax.tree.map(
            lambda penalty, x: jnp.sum(0.5 * penalty * x**2), held.penalties, self.errors(rows, held)
        )
        return each.path + each.end

    def pressed(self, rows: Rows, held: Held, jacobians: Rows) -> tuple[Pressed, Pressed]:
        """What they add to the cost, of the knots where a step begins and of the end."""
        pressing = self.pressing(rows, held)

        def weight(push, penalty, low, high, equal):
            there = np.broadcast_to(equal, low.shape) & (jnp.isfinite(low) | jnp.isfinite(high))
            return jnp.where((push != 0) | there, penalty, 0)

        weights = jax.tree.map(weight, pressing, held.penalties, self.lower, self.upper, self.equal)
        return self.pressed_by(pressing, weights, jacobians)

    def pressed_by(self, multipliers: Rows, weights: Rows | None, jacobians: Rows) -> tuple[Pressed, Pressed]:
        """The same of known multipliers and weights, by default none."""
        with_weights = jax.tree.map(jnp.zeros_like, multipliers) if weights is None else weights
        path, end = (Pressed(*parts) for parts in zip(multipliers, with_weights, jacobians, strict=True))
        return path, end

    def slope(self, pressed: Pressed) -> Float[Array, "z"]:
        """What the rows of one knot add to the slope of the cost."""
        dense = len(pressed.jacobian)
        own = self._spread(pressed.pressing[dense:], pressed.jacobian.shape[1])
        return own + vecmat(pressed.pressing[:dense], pressed.jacobian) if dense else own

    def curvature(self, pressed: Pressed) -> Float[Array, "z z"]:
        """What they add to the curvature, of first derivatives."""
        dense, size = pressed.jacobian.shape
        own = self._spread(pressed.weight[dense:], size)
        diagonal = jnp.where(np.eye(size, dtype=bool), own[:, None], 0)
        if not dense:
            return diagonal
        weighted = pressed.weight[:dense, None] * pressed.jacobian
        return diagonal + rowwise(transpose(pressed.jacobian), weighted)

    def _spread(self, values, size: int) -> Float[Array, "z"]:
        """Numbers of what is bounded of a state, in their places among all changes."""
        places = np.full(size, len(self.columns))
        places[self.columns] = np.arange(len(self.columns))
        return jnp.concatenate([values, jnp.zeros(1, self.dtype)])[places]

    # Multipliers.

    def begin(self, given: Any) -> Held:
        """Before anything is known; penalties that are to be found are zero."""
        zeros = jax.tree.map(jnp.zeros_like, self.lower)
        if isinstance(given, Held) and jax.tree.map(jnp.shape, given.multipliers) == jax.tree.map(
            jnp.shape, zeros
        ):
            return given
        far = jnp.asarray(jnp.inf, self.dtype)
        return Held(zeros, zeros, jax.tree.map(lambda x: x + jnp.inf, zeros), far, jnp.int32(0))

    def fits(self, held: Held) -> bool:
        """Whether they are of a problem of the same size."""
        return jax.tree.map(jnp.shape, held.multipliers) == jax.tree.map(jnp.shape, self.lower)

    def started(self, held: Held, rows: Rows, cost, penalty: float | None) -> Held:
        """With penalties, where none were given: the violation then weighs ten times what the cost does."""
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
        """How far rows are from being held, and their multipliers from right: as far as their next change says."""

        def error(push, multiplier, penalty, beyond):
            return jnp.maximum(jnp.abs(push - multiplier) / penalty, jnp.abs(beyond))

        return jax.tree.map(
            error, self.pressing(rows, held), held.multipliers, held.penalties, self.beyond(rows)
        )

    def updated(self, rows: Rows, held: Held, allowed) -> Held:
        """With the multipliers as estimated, and more penalty where that does not help."""
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
        """Whether what is violated is not lessened by ever larger penalties."""
        return held.idle >= IDLE


def most(rows: Rows, dtype) -> Float[Array, ""]:
    """The largest size of a row, zero if there is none."""
    sizes = jax.tree.map(lambda x: jnp.max(jnp.abs(x), initial=0), rows)
    return jnp.maximum(sizes.path, sizes.end).astype(dtype)


def _bounded(stages: Stages) -> np.ndarray:
    """Which numbers of a state are bounded: which of them have a finite bound is not known where the problem is compiled."""
    bounds, nv = stages.problem.bounds, stages.nv
    given = [np.full(nv, pair is not None) for pair in (bounds.q, bounds.v)]
    return np.flatnonzero(np.concatenate(given))
