"""Selection and order of the scalars that a kernel computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .expressions import Scalars


#: Samples per block: the threads of a warp. With small blocks, kernels can use more registers per thread.
BLOCK = 32


#: Data types that kernels support.
KINDS = {np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64, bool)}


class NoKernel(ValueError):
    """Raised if a function cannot be a kernel; the message contains the reason."""


class Piece:
    """The scalars of a complete kernel, or of one iteration of a loop, in the order in which they are computed.

    - `scalars`: the scalars of the program.
    - `wanted`: the scalars that are results.
    - `nodes`: the scalars that the results depend on.
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
                    f"fused: function computes with {scalars.dtype[node]} values that depend on the sample; leave fused out"
                )

    def _writes(self, node: int) -> bool:
        return self.scalars.operation[node] == "loop" and bool(self.scalars.extra[node].rows)

    def sources(self) -> set[tuple]:
        """Returns the kinds and indices of the arrays that the piece and its loops read."""
        operation, extra = self.scalars.operation, self.scalars.extra
        loops = [extra[node].piece for node in self.nodes if operation[node] == "loop"]
        own = {extra[node][0][:2] for node in self.nodes if operation[node] == "input"}
        return own.union(*(piece.sources() for piece in loops))

    def count(self) -> int:
        """Returns the number of scalars, with one iteration of each loop."""
        loops = (self.scalars.extra[node] for node in self.nodes if self.scalars.operation[node] == "loop")
        return len(self.nodes) + sum(loop.piece.count() for loop in loops)

    def outer(self) -> list[int]:
        """Returns the scalars of the enclosing program that the piece needs."""
        extra = self.scalars.extra
        inputs = [node for node in self.nodes if self.scalars.operation[node] == "input"]
        return [extra[node][1] for node in inputs if extra[node][0] == ("outer",)]


def depth_first(arguments: Sequence[tuple[int, ...]], wanted: Sequence[int]) -> list[int]:
    """Returns scalars in depth-first order: the operands of each scalar come before it, as late as possible."""
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
