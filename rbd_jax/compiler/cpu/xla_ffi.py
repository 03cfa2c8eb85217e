"""Functions in LLVM's language, compiled for this processor, and called by XLA through its foreign function interface."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
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
    """Whether there is a compiler."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def _features() -> Any:
    """What this processor can do."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_features()


def machine(care: int) -> Any:
    """What is compiled for, with more or less care. An engine has one of its own, which ends with it.

    More than 1 takes two to three times as long, for code that is not faster.
    """
    import llvmlite.binding as llvm

    features = _features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(opt=care, cpu=llvm.get_host_cpu_name(), features=features)


def register_bytes() -> int:
    """Those of a vector register of this processor."""
    return 64 if _features().get("avx512f") else 32 if _features().get("avx2") else 16


@functools.cache
def _version() -> tuple[int, int]:
    """That of the interface of XLA which this jaxlib has."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    major, minor = (int(re.findall(rf"#define XLA_FFI_API_{x} (\d+)", header)[0]) for x in ("MAJOR", "MINOR"))
    if major != 0:
        raise NoKernel(f"fused: this jaxlib calls foreign functions by version {major}; leave fused out")
    return major, minor


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
    """The function that XLA calls, in LLVM's language: `body` for groups of chunks of samples, the first sample is `%first`.

    - `batched`: the number of an argument whose first side is the number of samples; `%end` is the last of them.
    - `before`: what is done before each range of samples, of the number `%number`; `last` the block that the body ends in.
    - `memory`: so many bytes are given to a range, at `%frame`, which is a multiple of `apart`, a power of two.
    - `least`: so many samples at least are in a range.
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
    return f"""
declare i64 @llvm.smin.i64(i64, i64)
declare ptr @llvm.ptrmask.p0.i64(ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @malloc(i64)
declare void @free(ptr)
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
  %arguments_at = getelementptr i8, ptr %call, i64 {ARGUMENTS}
  %arguments = load ptr, ptr %arguments_at
  %array_at = getelementptr ptr, ptr %arguments, i64 {batched}
  %array = load ptr, ptr %array_at
  %sides_at = getelementptr i8, ptr %array, i64 {SIDES}
  %sides = load ptr, ptr %sides_at
  %size = load i64, ptr %sides
  %failed = alloca i64
  store i64 0, ptr %failed
  call void @shared_out(ptr %call, i64 %size, ptr %failed)
  %failures = load atomic i64, ptr %failed monotonic, align 8
  %well = icmp eq i64 %failures, 0
  br i1 %well, label %done, label %exhausted
done:
  ret ptr null
exhausted:
  %told_at = alloca {{ i64, ptr, ptr, i32 }}
  store {{ i64, ptr, ptr, i32 }} {{ i64 32, ptr null, ptr @message, i32 {EXHAUSTED} }}, ptr %told_at
  %interface_at = getelementptr i8, ptr %call, i64 {INTERFACE}
  %interface = load ptr, ptr %interface_at
  %create_at = getelementptr i8, ptr %interface, i64 {CREATE}
  %create = load ptr, ptr %create_at
  %error = call ptr %create(ptr %told_at)
  ret ptr %error
}}

@message = private constant [{len(_MESSAGE) + 1} x i8] c"{_MESSAGE}\\00"
define internal void @samples(ptr %call, i64 %size, ptr %failed, i64 %number, i64 %from, i64 %until) {{
start:
  {newline.join(begin)}
  br label %begun
begun:
  br i1 %any, label %chunk, label %done
chunk:
  %first = phi i64 [%from, %begun], [%next, %{last}]
  {newline.join(body)}
  %next = add i64 %first, {lanes * chunks}
  %more = icmp slt i64 %next, %until
  br i1 %more, label %chunk, label %done
done:
  {newline.join(end)}
  ret void
}}
{in_ranges(lanes, least)}
"""


#: What was compiled, by name. It is never let go: XLA keeps what is registered for good, and runs it without asking JAX. What it
#: was compiled of is let go, which is half of the memory.
_engines: dict[str, Any] = {}
#: Held while a routine of this name is compiled: others need not wait.
_making: dict[str, threading.Lock] = {}


def compiled(name: str, text: str, carefully: bool) -> None:
    """Makes a function available to XLA under a name.

    The compiler may take its time (`carefully`), or allocate registers in the order of use.
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
        module.verify()  # an error, where to compile would end the process
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
