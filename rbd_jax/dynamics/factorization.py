"""Branch-induced sparsity: matrices factored along the tree, without fill-in (book §6.5).

Entry (i, j) of the mass matrix is zero unless one of the two degrees of freedom carries the other, and so is that of its
factor. A
row of either therefore needs room for the ancestors of its node only, one entry for each depth: they are kept packed, as
`(n, depth)`. Rows are eliminated from the leaves to the roots. What the elimination of a subtree leaves behind
is a square over the ancestors that it is attached to, and the squares of sibling subtrees add up; so the factorization is a
traversal up the tree like any other.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._array import dot
from ..model import Tree


class LowerFactor(eqx.Module):
    """A lower triangular L with the sparsity of a tree: `rows`, its packed entries left of the diagonal, and `diagonal`."""

    rows: Float[Array, "n depth"]
    diagonal: Float[Array, "n"]
    tree: Tree = eqx.field(static=True)

    # The four kernels of table 6.5. Values at the ancestors of a node travel as a row over depths.

    def multiply(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """`L x`."""
        above = jnp.concatenate([x, jnp.zeros(1, x.dtype)])[self.tree.ancestors]
        return self.diagonal * x + dot(self.rows, above)

    def multiply_transposed(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """`Lᵀ x`."""

        def step(children, own):
            rows, x, depth = own
            return children.at[depth].set(0) + rows * x, children[depth]

        _, below = self.tree.up(step, self._nothing(x), (self.rows, x, self.tree.depths))
        return self.diagonal * x + below

    def solve(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """`L⁻¹ x`."""

        def step(above, own):
            rows, diagonal, x, depth = own
            y = (x - dot(rows, above)) / diagonal
            return above.at[depth].set(y), y

        columns = (self.rows, self.diagonal, x, self.tree.depths)
        return self.tree.down(step, self._nothing(x), columns)[1]

    def solve_transposed(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """`L⁻ᵀ x`."""

        def step(children, own):
            rows, diagonal, x, depth = own
            y = (x - children[depth]) / diagonal
            return children.at[depth].set(0) + rows * y, y

        columns = (self.rows, self.diagonal, x, self.tree.depths)
        return self.tree.up(step, self._nothing(x), columns)[1]

    @property
    def matrix(self) -> Float[Array, "n n"]:
        """L as a dense matrix."""
        return unpack(self.tree, self.rows) + jnp.diag(self.diagonal)

    def _nothing(self, x):
        return jnp.zeros(self.rows.shape[1], x.dtype)


def ltl(tree: Tree, packed: Float[Array, "n depth"]) -> LowerFactor:
    """L with `Lᵀ L = H`, of a positive definite H that has the sparsity of the tree (table 6.3, LTL)."""

    def split(entries, pivot):
        root = jnp.sqrt(pivot)
        lower = entries / root
        return lower, lower, root

    rows, roots = _eliminate(tree, packed, split)
    return LowerFactor(rows, roots, tree)


def ltdl(tree: Tree, packed: Float[Array, "n depth"]) -> tuple[LowerFactor, Float[Array, "n"]]:
    """L with a unit diagonal and D with `Lᵀ D L = H`, of an H that has the sparsity of the tree (table 6.3, LTDL)."""
    rows, pivots = _eliminate(tree, packed, lambda entries, pivot: (entries / pivot, entries, pivot))
    return LowerFactor(rows, jnp.ones_like(pivots), tree), pivots


def ltdl_solve(
    factor: LowerFactor, pivots: Float[Array, "n"], rhs: Float[Array, "n *k"]
) -> Float[Array, "n *k"]:
    """`H⁻¹ rhs = L⁻¹ D⁻¹ L⁻ᵀ rhs`."""
    if rhs.ndim == 2:
        return jax.vmap(lambda column: ltdl_solve(factor, pivots, column), in_axes=1, out_axes=1)(rhs)
    return factor.solve(factor.solve_transposed(rhs) / pivots)


def _eliminate(tree: Tree, packed, split: Callable):
    """Eliminate row after row; `split` makes of a row and its pivot `(l, u, diagonal)`, and `l uᵀ` is what it leaves behind.

    The squares over the ancestors are symmetric: their lower triangles are kept, row after row.
    """
    width = packed.shape[1]
    rows, columns = np.tril_indices(width)
    own = jnp.arange(width)

    def step(children, node):
        row, depth, start = node
        row = row + lax.dynamic_slice(children, (start,), (width,))
        lower, upper, diagonal = split(jnp.where(own < depth, row, 0), row[depth])
        left = children - lower[rows] * upper[columns]
        return jnp.where(rows < depth, left, 0), (lower, diagonal)

    nothing = jnp.zeros(rows.size, packed.dtype)
    starts = tree.depths * (tree.depths + 1) // 2
    return tree.up(step, nothing, (packed, tree.depths, starts))[1]


def pack(tree: Tree, matrix: Float[Array, "n n"]) -> Float[Array, "n depth"]:
    """The entries of a symmetric matrix with the sparsity of the tree: for each node, those with its ancestors by depth."""
    padded = jnp.concatenate([matrix, jnp.zeros((tree.size, 1), matrix.dtype)], axis=1)
    return jnp.take_along_axis(padded, jnp.asarray(tree.ancestors), axis=1)


def unpack(tree: Tree, packed: Float[Array, "n depth"]) -> Float[Array, "n n"]:
    """The lower triangular matrix with these entries."""
    return jnp.where(tree.supports, packed[:, tree.depths], 0)
