"""Operations on scalars as LLVM's instructions on vectors: of each scalar, a sample in each lane."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from jax import lax

from ..schedule import NoKernel


#: Types of numbers, as LLVM calls them. Truth values in memory are whole numbers.
TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(bool): "i1",
}

#: Operations that are instructions, of floating-point and of whole numbers; and comparisons, in which what is no number is false
#: but for `ne`.
LOGICAL = {"and": "and", "or": "or", "xor": "xor"}
ARITHMETIC = {
    "f": {
        "add": "fadd contract",
        "sub": "fsub contract",
        "mul": "fmul contract",
        "div": "fdiv",
        "rem": "frem",
    },
    "i": {"add": "add", "sub": "sub", "mul": "mul"} | LOGICAL,
    "b": LOGICAL,
}
COMPARISONS = {
    "f": {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"},
    "i": {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"},
    "b": {"eq": "eq", "ne": "ne"},
}

#: Functions of LLVM, of vectors, and of the system's mathematics, number by number.
OF_VECTORS = {
    "f": dict(sqrt="sqrt", abs="fabs", floor="floor", ceil="ceil", max="maximum", min="minimum"),
    "i": dict(max="smax", min="smin"),
    "b": {},
}
ONE_BY_ONE = frozenset(
    "exp log sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow cbrt log1p expm1".split()
)


def _kind(dtype) -> str:
    """Of floating-point numbers, whole numbers and truth values a letter each: f, i, b."""
    return np.dtype(dtype).kind


class Vectors:
    """The instructions of a function.

    - `lanes`: of a vector. `block`: where it begins.
    - `declared`: the functions that are called, for whoever declares them.
    - `known`: what has been loaded into registers already, by whatever it is known by.
    """

    def __init__(self, lanes: int, block: str, declared: set[str]):
        self.lanes, self.block, self.declared = lanes, block, declared
        self.lines: list[str] = []
        self.known: dict = {}
        self.loops = self._count = 0

    def new(self, line: str) -> str:
        """The name of what an instruction makes."""
        self._count += 1
        self.lines.append(f"%x{self._count} = {line}")
        return f"%x{self._count}"

    def type(self, dtype) -> str:
        return f"<{self.lanes} x {TYPES[np.dtype(dtype)]}>"

    def all(self, value: str, dtype) -> str:
        """A known number in each lane."""
        return f"<{', '.join([f'{TYPES[np.dtype(dtype)]} {value}'] * self.lanes)}>"

    def constant(self, number, dtype) -> str:
        if _kind(dtype) != "f":
            return self.all(str(int(number)), dtype)
        bits = struct.unpack("<Q", struct.pack("<d", float(number)))[0]
        return self.all(f"0x{bits:016X}", dtype)

    def transposed(self, rows: Sequence[str], kind: str) -> list[str]:
        """A square of vectors turned over: in steps, in each of which pairs of them swap halves, quarters, and so on."""
        rows, lanes = list(rows), self.lanes
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

    def made(self, operation: str, xs: Sequence[str], dtypes: Sequence, own, extra, divides: bool) -> str:
        """What an operation makes.

        - `xs`, `dtypes`: what of, and of which types; `own` is that of the result.
        - `divides`: whether whole numbers can be divided by the second without an error of the processor.
        """
        vector, dtype = self.type(own), dtypes[-1]
        of, kind = self.type(dtype), _kind(dtype)
        if operation in ARITHMETIC[_kind(own)] and kind == _kind(own):
            return self.new(f"{ARITHMETIC[kind][operation]} {vector} {xs[0]}, {xs[1]}")
        if operation in COMPARISONS[kind]:
            return self.new(
                f"{'f' if kind == 'f' else 'i'}cmp {COMPARISONS[kind][operation]} {of} {xs[0]}, {xs[1]}"
            )
        if operation in ("div", "rem") and kind == "i" and divides:
            return self.new(f"s{operation} {vector} {xs[0]}, {xs[1]}")
        if operation == "clamp" and kind != "b":
            low, high = OF_VECTORS[kind]["max"], OF_VECTORS[kind]["min"]
            above = self._called(low, vector, [xs[1], xs[0]], own)
            return self._called(high, vector, [above, xs[2]], own)
        if operation == "not" and own == bool:
            return self.new(f"xor {vector} {xs[0]}, {self.all('true', bool)}")
        if operation == "neg":
            return self.new(
                f"fneg {vector} {xs[0]}" if kind == "f" else f"sub {vector} zeroinitializer, {xs[0]}"
            )
        if operation == "square":
            return self.new(f"{ARITHMETIC[kind]['mul']} {vector} {xs[0]}, {xs[0]}")
        if operation == "rsqrt":
            root = self._called("sqrt", vector, xs, own)
            return self.new(f"fdiv {vector} {self.all('1.0', own)}, {root}")
        if operation == "sign" and kind != "b":
            return self._sign(xs[0], own)
        if operation == "select_n" and len(xs) == 3 and dtypes[0] == bool:
            return self.new(f"select {self.type(bool)} {xs[0]}, {vector} {xs[2]}, {vector} {xs[1]}")
        if operation == "is_finite":
            size = self._called("fabs", of, xs, dtype)
            return self.new(f"fcmp olt {of} {size}, {self.all('0x7FF0000000000000', dtype)}")
        if operation == "round" and lax.RoundingMethod.TO_NEAREST_EVEN in dict(extra[1]).values():
            return self._called("roundeven", vector, xs, own)
        if operation in OF_VECTORS[kind]:
            return self._called(OF_VECTORS[kind][operation], vector, xs, own)
        if operation == "convert_element_type":
            return self.converted(xs[0], dtype, own)
        if operation in ONE_BY_ONE and kind == "f":
            return self._one_by_one(operation, vector, xs, own)
        raise NoKernel(
            f"fused: function does `{operation}`, which is no instruction of a processor; leave fused out"
        )

    def _sign(self, x: str, dtype) -> str:
        """1, -1, or what is neither more nor less than zero as it is."""
        vector, truths, found = self.type(dtype), self.type(bool), x
        compare, one = ("fcmp o", "1.0") if _kind(dtype) == "f" else ("icmp s", "1")
        for which, value in (("gt", one), ("lt", f"-{one}")):
            side = self.new(f"{compare}{which} {vector} {x}, zeroinitializer")
            found = self.new(f"select {truths} {side}, {vector} {self.all(value, dtype)}, {vector} {found}")
        return found

    def converted(self, x: str, old, new) -> str:
        """Numbers of one type as those of another."""
        if old == new:
            return x
        of, to = self.type(old), self.type(new)
        if new == bool:
            compare = "fcmp une" if _kind(old) == "f" else "icmp ne"
            return self.new(f"{compare} {of} {x}, zeroinitializer")
        if (
            _kind(old) + _kind(new) == "fi"
        ):  # what is too large is the largest there is, and what is no number 0
            full = f"@llvm.fptosi.sat.v{self.lanes}i{8 * np.dtype(new).itemsize}.v{self.lanes}f{8 * np.dtype(old).itemsize}"
            self.declared.add(f"declare {to} {full}({of})")
            return self.new(f"call {to} {full}({of} {x})")
        wider = np.dtype(new).itemsize > np.dtype(old).itemsize
        change = {
            "ff": "fpext" if wider else "fptrunc",
            "ii": "sext" if wider else "trunc",
            "if": "sitofp",
            "bf": "uitofp",
            "bi": "zext",
        }[_kind(old) + _kind(new)]
        return self.new(f"{change} {of} {x} to {to}")

    def _called(self, name: str, vector: str, xs: Sequence[str], dtype) -> str:
        """A function of LLVM, of vectors."""
        letter = "f" if _kind(dtype) == "f" else "i"
        full = f"@llvm.{name}.v{self.lanes}{letter}{8 * np.dtype(dtype).itemsize}"
        self.declared.add(f"declare {vector} {full}({', '.join([vector] * len(xs))})")
        return self.new(f"call {vector} {full}({', '.join(f'{vector} {x}' for x in xs)})")

    def _one_by_one(self, name: str, vector: str, xs: Sequence[str], dtype) -> str:
        """A function of the system's mathematics, of the number in each lane."""
        kind, full = TYPES[dtype], f"@{name}{'f' if dtype == np.float32 else ''}"
        self.declared.add(f"declare {kind} {full}({', '.join([kind] * len(xs))})")
        found = "poison"
        for lane in range(self.lanes):
            own = [self.new(f"extractelement {vector} {x}, i32 {lane}") for x in xs]
            one = self.new(f"call {kind} {full}({', '.join(f'{kind} {x}' for x in own)})")
            found = self.new(f"insertelement {vector} {found}, {kind} {one}, i32 {lane}")
        return found
