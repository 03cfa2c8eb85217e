"""CPU cores as devices, over which batches are split."""

from __future__ import annotations

import os

import jax

from .._core.arguments import whole_number
from . import memory
from .xla import backend_in_use


OWNER = "parallel.use_cores"


def use_cores(count: int | None = None) -> int:
    """Runs batches on the cores of this machine's CPU: on all, or on `count` of them.

    Kernels (see `rbd.batch_map`) use all cores without this call; it is for batches without a kernel.

    Call it once, right after the imports: JAX determines its devices on first use. From then on each core is a separate
    device. `rbd.batch_map` and all functions that map over batches split samples over the devices, and results lie on them in
    parts, which any JAX function accepts. A function of one sample runs on the first device.

    Importing the library does not do this, because it is a setting of the complete process: other libraries see the same
    devices. `JAX_NUM_CPU_DEVICES` and `jax_num_cpu_devices` have the same effect; without `count` their value is used. With
    several cores, all threads allocate memory from one glibc heap, which makes large results faster and compilation a fifth
    slower, unless `MALLOC_ARENA_MAX` is set.

    Args:
      count: The number of cores; by default all that the process may use.

    Returns:
      The number of devices.

    Raises:
      RuntimeError: JAX was used before, with another number of devices.

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
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
