"""Code that depends on the versions of JAX, XLA and llvmlite: private memory layouts, and tested versions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import equinox
import jax
import jaxlib


#: The lowest and the highest version of each package with which all kernel tests passed.
TESTED = {"jax": ("0.9", "0.12"), "jaxlib": ("0.9", "0.12"), "llvmlite": ("0.45", "0.50")}

#: Byte offsets in the structures of XLA's foreign function interface (`xla/ffi/api/c_api.h`, version 0). Call frame: interface,
#: context, extension, arguments and results. Buffer: data and dimensions. Extension: kind and metadata. Metadata: version.
INTERFACE, CONTEXT, EXTENSION, ARGUMENTS, RESULTS = 16, 24, 8, 72, 112
DATA, SIDES, KIND, METADATA, MAJOR, MINOR = 24, 40, 8, 24, 24, 28

#: Byte offsets in the interface: functions that create and destroy an error, schedule a task, and return the number of threads.
CREATE, DESTROY, SCHEDULE, THREADS = 48, 64, 136, 144
#: The error code for exhausted memory.
EXHAUSTED = 8


#: XLA's operation that runs PTX (`xla/service/gpu/kernel_call.h`). The kernel's arguments are the operands, then the results.
RUN_PTX = "__gpu$xla.gpu.ptx"


#: The folder of the library.
LIBRARY = str(Path(__file__).resolve().parents[1])


def place_of(equations: Sequence) -> str:
    """Returns the source location of nested operations as text, from the innermost operation outwards.

    The location is the innermost line of code that belongs neither to JAX nor to this library.
    """
    packages = [path for module in (jax, jaxlib, equinox) for path in module.__path__]
    packages += [f"{LIBRARY}/{folder}" for folder in ("compiler", "parallel", "_core")]
    callers: list[tuple[str, int]] = []
    for equation in reversed(equations):
        traceback = equation.source_info.traceback
        for frame in traceback.frames if traceback is not None else ():
            if not frame.file_name.startswith((*packages, "<frozen", "<string>", "<@beartype")):
                callers.append((frame.file_name, frame.line_num))
    others = [caller for caller in callers if not caller[0].startswith(LIBRARY)] or callers
    return f" ({others[0][0]}:{others[0][1]})" if others else ""


def versions() -> dict[str, str]:
    """Returns the installed version of each package."""
    found = {}
    for name in TESTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def untested(installed: dict[str, str]) -> list[str]:
    """Returns the installed packages outside of the tested range, each as a phrase for a message."""
    return [
        f"{name} {installed[name]} (tested: {low} to {high})"
        for name, (low, high) in TESTED.items()
        if name in installed and not _numbers(low) <= _numbers(installed[name])[:2] <= _numbers(high)
    ]


def _numbers(text: str) -> tuple[int, int]:
    """Returns the major and minor version."""
    major, minor, *_ = (*text.split("."), "0")
    digits = lambda part: int("".join(c for c in part if c.isdigit()) or 0)
    return digits(major), digits(minor)
