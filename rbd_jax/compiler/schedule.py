"""Scalars in the order in which a kernel works them out: what is arithmetic as instructions, and the rest one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .expressions import Scalars
from .gpu.instructions import Arithmetic, has_lowering, instruction, run


#: Samples of a block: the threads of a warp. Kernels that need all registers are given more of them by more blocks.
BLOCK = 32


#: The types that kernels compute with.
KINDS = {np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64, bool)}


class NoKernel(ValueError):
    """A function that cannot be a kernel, and why."""


class _Level(NamedTuple):
    """Scalars that are not arithmetic, and then some that are."""

    others: list[int]
    instructions: Arithmetic


class Piece:
    """Scalars that are worked out one after the other: of the whole kernel, or of a round of a loop.

    They come in levels, each of what is not arithmetic and then of arithmetic, which needs nothing that comes after it.

    - `wanted`: those that are asked for.
    - `stored`: those that are written to memory: `(array, place, scalar)`, the place counted from where the thread begins.
    """

    def __init__(self, scalars: Scalars, wanted: Sequence[int], stored: Sequence[tuple[int, int, int]]):
        self.scalars, self.wanted, self.stored = scalars, list(wanted), list(stored)
        needed = np.zeros(len(scalars.operation), bool)
        needed[self.wanted + [node for *_, node in stored]] = True
        for node in range(len(needed) - 1, -1, -1):
            if needed[node] or self._writes(node):
                needed[node] = True
                needed[list(scalars.arguments[node])] = True
        self.nodes = np.flatnonzero(needed).tolist()
        for node in self.nodes:
            if scalars.value(node) is None and scalars.dtype[node] not in KINDS:
                raise NoKernel(
                    f"fused: function computes with {scalars.dtype[node]} what depends on the sample; leave fused out"
                )

    def _writes(self, node: int) -> bool:
        return self.scalars.operation[node] == "loop" and bool(self.scalars.extra[node].rows)

    def sources(self) -> set[tuple]:
        """The kinds and numbers of what it reads, loops in it too."""
        operation, extra = self.scalars.operation, self.scalars.extra
        loops = [extra[node].piece for node in self.nodes if operation[node] == "loop"]
        own = {extra[node][0][:2] for node in self.nodes if operation[node] == "input"}
        return own.union(*(piece.sources() for piece in loops))

    def count(self) -> int:
        """How many scalars it works out, those of loops in one round."""
        loops = (self.scalars.extra[node] for node in self.nodes if self.scalars.operation[node] == "loop")
        return len(self.nodes) + sum(loop.piece.count() for loop in loops)

    def outer(self) -> list[int]:
        """The scalars around it that it needs."""
        extra = self.scalars.extra
        inputs = [node for node in self.nodes if self.scalars.operation[node] == "input"]
        return [extra[node][1] for node in inputs if extra[node][0] == ("outer",)]

    @functools.cached_property
    def in_levels(self) -> tuple[list[_Level], list[tuple[int, int, int]]]:
        """The levels, and what of that which is stored no instruction stores. A GPU's kernel takes them."""
        scalars, level, plain = self.scalars, {}, {}
        for node in self.nodes:
            plain[node] = scalars.operation[node] != "constant" and instruction(scalars, node) is not None
            own = [level[x] + (plain[x] and not plain[node]) for x in scalars.arguments[node]]
            level[node] = max(own, default=0)
        late: dict[int, int] = {}
        for node in reversed(self.nodes):  # what is needed late is worked out late
            if plain[node] and node in late:
                level[node] = late[node]
            for x in scalars.arguments[node]:
                before = level[node] - (plain[x] and not plain[node])
                late[x] = min(before, late[x]) if x in late else before
        written = [x for x in self.stored if not plain[x[2]] or scalars.dtype[x[2]] == bool]
        leaving = {*self.wanted, *(node for *_, node in written)}
        for node in self.nodes:
            leaving.update(x for x in scalars.arguments[node] if not plain[node] or level[x] < level[node])
        stores: dict[int, list] = {}
        for array, place, node in set(self.stored) - set(written):
            stores.setdefault(node, []).append((("written", array), place))
        found = []
        # As they were traced, or depth first: whichever needs to keep less at a time.
        wanted = [node for node in self.nodes if node in leaving or node in stores]
        orders = self.nodes, depth_first(scalars.arguments, wanted)
        for number in range(1 + max(level.values(), default=0)):
            tried = []
            for nodes in orders:
                sums = [node for node in nodes if level[node] == number and plain[node]]
                own = {node: stores[node] for node in sums if node in stores}
                tried.append(Arithmetic(scalars, sums, leaving, own))
            others = [node for node in self.nodes if level[node] == number and not plain[node]]
            found.append(_Level(others, min(tried, key=lambda instructions: instructions.moved)))
        return found, written

    def __call__(self, block: Any, read: Callable, first: Callable) -> dict[int, Any]:
        """The scalars, each a vector of the samples of a block; what is to be stored is.

        - `read`: `(source, place, dtype) -> vector` of what is given.
        - `first`: `source -> (array, rows, columns)`, where in memory each thread begins to read, or to write.
        """
        values: dict[int, Any] = {}
        levels, written = self.in_levels
        for others, instructions in levels:
            for node in others:
                values[node] = self._other(node, values, read, block)
            if block.interpret:
                for node in instructions.nodes:
                    values[node] = self._other(node, values, read, block)
                for node, places in instructions.stores.items():
                    for source, place in places:
                        block.write(first(source), place, values[node])
            elif instructions.nodes:
                memory = list(map(first, instructions.memory))
                values |= run(instructions, [values[x] for x in instructions.given], memory)
        for number, place, node in written:
            block.write(first(("written", number)), place, values[node])
        return values

    def _other(self, node: int, values: dict, read: Callable, block: Any) -> Any:
        scalars = self.scalars
        operation, extra = scalars.operation[node], scalars.extra[node]
        if operation == "constant":
            return jnp.full((BLOCK,), extra)
        if operation == "input":
            return read(*extra, scalars.dtype[node])
        operands = [values[x] for x in scalars.arguments[node]]
        if operation == "loop":
            count = len(extra.start)
            return block.loop(extra, operands[:count], operands[count:])
        if operation == "entry":
            return operands[0][extra]
        primitive, params = extra
        if not block.interpret and not has_lowering(primitive):
            raise NoKernel(
                f"fused: function does `{operation}`, which Pallas has not for a GPU; leave fused out"
            )
        return primitive.bind(*operands, **dict(params))


def depth_first(arguments: Sequence[tuple[int, ...]], wanted: Sequence[int]) -> list[int]:
    """Scalars in an order in which they can be computed: before each what it needs that is not there yet, and no sooner."""
    order: dict[int, None] = {}
    for root in wanted:
        waiting = [(root, iter(arguments[root]))]
        while waiting:
            node, rest = waiting[-1]
            operand = next((x for x in rest if x not in order), None)
            if operand is None:
                order[node] = None
                waiting.pop()
            else:
                waiting.append((operand, iter(arguments[operand])))
    return list(order)


def placed(arrays: Sequence[np.ndarray], apart: Sequence[int] | None = None) -> list[tuple[int, int, int]]:
    """Each entry of some arrays: which array, its place there, and the scalar.

    - `apart`: how far from one another the entries of each array lie; 1 by default.
    """
    return [
        (number, place * far, node)
        for number, (nodes, far) in enumerate(zip(arrays, apart or [1] * len(arrays), strict=True))
        for place, node in enumerate(nodes.reshape(-1).tolist())
    ]
