"""A function of one sample as machine code of a processor, a sample in each lane of its vector registers.

The scalars are those of a kernel for a GPU (`rbd_jax._fused`). Each is one vector instruction here, written in the language of
LLVM, which compiles it; XLA calls it through its foreign functions. Nothing goes through memory but what registers do not hold,
and to compile takes a second or two: there are no arrays, no loops over them and no kernels.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax

from ._pieces import NoKernel


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

#: Where things lie in what XLA hands over (`xla/ffi/api/c_api.h`, version 0): of a call its extension, arguments and results, of
#: a buffer its numbers and sides, of an extension its kind and the metadata, of these the version.
EXTENSION, ARGUMENTS, RESULTS, DATA, SIDES, KIND, METADATA, MAJOR, MINOR = 8, 72, 112, 24, 40, 8, 24, 24, 28


def _kind(dtype) -> str:
    """Of floating-point numbers, whole numbers and truth values a letter each: f, i, b."""
    return np.dtype(dtype).kind


def is_available() -> bool:
    """Whether there is a compiler."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def _target() -> tuple[Any, int]:
    """What is compiled for, and the bytes of its vector registers."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    wide = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=1, cpu=llvm.get_host_cpu_name(), features=features.flatten()
    )
    return machine, wide


@functools.cache
def _version() -> tuple[int, int]:
    """That of the interface of XLA which this jaxlib has."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    major, minor = (int(re.findall(rf"#define XLA_FFI_API_{x} (\d+)", header)[0]) for x in ("MAJOR", "MINOR"))
    if major != 0:
        raise NoKernel(f"fused: this jaxlib calls foreign functions by version {major}; leave fused out")
    return major, minor


