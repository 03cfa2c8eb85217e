"""A function of one sample as machine code of a CPU, with a sample in each lane of its vector registers.

The scalars are those of a GPU kernel (`kernel`). Here each scalar is one vector instruction (`llvm`), which LLVM compiles
(`xla_ffi`). Values are in registers, or in memory if there are not enough registers. Compilation takes a second or two, because
there are no arrays, and no loops over them.

Long programs are split into functions, because LLVM's time for register allocation and instruction scheduling grows faster than
the length of a function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import jax
import numpy as np

from ..instructions import TYPES, Instructions
from ..llvm import converted
from ..schedule import Piece, depth_first
from ..writer import Result, Round, Saved, Writer
from .groups import Groups, chunks_at_once
from .threads import LEAST, count
from .xla_ffi import compiled, function, register_bytes


#: Programs with more scalars than LONG are split into functions of PART scalars. Above VERY_LONG, LLVM does not optimize, which
#: would take minutes.
LONG, PART, VERY_LONG = 20_000, 1_000, 400_000

#: Assumed iterations of a `while` loop, to estimate the work of a sample.
SEARCHED = 5


class Routine(Writer):
    """Writes scalars as vector instructions, with a sample in each lane."""

    def __init__(self, kernel, sizes: dict[tuple, tuple[int, np.dtype]]):
        kinds = [x.dtype for x in kernel.rows] + [kind for _, kind, _ in kernel.stored]
        single = all(np.dtype(kind).itemsize <= 4 for kind in (*kinds, *(kind for _, kind in sizes.values())))
        self.lanes = register_bytes() // (4 if single else 8)
        self.slot_bytes = self.lanes * 8  # the size of the widest vector
        super().__init__(kernel, sizes, self.lanes, "chunk")
        self.length = len(kernel.piece.nodes)
        # The minimum number of samples of a range, a multiple of the number of lanes.
        self.least = self.lanes * -(-LEAST // max(_work(kernel.piece), 1))
        self.parts: list[str] = []
        self.begin: list[str] = []
        self.pointers = {name: Saved(slot, "ptr") for slot, name in enumerate(self._pointers())}
        self.slots = len(self.pointers) + 1
        self.valid = Saved(self.slots - 1, f"<{self.lanes} x i1>")
        self.main = self.code
        self.write_all(kernel)
        self.turned = self.main.continued()
        for number, x in enumerate(self.results):
            if x.layout == "columns":
                self._turned(number)
        self.text = self._whole()
        self.name = "rbd_jax_" + hashlib.sha256(self.text.encode()).hexdigest()[:32]

    def layout(self, is_sum: bool, columns: bool) -> Literal["rows", "columns", "sum"]:
        """Returns the layout of a result. Columns are transposed to rows at the end of a chunk."""
        return "sum" if is_sum else "columns" if columns else "rows"

    # Iterations.

    def write_round(self, given: Round) -> None:
        """Writes all scalars of an iteration, in parts if there are many."""
        if len(given.work) <= LONG:
            super().write_round(given)
        else:
            self._write_in_parts(given)

    def _write_in_parts(self, given: Round) -> None:
        """Writes all scalars in functions, which read values of the enclosing code and of earlier functions from memory."""
        nodes = self._depth_first(given)
        size = -(-len(nodes) // -(-len(nodes) // PART))
        groups = [nodes[start : start + size] for start in range(0, len(nodes), size)]
        last = self._last_uses(given, groups)
        ends: dict[int, list[int]] = {}
        for node, number in last.items():
            ends.setdefault(number, []).append(node)
        vector = lambda node: self.code.type(given.scalars.dtype[node])
        place = lambda x, kind: x if isinstance(x, Saved) else self.save(x, kind)
        around = {
            given.scalars.extra[node]: node
            for node in given.nodes
            if given.scalars.operation[node] == "input"
        }
        carried = {at: vector(node) for (source, at), node in around.items() if source[0] == "carry"}
        outer = {at: vector(node) for (source, at), node in around.items() if source[0] == "outer"}
        inner = Round(
            given.scalars,
            given.nodes,
            stores=given.stores,
            carried=[place(x, carried[at]) if at in carried else x for at, x in enumerate(given.carried)],
            outer={node: place(given.outer[node], kind) for node, kind in outer.items()},
            rounds=tuple(place(x, "i64") for x in given.rounds),
            active=None if given.active is None else place(given.active, self.code.type(bool)),
        )
        around_it = lambda x: (*x.carried, *x.outer.values(), *x.rounds, x.active)
        before = {x for x in around_it(inner) if isinstance(x, Saved)}
        before -= {x for x in around_it(given) if isinstance(x, Saved)}
        for number, group in enumerate(groups):
            caller, self.code = self.code, Instructions(self.lanes, "entry", self.declared)
            inner.names = {}
            self.write_part(inner, group, () if number else given.ready)
            made = [node for loop in group for node in (loop, *inner.entries.get(loop, ()))]
            for node in made:
                if last.get(node, -1) > number:
                    inner.saved[node] = self.save(self.value(inner, node), vector(node))
            name = f"part{len(self.parts)}"
            lines = "\n  ".join(self.code.lines)
            self.parts.append(
                f"define internal void @{name}(ptr %frame) noinline {{\nentry:\n  {lines}\n  ret void\n}}"
            )
            self.code = caller
            self.code.lines.append(f"call void @{name}(ptr %frame)")
            self.free += [inner.saved[node].slot for node in ends.get(number, ()) if node in inner.saved]
        self.free += [x.slot for x in before]
        given.saved.update(inner.saved)

    def _depth_first(self, given: Round) -> list[int]:
        """Returns the scalars in depth-first order: parts then exchange a third of the values that the traced order needs."""
        scalars, work = given.scalars, set(given.work)
        loops = (node for node in given.work if scalars.operation[node] == "loop")
        ordered = depth_first(scalars.arguments, [*given.stores, *given.wanted, *loops])
        return [node for node in ordered if node in work]

    def _last_uses(self, given: Round, groups: Sequence[Sequence[int]]) -> dict[int, int]:
        """Returns the index of the last part that uses each scalar."""
        last = {
            x: number
            for number, group in enumerate(groups)
            for node in group
            for x in given.scalars.arguments[node]
        }
        return last | dict.fromkeys(given.wanted, len(groups))

    # Memory.

    def _pointer(self, name: str) -> str:
        return name if self.code is self.main else self.here(self.pointers[name])

    def read(self, given: Round, source: tuple, place: int, dtype) -> str:
        code = self.code
        vector, kind = code.type(dtype), TYPES[np.dtype(dtype)]
        array, shared = list(self.sizes).index(source[:2]), source[0] != "sample"
        if not shared and code is self.main and not any(source[2]) and self._squares(array, kind, dtype):
            return code.known["number", array, place]
        moved = self.moved(given, source, place)
        found = "poison"
        for lane in range(1 if shared else self.lanes):
            first = self._pointer(f"%a{array}" if shared else f"%a{array}_{lane}")
            at = code.new(f"getelementptr {kind}, ptr {first}, i64 {moved}")
            one = code.new(f"load {kind}, ptr {at}")
            found = code.new(f"insertelement {vector} {found}, {kind} {one}, i32 {lane}")
        if shared:
            zeros = f"<{self.lanes} x i32> zeroinitializer"
            found = code.new(f"shufflevector {vector} {found}, {vector} poison, {zeros}")
        return found

    def _squares(self, array: int, kind: str, dtype) -> bool:
        """Reads all numbers of the samples in squares of as many numbers as lanes, which are transposed.

        The last square may overlap the one before, so that it ends at the last number.

        Returns:
          False if there are fewer numbers than lanes. Nothing is read then.
        """
        code, lanes = self.code, self.lanes
        numbers = list(self.sizes.values())[array][0]
        if numbers < lanes:
            return False
        if ("number", array, 0) not in code.known:
            for begin in range(0, numbers, lanes):
                begin = min(begin, numbers - lanes)
                square = []
                for lane in range(lanes):
                    at = code.new(f"getelementptr {kind}, ptr %a{array}_{lane}, i64 {begin}")
                    square.append(
                        code.new(f"load {code.type(dtype)}, ptr {at}, align {np.dtype(dtype).itemsize}")
                    )
                for i, row in enumerate(code.transposed(square, kind)):
                    code.known.setdefault(("number", array, begin + i), row)
        return True

    def store(self, given: Round, node: int) -> None:
        for number, place, step in given.stores.get(node, ()):
            code, dtype, x = self.code, given.scalars.dtype[node], self.value(given, node)
            layout = self.results[number].layout
            known = given.scalars.value(node)
            if layout == "columns" and known is not None:  # written once, for all chunks
                self._known(number, place, known)
                continue
            vector, kind = code.type(dtype), TYPES[np.dtype(dtype)]
            if dtype == bool:
                x, vector, kind = converted(code, x, dtype, np.dtype(np.int32)), code.type(np.int32), "i32"
            if layout != "rows":
                column = self._pointer(f"%k{number}")
                at = code.new(f"getelementptr {kind}, ptr {column}, i64 {place * self.lanes}")
                if layout == "sum":
                    valid = "%valid" if code is self.main else self.here(self.valid)
                    own = code.new(
                        f"select <{self.lanes} x i1> {valid}, {vector} {x}, {vector} zeroinitializer"
                    )
                    before = code.new(f"load {vector}, ptr {at}, align 4")
                    x = code.new(f"fadd {vector} {before}, {own}")
                code.lines.append(f"store {vector} {x}, ptr {at}, align 4")
                continue
            where = self.moved_row(given, place, step)
            for lane in range(self.lanes):
                at = code.new(f"getelementptr {kind}, ptr {self._pointer(f'%r{number}_{lane}')}, i64 {where}")
                one = code.new(f"extractelement {vector} {x}, i32 {lane}")
                code.lines.append(f"store {kind} {one}, ptr {at}")

    def _pointers(self) -> list[str]:
        """Returns the names of the pointers with which the lanes read and write."""
        read = [
            name
            for i, (kind, _) in enumerate(self.sizes)
            for name in ([f"%a{i}_{lane}" for lane in range(self.lanes)] if kind == "sample" else [f"%a{i}"])
        ]
        for i, x in enumerate(self.results):
            read += [f"%r{i}_{lane}" for lane in range(self.lanes)] if x.layout == "rows" else [f"%k{i}"]
        return read

    def _column_bytes(self, x: Result) -> int:
        """Returns the size of all columns of a result, in bytes."""
        return x.size * self.lanes * x.stored.itemsize

    def _known(self, number: int, place: int, value) -> None:
        """Writes a column with a constant."""
        dtype = self.results[number].stored
        at = f"%z{len(self.begin)}"
        self.begin.append(
            f"{at} = getelementptr {self.results[number].type}, ptr %k{number}, i64 {place * self.lanes}"
        )
        column = f"{self.main.type(dtype)} {self.main.constant(value, dtype)}"
        self.begin.append(f"store {column}, ptr {at}, align 4")

    def _turned(self, number: int) -> None:
        """Writes columns as rows, by transposing squares of as many columns as lanes."""
        code, x, lanes = self.turned, self.results[number], self.lanes
        vector, name = f"<{lanes} x {x.type}>", f"turn{number}"
        before, squares = code.block, x.size // lanes
        code.lines += [f"br label %{name}", f"{name}:"]
        code.lines.append(f"%b{number} = phi i64 [0, %{before}], [%d{number}, %{name}]")
        first = code.new(f"mul i64 %b{number}, {lanes * lanes}")
        square = []
        for i in range(lanes):
            far = code.new(f"add i64 {first}, {i * lanes}")
            at = code.new(f"getelementptr {x.type}, ptr %k{number}, i64 {far}")
            square.append(code.new(f"load {vector}, ptr {at}, align 4"))
        place = code.new(f"mul i64 %b{number}, {lanes}")
        for lane, row in enumerate(code.transposed(square, x.type)):
            at = code.new(f"getelementptr {x.type}, ptr %r{number}_{lane}, i64 {place}")
            code.lines.append(f"store {vector} {row}, ptr {at}, align 4")
        code.lines.append(f"%d{number} = add i64 %b{number}, 1")
        code.lines.append(f"%g{number} = icmp slt i64 %d{number}, {squares}")
        code.block = f"turned{number}"
        code.lines += [f"br i1 %g{number}, label %{name}, label %{code.block}", f"{code.block}:"]
        for place in range(squares * lanes, x.size):
            at = code.new(f"getelementptr {x.type}, ptr %k{number}, i64 {place * lanes}")
            column = code.new(f"load {vector}, ptr {at}, align 4")
            for lane in range(lanes):
                at = code.new(f"getelementptr {x.type}, ptr %r{number}_{lane}, i64 {place}")
                one = code.new(f"extractelement {vector} {column}, i32 {lane}")
                code.lines.append(f"store {x.type} {one}, ptr {at}")

    def _whole(self) -> str:
        """Returns the complete code: the function that XLA calls, and the functions that it needs.

        A chunk has as many samples as lanes. In the last chunk, lanes beyond the last sample repeat that sample.
        """
        begin, columns, memory = [], [], self.slots * self.slot_bytes if self.parts else 0
        for i, x in enumerate(self.results):
            bytes_ = self._column_bytes(x)
            if x.layout == "sum":
                begin.append(f"%ki{i} = mul i64 %number, {bytes_}")
                begin.append(f"%k{i} = getelementptr i8, ptr %r{i}, i64 %ki{i}")
                begin.append(f"call void @llvm.memset.p0.i64(ptr %k{i}, i8 0, i64 {bytes_}, i1 false)")
            elif x.layout == "columns":
                columns.append(f"%k{i} = getelementptr i8, ptr %frame, i64 {memory}")
                memory += -(-bytes_ // self.slot_bytes) * self.slot_bytes
        rows, saved, functions = self._rows(), self._pointers_saved(), []
        # Code between the parts, such as loops around them, belongs to one chunk.
        of_parts = bool(self.parts) and all(line.startswith("call void @part") for line in self.main.lines)
        chunks = chunks_at_once(self.length, memory) if of_parts else 1
        if chunks > 1:
            self.least = max(
                self.least, self.lanes * chunks // 2
            )  # small enough for both cores of a small machine
            sums = [f"%k{i}" for i, x in enumerate(self.results) if x.layout == "sum"]
            arrays = [f"%a{i}" for i in range(len(self.sizes))] + [f"%r{i}" for i in range(len(self.results))]
            groups = Groups(chunks, self.lanes, memory, [*arrays, *sums])
            phases = {"begun": [*columns, *rows, *saved], "ended": [*columns, *rows, *self.turned.lines]}
            if self.begin:
                phases["constant"] = [*columns, *self.begin]
                begin += groups.constants(groups.call("constant"))
            functions = groups.functions(phases, "chunk")
            parts = [line.replace("%frame", "%own") for line in self.main.lines]
            body, last = groups.body([groups.call("begun"), *parts, groups.call("ended")])
        else:
            begin += [*columns, *self.begin]
            body, last = [*rows, *saved, *self.main.lines, *self.turned.lines], self.turned.block
        batched = [i for i, (kind, _) in enumerate(self.sizes) if kind == "sample"]
        run = function(
            len(self.sizes), len(self.results), batched[0], self.lanes, chunks, begin, body, last, memory * chunks,
            self.slot_bytes, self.least,
        )  # fmt: skip
        return "\n".join([*sorted(self.declared), *self.parts, *functions, run])

    def _rows(self) -> list[str]:
        """Returns instructions that compute the pointers of the lanes of a chunk, from the index of its first sample."""
        rows = [f"%s{lane} = add i64 %first, {lane}" for lane in range(self.lanes)]
        rows += [f"%t{lane} = call i64 @llvm.smin.i64(i64 %s{lane}, i64 %end)" for lane in range(self.lanes)]
        for i, ((kind, _), (numbers, dtype)) in enumerate(self.sizes.items()):
            for lane in range(self.lanes if kind == "sample" else 0):
                rows.append(f"%ai{i}_{lane} = mul i64 %t{lane}, {numbers}")
                rows.append(f"%a{i}_{lane} = getelementptr {TYPES[dtype]}, ptr %a{i}, i64 %ai{i}_{lane}")
        for i, x in enumerate(self.results):
            for lane in range(self.lanes if x.layout != "sum" else 0):
                rows.append(f"%ri{i}_{lane} = mul i64 %t{lane}, {x.size}")
                rows.append(f"%r{i}_{lane} = getelementptr {x.type}, ptr %r{i}, i64 %ri{i}_{lane}")
        if self._has_sums:
            whole = f"<{self.lanes} x i64>"
            for name in ("first", "end"):
                rows.append(f"%{name}_0 = insertelement {whole} poison, i64 %{name}, i32 0")
                zeros = f"<{self.lanes} x i32> zeroinitializer"
                rows.append(f"%{name}_all = shufflevector {whole} %{name}_0, {whole} poison, {zeros}")
            lanes = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
            rows.append(f"%each = add {whole} %first_all, <{lanes}>")
            rows.append(f"%valid = icmp sle {whole} %each, %end_all")
        return rows

    @property
    def _has_sums(self) -> bool:
        return any(x.layout == "sum" for x in self.results)

    def _pointers_saved(self) -> list[str]:
        """Returns instructions that save the pointers of the lanes in memory, for the parts."""
        lines = []
        saved = [*((name, "ptr", x.slot) for name, x in self.pointers.items())] if self.parts else []
        if self.parts and self._has_sums:
            saved.append(("%valid", self.valid.type, self.valid.slot))
        for name, kind, slot in saved:
            lines.append(f"%f{slot} = getelementptr i8, ptr %frame, i64 {slot * self.slot_bytes}")
            lines.append(f"store {kind} {name}, ptr %f{slot}")
        return lines

    def __call__(self, given: Sequence, size: int) -> list:
        """Computes results of shape (size, *shape), from arrays of shape (size, numbers) and shared arrays."""
        compiled(self.name, self.text, carefully=self.length <= VERY_LONG)
        shapes = [
            jax.ShapeDtypeStruct(
                (count(size, self.least), x.size, self.lanes) if x.layout == "sum" else (size, x.size),
                x.stored,
            )
            for x in self.results
        ]
        found = jax.ffi.ffi_call(self.name, shapes, vmap_method="sequential")(*given)
        return [
            y.sum((0, 2)).reshape(x.shape) if x.layout == "sum" else y.reshape(size, *x.shape)
            for y, x in zip(found, self.results, strict=True)
        ]


def _work(piece: Piece) -> int:
    """Returns the number of computed scalars, with all iterations of loops."""
    extra, operation = piece.scalars.extra, piece.scalars.operation
    loops = (extra[node] for node in piece.nodes if operation[node] == "loop")
    return len(piece.nodes) + sum((loop.length or SEARCHED) * _work(loop.piece) for loop in loops)
