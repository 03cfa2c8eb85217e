"""Constrained motion by elimination along the mechanism: the articulated-body algorithm with loops (book ch. 7, §8.5, §8.9).

    M a + Gᵀ y = f
    G a - μ y  = k        μ → 0,   λ = -y

The articulated-body algorithm eliminates degrees of freedom from the leaves on, and each step adds an inertia to the parent
body. Here multipliers are unknowns like degrees of freedom. A multiplier enters at the bodies of its constraint. It moves
down the tree with their inertias as an additional row and column, and is eliminated where its loop ends. So the cost of a
loop depends on its own degrees of freedom and on those that it shares with other loops, wherever it is.

Redundant equations have a zero pivot. The elimination uses series in μ with two terms, so these equations need no
special case: a zero pivot becomes one of order μ, and the limit has the multipliers of least norm. Among the rows of a
constraint the row with the largest pivot is eliminated first, relative to the largest possible pivot of each. In a fixed
order, a row that nearly depends on earlier rows would spoil the later ones.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.array import dot, gather, gather_or_zero, matvec, outer, sum_rows, vecmat
from ..dynamics import Motion
from ..dynamics.columns import at_last_column, column_armature, from_columns, to_columns
from ..dynamics.forward import BodyFrames
from ..model import Model
from ..spatial import inertia_shift, moment_shift, motion_shift
from ._factors import Factors, rank_tolerance
from ._order import Order, couplings_of, elimination_order
from .evaluate import matrix_of


#: With at most this number of simultaneously open multipliers, elimination is always considered cheap.
SMALL_FRONT = 24


class EliminationSteps(eqx.Module):
    """The data that every traversal over the steps requires.

    The *front* of a step has the six directions of the body in question, and a slot for each open multiplier.

    - `direction`: The direction of the unknown: the motion of a column of the tree, or one in the slot of an eliminated
      multiplier.
    - `reach`: The vector from the body's parent to the body; zero for a step that eliminates a multiplier.
    - `stays`: 1, except 0 for the slot of an eliminated multiplier, and for the body if its parent is the world.
    """

    direction: Float[Array, "*n front"]
    reach: Float[Array, "*n 3"]
    stays: Float[Array, "*n front"]

    @staticmethod
    def of(model: Model, frames: BodyFrames, order: Order) -> EliminationSteps:
        """Returns the steps before any multiplier is chosen."""
        tree, dtype = model.topology.tree, frames.subspace.dtype
        attached_to_world = ~order.rows & (np.append(tree.parents, 0)[order.columns] < 0)
        slots = np.zeros((order.tree.size, order.width), bool)
        stays = np.concatenate([np.repeat(~attached_to_world[:, None], 6, axis=1), ~slots], axis=1)
        subspace, reach = (_by_step(x, order) for x in (frames.subspace, frames.reach))
        direction = jnp.concatenate([subspace, jnp.asarray(slots, dtype)], axis=1)
        return EliminationSteps(direction, reach, jnp.asarray(stays, dtype))

    def choosing(self, slot: Float[Array, "*n slots"]) -> EliminationSteps:
        """Returns the steps with the multipliers in these slots eliminated."""
        body = jnp.zeros_like(self.direction[..., :6])
        chosen = jnp.concatenate([body, slot], axis=-1)
        return EliminationSteps(self.direction + chosen, self.reach, self.stays - chosen)

    def handed_on(self, row: Float[Array, "front"]) -> Float[Array, "front"]:
        """Returns a row over the front (forces in the body part) transformed for the receiving step."""
        return self.stays * jnp.concatenate([moment_shift(row[:6], -self.reach), row[6:]])

    def arriving(self, above: Float[Array, "front"]) -> Float[Array, "front"]:
        """Returns the values known from the steps above: the motion of the parent body, and the multipliers."""
        return jnp.concatenate([motion_shift(above[:6], self.reach), above[6:] * self.stays[6:]])


class Square(eqx.Module):
    """A symmetric matrix over the front: the blocks of the body, of the slots with the body, and of the slots."""

    body: Float[Array, "6 6"]
    mixed: Float[Array, "slots 6"]
    slots: Float[Array, "slots slots"]

    def __matmul__(self, x: Float[Array, "front"]) -> Float[Array, "front"]:
        body, slots = x[:6], x[6:]
        of_body = matvec(self.body, body) + vecmat(slots, self.mixed)
        return jnp.concatenate([of_body, matvec(self.mixed, body) + matvec(self.slots, slots)])

    def less(self, a: Float[Array, "front"], b: Float[Array, "front"]) -> Square:
        """Returns the matrix less `a bᵀ`, which must be part of a symmetric sum."""
        return Square(
            self.body - outer(a[:6], b[:6]),
            self.mixed - outer(a[6:], b[:6]),
            self.slots - outer(a[6:], b[6:]),
        )

    def handed_on(self, steps: EliminationSteps) -> Square:
        """Returns the matrix transformed for the receiving step."""
        body, slots = steps.stays[0], steps.stays[6:]
        return Square(
            body * inertia_shift(self.body, steps.reach),
            slots[:, None] * body * moment_shift(self.mixed, -steps.reach[None]),
            outer(slots, slots) * self.slots,
        )


class Elimination(Factors):
    """The factors, one row per step.

    - `gain`: `U / D` over the front, to leading order in μ, and `next_gain`, to the next order if the pivot D is regular.
    - `inverse`, `idle_inverse`: `1 / D` if D is regular, or if it is of order μ; zero otherwise.
    """

    model: Model
    steps: EliminationSteps
    gain: Float[Array, "n front"]
    next_gain: Float[Array, "n front"]
    inverse: Float[Array, "n"]
    idle_inverse: Float[Array, "n"]
    order: Order = eqx.field(static=True)

    @staticmethod
    def of(motion: Motion) -> Elimination:
        """Eliminates all unknowns."""
        model = motion.model
        if len(model.topology.mimic_joints):
            raise ValueError(
                f"model {model.name!r} has joints that mimic others, which tie its branches together: elimination along the "
                "tree does not apply; take method='range_space'"
            )
        order = Elimination.order_of(model)
        wrenches, coefficients = matrix_of(motion).attachments()
        frames = BodyFrames.of(model, motion.common)
        tolerance = rank_tolerance(order.width, motion.q.dtype)
        steps = EliminationSteps.of(model, frames, order)
        inertia = _by_step(at_last_column(model, frames.inertias(model).matrix), order)
        armature = _by_step(column_armature(model), order)
        attached, driven = (
            _entering(wrenches, order.attached, order),
            _entering(coefficients, order.driven, order),
        )

        def eliminate(children, own):
            steps, inertia, armature, attached, driven, is_row, may_go, begins = own
            matrix, next_matrix, possible, gone = children
            matrix = Square(matrix.body + inertia, matrix.mixed + attached, matrix.slots)
            gone = jnp.where(begins, 0, gone)
            slot = largest_pivot(matrix, possible, may_go & (gone == 0))
            steps = steps.choosing(slot)
            next_matrix = Square(next_matrix.body, next_matrix.mixed, next_matrix.slots - outer(slot, slot))
            row = matrix @ steps.direction + jnp.concatenate([jnp.zeros_like(inertia[0]), driven])
            next_row = next_matrix @ steps.direction
            pivot, next_pivot = dot(steps.direction, row) + armature, dot(steps.direction, next_row)

            # The increase of the rows' pivots with each degree of freedom, if forces and motions were as parallel as possible.
            wrench, motion = matrix.mixed**2, steps.direction[:6] ** 2
            size = (
                wrench[:, :3].sum(1) * motion[:3].sum() + wrench[:, 3:].sum(1) * motion[3:].sum() + driven**2
            )
            possible = possible + jnp.where(is_row, 0, size / jnp.where(is_row, 1, pivot))
            regular = ~is_row | (-pivot > tolerance * dot(slot, possible))
            inverse = jnp.where(regular, 1 / jnp.where(regular, pivot, 1), 0)
            idle_inverse = jnp.where(regular, 0, 1 / jnp.where(regular, 1, next_pivot))

            gain, idle = inverse * row, idle_inverse * next_row
            half = next_row - 0.5 * next_pivot * gain
            matrix = matrix.less(gain, row)
            next_matrix = next_matrix.less(gain, half).less(half, gain).less(idle, next_row)
            left = (
                matrix.handed_on(steps),
                next_matrix.handed_on(steps),
                possible * steps.stays[6:],
                gone + slot,
            )
            next_gain = inverse * (next_row - next_pivot * gain)
            return left, (slot, gain + idle, next_gain, inverse, idle_inverse)

        slots = jnp.zeros_like(steps.direction[0, 6:])
        empty = Square(jnp.zeros_like(inertia[0]), jnp.zeros_like(attached[0]), outer(slots, slots))
        nothing = empty, empty, slots, slots
        choices = (jnp.asarray(x) for x in (order.rows, order.choices >= 0, order.begins))
        columns = (steps, inertia, armature, attached, driven, *choices)
        _, (chosen, gain, next_gain, inverse, idle_inverse) = order.tree.up(eliminate, nothing, columns)
        return Elimination(model, steps.choosing(chosen), gain, next_gain, inverse, idle_inverse, order)

    @staticmethod
    def pays(model: Model) -> bool:
        """Returns whether this is likely the cheapest method; it is not if most constraints are open simultaneously."""
        if len(model.topology.mimic_joints):
            return False
        order = Elimination.order_of(model)
        return order.width <= max(SMALL_FRONT, int(order.rows.sum()) // 2)

    @staticmethod
    def order_of(model: Model) -> Order:
        return elimination_order(model.topology.tree, couplings_of(model.topology, model.constraints))

    @property
    def rank(self) -> Int[Array, ""]:
        return jnp.sum((self.inverse != 0) & jnp.asarray(self.order.rows))

    def motion(self, f, k):
        def assemble(bias, own):
            steps, gain, next_gain, inverse, idle_inverse, rhs = own
            bias, next_bias = bias
            effort, next_effort = rhs - dot(steps.direction, bias), -dot(steps.direction, next_bias)
            regular = (inverse != 0).astype(gain.dtype)
            left = bias + regular * effort * gain
            next_left = next_bias + next_effort * gain + effort * next_gain
            return (
                steps.handed_on(left),
                steps.handed_on(next_left),
            ), inverse * effort + idle_inverse * next_effort

        columns = (self.steps, self.gain, self.next_gain, self.inverse, self.idle_inverse, self._rhs(f, k))
        nothing = jnp.zeros_like(self.gain[0])
        _, drive = self.order.tree.up(assemble, (nothing, nothing), columns)
        a, y = self._unknowns(drive)
        return a, -y

    def onto(self, k):
        # The rest is y, of order 1/μ.
        def assemble(bias, own):
            steps, gain, idle_inverse, rhs = own
            effort = rhs - dot(steps.direction, bias)
            return steps.handed_on(bias + effort * gain), idle_inverse * effort

        columns = (
            self.steps,
            self.gain,
            self.idle_inverse,
            self._rhs(jnp.zeros_like(k, shape=self.model.nv), k),
        )
        _, drive = self.order.tree.up(assemble, jnp.zeros_like(self.gain[0]), columns)
        return k + self._unknowns(drive)[1]

    @property
    def _chosen(self) -> Float[Array, "m slots"]:
        """The row that each step of a constraint eliminates, by slots."""
        return gather(self.steps.direction[:, 6:], np.flatnonzero(self.order.rows))

    def _rhs(self, f, k):
        order = self.order
        choices = order.choices[order.rows]
        rows = gather_or_zero(k, choices.reshape(-1)).reshape(choices.shape)
        own = jnp.sum(rows * self._chosen, axis=1)
        return _by_step(to_columns(self.model, f), order) + _of_rows(own, order)

    def _unknowns(self, drive: Float[Array, "n"]) -> tuple[Array, Array]:
        """Returns a and y from `x = drive - gainᵀ (values known from above)`, down the tree."""

        def find(above, own):
            steps, gain, drive = own
            known = steps.arriving(above)
            x = drive - dot(gain, known)
            return known + steps.direction * x, x

        nothing = jnp.zeros_like(self.gain[0])
        order = self.order
        _, x = order.tree.down(find, nothing, (self.steps, self.gain, drive))
        steps = np.argsort(
            order.columns, kind="stable"
        )  # the steps of the columns in their order, followed by those of the rows
        size = self.model.topology.tree.size
        y = gather(x, steps[size:])[:, None] * self._chosen
        choices = order.choices[order.rows].reshape(-1)
        return from_columns(self.model, gather(x, steps[:size])), sum_rows(
            y.reshape(-1), choices, len(x) - size
        )


def largest_pivot(
    matrix: Square, possible: Float[Array, "slots"], may_go: Bool[Array, "slots"]
) -> Float[Array, "slots"]:
    """Returns one in the slot of the admissible row with the largest pivot relative to `possible`, and zero elsewhere."""
    if not may_go.size:
        return possible
    share = -jnp.diagonal(matrix.slots) / jnp.where(possible > 0, possible, 1)
    best = jnp.argmax(jnp.where(may_go, share, -jnp.inf))
    return jnp.where(may_go & (np.arange(may_go.size) == best), 1, jnp.zeros_like(possible))


def _by_step(x: Float[Array, "n *k"], order: Order):
    """Converts rows over columns of the tree to rows over steps; zero for steps that eliminate a multiplier."""
    return gather(jnp.concatenate([x, jnp.zeros_like(x[:1])]), order.columns)


def _of_rows(x: Float[Array, "m"], order: Order) -> Float[Array, "n"]:
    """Converts numbers of the steps that eliminate multipliers to numbers of all steps; zero for columns."""
    return gather_or_zero(x, np.where(order.rows, np.cumsum(order.rows) - 1, -1))


def _entering(x: Float[Array, "e *k"], places: np.ndarray, order: Order):
    """Returns the sum of the entries of each slot at each step."""
    steps = order.tree.size
    return sum_rows(x, places, steps * order.width).reshape(steps, order.width, *x.shape[1:])
