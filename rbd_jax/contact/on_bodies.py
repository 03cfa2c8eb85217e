"""Contacts with the world as functions of the accelerations of bodies.

Such a contact depends on the six numbers of one body's acceleration. Its stiffness therefore adds to that body's inertia, and the
Hessian of the contact problem has the zeros of the mass matrix.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import cross, matmul, matvec, products, transpose, vecmat
from ..dynamics import Motion
from ..dynamics.columns import to_columns
from ..model.tree import Tree
from .contacts import Contacts
from .solvers.terms import Term


class OnBodies(Term):
    """Terms that each depend on the acceleration of one body.

    Accelerations are in the common frame, without the part that does not depend on the unknowns.

    - `subspace`: the motion along each column of the expanded tree.
    - `columns`: the accelerations along the columns by the unknowns; None if the columns are the unknowns.
    - `parts`: the terms, whose unknowns are the accelerations of the bodies; `ends` the last column of each part's body.
    """

    subspace: Float[Array, "c 6"]
    columns: Float[Array, "c n"] | None
    parts: tuple[Term, ...]
    ends: tuple[int, ...] = eqx.field(static=True)
    tree: Tree = eqx.field(static=True)

    @staticmethod
    def of(motion: Motion, parts: tuple[Term, ...], ends: tuple[int, ...]) -> OnBodies:
        """Returns the term of a model in motion, as a function of its acceleration."""
        model = motion.model
        columns = None
        if not model.topology.columns_are_v:
            unit = jnp.eye(model.nv, dtype=motion.q.dtype)
            columns = jnp.stack([to_columns(model, own) for own in unit], axis=1)
        return OnBodies(motion.common.subspace, columns, parts, ends, model.topology.tree)

    @property
    def reference(self):
        return tuple(part.reference for part in self.parts)

    def rows(self, a):
        return tuple(part.rows(x) for part, x in zip(self.parts, self._accelerations(a)))

    def pushed(self, force):
        return self._generalized([part.pushed(own) for part, own in zip(self.parts, force)])

    def force(self, miss):
        return tuple(part.force(own) for part, own in zip(self.parts, miss))

    def bend(self, miss):
        return tuple(part.bend(own) for part, own in zip(self.parts, miss))

    def turned(self, bend, rows):
        return tuple(part.turned(*own) for part, *own in zip(self.parts, bend, rows))

    def push(self, miss):
        return self._generalized([part.push(own) for part, own in zip(self.parts, miss)])

    def slope(self, miss, rows, t):
        slopes = [part.slope(*own, t) for part, *own in zip(self.parts, miss, rows)]
        first, second = (sum(values, jnp.zeros_like(t)) for values in zip(*slopes))
        return first, second

    def curved(self, matrix, bend):
        return self._with(matrix, [part.curved(_nothing(matrix), own) for part, own in zip(self.parts, bend)])

    def stiffened(self, matrix, miss):
        return self._with(
            matrix, [part.stiffened(_nothing(matrix), own) for part, own in zip(self.parts, miss)]
        )

    def softened(self, share):
        return self._replaced(part.softened(share) for part in self.parts)

    def along(self, jacobian, bias):
        unit = jnp.eye(6, dtype=bias.dtype)
        moved = self._replaced(part.along(unit, x) for part, x in zip(self.parts, self._accelerations(bias)))
        columns = jacobian if self.columns is None else matmul(self.columns, jacobian)
        return OnBodies(moved.subspace, columns, moved.parts, self.ends, self.tree)

    def _replaced(self, parts) -> OnBodies:
        return OnBodies(self.subspace, self.columns, tuple(parts), self.ends, self.tree)

    def _accelerations(self, a: Float[Array, "n"]) -> tuple[Float[Array, "6"], ...]:
        """The acceleration of each part's body by the unknowns."""
        rates = a if self.columns is None else matvec(self.columns, a)
        moved = self.tree.path_sum(self.subspace * rates[:, None])
        return tuple(moved[end] for end in self.ends)

    def _generalized(self, wrenches: list[Float[Array, "6"]]) -> Float[Array, "n"]:
        """The generalized force of a wrench on each part's body."""
        along = jnp.sum(self.subspace * self._carried(wrenches), axis=1)
        return along if self.columns is None else vecmat(along, self.columns)

    def _with(self, matrix, stiffnesses: list[Float[Array, "6 6"]]):
        """Adds stiffnesses of bodies, of which the lower triangles are given, to the lower triangle of a matrix.

        This is the composite-rigid-body algorithm with stiffnesses for inertias.
        """
        below = np.tri(6, k=-1, dtype=bool)
        whole = [half + transpose(jnp.where(below, half, 0)) for half in stiffnesses]
        moved = jnp.sum(self._carried(whole) * self.subspace[:, None, :], axis=2)
        added = jnp.where(self.tree.supports, products(moved, self.subspace), 0)
        if self.columns is None:
            return matrix + added
        added = added + transpose(jnp.where(np.eye(len(added), dtype=bool), 0, added))
        added = matmul(transpose(self.columns), matmul(added, self.columns))
        return matrix + jnp.where(np.tri(len(matrix), dtype=bool), added, 0)

    def _carried(self, values: list[Array]) -> Array:
        """For each column, the sum of the values of all parts whose bodies it moves."""
        rows = [jnp.zeros_like(values[0])] * self.tree.size
        for end, value in zip(self.ends, values):
            rows[end] = rows[end] + value
        return self.tree.subtree_sum(jnp.stack(rows))


def _nothing(matrix: Array) -> Float[Array, "6 6"]:
    return jnp.zeros((6, 6), matrix.dtype)


def contact_rows(found: Contacts, origin: Float[Array, "3"], sign: int) -> Float[Array, "n d 6"]:
    """Returns the velocities of contacts along and about their axes by that of the body, in the common frame.

    Args:
      found: Contacts of one body, which all act along the same number d of axes.
      origin: The origin of the common frame of the body's tree, in the world.
      sign: 1 if the body has the second shape of each pair, -1 if it has the first.
    """
    arms = found.position - origin[None]
    rows: list[Any] = []
    for row in range(max(found.condim)):
        axis = sign * found.frame[:, :, row % 3]
        linear = [cross(arms, axis), axis]
        rows.append(jnp.concatenate(linear if row < 3 else [axis, jnp.zeros_like(axis)], axis=1))
    return jnp.stack(rows, axis=1)
