"""Branch-induced sparsity: matrices factored along the tree, without fill-in (book §6.4, §6.5).

Entry (i, j) of the mass matrix is zero unless one of the two degrees of freedom carries the other. The same holds for its
factor. A row of either needs space only for the ancestors of its node, one entry per depth, so rows are packed as
`(n, depth)`. Rows are eliminated from the leaves to the roots. Eliminating a subtree leaves a square matrix over the ancestors
of the subtree, and the matrices of sibling subtrees add up. The factorization is therefore a traversal up the tree.

The other algorithms of this library solve with M by articulated bodies, in O(n). These factors serve
callers that need the matrix or L.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes
from .._core.array import columnwise, dot, transpose
from ..model import Model, Tree
from .mass_matrix import composite_rigid_body
from .motion import Motion


@takes(q=configuration)
def sparse_mass_matrix(model: Model, q: Float[Array, "nq"]) -> TreeMatrix:
    """Returns `mass_matrix` in packed form: only the entries that the tree structure allows to be nonzero.

    An entry is stored if one of its two degrees of freedom carries the other.

    Args:
      model: The model, without mimic joints.
      q: Configuration, shape (nq,).

    Raises:
      ValueError: If the model has mimic joints, which couple branches of the tree.

    >>> matrix = rbd.dynamics.sparse_mass_matrix(rbd.load("double_pendulum"), jnp.array([0.5, 1.0]))
    >>> print(matrix.rows)  # of each degree of freedom those with the ones above it, and its own
    [[4.083 0.   ]
     [1.541 1.001]]
    >>> lower, pivots = matrix.ltdl()
    >>> print(lower.multiply_transposed(pivots * lower.multiply(jnp.array([1.0, 0.0]))))  # Lᵀ D L, the first column
    [4.083 1.541]
    """
    return TreeMatrix.of(dof_tree(model), composite_rigid_body(Motion(model, q)))


def dof_tree(model: Model, prescribed: Sequence[str | int] = ()) -> Tree:
    """Returns the tree of single degrees of freedom, in the order of v: the expanded parent array λ' (book table 6.4).

    Args:
      model: The model, without mimic joints.
      prescribed: Joints whose degrees of freedom are left out, as in hybrid dynamics. The bodies that such a joint connects
        share one node, and the tree is that of H₁₁ (book figure 9.1).

    Raises:
      ValueError: If the model has mimic joints.

    >>> rbd.dynamics.dof_tree(rbd.load("quadruped"))
    Tree([-1, 0, 1, 2, 3, 4, 5, 6, 7, 5, 9, 10, 5, 12, 13, 5, 15, 16])
    >>> rbd.dynamics.dof_tree(rbd.load("quadruped"), prescribed=["trunk"])
    Tree([-1, 0, 1, -1, 3, 4, -1, 6, 7, -1, 9, 10])
    """
    topology = model.topology
    if len(topology.mimic_joints):
        names = [topology.joint_names[body] for body in topology.mimic_joints]
        raise ValueError(
            f"joints {names} of model {model.name!r} are mimic joints. They couple branches of its tree, so its mass matrix does "
            "not have the sparsity of a tree; use mass_matrix"
        )
    # Idle columns have no degree of freedom, so their nodes are skipped.
    kept = np.ones(topology.nv, bool)
    for joint in prescribed:
        kept[model.v_slice(joint)] = False
    number = np.cumsum(kept) - 1
    nearest = np.full(topology.tree.size + 1, -1)
    parents = np.full(topology.nv, -1)
    for column, parent in enumerate(topology.tree.parents):
        dof = topology.column_v[column]
        if topology.idle[column] or not kept[dof]:
            nearest[column] = nearest[parent]
        else:
            parents[dof], nearest[column] = nearest[parent], number[dof]
    return Tree(parents[kept].tolist(), topology.traversal)


class TreeMatrix(eqx.Module):
    """A symmetric matrix H with the sparsity of a tree; `rows` has each node's entries for its ancestors and itself.

    >>> matrix = rbd.dynamics.TreeMatrix.of(rbd.Tree([-1, 0, 0]), jnp.array([[3.0, 1, 1], [1, 2, 0], [1, 0, 2]]))
    >>> print(matrix.multiply(jnp.array([1.0, 2.0, 3.0])))
    [8. 5. 7.]
    >>> print(matrix.solve(jnp.array([8.0, 5.0, 7.0])))
    [1. 2. 3.]
    """

    rows: Float[Array, "n depth"]
    tree: Tree = eqx.field(static=True)

    @staticmethod
    def of(tree: Tree, matrix: Float[Array, "n n"]) -> TreeMatrix:
        """Returns the packed form of a dense matrix; entries outside the tree's sparsity pattern are ignored."""
        if jnp.shape(matrix) != (tree.size, tree.size):
            raise ValueError(
                f"TreeMatrix.of: matrix has shape {jnp.shape(matrix)}, but a tree of {tree.size} nodes requires "
                f"({tree.size}, {tree.size})"
            )
        return TreeMatrix(pack(tree, matrix), tree)

    @property
    def matrix(self) -> Float[Array, "n n"]:
        """Returns the dense matrix."""
        lower = unpack(self.tree, self.rows)
        return lower + transpose(lower) - jnp.diag(jnp.diagonal(lower))

    def multiply(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns `H x`."""
        own = np.arange(self.rows.shape[1])[None, :] == self.tree.depths[:, None]
        strict = LowerFactor(
            jnp.where(own, 0, self.rows), jnp.sum(jnp.where(own, self.rows, 0), axis=1), self.tree
        )
        return strict.multiply(x) + strict.from_below(x)

    def ltl(self) -> LowerFactor:
        """Returns L with `Lᵀ L = H` for a positive definite H (table 6.3, LTL)."""
        return ltl(self.tree, self.rows)

    def ltdl(self) -> tuple[LowerFactor, Float[Array, "n"]]:
        """Returns L with a unit diagonal and the diagonal of D, with `Lᵀ D L = H` (table 6.3, LTDL)."""
        return ltdl(self.tree, self.rows)

    def solve(self, rhs: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """Returns `H⁻¹ rhs`, by LTDL."""
        return ltdl_solve(*self.ltdl(), rhs)


class LowerFactor(eqx.Module):
    """A lower triangular L with the sparsity of a tree; `rows` has its packed entries left of the `diagonal`.

    Products and solves follow table 6.5, with the operations of table 6.6.

    >>> matrix = rbd.dynamics.TreeMatrix.of(rbd.Tree([-1, 0, 0]), jnp.array([[3.0, 1, 1], [1, 2, 0], [1, 0, 2]]))
    >>> lower = matrix.ltl()
    >>> print(lower.solve(lower.multiply(jnp.array([1.0, 2.0, 3.0]))))
    [1. 2. 3.]
    """

    rows: Float[Array, "n depth"]
    diagonal: Float[Array, "n"]
    tree: Tree = eqx.field(static=True)

    # Recursions pass the values at the ancestors of a node as a row over depths.

    def multiply(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns `L x`."""
        above = jnp.concatenate([x, jnp.zeros(1, x.dtype)])[self.tree.ancestors]
        return self.diagonal * x + dot(self.rows, above)

    def multiply_transposed(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns `Lᵀ x`."""

        return self.diagonal * x + self.from_below(x)

    def from_below(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns `Lᵀ x` without the contribution of the diagonal."""

        def step(children, own):
            rows, x, depth = own
            return children.at[depth].set(0) + rows * x, children[depth]

        return self.tree.up(step, self._nothing(x), (self.rows, x, self.tree.depths))[1]

    def solve(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns `L⁻¹ x`."""

        def step(above, own):
            rows, diagonal, x, depth = own
            y = (x - dot(rows, above)) / diagonal
            return above.at[depth].set(y), y

        columns = (self.rows, self.diagonal, x, self.tree.depths)
        return self.tree.down(step, self._nothing(x), columns)[1]

    def solve_transposed(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns `L⁻ᵀ x`."""

        def step(children, own):
            rows, diagonal, x, depth = own
            y = (x - children[depth]) / diagonal
            return children.at[depth].set(0) + rows * y, y

        columns = (self.rows, self.diagonal, x, self.tree.depths)
        return self.tree.up(step, self._nothing(x), columns)[1]

    @property
    def matrix(self) -> Float[Array, "n n"]:
        """Returns L as a dense matrix."""
        return unpack(self.tree, self.rows) + jnp.diag(self.diagonal)

    def _nothing(self, x):
        return jnp.zeros(self.rows.shape[1], x.dtype)


def ltl(tree: Tree, packed: Float[Array, "n depth"]) -> LowerFactor:
    """Returns L with `Lᵀ L = H` for a positive definite H with the sparsity of the tree (table 6.3, LTL)."""

    def split(entries, pivot):
        root = jnp.sqrt(pivot)
        lower = entries / root
        return lower, lower, root

    rows, roots = _eliminate(tree, packed, split)
    return LowerFactor(rows, roots, tree)


def ltdl(tree: Tree, packed: Float[Array, "n depth"]) -> tuple[LowerFactor, Float[Array, "n"]]:
    """Returns L with a unit diagonal and D, with `Lᵀ D L = H`, for an H with the sparsity of the tree (table 6.3, LTDL)."""
    rows, pivots = _eliminate(tree, packed, lambda entries, pivot: (entries / pivot, entries, pivot))
    return LowerFactor(rows, jnp.ones_like(pivots), tree), pivots


def ltdl_by_reciprocals(tree: Tree, packed: Float[Array, "n depth"]) -> tuple[LowerFactor, Float[Array, "n"]]:
    """Returns L and `D⁻¹` as `ltdl` does, with one division per pivot, which is faster in programs unrolled entry by entry."""

    def split(entries, pivot):
        inverse = 1 / pivot
        return entries * inverse, entries, inverse

    rows, inverses = _eliminate(tree, packed, split)
    return LowerFactor(rows, jnp.ones_like(inverses), tree), inverses


def ltdl_solve(
    factor: LowerFactor, pivots: Float[Array, "n"], rhs: Float[Array, "n *k"]
) -> Float[Array, "n *k"]:
    """Returns `H⁻¹ rhs = L⁻¹ D⁻¹ L⁻ᵀ rhs`."""
    if rhs.ndim == 2:
        return columnwise(lambda column: ltdl_solve(factor, pivots, column), rhs)
    return factor.solve(factor.solve_transposed(rhs) / pivots)


def _eliminate(tree: Tree, packed, split: Callable):
    """Eliminates row after row from the leaves.

    `split` returns `(l, u, diagonal)` for a row and its pivot; `l uᵀ` is subtracted from the ancestors' square matrix. Only the
    lower triangles of these symmetric matrices are stored, row by row.
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
    """Packs a symmetric matrix with the sparsity of the tree: for each node, its entries with its ancestors by depth."""
    padded = jnp.concatenate([matrix, jnp.zeros((tree.size, 1), matrix.dtype)], axis=1)
    return jnp.take_along_axis(padded, jnp.asarray(tree.ancestors), axis=1)


def unpack(tree: Tree, packed: Float[Array, "n depth"]) -> Float[Array, "n n"]:
    """Returns the lower triangular matrix with the packed entries."""
    return jnp.where(tree.supports, packed[:, tree.depths], 0)
