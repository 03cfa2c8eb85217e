"""Which numbers of a thread are in registers, and which wait in its memory until they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..writer import Round


#: Registers for numbers, of the 255 that a thread has. Addresses and temporary values need the others.
REGISTERS = 230


class Step(NamedTuple):
    """Work a scalar out, save it in a place, load it from there, or give it up, to be read again when it is needed."""

    what: Literal["compute", "save", "load", "drop"]
    node: int
    place: int = 0


def plan(given: Round, nodes: Sequence[int]) -> list[Step]:
    """What is done one after the other, so that never more numbers are in registers than there are.

    Where there is no room, what is needed last goes. What was read from memory is read again; the rest is saved. The assembler,
    left to itself, saves and loads more.

    - `nodes`: what is worked out, in order.
    """
    scalars, extra, operation = given.scalars, given.scalars.extra, given.scalars.operation
    wide = any(scalars.dtype[node] == np.float64 for node in nodes)  # of which each takes two
    room = REGISTERS // 2 if wide else REGISTERS
    of_numbers = lambda nodes: [x for x in nodes if scalars.value(x) is None and scalars.dtype[x] != bool]
    needed = [of_numbers(dict.fromkeys(scalars.arguments[node])) for node in nodes]
    leaving = of_numbers(dict.fromkeys(given.wanted))
    uses: dict[int, list[int]] = {}  # of each scalar, when it is needed, the next time last
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
    """How often memory is used for want of registers."""
    return sum(step.what in ("save", "load") for step in steps)
