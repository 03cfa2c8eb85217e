"""Which scalars a kernel works out, and in which order they can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .expressions import Scalars


#: Samples of a block: the threads of a warp. Kernels that need all registers are given more of them by more blocks.
BLOCK = 32


#: The types that kernels compute with.
KINDS = {np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64, bool)}


class NoKernel(ValueError):
    """A function that cannot be a kernel, and why."""


class Piece:
    """Scalars that are worked out one after the other: of the whole kernel, or of a round of a loop.

    - `wanted`: those that are asked for.
    """

    def __init__(self, scalars: Scalars, wanted: Sequence[int]):
        self.scalars = scalars
        needed = np.zeros(len(scalars.operation), bool)
        needed[list(wanted)] = True
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
