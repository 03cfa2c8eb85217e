"""Contacts with the world as functions of the accelerations of bodies.

Such a contact depends on the six numbers of one body's acceleration. Its stiffness therefore adds to that body's inertia, and the
Hessian of the contact problem has the zeros of the mass matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import columnwise, gather, matmul, matvec, products, transpose, vecmat
from ..dynamics import Motion
from ..dynamics.columns import to_columns
from ..model.tree import Tree
from .each import each
from .solvers.terms import Term


class OnBodies(Term):
    """Terms that each depend on the acceleration of one body.

    Accelerations are in the common frame, without the part that does not depend on the unknowns.

    - `subspace`: the motion along each column of the expanded tree.
    - `columns`: the derivatives of the accelerations along the columns by the unknowns; None if the columns are the unknowns.
    - `parts`: the terms, whose unknowns are the accelerations of the bodies. Similar terms are stacked along the first axis.
    - `ends`: the last column of the body of each term.
    - `tree`: the expanded tree.
    """

    subspace: Float[Array, "c 6"]
    columns: Float[Array, "c n"] | None
    parts: tuple[Term, ...]
    ends: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    tree: Tree = eqx.field(static=True)

    @staticmethod
    def of(motion: Motion, parts: tuple[Term, ...], ends: tuple[tuple[int, ...], ...]) -> OnBodies:
        """Returns the term of a model in motion, as a function of its acceleration."""
        model = motion.model
        columns = None
        if not model.topology.columns_are_v:
            columns = columnwise(partial(to_columns, model), jnp.eye(model.nv, dtype=motion.q.dtype))
        return OnBodies(motion.common.subspace, columns, parts, ends, model.topology.tree)

    def miss(self, a):
        return self._each(lambda part, x: part.miss(x), self._accelerations(a))

    def rows(self, a):
        return self._each(lambda part, x: part.rows(x), self._accelerations(a))

    def pushed(self, force):
        return self._generalized(self._each(lambda part, force: part.pushed(force), force))

    def force(self, miss):
        return self._each(lambda part, miss: part.force(miss), miss)

    def bend(self, miss):
        return self._each(lambda part, miss: part.bend(miss), miss)

    def turned(self, bend, rows):
        return self._each(lambda part, bend, rows: part.turned(bend, rows), bend, rows)

    def push(self, miss):
        return self._generalized(self._each(lambda part, miss: part.push(miss), miss))

    def slope(self, miss, rows, t):
        slopes = self._each(lambda part, miss, rows: part.slope(miss, rows, t), miss, rows)
        first, second = (sum(map(jnp.sum, values), jnp.zeros_like(t)) for values in zip(*slopes))
        return first, second

    def curved(self, matrix, bend):
        return self._with(matrix, self._each(lambda part, bend: part.curved(_nothing(matrix), bend), bend))

    def stiffened(self, matrix, miss):
        return self._with(matrix, self._each(lambda part, miss: part.stiffened(_nothing(matrix), miss), miss))

    def softened(self, share):
        return self._replaced(jax.vmap(lambda part: part.softened(share))(part) for part in self.parts)

    def along(self, jacobian, bias):
        unit = jnp.eye(6, dtype=bias.dtype)
        moved = zip(self.parts, self._accelerations(bias))
        parts = tuple(jax.vmap(lambda part, x: part.along(unit, x))(*own) for own in moved)
        columns = jacobian if self.columns is None else matmul(self.columns, jacobian)
        return OnBodies(self.subspace, columns, parts, self.ends, self.tree)

    def _replaced(self, parts) -> OnBodies:
        return OnBodies(self.subspace, self.columns, tuple(parts), self.ends, self.tree)

    def _each(self, compute: Callable, *given: tuple) -> tuple:
        """Applies a function to each term and its arguments."""
        return tuple(each(lambda own: compute(*own), own) for own in zip(self.parts, *given))

    def _accelerations(self, a: Float[Array, "n"]) -> tuple[Array, ...]:
        """Returns the accelerations of the bodies of the parts for given unknowns."""
        rates = a if self.columns is None else matvec(self.columns, a)
        moved = self.tree.path_sum(self.subspace * rates[:, None])
        return tuple(gather(moved, ends) for ends in self.ends)

    def _generalized(self, wrenches: tuple[Array, ...]) -> Float[Array, "n"]:
        """Returns the generalized force of wrenches on the bodies of the parts."""
        along = jnp.sum(self.subspace * self._carried(wrenches), axis=1)
        return along if self.columns is None else vecmat(along, self.columns)

    def _with(self, matrix, stiffnesses: tuple[Array, ...]):
        """Adds stiffnesses of bodies, given as lower triangles, to the lower triangle of a matrix.

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

    def _carried(self, values: Any) -> Array:
        """Returns for each column the sum of the values of all parts whose bodies it moves."""
        rows = [jnp.zeros_like(values[0][0])] * self.tree.size
        for ends, of_each in zip(self.ends, values):
            for end, value in zip(ends, of_each):
                rows[end] = rows[end] + value
        return self.tree.subtree_sum(jnp.stack(rows))


def _nothing(matrix: Array) -> Float[Array, "6 6"]:
    return jnp.zeros((6, 6), matrix.dtype)
