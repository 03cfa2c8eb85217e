"""Three dense methods for the equations of constrained motion (book §8.5, §8.8).

All of them scale the matrix to a unit diagonal before they determine the rank, so that units do not matter. Then they
decompose it into eigenvalues or singular values.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._core.array import matmul, matvec, transpose, vecmat
from ..dynamics import Motion
from ..dynamics.forward import inertia_solver
from ..dynamics.mass_matrix import composite_rigid_body
from ._factors import Factors, rank_tolerance
from .evaluate import matrix_of


class DenseFactors(Factors):
    """Factors that store the `projection` onto the range of G as a matrix."""

    projection: Float[Array, "m m"]
    independent: Int[Array, ""]

    @property
    def rank(self):
        return self.independent

    def onto(self, k):
        return matvec(self.projection, k)


class RangeSpace(DenseFactors):
    """Solves `(G M⁻¹ Gᵀ) λ = k - G M⁻¹ f` first, through the factors of the tree: O(n) for each row of G, then O(m³).

    Eqs. 8.37 to 8.41, and Sueda's eqs. 2.123 and 2.124; if rows are dependent, the multipliers have least norm.
    """

    jacobian: Float[Array, "m nv"]
    response: Float[Array, "nv m"]
    inverse: Float[Array, "m m"]
    solve_inertia: Callable

    @staticmethod
    def of(motion: Motion) -> RangeSpace:
        jacobian, solve_inertia = matrix_of(motion).matrix, inertia_solver(motion)
        response = solve_inertia(transpose(jacobian))
        answer = matmul(jacobian, response)
        answer = 0.5 * (answer + transpose(answer))
        scale = _scale(jnp.diagonal(answer))
        values, vectors, kept = _spectrum(answer * scale[:, None] * scale[None, :])
        scaled = vectors * scale[:, None]
        inverse = matmul(
            scaled * jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)[None, :], transpose(scaled)
        )
        projection = _onto(vectors / scale[:, None], kept)
        return RangeSpace(projection, jnp.sum(kept), jacobian, response, inverse, solve_inertia)

    def motion(self, f, k):
        free = self.solve_inertia(f)
        multipliers = matvec(self.inverse, k - matvec(self.jacobian, free))
        return free + matvec(self.response, multipliers), self.onto(multipliers)


class Saddle(DenseFactors):
    """Solves the complete matrix `[[M, Gᵀ], [G, 0]]` (eq. 8.36): O((n + m)³), the simplest method, for comparison."""

    inverse: Float[Array, "size size"]

    @staticmethod
    def of(motion: Motion) -> Saddle:
        inertia, jacobian = composite_rigid_body(motion), matrix_of(motion).matrix
        column_scale = _scale(jnp.diagonal(inertia))
        row_scale = _scale(jnp.sum((jacobian * column_scale[None, :]) ** 2, axis=1))
        scale = jnp.concatenate([column_scale, row_scale])
        rows = len(row_scale)
        corner = jnp.zeros((rows, rows), inertia.dtype)
        matrix = jnp.block([[inertia, transpose(jacobian)], [jacobian, corner]])
        values, vectors, kept = _spectrum(matrix * scale[:, None] * scale[None, :])
        scaled = vectors * scale[:, None]
        inverse = matmul(
            scaled * jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)[None, :], transpose(scaled)
        )
        # The excluded directions are those of multipliers without effect.
        idle = vectors[motion.model.nv :] * row_scale[:, None]
        projection = jnp.eye(rows, dtype=inertia.dtype) - _onto(idle, ~kept)
        return Saddle(projection, jnp.sum(kept) - motion.model.nv, inverse)

    def motion(self, f, k):
        x = matvec(self.inverse, jnp.concatenate([f, k]))
        return x[: len(f)], self.onto(-x[len(f) :])


class NullSpace(DenseFactors):
    """Solves `a = Z y + particular`, where the columns of Z span the motions that G admits (book eqs. 8.42 to 8.46, §8.8).

    The cost is O(n³), never m³. Z comes from the singular vectors of G instead of the book's elimination with pivots.
    """

    inertia: Float[Array, "nv nv"]
    inverse: Float[Array, "nv m"]
    mobile: Float[Array, "nv nv"]

    @staticmethod
    def of(motion: Motion) -> NullSpace:
        inertia, jacobian = composite_rigid_body(motion), matrix_of(motion).matrix
        column_scale = _scale(jnp.diagonal(inertia))
        scaled = jacobian * column_scale[None, :]
        row_scale = _scale(jnp.sum(scaled**2, axis=1))
        rows, columns = jacobian.shape
        # If there are fewer rows than degrees of freedom, rows of zeros make the thin decomposition return all directions
        # of motion.
        padded = jnp.pad(scaled * row_scale[:, None], ((0, max(columns - rows, 0)), (0, 0)))
        left, values, right = jnp.linalg.svd(padded, full_matrices=False)
        kept = values > rank_tolerance(len(padded), scaled.dtype) ** 0.5 * values[0]
        reciprocal = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)
        basis, left = transpose(right) * column_scale[:, None], left[:rows]
        inverse = matmul(basis * reciprocal[None, :], transpose(left)) * row_scale[None, :]
        free = jnp.where(kept[None, :], 0, basis)
        inner = matmul(transpose(free), matmul(inertia, free)) + jnp.diag(kept.astype(free.dtype))
        mobile = matmul(free, jnp.linalg.solve(inner, transpose(free)))
        projection = _onto(left / row_scale[:, None], kept)
        return NullSpace(projection, jnp.sum(kept), inertia, inverse, mobile)

    def motion(self, f, k):
        particular = matvec(self.inverse, k)
        a = particular + matvec(self.mobile, f - matvec(self.inertia, particular))
        return a, self.onto(vecmat(matvec(self.inertia, a) - f, self.inverse))


def _scale(diagonal):
    """Returns the scale that makes a diagonal of squares one. Entries at the rounding level of the largest are not scaled."""
    real = diagonal > float(jnp.finfo(diagonal.dtype).eps) ** 1.5 * jnp.max(diagonal, initial=0)
    return jnp.where(real, 1 / jnp.sqrt(jnp.where(real, diagonal, 1)), 1)


def _spectrum(matrix):
    """Returns eigenvalues and eigenvectors of a symmetric matrix, and which eigenvalues count as nonzero."""
    values, vectors = jnp.linalg.eigh(matrix)
    size = jnp.abs(values)
    return values, vectors, size > rank_tolerance(len(values), matrix.dtype) * jnp.max(size, initial=0)


def _onto(columns, kept):
    """Returns the orthogonal projection onto the span of the selected columns, which are independent."""
    columns = jnp.where(kept[None, :], columns, 0)
    gram = matmul(transpose(columns), columns) + jnp.diag((~kept).astype(columns.dtype))
    return matmul(columns, jnp.linalg.solve(gram, transpose(columns)))
