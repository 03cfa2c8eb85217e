"""The linear system of constrained motion, and three ways to solve it (book §8.5).

    M a - Gᵀ λ = f
    G a        = k
    λ - G y    = e

The first two rows are the equation of motion (8.36). Where constraints are redundant, G has less rank than rows: `a` is unique
and λ is not. The third row, with e = 0, picks the λ of least norm, since that is the one in the range of G; y is whatever
makes it so. Written as one linear system in (a, λ, y), the solution has the derivative `K⁻¹ (d rhs - dK x)`, which is one more
solution of the same system: it needs no derivative of a singular value or an eigenvector, is finite where rows
become dependent, and is right wherever the rank does not change.

Rank is decided on matrices scaled to a unit diagonal, so that units do not matter.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float, Int

from .._array import matmul, matvec, transpose, vecmat
from ..dynamics import mass_matrix
from ..dynamics.forward import mass_matrix_solver
from ..dynamics.inverse import inertia_force
from ..model import Model
from .evaluate import constraint_jacobian


#: How the equations are solved; they differ in cost and not in result.
Method = Literal["range_space", "kkt", "null_space"]


def rank_tolerance(size: int, dtype) -> float:
    """The share of the largest eigenvalue of `G M⁻¹ Gᵀ` below which an eigenvalue counts as zero.

    Eigenvalues are squares of what tells rows apart: in double precision, rows closer than about 1e-5 rad to dependence are
    dependent.
    """
    return max(size, 1) * float(jnp.finfo(dtype).eps) ** (2 / 3)


class Solution(eqx.Module):
    """The unknowns of the system."""

    a: Float[Array, "nv"]
    multipliers: Float[Array, "m"]
    y: Float[Array, "nv"]


class Factors(eqx.Module):
    """What a method knows of a model in a configuration, before it is asked to solve.

    - `jacobian`: G.
    - `onto`: the orthogonal projection onto the range of G.
    - `rank`: of G.
    """

    jacobian: eqx.AbstractVar[Float[Array, "m nv"]]
    onto: eqx.AbstractVar[Float[Array, "m m"]]
    rank: eqx.AbstractVar[Int[Array, ""]]

    @abc.abstractmethod
    def motion(self, f: Float[Array, "nv"], k: Float[Array, "m"]) -> tuple[Array, Array]:
        """`(a, λ)` of the first two rows, with any of the possible λ; the best `a` where k cannot be met."""

    def solve(self, f, k, e) -> Solution:
        """All three rows."""
        a, multipliers = self.motion(f, k)
        multipliers = matvec(self.onto, multipliers) + e - matvec(self.onto, e)
        y, _ = self.motion(jnp.zeros_like(f), multipliers - e)
        return Solution(a, multipliers, y)


class RangeSpace(Factors):
    """`(G M⁻¹ Gᵀ) λ = k - G M⁻¹ f` first, through the factors of the tree: O(n) for each row of G, then O(m³)."""

    jacobian: Float[Array, "m nv"]
    onto: Float[Array, "m m"]
    rank: Int[Array, ""]
    response: Float[Array, "nv m"]
    inverse: Float[Array, "m m"]
    solve_inertia: Callable

    @staticmethod
    def of(model: Model, q, jacobian) -> RangeSpace:
        solve_inertia = mass_matrix_solver(model, q)
        response = solve_inertia(transpose(jacobian))
        answer = matmul(jacobian, response)
        answer = 0.5 * (answer + transpose(answer))
        scale = _scale(jnp.diagonal(answer))
        values, vectors, kept = _spectrum(answer * scale[:, None] * scale[None, :])
        scaled = vectors * scale[:, None]
        inverse = matmul(
            scaled * jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)[None, :], transpose(scaled)
        )
        onto = _onto(vectors / scale[:, None], kept)
        return RangeSpace(jacobian, onto, jnp.sum(kept), response, inverse, solve_inertia)

    def motion(self, f, k):
        free = self.solve_inertia(f)
        multipliers = matvec(self.inverse, k - matvec(self.jacobian, free))
        return free + matvec(self.response, multipliers), multipliers


class Saddle(Factors):
    """The whole matrix `[[M, Gᵀ], [G, 0]]` at once: O((n + m)³), the plainest, for comparison."""

    jacobian: Float[Array, "m nv"]
    onto: Float[Array, "m m"]
    rank: Int[Array, ""]
    inverse: Float[Array, "size size"]

    @staticmethod
    def of(model: Model, q, jacobian) -> Saddle:
        inertia = mass_matrix(model, q)
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
        # What the multipliers alone can do without effect on anything is what was left out.
        idle = vectors[model.nv :] * row_scale[:, None]
        onto = jnp.eye(rows, dtype=inertia.dtype) - _onto(idle, ~kept)
        return Saddle(jacobian, onto, jnp.sum(kept) - model.nv, inverse)

    def motion(self, f, k):
        x = matvec(self.inverse, jnp.concatenate([f, k]))
        return x[: len(f)], -x[len(f) :]


class NullSpace(Factors):
    """`a = Z y + particular` with the columns of Z spanning the motions that G lets pass (book §8.8): O(n³), never m³.

    Z comes from the singular vectors of G instead of the book's elimination with pivots.
    """

    jacobian: Float[Array, "m nv"]
    onto: Float[Array, "m m"]
    rank: Int[Array, ""]
    inertia: Float[Array, "nv nv"]
    inverse: Float[Array, "nv m"]
    mobile: Float[Array, "nv nv"]

    @staticmethod
    def of(model: Model, q, jacobian) -> NullSpace:
        inertia = mass_matrix(model, q)
        column_scale = _scale(jnp.diagonal(inertia))
        scaled = jacobian * column_scale[None, :]
        row_scale = _scale(jnp.sum(scaled**2, axis=1))
        rows, columns = jacobian.shape
        # Rows of zeros, where there are fewer rows than freedoms, let the thin decomposition have all directions of motion.
        padded = jnp.pad(scaled * row_scale[:, None], ((0, max(columns - rows, 0)), (0, 0)))
        left, values, right = jnp.linalg.svd(padded, full_matrices=False)
        kept = values > rank_tolerance(len(padded), scaled.dtype) ** 0.5 * values[0]
        reciprocal = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)
        basis, left = transpose(right) * column_scale[:, None], left[:rows]
        inverse = matmul(basis * reciprocal[None, :], transpose(left)) * row_scale[None, :]
        free = jnp.where(kept[None, :], 0, basis)
        inner = matmul(transpose(free), matmul(inertia, free)) + jnp.diag(kept.astype(free.dtype))
        mobile = matmul(free, jnp.linalg.solve(inner, transpose(free)))
        onto = _onto(left / row_scale[:, None], kept)
        return NullSpace(jacobian, onto, jnp.sum(kept), inertia, inverse, mobile)

    def motion(self, f, k):
        particular = matvec(self.inverse, k)
        a = particular + matvec(self.mobile, f - matvec(self.inertia, particular))
        return a, vecmat(matvec(self.inertia, a) - f, self.inverse)


METHODS: dict[str, Callable[..., Factors]] = {
    "range_space": RangeSpace.of,
    "kkt": Saddle.of,
    "null_space": NullSpace.of,
}


def factorize(model: Model, q, method: str) -> Factors:
    """The factors of the system in a configuration; constant to differentiation, see `solve_system`."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it is one of {', '.join(map(repr, METHODS))}")
    model, q = jax.lax.stop_gradient((model, q))
    return METHODS[method](model, q, constraint_jacobian(model, q))