class Routine:
    """Scalars as machine code.

    - `kernel`: what is worked out, and what of it is written.
    - `sizes`: of each array that is read, by kind and number, how many numbers a sample has (or all samples share), and their
      type.
    - `lanes`: so many samples at a time.
    """

    def __init__(self, kernel, sizes: dict[tuple, tuple[int, np.dtype]]):
        self.sizes = sizes
        stored = zip(kernel.stored, kernel.in_columns, strict=True)
        self.results = [(nodes.shape, nodes.size, kind, columns) for (nodes, kind), columns in stored]
        self.results += [
            ((x.length, *x.nodes.shape), x.length * x.nodes.size, x.dtype, False) for x in kernel.rows
        ]
        self.rows_at = {id(x): number for number, x in enumerate(kernel.rows, len(kernel.stored))}
        single = all(np.dtype(kind).itemsize <= 4 for *_, kind, _ in self.results)
        single = single and all(dtype.itemsize <= 4 for _, dtype in sizes.values())
        self.lanes = _target()[1] // (4 if single else 8)
        self.scalars, self.names, self.block = kernel.scalars, {}, "chunk"
        self.lines: list[str] = []
        self.rounds: tuple[str, ...] = ()
        self.carried: list[str] = []
        self.outer: dict[int, str] = {}
        self.ends: dict[tuple[int, int], list[str]] = {}
        self.declared: set[str] = set()
        self.count = 0
        self._work_out(kernel.piece.nodes)
        for number, (nodes, _) in enumerate(kernel.stored):
            for place, node in enumerate(nodes.reshape(-1).tolist()):
                self._write(number, place, node)
        self.text = self._whole()
        self.name = "rbd_jax_" + hashlib.sha256(self.text.encode()).hexdigest()[:32]

    # Values.

    def _work_out(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            if self.scalars.operation[node] != "constant":
                self._computed(node)

    def _new(self, line: str) -> str:
        self.count += 1
        self.lines.append(f"%x{self.count} = {line}")
        return f"%x{self.count}"

    def _vector(self, dtype) -> str:
        return f"<{self.lanes} x {TYPES[np.dtype(dtype)]}>"

    def _all(self, value: str, dtype) -> str:
        return f"<{', '.join([f'{TYPES[np.dtype(dtype)]} {value}'] * self.lanes)}>"

    def _value(self, node: int) -> str:
        known = self.scalars.value(node)
        if known is None:
            return self.names[node]
        dtype = self.scalars.dtype[node]
        if _kind(dtype) != "f":
            return self._all(str(int(known)), dtype)
        bits = struct.unpack("<Q", struct.pack("<d", float(known)))[0]
        return self._all(f"0x{bits:016X}", dtype)

    def _computed(self, node: int) -> None:
        operation, extra = self.scalars.operation[node], self.scalars.extra[node]
        if operation == "loop":
            self._loop(node, extra)
        elif operation == "entry":
            (loop,) = self.scalars.arguments[node]
            self.names[node] = self.ends[id(self.scalars), loop][extra]
        elif operation == "input":
            source, place = extra
            self.names[node] = self._given(source, place, self.scalars.dtype[node])
        else:
            self.names[node] = self._made(node, operation, extra)

    def _made(self, node: int, operation: str, extra) -> str:
        own = self.scalars.dtype[node]
        operands = [(self._value(x), self.scalars.dtype[x]) for x in self.scalars.arguments[node]]
        vector, xs = self._vector(own), [x for x, _ in operands]
        dtype = operands[-1][1]
        of, kind = self._vector(dtype), _kind(dtype)
        if operation in ARITHMETIC[_kind(own)] and kind == _kind(own):
            return self._new(f"{ARITHMETIC[kind][operation]} {vector} {xs[0]}, {xs[1]}")
        if operation in COMPARISONS[kind]:
            return self._new(
                f"{'f' if kind == 'f' else 'i'}cmp {COMPARISONS[kind][operation]} {of} {xs[0]}, {xs[1]}"
            )
        if operation in ("div", "rem") and kind == "i" and self._is_safe(self.scalars.arguments[node][1]):
            return self._new(f"s{operation} {vector} {xs[0]}, {xs[1]}")
        if operation == "clamp" and kind != "b":
            low, high = OF_VECTORS[kind]["max"], OF_VECTORS[kind]["min"]
            above = self._called(low, vector, [xs[1], xs[0]], own)
            return self._called(high, vector, [above, xs[2]], own)
        if operation == "not" and own == bool:
            return self._new(f"xor {vector} {xs[0]}, {self._all('true', bool)}")
        if operation == "neg":
            return self._new(
                f"fneg {vector} {xs[0]}" if kind == "f" else f"sub {vector} zeroinitializer, {xs[0]}"
            )
        if operation == "square":
            return self._new(f"{ARITHMETIC[kind]['mul']} {vector} {xs[0]}, {xs[0]}")
        if operation == "rsqrt":
            root = self._called("sqrt", vector, xs, own)
            return self._new(f"fdiv {vector} {self._all('1.0', own)}, {root}")
        if operation == "sign" and kind != "b":
            return self._sign(xs[0], own)
        if operation == "select_n" and len(xs) == 3 and operands[0][1] == bool:
            return self._new(f"select {self._vector(bool)} {xs[0]}, {vector} {xs[2]}, {vector} {xs[1]}")
        if operation == "is_finite":
            size = self._called("fabs", of, xs, dtype)
            return self._new(f"fcmp olt {of} {size}, {self._all('0x7FF0000000000000', dtype)}")
        if operation == "round" and lax.RoundingMethod.TO_NEAREST_EVEN in dict(extra[1]).values():
            return self._called("roundeven", vector, xs, own)
        if operation in OF_VECTORS[kind]:
            return self._called(OF_VECTORS[kind][operation], vector, xs, own)
        if operation == "convert_element_type":
            return self._converted(xs[0], dtype, own)
        if operation in ONE_BY_ONE and kind == "f":
            return self._one_by_one(operation, vector, xs, own)
        raise NoKernel(
            f"fused: function does `{operation}`, which is no instruction of a processor; leave fused out"
        )

    def _is_safe(self, divisor: int) -> bool:
        """Whether whole numbers can be divided by it: by 0, and the least of them by -1, is an error of the processor."""
        known = self.scalars.value(divisor)
        return known is not None and known not in (0, -1)

    def _sign(self, x: str, dtype) -> str:
        """1, -1, or what is neither more nor less than zero as it is."""
        vector, truths, found = self._vector(dtype), self._vector(bool), x
        compare, one = ("fcmp o", "1.0") if _kind(dtype) == "f" else ("icmp s", "1")
        for which, value in (("gt", one), ("lt", f"-{one}")):
            side = self._new(f"{compare}{which} {vector} {x}, zeroinitializer")
            found = self._new(f"select {truths} {side}, {vector} {self._all(value, dtype)}, {vector} {found}")
        return found

    def _converted(self, x: str, old, new) -> str:
        """Numbers of one type as those of another."""
        if old == new:
            return x
        of, to = self._vector(old), self._vector(new)
        if new == bool:
            compare = "fcmp une" if _kind(old) == "f" else "icmp ne"
            return self._new(f"{compare} {of} {x}, zeroinitializer")
        if (
            _kind(old) + _kind(new) == "fi"
        ):  # what is too large is the largest there is, and what is no number 0
            full = f"@llvm.fptosi.sat.v{self.lanes}i{8 * np.dtype(new).itemsize}.v{self.lanes}f{8 * np.dtype(old).itemsize}"
            self.declared.add(f"declare {to} {full}({of})")
            return self._new(f"call {to} {full}({of} {x})")
        wider = np.dtype(new).itemsize > np.dtype(old).itemsize
        change = {
            "ff": "fpext" if wider else "fptrunc",
            "ii": "sext" if wider else "trunc",
            "if": "sitofp",
            "bf": "uitofp",
            "bi": "zext",
        }[_kind(old) + _kind(new)]
        return self._new(f"{change} {of} {x} to {to}")

    def _called(self, name: str, vector: str, xs: Sequence[str], dtype) -> str:
        """A function of LLVM, of vectors."""
        letter = "f" if _kind(dtype) == "f" else "i"
        full = f"@llvm.{name}.v{self.lanes}{letter}{8 * np.dtype(dtype).itemsize}"
        self.declared.add(f"declare {vector} {full}({', '.join([vector] * len(xs))})")
        return self._new(f"call {vector} {full}({', '.join(f'{vector} {x}' for x in xs)})")

    def _one_by_one(self, name: str, vector: str, xs: Sequence[str], dtype) -> str:
        """A function of the system's mathematics, of the number in each lane."""
        kind, full = TYPES[dtype], f"@{name}{'f' if dtype == np.float32 else ''}"
        self.declared.add(f"declare {kind} {full}({', '.join([kind] * len(xs))})")
        found = "poison"
        for lane in range(self.lanes):
            own = [self._new(f"extractelement {vector} {x}, i32 {lane}") for x in xs]
            one = self._new(f"call {kind} {full}({', '.join(f'{kind} {x}' for x in own)})")
            found = self._new(f"insertelement {vector} {found}, {kind} {one}, i32 {lane}")
        return found

    # Loops.

    def _loop(self, node: int, loop) -> None:
        """A loop that stays one. What it uses from around it are values of the code around it."""
        count = len(loop.start)
        arguments = self.scalars.arguments[node]
        start = [self._value(x) for x in arguments[:count]]
        outer = dict(zip(loop.outer, [self._value(x) for x in arguments[count:]], strict=True))
        self.count += 1
        number, before = self.count, self.block
        around = self.scalars, self.names, self.lines, self.rounds, self.carried, self.outer
        self.scalars, self.names, self.lines, self.block = loop.piece.scalars, {}, [], f"loop{number}"
        self.carried, self.outer = [f"%c{number}_{i}" for i in range(count)], outer
        last = f"sub i64 {loop.length - 1}, %i{number}" if loop.reverse else f"add i64 %i{number}, 0"
        self.rounds = (*self.rounds, self._new(last))
        self._work_out(loop.piece.nodes)
        for rows in loop.rows:
            at = self._new(f"mul i64 {self.rounds[-1]}, {rows.nodes.size}")
            for place, one in enumerate(rows.nodes.reshape(-1).tolist()):
                self._write(self.rows_at[id(rows)], place, one, at)
        ends, body, after = [self._value(x) for x in loop.carried], self.lines, self.block
        self.scalars, self.names, self.lines, self.rounds, self.carried, self.outer = around
        self.lines.append(f"br label %loop{number}")
        self.lines.append(f"loop{number}:")
        self.lines.append(f"%i{number} = phi i64 [0, %{before}], [%j{number}, %{after}]")
        for i, kind in enumerate(loop.kinds):
            self.lines.append(
                f"%c{number}_{i} = phi {self._vector(kind)} [{start[i]}, %{before}], [{ends[i]}, %{after}]"
            )
        self.lines += body
        self.lines.append(f"%j{number} = add i64 %i{number}, 1")
        self.lines.append(f"%m{number} = icmp slt i64 %j{number}, {loop.length}")
        self.lines.append(f"br i1 %m{number}, label %loop{number}, label %after{number}")
        self.lines.append(f"after{number}:")
        self.block = f"after{number}"
        self.ends[id(self.scalars), node] = ends

    # Memory.

    def _given(self, source: tuple, place: int, dtype) -> str:
        if source[0] == "carry":
            return self.carried[place]
        return self.outer[place] if source[0] == "outer" else self._read(source, place, dtype)

    def _read(self, source: tuple, place: int, dtype) -> str:
        if dtype == bool:
            return self._converted(self._read(source, place, np.dtype(np.int32)), np.dtype(np.int32), dtype)
        vector, kind = self._vector(dtype), TYPES[np.dtype(dtype)]
        array, shared = list(self.sizes).index(source[:2]), source[0] != "sample"
        moved = str(place)
        for step, round_ in zip(source[2] if len(source) > 2 else (), self.rounds):
            if step:
                far = self._new(f"mul i64 {round_}, {step}")
                moved = self._new(f"add i64 {moved}, {far}")
        found = "poison"
        for lane in range(1 if shared else self.lanes):
            at = self._new(f"getelementptr {kind}, ptr %a{array}{'' if shared else f'_{lane}'}, i64 {moved}")
            one = self._new(f"load {kind}, ptr {at}")
            found = self._new(f"insertelement {vector} {found}, {kind} {one}, i32 {lane}")
        if shared:
            zeros = f"<{self.lanes} x i32> zeroinitializer"
            found = self._new(f"shufflevector {vector} {found}, {vector} poison, {zeros}")
        return found

    def _write(self, number: int, place: int, node: int, moved: str | None = None) -> None:
        """A scalar as a number of a result; of rows, beyond where those of this round begin."""
        dtype, x = self.scalars.dtype[node], self._value(node)
        *_, columns = self.results[number]
        vector, kind = self._vector(dtype), TYPES[np.dtype(dtype)]
        if dtype == bool:
            x, vector, kind = self._converted(x, dtype, np.dtype(np.int32)), self._vector(np.int32), "i32"
        if columns:
            at = self._new(f"getelementptr {kind}, ptr %r{number}_0, i64 {place * self.lanes}")
            self.lines.append(f"store {vector} {x}, ptr {at}, align 4")
            return
        where = str(place) if moved is None else self._new(f"add i64 {moved}, {place}")
        for lane in range(self.lanes):
            at = self._new(f"getelementptr {kind}, ptr %r{number}_{lane}, i64 {where}")
            one = self._new(f"extractelement {vector} {x}, i32 {lane}")
            self.lines.append(f"store {kind} {one}, ptr {at}")

    def _whole(self) -> str:
        """The function that XLA calls: of chunks of as many samples as there are lanes. In the last, lanes beyond the last sample
        do that again."""
        major, minor = _version()
        begin, rows = [], [f"%s{lane} = add i64 %first, {lane}" for lane in range(self.lanes)]
        rows += [f"%t{lane} = call i64 @llvm.smin.i64(i64 %s{lane}, i64 %end)" for lane in range(self.lanes)]

        def buffers(letter, offset, count):
            begin.append(f"%{letter}s_at = getelementptr i8, ptr %call, i64 {offset}")
            begin.append(f"%{letter}s = load ptr, ptr %{letter}s_at")
            for i in range(count):
                begin.append(f"%{letter}{i}_at = getelementptr ptr, ptr %{letter}s, i64 {i}")
                begin.append(f"%{letter}{i}_b = load ptr, ptr %{letter}{i}_at")
                begin.append(f"%{letter}{i}_d = getelementptr i8, ptr %{letter}{i}_b, i64 {DATA}")
                begin.append(f"%{letter}{i} = load ptr, ptr %{letter}{i}_d")

        buffers("a", ARGUMENTS, len(self.sizes))
        buffers("r", RESULTS, len(self.results))
        batched = [i for i, (kind, _) in enumerate(self.sizes) if kind == "sample"]
        begin.append(f"%sides_at = getelementptr i8, ptr %a{batched[0]}_b, i64 {SIDES}")
        begin += ["%sides = load ptr, ptr %sides_at", "%size = load i64, ptr %sides"]
        begin += ["%end = sub i64 %size, 1", "%any = icmp sgt i64 %size, 0"]
        for i, ((kind, _), (numbers, dtype)) in enumerate(self.sizes.items()):
            for lane in range(self.lanes if kind == "sample" else 0):
                rows.append(f"%ai{i}_{lane} = mul i64 %t{lane}, {numbers}")
                rows.append(f"%a{i}_{lane} = getelementptr {TYPES[dtype]}, ptr %a{i}, i64 %ai{i}_{lane}")
        for i, (_, size, dtype, columns) in enumerate(self.results):
            kind = "i32" if dtype == bool else TYPES[np.dtype(dtype)]
            for lane in range(1 if columns else self.lanes):
                rows.append(f"%ri{i}_{lane} = mul i64 {'%first' if columns else f'%t{lane}'}, {size}")
                rows.append(f"%r{i}_{lane} = getelementptr {kind}, ptr %r{i}, i64 %ri{i}_{lane}")
        newline = "\n  "
        return f"""
declare i64 @llvm.smin.i64(i64, i64)
{chr(10).join(sorted(self.declared))}
define ptr @run(ptr %call) {{
  %e_at = getelementptr i8, ptr %call, i64 {EXTENSION}
  %e = load ptr, ptr %e_at
  %plain = icmp eq ptr %e, null
  br i1 %plain, label %start, label %extended
extended:
  %kind_at = getelementptr i8, ptr %e, i64 {KIND}
  %kind = load i32, ptr %kind_at
  %asked = icmp eq i32 %kind, 1
  br i1 %asked, label %told, label %start
told:
  %m_at = getelementptr i8, ptr %e, i64 {METADATA}
  %m = load ptr, ptr %m_at
  %major = getelementptr i8, ptr %m, i64 {MAJOR}
  %minor = getelementptr i8, ptr %m, i64 {MINOR}
  store i32 {major}, ptr %major
  store i32 {minor}, ptr %minor
  ret ptr null
start:
  {newline.join(begin)}
  br i1 %any, label %chunk, label %done
chunk:
  %first = phi i64 [0, %start], [%next, %{self.block}]
  {newline.join(rows)}
  {newline.join(self.lines)}
  %next = add i64 %first, {self.lanes}
  %more = icmp slt i64 %next, %size
  br i1 %more, label %chunk, label %done
done:
  ret ptr null
}}
"""

    def __call__(self, given: Sequence, size: int) -> list:
        """The results, of arrays of (size, numbers) and of what all samples share: (size, *shape) each."""
        _compiled(self.name, self.text)
        chunks = -(-size // self.lanes)
        shapes = [
            jax.ShapeDtypeStruct(
                (chunks, numbers, self.lanes) if columns else (size, numbers),
                np.int32 if dtype == bool else dtype,
            )
            for _, numbers, dtype, columns in self.results
        ]
        found = jax.ffi.ffi_call(self.name, shapes, vmap_method="sequential")(*given)
        in_rows = lambda x: x.swapaxes(1, 2).reshape(chunks * self.lanes, -1)[:size]
        return [
            (in_rows(x) if columns else x).reshape(size, *shape)
            for x, (shape, *_, columns) in zip(found, self.results, strict=True)
        ]


#: What was compiled. It is never let go: programs call it by its name.
_engines: dict[str, Any] = {}
_lock = threading.Lock()


def _compiled(name: str, text: str) -> None:
    import llvmlite.binding as llvm

    with _lock:
        if name in _engines:
            return
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), _target()[0])
        engine.finalize_object()
        address = ctypes.c_void_p(engine.get_function_address("run"))
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
        _engines[name] = engine
