"""A builder for the instructions of a function in LLVM's assembly language.

For CPUs, each value is a vector with a sample in each lane. For the threads of a GPU, each value is a single number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


#: LLVM names of data types. Truth values in memory are integers.
TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(bool): "i1",
}


def letter(dtype) -> str:
    """Returns a letter for a data type: f for floating point, i for integers, b for truth values."""
    return np.dtype(dtype).kind


class Instructions:
    """The instructions of a function.

    - `lanes`: the number of samples in a vector; None if a value is the number of one sample.
    - `block`: the name of the current basic block.
    - `declared`: declarations and functions that the module needs.
    - `lines`: the instructions so far.
    - `known`: values that are already in registers, by any key.
    """

    def __init__(self, lanes: int | None, block: str, declared: set[str]):
        self.lanes, self.block, self.declared = lanes, block, declared
        self.lines: list[str] = []
        self.known: dict = {}
        self.loops = self._count = 0

    def continued(self) -> Instructions:
        """Returns new instructions that follow these, in the same function or in another one."""
        after = Instructions(self.lanes, self.block, self.declared)
        after._count = self._count
        return after

    def new(self, line: str) -> str:
        """Emits an instruction and returns the name of its result."""
        self._count += 1
        self.lines.append(f"%x{self._count} = {line}")
        return f"%x{self._count}"

    def new_line(self, line: str) -> None:
        """Emits an instruction without a result, or with a result that is already named."""
        self.lines.append(line)

    def any(self, truths: str) -> str:
        """Returns whether a truth value is true in any lane."""
        if self.lanes is None:
            return truths
        reduce, of = f"@llvm.vector.reduce.or.v{self.lanes}i1", self.type(bool)
        self.declared.add(f"declare i1 {reduce}({of})")
        return self.new(f"call i1 {reduce}({of} {truths})")

    def type(self, dtype) -> str:
        one = TYPES[np.dtype(dtype)]
        return one if self.lanes is None else f"<{self.lanes} x {one}>"

    def all(self, value: str, dtype) -> str:
        """Returns a known number in each lane."""
        if self.lanes is None:
            return value
        return f"<{', '.join([f'{TYPES[np.dtype(dtype)]} {value}'] * self.lanes)}>"

    def constant(self, number, dtype) -> str:
        if letter(dtype) != "f":
            return self.all(str(int(number)), dtype)
        bits = struct.unpack("<Q", struct.pack("<d", float(np.dtype(dtype).type(number))))[0]
        return self.all(f"0x{bits:016X}", dtype)

    def intrinsic(self, name: str, xs: Sequence[str], dtype) -> str:
        """Calls an LLVM intrinsic with values of one data type."""
        full, own = f"@llvm.{name}.{self._suffix(dtype)}", self.type(dtype)
        self.declared.add(f"declare {own} {full}({', '.join([own] * len(xs))})")
        return self.new(f"call {own} {full}({', '.join(f'{own} {x}' for x in xs)})")

    def saturated(self, x: str, old, new) -> str:
        """Converts floating-point numbers to integers: numbers out of range are clamped, and NaN becomes 0."""
        full = f"@llvm.fptosi.sat.{self._suffix(new)}.{self._suffix(old)}"
        self.declared.add(f"declare {self.type(new)} {full}({self.type(old)})")
        return self.new(f"call {self.type(new)} {full}({self.type(old)} {x})")

    def _suffix(self, dtype) -> str:
        """Returns the type suffix of LLVM intrinsics."""
        lanes = "" if self.lanes is None else f"v{self.lanes}"
        return f"{lanes}{'f' if letter(dtype) == 'f' else 'i'}{8 * np.dtype(dtype).itemsize}"

    def each(self, values: Sequence[tuple[str, Any]], make: Callable, results: Sequence) -> list[str]:
        """Calls `make` for single numbers, lane by lane.

        Args:
          values: Registers and their data types.
          make: Emits the instructions of one lane and returns the names of its results.
          results: The data types of the results.

        Returns:
          The names of the results of all lanes.
        """
        if self.lanes is None:
            return make(*(x for x, _ in values))
        found = ["poison"] * len(results)
        for lane in range(self.lanes):
            own = [self.new(f"extractelement {self.type(dtype)} {x}, i32 {lane}") for x, dtype in values]
            for i, (one, dtype) in enumerate(zip(make(*own), results, strict=True)):
                into = f"{self.type(dtype)} {found[i]}, {TYPES[np.dtype(dtype)]} {one}, i32 {lane}"
                found[i] = self.new(f"insertelement {into}")
        return found

    def unless_none(
        self, truths: str, values: Sequence[tuple[str, Any]], make: Callable[[], Sequence[str]]
    ) -> list[str]:
        """Replaces values by those that `make` emits, if a lane is true. Otherwise the code of `make` is skipped.

        The branch weights mark this code as rarely executed.

        Args:
          truths: The condition of each lane.
          values: Registers and their data types.
          make: Emits the replacement of all values.

        Returns:
          The names of the values or their replacements.
        """
        some = self.any(truths)
        self.declared.add('!0 = !{!"branch_weights", i32 1, i32 100000}')
        self._count += 1
        usual, rare, after = self.block, f"rare{self._count}", f"usual{self._count}"
        self.lines += [f"br i1 {some}, label %{rare}, label %{after}, !prof !0", f"{rare}:"]
        self.block = rare
        made = make()
        rare = self.block
        self.lines += [f"br label %{after}", f"{after}:"]
        self.block = after
        return [
            self.new(f"phi {self.type(dtype)} [{value}, %{usual}], [{other}, %{rare}]")
            for (value, dtype), other in zip(values, made, strict=True)
        ]

    def transposed(self, rows: Sequence[str], kind: str) -> list[str]:
        """Transposes a square matrix of vectors, in steps in which pairs of vectors exchange halves, quarters and so on."""
        rows, lanes = list(rows), len(rows)
        far = 1
        while far < lanes:
            for i in range(lanes):
                if i & far:
                    continue
                pair = f"<{lanes} x {kind}> {rows[i]}, <{lanes} x {kind}> {rows[i | far]}"
                low = [j if not j & far else lanes + j - far for j in range(lanes)]
                high = [j + far if not j & far else lanes + j for j in range(lanes)]
                for place, picked in ((i, low), (i | far, high)):
                    mask = ", ".join(f"i32 {j}" for j in picked)
                    rows[place] = self.new(f"shufflevector {pair}, <{lanes} x i32> <{mask}>")
            far *= 2
        return rows
