"""A function of one sample as a kernel of a GPU: each thread has a sample, and what it computes stays in its registers.

The scalars are instructions of LLVM (`writer`), which makes PTX of them, the language of NVIDIA's assembler. XLA hands that
to the driver, which knows the device. The same instructions run on a processor, thread by thread, to try a kernel without a GPU.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import jax
import numpy as np

from ..compat import RUN_PTX
from ..cpu.xla_ffi import compiled, function
from ..instructions import TYPES
from ..llvm import converted
from ..schedule import BLOCK, depth_first
from ..writer import Result, Round, Saved, Writer
from .registers import moves, plan


#: Compilation target: Ampere. Later devices run its code.
DEVICE, LANGUAGE = "sm_80", "+ptx70"


class Thread(Writer):
    """Scalars as instructions of a thread.

    - `size`: so many samples there are.
    - `on`: a GPU, or a processor.
    """

    slot_bytes = 8
    volatile = "volatile "

    def __init__(
        self, kernel, sizes: dict[tuple, tuple[int, np.dtype]], size: int, on: Literal["cuda", "cpu"]
    ):
        super().__init__(kernel, sizes, None, "entry" if on == "cuda" else "chunk")
        self.size, self.on = size, on
        self.blocks = -(-size // BLOCK)
        # Of what all threads have, and of what is their own.
        self.pointer, self.memory = (
            ("ptr addrspace(1)", "ptr addrspace(5)") if on == "cuda" else ("ptr", "ptr")
        )
        self.write_all(kernel)
        name = hashlib.sha256(repr((self.declared, self.code.lines, self.results, size, on)).encode())
        self.name = f"rbd_jax_{name.hexdigest()[:32]}"

    def layout(self, is_sum: bool, columns: bool) -> Literal["rows", "columns", "sum"]:
        """Columns are those of a block: its threads write side by side. Sums are left for after the kernel."""
        return "columns" if columns else "rows"

    def write_part(self, given: Round, nodes: Iterable[int], ready: Iterable[int]) -> None:
        """In the traced order or depth first, whichever keeps less at a time, and by a plan of the registers."""
        for node in ready:
            self.store(given, node)
        given.names.clear()
        traced = list(nodes)
        work = set(traced)
        wanted = [node for node in traced if node in given.stores or given.scalars.operation[node] == "loop"]
        wanted += [node for node in (*given.wanted, *given.stores) if node not in work]
        deep = [node for node in depth_first(given.scalars.arguments, [*wanted, *traced]) if node in work]
        slots: dict[int, Saved] = {}
        for what, node, place in min((plan(given, order) for order in (traced, deep)), key=moves):
            if what == "compute":
                self.write_made(given, node)
            elif what == "drop":
                given.names.pop(node, None)
            elif what == "save":
                kind = self.code.type(given.scalars.dtype[node])
                if place in slots:
                    self.free.append(slots[place].slot)
                slots[place] = self.save(self.value(given, node), kind)
                given.names.pop(node)
            else:
                given.names[node] = self.load(slots[place])
        self.free += [x.slot for x in slots.values()]

    def read(self, given: Round, source: tuple, place: int, dtype) -> str:
        array = list(self.sizes).index(source[:2])
        own = "own" if source[0] == "sample" else "a"
        return self._loaded(f"%{own}{array}", self.moved(given, source, place), TYPES[np.dtype(dtype)])

    def _loaded(self, first: str, place: str, kind: str) -> str:
        at = self.code.new(f"getelementptr {kind}, {self.pointer} {first}, i64 {place}")
        # Otherwise LLVM would keep in registers what is to be read again.
        return self.code.new(f"load volatile {kind}, {self.pointer} {at}")

    def store(self, given: Round, node: int) -> None:
        for number, place, step in given.stores.get(node, ()):
            result, dtype = self.results[number], given.scalars.dtype[node]
            x = (
                converted(self.code, self.value(given, node), dtype, result.stored)
                if dtype == bool
                else self.value(given, node)
            )
            where = self.moved_row(given, place, step)
            if result.layout == "columns":
                where = str(place * BLOCK)
            at = self.code.new(f"getelementptr {result.type}, {self.pointer} %to{number}, i64 {where}")
            self.code.lines.append(f"store {result.type} {x}, {self.pointer} {at}")

    def _begin(self) -> list[str]:
        """Where this thread reads and writes: of the sample `%index`, and beyond the last one of that again."""
        last = f"@llvm.smin.i64(i64 %index, i64 {self.size - 1})"
        lines = [f"%sample = call i64 {last}"]
        for i, ((kind, _), (numbers, dtype)) in enumerate(self.sizes.items()):
            if kind == "sample":
                lines.append(f"%first{i} = mul i64 %sample, {numbers}")
                lines.append(f"%own{i} = getelementptr {TYPES[dtype]}, {self.pointer} %a{i}, i64 %first{i}")
        for i, x in enumerate(self.results):
            if x.layout == "columns":
                lines.append(f"%block{i} = and i64 %index, {-BLOCK}")
                lines.append(f"%thread{i} = and i64 %index, {BLOCK - 1}")
                lines.append(f"%before{i} = mul i64 %block{i}, {x.size}")
                lines.append(f"%at{i} = add i64 %before{i}, %thread{i}")
            else:
                lines.append(f"%at{i} = mul i64 %sample, {x.size}")
            lines.append(f"%to{i} = getelementptr {x.type}, {self.pointer} %r{i}, i64 %at{i}")
        return lines

    def ptx(self) -> str:
        """The kernel in the language of NVIDIA's assembler."""
        arrays = [f"{self.pointer} noalias align 16 %a{i}" for i in range(len(self.sizes))]
        arrays += [f"{self.pointer} noalias align 16 %r{i}" for i in range(len(self.results))]
        frame = [
            f"%stack = alloca [{self.slots * self.slot_bytes} x i8], align 8",
            f"%frame = addrspacecast ptr %stack to {self.memory}",
        ]
        begin = [
            *(frame if self.slots else ()),
            "%thread32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            "%block32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
            "%thread = zext i32 %thread32 to i64",
            "%block = zext i32 %block32 to i64",
            f"%before = mul i64 %block, {BLOCK}",
            "%index = add i64 %before, %thread",
            *self._begin(),
        ]
        declared = self.declared | {
            "declare i64 @llvm.smin.i64(i64, i64)",
            "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        }
        newline = "\n"
        return _compiled(f"""{newline.join(sorted(declared))}
define ptx_kernel void @{self.name}({", ".join(arrays)}) {{
entry:
  {newline.join([*begin, *self.code.lines])}
  ret void
}}
; How many threads a block has, in the form that LLVM 20 reads as well as later versions.
!nvvm.annotations = !{{!1}}
!1 = !{{ptr @{self.name}, !"maxntidx", i32 {BLOCK}}}""")

    def _routine(self) -> str:
        """The kernel for a processor, which XLA calls as it calls other routines there."""
        batched = [i for i, (kind, _) in enumerate(self.sizes) if kind == "sample"]
        body = ["%index = add i64 %first, 0", *self._begin(), *self.code.lines]
        memory = self.slots * self.slot_bytes
        run = function(
            len(self.sizes),
            len(self.results),
            batched[0],
            1,
            1,
            [],
            body,
            self.code.block,
            memory,
            self.slot_bytes,
            BLOCK,
        )
        return "\n".join([*(x for x in sorted(self.declared) if x not in run), run])

    def __call__(self, given: Sequence) -> list:
        """The results, of arrays of (size, numbers) and of what all samples share: (size, *shape) each."""
        rows = lambda x: (self.blocks * BLOCK if x.layout == "columns" else self.size, x.size)
        shapes = [jax.ShapeDtypeStruct(rows(x), x.stored) for x in self.results]
        if self.on == "cuda":
            how = dict(name=self.name, kernel_type="ptx", kernel_data=self.ptx(), shared_mem_bytes=0)
            for side, blocks, threads in (("x", self.blocks, BLOCK), ("y", 1, 1), ("z", 1, 1)):
                how |= {f"grid_{side}": blocks, f"block_{side}": threads}
            found = jax.ffi.ffi_call(RUN_PTX, shapes, vmap_method="sequential")(*given, **how)
        else:
            compiled(self.name, self._routine(), carefully=True)
            found = jax.ffi.ffi_call(self.name, shapes, vmap_method="sequential")(*given)
        return [self._in_rows(y, x) for y, x in zip(found, self.results, strict=True)]

    def _in_rows(self, y: jax.Array, x: Result) -> jax.Array:
        if x.layout == "columns":
            y = y.reshape(self.blocks, x.size, BLOCK).swapaxes(1, 2).reshape(-1, x.size)[: self.size]
        return y.reshape(self.size, *x.shape)


@functools.cache
def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
        cpu=DEVICE, features=LANGUAGE, opt=0
    )


def _compiled(text: str) -> str:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(f'target triple = "nvptx64-nvidia-cuda"\n{text}')
    module.data_layout = str(_machine().target_data)
    module.verify()  # an error, where to compile would end the process
    return _machine().emit_assembly(module)


def is_available() -> bool:
    """Whether the devices are NVIDIA's, Ampere or later, and there is a compiler for them."""
    device = jax.devices()[0]
    if "cuda" not in device.client.platform_version.lower() or float(device.compute_capability) < 8:
        return False
    try:
        _machine()
    except Exception:  # llvmlite is missing, or has been built without that part
        return False
    return True
