"""The kinematic tree and its two traversals: `down`, from the root to the leaves, and `up`, from the leaves to the root.

Every recursion of the library is one of these two. Only they handle parents, order, loops and levels, and they choose the
method. `"scan"` visits one node after another in one small compiled loop, the fastest method on a CPU. `"levels"` visits all
nodes of a depth at once, with the fewest kernels on a GPU. Values may be any PyTree.

Associative operations (sums over paths and subtrees, compositions along paths) also support `"doubling"`. It takes a number of
rounds equal to the number of binary digits of the tree size, for trees of any depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import choice
from .._core.array import gather, gather_or_zero, sum_rows
from .._core.platform import is_cpu


#: The traversal method; `"auto"` chooses by backend and depth, and so does `"doubling"` for operations that are not associative.
Traversal = Literal["auto", "scan", "levels", "doubling"]

#: Deeper trees are scanned on every backend, because the code of a traversal by levels grows with the depth.
DEEPEST_LEVEL_TRAVERSAL = 64


class Tree:
    """A rooted forest of `size` nodes, numbered so that each parent precedes its children; the parent of a root is -1.

    A tree is immutable and hashable, and a static part of a model.

    >>> tree = rbd.Tree([-1, 0, 1, 0])
    >>> print(tree.depths, tree.ancestors[3])
    [0 1 2 1] [0 3 4]
    >>> print(tree.subtree_sum(jnp.ones(4)), tree.path_sum(jnp.ones(4)))
    [4. 2. 1. 1.] [1. 2. 3. 2.]
    """

    def __init__(self, parents: Sequence[int], traversal: Traversal = "auto"):
        self.parents = tuple(int(parent) for parent in parents)
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise ValueError(
                    f"node {node} has the parent {parent}: a parent must come before its children"
                )
        choice("Tree", "traversal", traversal, ("auto", "scan", "levels", "doubling"))
        self.traversal: Traversal = traversal

    def __eq__(self, other) -> bool:
        return self is other or (
            isinstance(other, Tree) and self.parents == other.parents and self.traversal == other.traversal
        )

    def __hash__(self) -> int:
        return hash((self.parents, self.traversal))

    def __repr__(self) -> str:
        return f"Tree({list(self.parents)})"

    @property
    def size(self) -> int:
        return len(self.parents)

    @cached_property
    def depths(self) -> np.ndarray:
        """The number of edges between each node and its root."""
        depths = np.zeros(self.size, int)
        for node, parent in enumerate(self.parents):
            depths[node] = depths[parent] + 1 if parent >= 0 else 0
        return depths

    @cached_property
    def roots(self) -> np.ndarray:
        """The root of each node's tree."""
        roots = np.arange(self.size)
        for node, parent in enumerate(self.parents):
            roots[node] = roots[parent] if parent >= 0 else node
        return roots

    @cached_property
    def supports(self) -> np.ndarray:
        """The ancestor mask: `supports[i, j]` if j lies on the path from i to its root, i included (book §4.1.4, κ)."""
        mask = np.eye(self.size, dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask[node] |= mask[parent]
        return mask

    @cached_property
    def ancestors(self) -> np.ndarray:
        """Each node's ancestors, itself included, by depth: (size, depth), padded with `size`."""
        table = np.full((self.size, len(self.levels)), self.size)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                table[node] = table[parent]
            table[node, self.depths[node]] = node
        return table

    @cached_property
    def generations(self) -> np.ndarray:
        """Each node's ancestors by generation: (depth, size), the node itself in the first row, padded with `size`."""
        above = np.append(self.parents, -1).astype(np.int32)
        above[above < 0] = self.size
        rows = [np.arange(self.size, dtype=np.int32)]
        for _ in range(len(self.levels) - 1):
            rows.append(above[rows[-1]])
        return np.array(rows)

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """The nodes of each depth."""
        return [np.flatnonzero(self.depths == depth) for depth in range(self.depths.max(initial=-1) + 1)]

    @property
    def is_chain(self) -> bool:
        """True if each node is the parent of the next."""
        return self.parents == tuple(range(-1, self.size - 1))

    def expanded(self, dofs: Sequence[int]) -> Tree:
        """Returns the tree of single degrees of freedom: k nodes in a row for a node with k of them (book table 6.4, λ')."""
        parents, last = [], []
        for parent, count in zip(self.parents, dofs, strict=True):
            above = last[parent] if parent >= 0 else -1
            for _ in range(count):
                parents.append(above)
                above = len(parents) - 1
            last.append(above)
        return Tree(parents, self.traversal)

    def down(self, step: Callable[[Any, Any], tuple[Any, Any]], root: Any, inputs: Any) -> tuple[Any, Any]:
        """Traverses from the root to the leaves: `value, output = step(value of the parent, inputs of the node)` at every node.

        Args:
          step: The function of one node.
          root: The value above the roots.
          inputs: A PyTree with a leading axis of nodes.

        Returns:
          Values and outputs, each with a leading axis of nodes.
        """
        if self.size == 0:
            return _empty(step, root, inputs)
        return (
            self._down_levels(step, root, inputs) if self._by_levels else self._down_scan(step, root, inputs)
        )

    def up(self, step: Callable[[Any, Any], tuple[Any, Any]], leaf: Any, inputs: Any) -> tuple[Any, Any]:
        """Traverses from the leaves to the root: `value, output = step(sum of the children's values, inputs)` at every node.

        Args:
          step: The function of one node.
          leaf: The sum over no children: a zero.
          inputs: A PyTree with a leading axis of nodes.

        Returns:
          The sum of the roots' values, and the outputs with a leading axis of nodes.
        """
        if self.size == 0:
            return leaf, _empty(step, leaf, inputs)[1]
        return self._up_levels(step, leaf, inputs) if self._by_levels else self._up_scan(step, leaf, inputs)

    def path_sum(self, x: Any) -> Any:
        """Returns the sum over each node and its ancestors; it solves `x = sum - (sum of the parent)`."""
        return self._sums(x, self._less_parent, self._path_sum, self._subtree_sum)

    def subtree_sum(self, x: Any) -> Any:
        """Returns the sum over each node and its descendants; it solves `x = sum - (sums of the children)`."""
        return self._sums(x, self._less_children, self._subtree_sum, self._path_sum)

    def path_composition(self, compose: Callable[[Any, Any], Any], unit: Any, x: Any) -> Any:
        """Returns `x_root ∘ ... ∘ x_i` along the path to each node, for an associative `compose(above, below)` of single values.

        `unit` is the neutral element of `compose`.
        """
        if self.traversal != "doubling" or not self.size:
            return self.down(lambda above, own: (compose(above, own), ()), unit, x)[0]
        for jump in self._jumps:
            padded = jax.tree.map(lambda leaf, u: jnp.concatenate([leaf, u[None]]), x, unit)
            x = jax.vmap(compose)(jax.tree.map(partial(gather, order=jump), padded), x)
        return x

    def _sums(self, x: Any, less: Callable, sums: Callable, transposed: Callable) -> Any:
        """Computes one of the two sums with the other one as its transpose.

        Reverse mode then takes one more traversal of the tree. Transposing the loop would add all waiting values at every
        node, n² operations for n nodes. All leaves are joined to one array with a row per node, because `custom_linear_solve`
        does not support leaves of which only some change.
        """
        leaves, structure = jax.tree.flatten(x)
        if not leaves:
            return x
        widths = [math.prod(leaf.shape[1:]) for leaf in leaves]
        rows = jnp.concatenate(
            [leaf.reshape(self.size, width) for leaf, width in zip(leaves, widths)], axis=1
        )
        rows = lax.custom_linear_solve(less, rows, lambda _, x: sums(x), lambda _, x: transposed(x))
        parts = jnp.split(rows, np.cumsum(widths)[:-1], axis=1)
        return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves)])

    def _less_parent(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return x - gather_or_zero(x, self.parents)

    def _less_children(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return x - sum_rows(x, self.parents, self.size)

    def _path_sum(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        if self.traversal == "doubling":
            for jump in self._jumps:
                x = x + gather_or_zero(x, jump)
            return x
        return self.down(lambda parent, own: (parent + own, ()), jnp.zeros(x.shape[1:], x.dtype), x)[0]

    def _subtree_sum(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        if self.traversal == "doubling":
            return self._dyadic_sum(x)

        def step(children, own):
            return (total := children + own), total

        return self.up(step, jnp.zeros(x.shape[1:], x.dtype), x)[1]

    def _dyadic_sum(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Computes subtree sums from a few blocks of 2ᵏ nodes each, with the nodes ordered subtree by subtree.

        Differences of running sums would take fewer operations, but lose the inertia of a finger
        beside that of the complete robot.
        """
        order, blocks = self._dyadic_blocks
        level = gather(x, order)
        levels = [level]
        while len(level) > 1:
            level = jnp.concatenate([level, jnp.zeros((len(level) % 2, level.shape[1]), level.dtype)])
            level = level[0::2] + level[1::2]
            levels.append(level)
        parts = gather_or_zero(jnp.concatenate(levels), blocks.reshape(-1))
        return jnp.sum(parts.reshape(*blocks.shape, x.shape[1]), axis=1)

    @property
    def _by_levels(self) -> bool:
        if self.traversal in ("auto", "doubling"):
            return not is_cpu() and len(self.levels) <= DEEPEST_LEVEL_TRAVERSAL
        return self.traversal == "levels"

    def _down_scan(self, step, root, inputs):
        if self.is_chain:

            def link(value, own):
                value, output = step(value, own)
                return value, (value, output)

            return lax.scan(link, root, inputs)[1]

        # One buffer holds the values of the nodes above. The next node writes each value before it reads. Writing a value that
        # was computed from reads of the same buffer would copy the buffer, at least under `vmap`. A slice update instead of a
        # scatter lets the compiler keep the loop in one piece. Rows are reused, so the buffer stays in the cache. Reverse mode
        # adds up the buffer at every node.
        rows, parent_rows = self._rows_above
        buffer = jax.tree.map(lambda r: jnp.zeros((1 + int(rows.max()), *r.shape), r.dtype), root)

        def visit(carry, node):
            buffer, last = carry
            row, parent_row, own = node
            buffer = _write(buffer, row, last)
            value, output = step(_read(buffer, parent_row), own)
            return (buffer, value), (value, output)

        return lax.scan(visit, (buffer, root), (rows, parent_rows, inputs))[1]

    def _up_scan(self, step, leaf, inputs):
        if self.is_chain:
            return lax.scan(step, leaf, inputs, reverse=True)

        # A buffer holds the values of children for their parent. The next node writes each value, as in the traversal down.
        # Rows are reused, so the buffer stays in the cache.
        rows, parent_rows, first = self._waiting_rows
        count = 1 + int(parent_rows.max())
        buffer = jax.tree.map(lambda zero: jnp.zeros((count, *zero.shape), zero.dtype), leaf)
        last_rows = np.append(parent_rows[1:], np.zeros_like(parent_rows[:1]))

        def visit(carry, node):
            buffer, last = carry
            row, parent_row, last_row, first, own = node
            buffer = _write(buffer, last_row, last)
            value, output = step(_read(buffer, row), own)
            others = jax.tree.map(lambda x: jnp.where(first, 0, x), _read(buffer, parent_row))
            return (buffer, jax.tree.map(jnp.add, value, others)), output

        nodes = rows, parent_rows, last_rows, first, inputs
        (_, total), outputs = lax.scan(visit, (buffer, leaf), nodes, reverse=True)
        return total, outputs

    def _down_levels(self, step, root, inputs):
        parents, above = np.asarray(self.parents), None
        values, outputs = [], []
        for nodes in self.levels:
            own = _take(inputs, nodes)
            if above is None:
                value, output = jax.vmap(step, in_axes=(None, 0))(root, own)
            else:
                value, output = jax.vmap(step)(_take(values[-1], np.searchsorted(above, parents[nodes])), own)
            values.append(value)
            outputs.append(output)
            above = nodes
        return self._in_order(values), self._in_order(outputs)

    def _up_levels(self, step, leaf, inputs):
        parents, below, value = np.asarray(self.parents), None, None
        outputs = []
        for nodes in reversed(self.levels):
            own = _take(inputs, nodes)
            if below is None:
                value, output = jax.vmap(step, in_axes=(None, 0))(leaf, own)
            else:
                groups = np.searchsorted(nodes, parents[below])
                value, output = jax.vmap(step)(_sum_children(value, groups, len(nodes)), own)
            outputs.append(output)
            below = nodes
        total = jax.tree.map(lambda v: jnp.sum(v, axis=0), value)
        return total, self._in_order(outputs[::-1])

    def _in_order(self, levels):
        order = np.argsort(np.concatenate(self.levels), kind="stable")
        joined = jax.tree.map(lambda *parts: jnp.concatenate(parts), *levels)
        return _take(joined, order)

    @cached_property
    def _jumps(self) -> list[np.ndarray]:
        """Each node's ancestor 1, 2, 4, ... generations above, -1 beyond the root."""
        jump, jumps = np.asarray(self.parents, int), []
        while (jump >= 0).any():
            jumps.append(jump)
            jump = np.where(jump >= 0, jump[jump], -1)
        return jumps

    @cached_property
    def _dyadic_blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes ordered subtree by subtree, and the rows of the pyramid of sums that add up to each subtree.

        The rows are padded with -1.
        """
        sizes = np.ones(self.size, int)
        for node in reversed(range(self.size)):
            if self.parents[node] >= 0:
                sizes[self.parents[node]] += sizes[node]
        place, free, nothing_above = np.zeros(self.size, int), np.zeros(self.size, int), 0
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                place[node], free[parent] = free[parent], free[parent] + sizes[node]
            else:
                place[node], nothing_above = nothing_above, nothing_above + sizes[node]
            free[node] = place[node] + 1
        starts, width = [0], self.size
        while width > 1:
            starts.append(starts[-1] + width)
            width = (width + 1) // 2
        table = []
        for first, size in zip(place, sizes, strict=True):
            rows, left, right, level = [], int(first), int(first + size), 0
            while left < right:
                if left % 2:
                    rows.append(starts[level] + left)
                    left += 1
                if right % 2:
                    right -= 1
                    rows.append(starts[level] + right)
                left, right, level = left // 2, right // 2, level + 1
            table.append(rows)
        most = max(map(len, table), default=0)
        blocks = np.array([rows + [-1] * (most - len(rows)) for rows in table], int).reshape(self.size, most)
        return np.argsort(place), blocks

    @cached_property
    def _rows_above(self) -> tuple[np.ndarray, np.ndarray]:
        """For the traversal down: the buffer row of the previous node's value, and the buffer row of the parent's value.

        The value before the first node is the root's. Row 0 is for nodes without children.
        """
        rows, parent_rows = np.zeros(self.size, np.int32), np.zeros(self.size, np.int32)
        last = {parent: node for node, parent in enumerate(self.parents)}
        waiting, free, used = {}, [], 0
        for node, parent in enumerate(self.parents):
            if node - 1 in last:
                if not free:
                    free.append(used := used + 1)
                rows[node] = waiting[node - 1] = free.pop()
            parent_rows[node] = waiting[parent]
            if last[parent] == node:
                free.append(waiting.pop(parent))
        return rows, parent_rows

    @cached_property
    def _waiting_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The buffer row of the children's sum, the buffer row of the node's own value, and whether the node writes it first.

        Row 0 stays zero, for leaves.
        """
        rows, parent_rows = np.zeros(self.size, np.int32), np.zeros(self.size, np.int32)
        first, waiting, free, used = np.zeros(self.size, bool), {}, [], 0
        for node in reversed(range(self.size)):
            if node in waiting:
                rows[node] = waiting.pop(node)
                free.append(rows[node])
            parent = self.parents[node]
            if parent not in waiting:
                first[node] = True
                if not free:
                    free.append(used := used + 1)
                waiting[parent] = free.pop()
            parent_rows[node] = waiting[parent]
        return rows, parent_rows, first


def _empty(step, carry, inputs):
    """Returns the result of a traversal over no nodes: arrays without rows."""
    one = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), inputs)
    return jax.tree.map(lambda s: jnp.zeros((0, *s.shape), s.dtype), jax.eval_shape(step, carry, one))


def _read(buffer, row):
    return jax.tree.map(
        lambda rows: lax.dynamic_index_in_dim(rows, row, keepdims=False, allow_negative_indices=False), buffer
    )


def _write(buffer, row, value):
    return jax.tree.map(
        lambda rows, x: lax.dynamic_update_index_in_dim(rows, x, row, 0, allow_negative_indices=False),
        buffer,
        value,
    )


def _take(x, rows: np.ndarray):
    """Selects rows known in advance; consecutive rows are sliced, which is cheaper than a gather."""
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return jax.tree.map(lambda leaf: leaf[rows[0] : rows[0] + len(rows)], x)
    return jax.tree.map(lambda leaf: leaf[rows], x)


def _sum_children(values, groups: np.ndarray, count: int):
    return jax.tree.map(lambda leaf: sum_rows(leaf, groups, count), values)
