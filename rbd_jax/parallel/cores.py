"""The cores of a CPU as devices, among which batches are split."""

from __future__ import annotations

import os

import jax

from .._core.arguments import whole_number
from . import memory
from .xla import backend_in_use


OWNER = "parallel.use_cores"


def use_cores(count: int | None = None) -> int:
    """Let batches run on the cores of this machine's CPU: on all of them, or on so many. Returns how many.

    Kernels (see `rbd.batch_map`) use all cores without it; this is for batches of what has no kernel.

    Call it once, right after the imports: JAX finds its devices when it is first used. From then on each core is a device of its
    own, `rbd.batch_map` and all that maps over batches splits samples over them, and results lie on them in parts, which any
    function of JAX takes. A function of one sample runs on the first.

    It is not done by importing the library, because it is a setting of the whole process: other libraries see as many devices.
    `JAX_NUM_CPU_DEVICES` and `jax_num_cpu_devices` set the same; without `count` what they say stays. With several cores all
    threads take memory from one heap of glibc, from which large results come faster, and compile a fifth longer; it is not done
    where `MALLOC_ARENA_MAX` is set.

    Raises a RuntimeError if JAX was used before, with another number of devices.

    >>> rbd.parallel.use_cores(1)
    1
    """
    if count is not None:
        count = whole_number(OWNER, "count", count)
    set_before = jax.config.jax_num_cpu_devices  # pyright: ignore[reportAttributeAccessIssue]
    wanted = count or (set_before if set_before > 0 else cores())
    if wanted > 1:
        memory.share()
    if not backend_in_use():
        jax.config.update("jax_num_cpu_devices", wanted)
        return wanted
    there = len(jax.local_devices(backend="cpu"))
    if there != wanted:
        raise RuntimeError(
            f"{OWNER}: JAX is in use already, with {there} of {wanted} cores, and finds its devices only once; call this right "
            f"after the imports, before an array or a model is made, or set JAX_NUM_CPU_DEVICES={wanted} in the environment"
        )
    return there


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
