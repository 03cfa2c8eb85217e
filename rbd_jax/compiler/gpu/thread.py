"""A function of one sample as a GPU kernel: each thread computes one sample in its registers.

LLVM compiles the scalars (`writer`) to PTX, the language of NVIDIA's assembler. XLA passes the PTX code to the driver, which
compiles it for the device. To test a kernel without a GPU, the same instructions run on a CPU, thread by thread.
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


#: Compilation target: Ampere. Its code also runs on later devices.
DEVICE, LANGUAGE = "sm_80", "+ptx70"


class Thread(Writer):
    """Writes scalars as instructions of a thread.

    - `size`: the number of samples.
    - `on`: "cuda" for a GPU, "cpu" for a CPU.
    """

    slot_bytes = 8
    volatile = "volatile "

    def __init__(
        self, kernel, sizes: dict[tuple, tuple[int, np.dtype]], size: int, on: Literal["cuda", "cpu"]
    ):
        super().__init__(kernel, sizes, None, "entry" if on == "cuda" else "chunk")
        self.size, self.on = size, on
        self.blocks = -(-size // BLOCK)
        # The types of pointers to global memory and to local memory.
        self.pointer, self.memory = (
            ("ptr addrspace(1)", "ptr addrspace(5)") if on == "cuda" else ("ptr", "ptr")
        )
        self.write_all(kernel)
        name = hashlib.sha256(repr((self.declared, self.code.lines, self.results, size, on)).encode())
        self.name = f"rbd_jax_{name.hexdigest()[:32]}"

    def layout(self, is_sum: bool, columns: bool) -> Literal["rows", "columns", "sum"]:
        """Returns the layout of a result. Columns belong to a block, whose threads write to adjacent memory.

        Sums are computed after the kernel.
        """
        return "columns" if columns else "rows"

    def write_part(self, given: Round, nodes: Iterable[int], ready: Iterable[int]) -> None:
        """Writes scalars by a register plan, in traced or depth-first order, whichever needs fewer saves and loads."""
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
        # Without `volatile`, LLVM would keep numbers in registers instead of reading them again.
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
        """Returns instructions that compute the pointers of this thread, for sample `%index`, but at most the last sample."""
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
        """Returns the PTX code of the kernel."""
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
        """Returns the kernel as a CPU routine for XLA."""
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
        """Computes results of shape (size, *shape), from arrays of shape (size, numbers) and shared arrays."""
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
    module.verify()  # raises an error; compilation of an invalid module would end the process
    return _machine().emit_assembly(module)


def is_available() -> bool:
    """Returns True if the device is an NVIDIA GPU, Ampere or later, and LLVM can compile for it."""
    device = jax.devices()[0]
    if "cuda" not in device.client.platform_version.lower() or float(device.compute_capability) < 8:
        return False
    try:
        _machine()
    except Exception:  # llvmlite is missing, or was built without the NVPTX target
        return False
    return True