@jax.custom_jvp
def solve_system(f, k, e, factors: Factors, model: Model, q) -> Solution:
    """The solution of the system of `model` in `q`, whose `factors` are given."""
    return factors.solve(f, k, e)


def _rule(primals, tangents):
    f, k, e, factors, model, q = primals
    x = solve_system(*primals)

    leaves, structure = jax.tree.flatten((model, q))
    changes = jax.tree.leaves((tangents[4], tangents[5]), is_leaf=_is_zero)
    moving = [i for i, change in enumerate(changes) if not _is_zero(change)]
    rhs = [jnp.zeros_like(x) if _is_zero(dx) else dx for x, dx in zip(primals[:3], tangents[:3])]
    if moving:

        def product(*values):
            replaced = list(leaves)
            for i, value in zip(moving, values, strict=True):
                replaced[i] = value
            model, q = jax.tree.unflatten(structure, replaced)
            jacobian = constraint_jacobian(model, q)
            force = inertia_force(model, q, x.a) - vecmat(x.multipliers, jacobian)
            return force, matvec(jacobian, x.a), x.multipliers - matvec(jacobian, x.y)

        of = jax.jvp(product, [leaves[i] for i in moving], [changes[i] for i in moving])[1]
        rhs = [dx - own for dx, own in zip(rhs, of)]
    return x, solve_system(*rhs, factors, model, q)


solve_system.defjvp(_rule, symbolic_zeros=True)


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


def _scale(diagonal):
    """What makes a diagonal of squares one. Zeros are left alone, and what beside the largest is a zero with rounding."""
    real = diagonal > float(jnp.finfo(diagonal.dtype).eps) ** 1.5 * jnp.max(diagonal, initial=0)
    return jnp.where(real, 1 / jnp.sqrt(jnp.where(real, diagonal, 1)), 1)


def _spectrum(matrix):
    """Eigenvalues and vectors of a symmetric matrix, and which of them count."""
    values, vectors = jnp.linalg.eigh(matrix)
    size = jnp.abs(values)
    return values, vectors, size > rank_tolerance(len(values), matrix.dtype) * jnp.max(size, initial=0)


def _onto(columns, kept):
    """The orthogonal projection onto the span of those columns that are kept. They are independent."""
    columns = jnp.where(kept[None, :], columns, 0)
    gram = matmul(transpose(columns), columns) + jnp.diag((~kept).astype(columns.dtype))
    return matmul(columns, jnp.linalg.solve(gram, transpose(columns)))
