"""Compilation of LLVM functions for this CPU. XLA calls them through its foreign function interface."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

import jax

from ..compat import (
    ARGUMENTS,
    CREATE,
    DATA,
    EXHAUSTED,
    EXTENSION,
    INTERFACE,
    KIND,
    MAJOR,
    METADATA,
    MINOR,
    RESULTS,
    SIDES,
)
from ..schedule import NoKernel
from . import cache
from .threads import in_ranges


def is_available() -> bool:
    """Returns True if llvmlite is installed."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def _features() -> Any:
    """Returns the features of this CPU."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_features()


def machine(care: int) -> Any:
    """Returns a new target machine with an optimization level. Each engine owns its target machine.

    Levels above 1 take two to three times as long and do not give faster code.
    """
    import llvmlite.binding as llvm

    features = _features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(opt=care, cpu=llvm.get_host_cpu_name(), features=features)


def register_bytes() -> int:
    """Returns the size of a vector register of this CPU, in bytes."""
    return 64 if _features().get("avx512f") else 32 if _features().get("avx2") else 16


@functools.cache
def _version() -> tuple[int, int]:
    """Returns the version of the foreign function interface of this jaxlib."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    major, minor = (int(re.findall(rf"#define XLA_FFI_API_{x} (\d+)", header)[0]) for x in ("MAJOR", "MINOR"))
    if major != 0:
        raise NoKernel(
            f"fused: this jaxlib has version {major} of the foreign function interface, not 0; leave fused out"
        )
    return major, minor


_TEMPLATE = Template(Path(__file__).with_name("xla_ffi.ll").read_text(encoding="utf-8"))
_MESSAGE = "no memory is left for what a kernel keeps"


def function(
    arguments: int,
    results: int,
    batched: int,
    lanes: int,
    chunks: int,
    before: Sequence[str],
    body: Sequence[str],
    last: str,
    memory: int,
    apart: int,
    least: int,
) -> str:
    """Returns the function that XLA calls, in LLVM's assembly language.

    The function runs `body` for groups of chunks of samples. The first sample of a group is `%first`, the last sample of the
    batch is `%end`.

    Args:
      arguments: The number of arguments.
      results: The number of results.
      batched: The index of an argument whose first dimension is the number of samples.
      lanes: The number of samples of a chunk.
      chunks: The number of chunks of a group.
      before: The instructions before each range of samples; `%number` is the index of the range.
      body: The instructions for a group.
      last: The basic block in which the body ends.
      memory: The bytes of memory of a range, at `%frame`.
      apart: The alignment of this memory, a power of two.
      least: The minimum number of samples in a range.
    """
    major, minor = _version()
    begin: list[str] = []

    def buffers(letter, offset, count):
        begin.append(f"%{letter}s_at = getelementptr i8, ptr %call, i64 {offset}")
        begin.append(f"%{letter}s = load ptr, ptr %{letter}s_at")
        for i in range(count):
            begin.append(f"%{letter}{i}_at = getelementptr ptr, ptr %{letter}s, i64 {i}")
            begin.append(f"%{letter}{i}_b = load ptr, ptr %{letter}{i}_at")
            begin.append(f"%{letter}{i}_d = getelementptr i8, ptr %{letter}{i}_b, i64 {DATA}")
            begin.append(f"%{letter}{i} = load ptr, ptr %{letter}{i}_d")

    buffers("a", ARGUMENTS, arguments)
    buffers("r", RESULTS, results)
    begin += ["%end = sub i64 %size, 1", "%any = icmp slt i64 %from, %until"]
    end: list[str] = []
    if memory:
        begin.append(f"%given = call ptr @malloc(i64 {memory + apart})")
        begin.append("%none = icmp eq ptr %given, null")
        begin.append("br i1 %none, label %refused, label %ready")
        begin.append("refused:")
        begin.append("store atomic i64 1, ptr %failed monotonic, align 8")
        begin.append("ret void")
    else:
        begin.append("br label %ready")
    begin.append("ready:")
    if memory:
        begin.append(f"%beyond = getelementptr i8, ptr %given, i64 {apart - 1}")
        begin.append(f"%frame = call ptr @llvm.ptrmask.p0.i64(ptr %beyond, i64 {-apart})")
        end.append("call void @free(ptr %given)")
    begin += before
    newline = "\n  "
    entry = _TEMPLATE.substitute(
        begin=newline.join(begin), body=newline.join(body), end=newline.join(end), last=last, step=lanes * chunks,
        batched=batched, major=major, minor=minor, message=_MESSAGE, message_bytes=len(_MESSAGE) + 1,
        ARGUMENTS=ARGUMENTS, CREATE=CREATE, EXHAUSTED=EXHAUSTED, EXTENSION=EXTENSION, INTERFACE=INTERFACE, KIND=KIND,
        MAJOR=MAJOR, METADATA=METADATA, MINOR=MINOR, SIDES=SIDES,
    )  # fmt: skip
    return f"{entry}\n{in_ranges(lanes, least)}\n"


#: Compiled functions, by name. They are never released, because XLA keeps registered functions forever and calls them without
#: JAX. The modules that they were compiled from are released, which saves half of the memory.
_engines: dict[str, Any] = {}
#: One lock per routine, held during its compilation, so that other routines do not wait.
_making: dict[str, threading.Lock] = {}


def compiled(name: str, text: str, carefully: bool) -> None:
    """Compiles a function and registers it with XLA.

    Args:
      name: The name of the function.
      text: Its LLVM assembly code.
      carefully: If True, LLVM optimizes. Otherwise compilation is fast, with registers allocated in the order of use.
    """
    import llvmlite.binding as llvm

    with _making.setdefault(name, threading.Lock()):
        if name in _engines:
            return
        care = int(carefully)
        version = ".".join(map(str, llvm.llvm_version_info))
        key = cache.key_of(text, version, llvm.get_host_cpu_name(), _features().flatten(), str(care))
        stored = cache.load(key)
        module = llvm.parse_assembly(text if stored is None else "")
        module.verify()  # raises an error; compilation of an invalid module would end the process
        engine = llvm.create_mcjit_compiler(module, machine(care))
        # The engine requests the code of a module before it compiles the module, and reports what it has compiled.
        made: list[bytes] = []
        engine.set_object_cache(lambda _, code: made.append(code), lambda _: stored)
        begin = time.perf_counter()
        engine.finalize_object()
        for code in made:
            cache.store(key, code, time.perf_counter() - begin)
        made, stored = [], None
        engine.remove_module(module)
        module.close()
        address = ctypes.c_void_p(engine.get_function_address("run"))
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
        _engines[name] = engine
