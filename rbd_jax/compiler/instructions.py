"""The instructions of a function in LLVM's language, as they are written.

Each value is a vector with a sample in each lane, for processors, or a single number, for the threads of a GPU.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


#: Types of numbers, as LLVM calls them. Truth values in memory are whole numbers.
TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(bool): "i1",
}


def letter(dtype) -> str:
    """Of floating-point numbers, whole numbers and truth values a letter each: f, i, b."""
    return np.dtype(dtype).kind


class Instructions:
    """The instructions of a function.

    - `lanes`: how many samples a vector holds, or None where a value is the number of one sample.
    - `block`: the one that is written.
    - `declared`: what the module has to hold for them: declarations and functions.
    - `known`: what is in registers already, by whatever it is known by.
    """

    def __init__(self, lanes: int | None, block: str, declared: set[str]):
        self.lanes, self.block, self.declared = lanes, block, declared
        self.lines: list[str] = []
        self.known: dict = {}
        self.loops = self._count = 0

    def continued(self) -> Instructions:
        """Instructions that follow these, in the same function or in another one."""
        after = Instructions(self.lanes, self.block, self.declared)
        after._count = self._count
        return after

    def new(self, line: str) -> str:
        """The name of what an instruction makes."""
        self._count += 1
        self.lines.append(f"%x{self._count} = {line}")
        return f"%x{self._count}"

    def new_line(self, line: str) -> None:
        """An instruction that makes nothing, or what has a name already."""
        self.lines.append(line)

    def any(self, truths: str) -> str:
        """Whether one is true in some lane."""
        if self.lanes is None:
            return truths
        reduce, of = f"@llvm.vector.reduce.or.v{self.lanes}i1", self.type(bool)
        self.declared.add(f"declare i1 {reduce}({of})")
        return self.new(f"call i1 {reduce}({of} {truths})")

    def type(self, dtype) -> str:
        one = TYPES[np.dtype(dtype)]
        return one if self.lanes is None else f"<{self.lanes} x {one}>"

    def all(self, value: str, dtype) -> str:
        """A known number, in each lane."""
        if self.lanes is None:
            return value
        return f"<{', '.join([f'{TYPES[np.dtype(dtype)]} {value}'] * self.lanes)}>"

    def constant(self, number, dtype) -> str:
        if letter(dtype) != "f":
            return self.all(str(int(number)), dtype)
        bits = struct.unpack("<Q", struct.pack("<d", float(np.dtype(dtype).type(number))))[0]
        return self.all(f"0x{bits:016X}", dtype)

    def intrinsic(self, name: str, xs: Sequence[str], dtype) -> str:
        """A function of LLVM of values of one type."""
        full, own = f"@llvm.{name}.{self._suffix(dtype)}", self.type(dtype)
        self.declared.add(f"declare {own} {full}({', '.join([own] * len(xs))})")
        return self.new(f"call {own} {full}({', '.join(f'{own} {x}' for x in xs)})")

    def saturated(self, x: str, old, new) -> str:
        """Floating-point numbers as whole ones: what is too large is the largest there is, and NaN is 0."""
        full = f"@llvm.fptosi.sat.{self._suffix(new)}.{self._suffix(old)}"
        self.declared.add(f"declare {self.type(new)} {full}({self.type(old)})")
        return self.new(f"call {self.type(new)} {full}({self.type(old)} {x})")

    def _suffix(self, dtype) -> str:
        """The type in the names of LLVM's functions."""
        lanes = "" if self.lanes is None else f"v{self.lanes}"
        return f"{lanes}{'f' if letter(dtype) == 'f' else 'i'}{8 * np.dtype(dtype).itemsize}"

    def each(self, values: Sequence[tuple[str, Any]], make: Callable, results: Sequence) -> list[str]:
        """What `make` emits of single numbers, lane by lane.

        - `values`: registers and their types; `results` types.
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
        """Values, or what `make` emits in their place, which runs only if a lane is true. Seldom is one expected to be.

        - `values`: registers and their types.
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
        """A square of vectors turned over: in steps, in each of which pairs of them swap halves, quarters, and so on."""
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
