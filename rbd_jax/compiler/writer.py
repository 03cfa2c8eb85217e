"""Translation of scalars and loops to LLVM instructions: the part that CPUs and GPUs have in common.

Memory access differs: `cpu.routine` has a vector of samples for each scalar, `gpu.thread` a single number.
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
    """A value in local memory: its slot and its LLVM type."""

    slot: int
    type: str


class Result(NamedTuple):
    """An array that the kernel writes.

    - `shape`: the shape of one sample.
    - `size`: the number of entries of one sample.
    - `dtype`: the data type.
    - `layout`: rows contain all entries of one sample; columns contain the same entry of many samples; a sum is a column to
      which samples are added.
    """

    shape: tuple[int, ...]
    size: int
    dtype: np.dtype
    layout: Literal["rows", "columns", "sum"]

    @property
    def type(self) -> str:
        """The LLVM type of a number in memory."""
        return "i32" if self.dtype == bool else TYPES[np.dtype(self.dtype)]

    @property
    def stored(self) -> np.dtype:
        """The data type of a number in memory."""
        return np.dtype(np.int32) if self.dtype == bool else np.dtype(self.dtype)


Stores = dict[int, list[tuple[int, int, int]]]

#: The name of a value in a function, or its place in memory.
Place = str | Saved


@dataclass
class Round:
    """A program of scalars to write: the complete program, or one iteration of a loop.

    - `scalars`: the scalars.
    - `nodes`: the scalars to compute, in order.
    - `wanted`: the scalars that are used afterwards.
    - `stores`: the targets of scalars: (result, index, increment of the index per iteration).
    - `carried`: the carried values of the loop.
    - `outer`: the scalars of the enclosing program.
    - `rounds`: the iteration counters of all enclosing loops.
    - `active`: the lanes that are active in enclosing `while` loops; None without such loops.
    - `names`: the names of values in registers.
    - `saved`: the values in local memory.
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
        """The final carried values of each loop."""
        for node in self.nodes:
            if self.scalars.operation[node] == "entry":
                self.entries.setdefault(self.scalars.arguments[node][0], []).append(node)
        apart = ("constant", "input", "entry")
        self.work = [node for node in self.nodes if self.scalars.operation[node] not in apart]

    @property
    def ready(self) -> list[int]:
        """The stored scalars that need no computation."""
        return [node for node in self.stores if self.scalars.operation[node] in ("constant", "input")]


class Writer(abc.ABC):
    """Writes the instructions of a kernel.

    - `kernel`: the kernel, with its scalars and results.
    - `sizes`: for each input array, by kind and index, the number of entries per sample (or in total, if shared) and the data
      type.
    - `lanes`: the number of samples per vector; None for single numbers.
    - `block`: the name of the first basic block.
    """

    #: "volatile " if accesses to local memory must keep their order.
    volatile = ""
    #: The type of pointers to local memory.
    memory = "ptr"
    #: The size of a slot of local memory, in bytes.
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

    # Iterations.

    def write_round(self, given: Round) -> None:
        """Writes all scalars of an iteration."""
        self.write_part(given, given.work, given.ready)

    def write_part(self, given: Round, nodes: Iterable[int], ready: Iterable[int]) -> None:
        """Computes some scalars, and stores those that are results; `ready` scalars are only stored."""
        for node in ready:
            self.store(given, node)
        for node in nodes:
            self.write_made(given, node)

    def write_made(self, given: Round, node: int) -> None:
        """Computes a scalar, or a loop with its final values, and stores those that are results."""
        self.write_scalar(given, node)
        for made in (node, *given.entries.get(node, ())):
            self.store(given, made)

    @abc.abstractmethod
    def store(self, given: Round, node: int) -> None:
        """Writes a scalar to its entries of results. Rows of a loop follow those of earlier iterations."""

    @abc.abstractmethod
    def read(self, given: Round, source: tuple, place: int, dtype) -> str:
        """Reads a number of an argument or a table. Truth values are read as integers."""

    # Local memory.

    def save(self, name: str, kind: str) -> Saved:
        """Saves a value in local memory, where other functions can read it."""
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
        """Returns the name of a value in this function; loads it from memory if needed."""
        if isinstance(x, str):
            return x
        found = self.code.known.get(x)
        if found is None:
            found = self.code.known[x] = self.load(x)
        return found

    # Scalars.

    def value(self, given: Round, node: int) -> str:
        """Returns the name of a scalar in this function."""
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
        """Returns the index of a number to read, which advances with the iterations of enclosing loops."""
        moved = str(place)
        for step, round_ in zip(source[2] if len(source) > 2 else (), given.rounds):
            if step:
                far = self.code.new(f"mul i64 {self.here(round_)}, {step}")
                moved = self.code.new(f"add i64 {moved}, {far}")
        return moved

    def moved_row(self, given: Round, place: int, step: int) -> str:
        """Returns the index at which a number of a row is written in this iteration."""
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
            divides=divisor is not None
            and divisor not in (0, -1),  # the smallest integer divided by -1 overflows
        )

    def _loop(self, given: Round, node: int, loop: Loop) -> None:
        """Writes a loop. Scalars of the enclosing program are values of the enclosing code."""
        count = len(loop.start)
        values = [self.value(given, x) for x in given.scalars.arguments[node]]
        start, outer, begins = values[:count], values[count : count + len(loop.outer)], values[-1]
        code, searches = self.code, loop.length is None
        if searches and given.active is not None and code.lanes is not None:
            # Finished lanes continue with arbitrary numbers, for which an inner loop might not terminate.
            begins = code.new(f"and {code.type(bool)} {begins}, {self.here(given.active)}")
        some = code.any(begins) if searches else None
        code.loops += 1
        number, before, lines = code.loops, code.block, code.lines
        code.lines, code.block = [], f"loop{number}"
        # A `while` loop may have no iterations, so values loaded in its body are not available after it.
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
        """Returns the final values of an iteration of a `while` loop, in which finished lanes keep their values.

        Returns:
          The values, the lanes that continue, and whether any lane continues.
        """
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
    """Returns the targets of scalars, from arrays given as (result, scalars, increment of the index per iteration)."""
    found: Stores = {}
    for number, nodes, step in arrays:
        for place, node in enumerate(nodes.reshape(-1).tolist()):
            found.setdefault(node, []).append((number, place, step))
    return found
