"""Reasons why kernels are unavailable, each reported by one warning; functions are then mapped without kernels."""

from __future__ import annotations

import functools
import os
import warnings

import jax
import numpy as np

from . import compat
from .cpu.xla_ffi import is_available as is_compiled_here
from .kernel import Kernel


#: Environment variable: 0 switches kernels off, 1 switches them on for any versions of the packages.
SWITCH = "RBD_JAX_KERNELS"

_told: set[str] = set()


def why_no_kernels(platform: str) -> str | None:
    """Returns the reason why kernels are unavailable on a platform, or None.

    >>> from rbd_jax import compiler
    >>> print(compiler.why_no_kernels("cpu"))
    None
    """
    switch = os.environ.get(SWITCH, "")
    if switch == "0":
        return f"{SWITCH} is 0"
    if switch != "1" and (others := compat.untested(compat.versions())):
        return _warned(
            f"they are not tested with {', '.join(others)}. Set {SWITCH}=1 to use them anyway, or install a tested version"
        )
    if not is_compiled_here():
        return "llvmlite is not installed"
    # Kernels can run only on devices of this machine. Cross-compiled kernels are not checked.
    platform = "cuda" if platform == "gpu" else platform
    is_here = jax.default_backend() == ("gpu" if platform == "cuda" else platform)
    return _checked(platform) if is_here else None


@functools.cache
def _checked(platform: str) -> str | None:
    """Returns None if a small kernel agrees with NumPy, else the reason."""
    x = np.linspace(-2.0, 2.0, 11).astype(np.float32)
    function = lambda x: jax.numpy.sin(x) * jax.numpy.sqrt(x * x + 1) - x / 3
    try:
        with jax.ensure_compile_time_eval():
            closed = jax.make_jaxpr(function)(x[0])
            run = jax.jit(lambda x: Kernel("self-check", closed, 0, (False,))([], [x], platform))
            (found,) = run(x)
        right = np.allclose(found, np.sin(x) * np.sqrt(x * x + 1) - x / 3, rtol=1e-5, atol=1e-6)
    except Exception as error:
        return _warned(f"a small test kernel could not be compiled: {_described(error)}")
    return None if right else _warned("a small test kernel computes wrong numbers")


def warn(error: Exception) -> None:
    """Warns that a kernel could not be compiled."""
    _tell(f"a kernel could not be compiled, and the function is mapped without a kernel: {_described(error)}")


def _warned(reason: str) -> str:
    _tell(f"functions are mapped without kernels, which are slower: {reason}")
    return reason


def _tell(message: str) -> None:
    if message in _told:
        return
    _told.add(message)
    installed = ", ".join(f"{name} {version}" for name, version in compat.versions().items())
    warnings.warn(
        f"{message}. Please report this, with the versions: {installed}. {SWITCH}=0 switches kernels off",
        RuntimeWarning,
        stacklevel=2,
    )


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
