"""Scalars as LLVM's instructions, loops among them: what is the same for processors and GPUs.

Where numbers are read and written differs: `cpu.routine` has a vector of samples for each scalar, `gpu.thread` a number.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from .expressions import Scalars
from .fusing import Loop
from .instructions import TYPES, Instructions
from .llvm import converted, write


class Saved(NamedTuple):
    """What is in memory of its own: in which place, and of which type it is to LLVM."""

    slot: int
    type: str


class Result(NamedTuple):
    """An array that is written.

    - `size`: so many numbers of a sample.
    - `layout`: as rows, of a sample's numbers each; as columns, of the same number of many samples; or as a sum, a column that is
      added to.
    """

    shape: tuple[int, ...]
    size: int
    dtype: np.dtype
    layout: Literal["rows", "columns", "sum"]

    @property
    def type(self) -> str:
        """Of a number in memory, to LLVM."""
        return "i32" if self.dtype == bool else TYPES[np.dtype(self.dtype)]

    @property
    def stored(self) -> np.dtype:
        """Of a number in memory."""
        return np.dtype(np.int32) if self.dtype == bool else np.dtype(self.dtype)


Stores = dict[int, list[tuple[int, int, int]]]

#: A value in a function, by its name, or in memory.
Place = str | Saved


@dataclass
class Round:
    """A program of scalars that is written: all of it, or a round of a loop.

    - `nodes`: what is worked out, in order; `wanted` what of it is used after.
    - `stores`: where scalars are written: (result, place, how far that moves with each round).
    - `carried`, `outer`: what a loop carries, and what it uses from around it; `rounds` the numbers of the rounds of all loops
      that it is in.
    - `active`: which lanes the searches around it still work for; None if there are none.
    - `names`: of what is in registers, and `saved` what is in memory.
    """

    scalars: Scalars
    nodes: Sequence[int]
    wanted: Sequence[int] = ()
    stores: Stores = field(default_factory=dict)
    carried: Sequence[Place] = ()
    outer: dict[int, Place] = field(default_factory=dict)
    rounds: tuple[Place, ...] = ()
    active: Place | None = None
    names: dict[int, str] = field(default_factory=dict)
    saved: dict[int, Saved] = field(default_factory=dict)

    def __post_init__(self):
        self.entries: dict[int, list[int]] = {}
        """What loops end with, of each."""
        for node in self.nodes:
            if self.scalars.operation[node] == "entry":
                self.entries.setdefault(self.scalars.arguments[node][0], []).append(node)
        apart = ("constant", "input", "entry")
        self.work = [node for node in self.nodes if self.scalars.operation[node] not in apart]

    @property
    def ready(self) -> list[int]:
        """What is written that need not be worked out."""
        return [node for node in self.stores if self.scalars.operation[node] in ("constant", "input")]


class Writer(abc.ABC):
    """Writes the instructions of a kernel.

    - `kernel`: what is worked out, and what of it is written.
    - `sizes`: of each array that is read, by kind and number, how many numbers a sample has (or all samples share), and their
      type.
    - `lanes`: so many samples at a time, or None for one.
    """

    #: Accesses of memory of its own that must stay where they are.
    volatile = ""
    #: The type of pointers to it.
    memory = "ptr"
    #: How far apart its places are, in bytes.
    slot_bytes: int

    def __init__(self, kernel, sizes: dict[tuple, tuple[int, np.dtype]], lanes: int | None, block: str):
        self.sizes = sizes
        self.results = [
            Result(nodes.shape, nodes.size, kind, self.layout(is_sum, columns))
            for (nodes, kind, is_sum), columns in zip(kernel.stored, kernel.in_columns, strict=True)
        ]
        self.results += [
            Result((x.length, *x.nodes.shape), x.length * x.nodes.size, x.dtype, "rows") for x in kernel.rows
        ]
        self.rows_at = {id(x): number for number, x in enumerate(kernel.rows, len(kernel.stored))}
        self.declared: set[str] = set()
        self.free: list[int] = []
        self.slots = 0
        self.code = Instructions(lanes, block, self.declared)

    @abc.abstractmethod
    def layout(self, is_sum: bool, columns: bool) -> Literal["rows", "columns", "sum"]:
        """Returns the layout of a result that is summed over the samples, or has many numbers per sample."""

    def write_all(self, kernel) -> None:
        stores = places((number, nodes, 0) for number, (nodes, *_) in enumerate(kernel.stored))
        self.write_round(Round(kernel.scalars, kernel.piece.nodes, stores=stores))

    # Rounds.

    def write_round(self, given: Round) -> None:
        """Work everything out."""
        self.write_part(given, given.work, given.ready)

    def write_part(self, given: Round, nodes: Iterable[int], ready: Iterable[int]) -> None:
        """Work some out, and write what is to be: of these, and of what is there already."""
        for node in ready:
            self.store(given, node)
        for node in nodes:
            self.write_made(given, node)

    def write_made(self, given: Round, node: int) -> None:
        """Work one out, or a loop with all that it ends with, and write what is to be."""
        self.write_scalar(given, node)
        for made in (node, *given.entries.get(node, ())):
            self.store(given, made)

    @abc.abstractmethod
    def store(self, given: Round, node: int) -> None:
        """Writes a scalar to each entry of a result that it is. Rows of a loop are written behind those of earlier iterations."""

    @abc.abstractmethod
    def read(self, given: Round, source: tuple, place: int, dtype) -> str:
        """Reads a number of an argument or a table. Truth values are read as whole numbers."""

    # Memory of its own.

    def save(self, name: str, kind: str) -> Saved:
        """Put a value of this function where others find it."""
        slot = self.free.pop() if self.free else self.slots
        self.slots = max(self.slots, slot + 1)
        at = self.slot(slot)
        self.code.lines.append(f"store {self.volatile}{kind} {name}, {self.memory} {at}")
        return Saved(slot, kind)

    def load(self, x: Saved) -> str:
        return self.code.new(f"load {self.volatile}{x.type}, {self.memory} {self.slot(x.slot)}")

    def slot(self, number: int) -> str:
        return self.code.new(f"getelementptr i8, {self.memory} %frame, i64 {number * self.slot_bytes}")

    def here(self, x: Place) -> str:
        """The name of a value in this function."""
        if isinstance(x, str):
            return x
        found = self.code.known.get(x)
        if found is None:
            found = self.code.known[x] = self.load(x)
        return found

    # Scalars.

    def value(self, given: Round, node: int) -> str:
        """A scalar's name in this function."""
        number = given.scalars.value(node)
        if number is not None:
            return self.code.constant(number, given.scalars.dtype[node])
        if node not in given.names:
            if given.scalars.operation[node] == "input":
                given.names[node] = self.given(given, node)
            else:
                return self.here(given.saved[node])
        return given.names[node]

    def given(self, given: Round, node: int) -> str:
        source, place = given.scalars.extra[node]
        if source[0] == "carry":
            return self.here(given.carried[place])
        if source[0] == "outer":
            return self.here(given.outer[place])
        dtype = given.scalars.dtype[node]
        if dtype == bool:
            whole = np.dtype(np.int32)
            return converted(self.code, self.read(given, source, place, whole), whole, dtype)
        return self.read(given, source, place, dtype)

    def moved(self, given: Round, source: tuple, place: int) -> str:
        """Where a number is that moves on with each round of the loops around it."""
        moved = str(place)
        for step, round_ in zip(source[2] if len(source) > 2 else (), given.rounds):
            if step:
                far = self.code.new(f"mul i64 {self.here(round_)}, {step}")
                moved = self.code.new(f"add i64 {moved}, {far}")
        return moved

    def moved_row(self, given: Round, place: int, step: int) -> str:
        """Where a number of a row is written in this round."""
        if not step:
            return str(place)
        first = self.code.new(f"mul i64 {self.here(given.rounds[-1])}, {step}")
        return self.code.new(f"add i64 {first}, {place}")

    def write_scalar(self, given: Round, node: int) -> None:
        scalars = given.scalars
        operation, extra = scalars.operation[node], scalars.extra[node]
        if operation == "loop":
            self._loop(given, node, extra)
            return
        operands = scalars.arguments[node]
        divisor = scalars.value(operands[1]) if len(operands) == 2 else None
        given.names[node] = write(
            self.code,
            operation,
            [self.value(given, x) for x in operands],
            [scalars.dtype[x] for x in operands],
            scalars.dtype[node],
            extra,
            divides=divisor is not None and divisor not in (0, -1),  # of the least number -1 is one too many
        )

    def _loop(self, given: Round, node: int, loop: Loop) -> None:
        """A loop that stays one. What it uses from around it are values of the code around it."""
        count = len(loop.start)
        values = [self.value(given, x) for x in given.scalars.arguments[node]]
        start, outer, begins = values[:count], values[count : count + len(loop.outer)], values[-1]
        code, searches = self.code, loop.length is None
        if searches and given.active is not None and code.lanes is not None:
            # A lane whose search is over goes on with numbers for which another one may have no end.
            begins = code.new(f"and {code.type(bool)} {begins}, {self.here(given.active)}")
        some = code.any(begins) if searches else None
        code.loops += 1
        number, before, lines = code.loops, code.block, code.lines
        code.lines, code.block = [], f"loop{number}"
        # The rounds of a search may be none: what is in registers there is not after it.
        known = dict(code.known) if searches else code.known
        last = f"add i64 %i{number}, 0"
        if loop.reverse and loop.length is not None:
            last = f"sub i64 {loop.length - 1}, %i{number}"
        rows = ((self.rows_at[id(x)], x.nodes, x.nodes.size) for x in loop.rows)
        inner = Round(
            loop.piece.scalars,
            loop.piece.nodes,
            wanted=loop.wanted,
            stores=places(rows),
            carried=[f"%c{number}_{i}" for i in range(count)],
            outer=dict(zip(loop.outer, outer, strict=True)),
            rounds=(*given.rounds, code.new(last)),
            active=f"%active{number}" if searches else given.active,
        )
        self.write_round(inner)
        ends = [self.value(inner, x) for x in loop.carried]
        goes_on = f"%m{number}"
        if searches:
            ends, active, goes_on = self._searched(inner, loop, number, ends)
        code.new_line(f"%j{number} = add i64 %i{number}, 1")
        if not searches:
            code.new_line(f"{goes_on} = icmp slt i64 %j{number}, {loop.length}")
        code.new_line(f"br i1 {goes_on}, label %loop{number}, label %after{number}")
        body, after, code.lines = code.lines, code.block, lines
        otherwise = f"br i1 {some}, label %loop{number}, label %after{number}"
        code.new_line(otherwise if searches else f"br label %loop{number}")
        code.new_line(f"loop{number}:")
        phi = lambda name, kind, first, next_: code.new_line(
            f"{name} = phi {kind} [{first}, %{before}], [{next_}, %{after}]"
        )
        phi(f"%i{number}", "i64", 0, f"%j{number}")
        for i, kind in enumerate(loop.kinds):
            phi(f"%c{number}_{i}", code.type(kind), start[i], ends[i])
        if searches:
            phi(f"%active{number}", code.type(bool), begins, active)
        code.lines += body
        code.new_line(f"after{number}:")
        code.block, code.known = f"after{number}", known
        if searches:
            for i, kind in enumerate(loop.kinds):
                phi(f"%e{number}_{i}", code.type(kind), start[i], ends[i])
            ends = [f"%e{number}_{i}" for i in range(count)]
        for entry in given.entries.get(node, ()):
            given.names[entry] = ends[given.scalars.extra[entry]]

    def _searched(self, inner: Round, loop: Loop, number: int, ends: list[str]) -> tuple[list[str], str, str]:
        """What a round of a search ends with: where it was at its end before, what it ended with. Then who goes on, and whether
        any does."""
        code, active = self.code, f"%active{number}"
        assert loop.goes_on is not None
        ends = [
            code.new(
                f"select {code.type(bool)} {active}, {code.type(kind)} {end}, {code.type(kind)} %c{number}_{i}"
            )
            for i, (end, kind) in enumerate(zip(ends, loop.kinds, strict=True))
        ]
        goes_on = code.new(f"and {code.type(bool)} {active}, {self.value(inner, loop.goes_on)}")
        return ends, goes_on, code.any(goes_on)


def places(arrays: Iterable[tuple[int, np.ndarray, int]]) -> Stores:
    """Where scalars are written: of arrays, by number, and how far each moves with each round."""
    found: Stores = {}
    for number, nodes, step in arrays:
        for place, node in enumerate(nodes.reshape(-1).tolist()):
            found.setdefault(node, []).append((number, place, step))
    return found
