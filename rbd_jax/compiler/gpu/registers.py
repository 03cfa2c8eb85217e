"""Register allocation of a GPU thread: which numbers are in registers, and which in local memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..writer import Round


#: Registers for numbers. A thread has 255; addresses and temporary values need the others.
REGISTERS = 230


class Step(NamedTuple):
    """A step of a plan: compute a scalar, save it in a slot, load it from there, or drop it from its register."""

    what: Literal["compute", "save", "load", "drop"]
    node: int
    place: int = 0


def plan(given: Round, nodes: Sequence[int]) -> list[Step]:
    """Returns steps that never need more registers than a thread has.

    If no register is free, the number with the latest next use leaves its register. Inputs are read again when needed; other
    numbers are saved. NVIDIA's assembler alone would save and load more numbers.

    Args:
      given: The program.
      nodes: The scalars to compute, in order.
    """
    scalars, extra, operation = given.scalars, given.scalars.extra, given.scalars.operation
    wide = any(scalars.dtype[node] == np.float64 for node in nodes)  # each needs two registers
    room = REGISTERS // 2 if wide else REGISTERS
    of_numbers = lambda nodes: [x for x in nodes if scalars.value(x) is None and scalars.dtype[x] != bool]
    needed = [of_numbers(dict.fromkeys(scalars.arguments[node])) for node in nodes]
    leaving = of_numbers(dict.fromkeys(given.wanted))
    uses: dict[int, list[int]] = {}  # the times at which each scalar is used, the next time last
    for time, operands in reversed(list(enumerate([*needed, leaving]))):
        for x in operands:
            uses.setdefault(x, []).append(time)
    is_read = lambda x: operation[x] == "input" and extra[x][0][0] not in ("carry", "outer")
    there = dict.fromkeys(x for x in uses if operation[x] == "input" and not is_read(x))
    steps: list[Step] = []
    places: dict[int, int] = {}
    free: list[int] = []
    slots = 0

    def make_room(operands: Sequence[int]) -> None:
        nonlocal slots
        while len(there) >= room:
            last = max((x for x in there if x not in operands), key=lambda x: uses[x][-1], default=None)
            if last is None:
                return
            del there[last]
            if is_read(last):
                steps.append(Step("drop", last))
            elif last not in places:
                places[last] = free.pop() if free else slots
                slots = max(slots, places[last] + 1)
                steps.append(Step("save", last, places[last]))
            else:
                steps.append(Step("drop", last))

    def fetch(operands: Sequence[int]) -> None:
        for x in operands:
            if x not in there:
                if x in places:
                    steps.append(Step("load", x, places[x]))
                there[x] = None

    for node, operands in zip(nodes, needed, strict=True):
        fetch(operands)
        make_room(operands)
        steps.append(Step("compute", node))
        for x in operands:
            uses[x].pop()
            if not uses[x]:
                del there[x]
                if x in places:
                    free.append(places.pop(x))
        there.update((made, None) for made in (node, *given.entries.get(node, ())) if uses.get(made))
    fetch(leaving)
    return steps


def moves(steps: Sequence[Step]) -> int:
    """Returns the number of saves and loads."""
    return sum(step.what in ("save", "load") for step in steps)
