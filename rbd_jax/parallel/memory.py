"""Keeps the memory of large results for reuse, instead of returning it to the system.

glibc requests arrays of more than 32 MiB from Linux, and returns them when they are freed. Linux creates and zeros each page
of such memory on first write, which takes three times as long as writing: mass matrices of 4096
humanoids are 40 MB, and this is a third of their run time. With this setting glibc keeps up to 2 GiB of free memory at the end
of its heap, and allocates smaller arrays from there. glibc keeps free memory further down in any case.

Threads other than the first have their own heaps of at most 64 MiB, and request larger arrays from Linux. With several cores,
all threads use one heap: mass matrices of 65,536 humanoids then take a quarter of the time, and compilation takes a fifth
longer.

- User settings in `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`, `MALLOC_ARENA_MAX` or `GLIBC_TUNABLES` are not changed.
- `RBD_JAX_MALLOC=0` in the environment disables all of this.
"""

import ctypes
import os
import sys
from typing import Any


OPT_OUT = "RBD_JAX_MALLOC"

#: The maximum that glibc accepts: 4096 samples of the derivatives of inverse dynamics with 106 degrees of freedom are 1.1 GB.
KEPT = 2**31 - 1

#: The glibc numbers of the settings: the size from which memory comes from the system, the amount of free memory to keep, and
#: the number of heaps for threads (malloc.h).
MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8


def keep_memory() -> bool:
    """Keeps the memory of large results in this process for reuse. Returns whether this succeeded.

    Results of more than 32 MiB then take up to a third less time on Linux, because the system does not create new memory for
    each call. It is a setting of the complete process, which then keeps up to 2 GiB of free memory; so importing the library
    does not do it. It has no effect with a C library other than glibc, if the user has set glibc's own settings
    (`MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_MAX_`, `GLIBC_TUNABLES`), or with `RBD_JAX_MALLOC=0`.

    >>> print(isinstance(rbd.parallel.keep_memory(), bool))
    True
    """
    library = _glibc("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_")
    if library is None:
        return False
    library.mallopt(MMAP_THRESHOLD, KEPT)
    library.mallopt(TRIM_THRESHOLD, KEPT)
    return True


def share() -> None:
    """Makes all threads that start from now on allocate from one heap, under the same conditions as `keep_memory`."""
    library = _glibc("MALLOC_ARENA_MAX")
    if library is not None:
        library.mallopt(ARENA_MAX, 1)


def _glibc(*names: str) -> Any:
    """Returns glibc, or None for another C library, if the opt-out is set, or if one of these variables is set."""
    tuned = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if os.environ.get(OPT_OUT) == "0" or tuned or any(name in os.environ for name in names):
        return None
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "gnu_get_libc_version") else None
