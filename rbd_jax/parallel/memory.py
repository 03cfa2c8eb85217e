"""The memory of large results is kept and used again, instead of being given back to the system and asked for anew.

glibc asks Linux for each array of more than 32 MiB, and gives it back when nobody has it any more. Each page of such memory is
made and filled with zeros when it is first written to, which takes three times as long as to write: mass matrices of 4096
humanoids are 40 MB, and a third of the time that they take. So glibc can be told to keep up to 2 GiB of what is free at the end
of its heap, and to take what is smaller than that from there. What is free further down it keeps in any case.

Threads besides the first have heaps of their own, of 64 MiB at most, and ask Linux for what is larger. With several cores all
take from one: mass matrices of 65,536 humanoids then take a quarter of the time, and to compile takes a fifth longer.

- What the user set in `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`, `MALLOC_ARENA_MAX` or `GLIBC_TUNABLES` is left as
  it is.
- `RBD_JAX_MALLOC=0` in the environment leaves everything as it is.
"""

import ctypes
import os
import sys
from typing import Any


OPT_OUT = "RBD_JAX_MALLOC"

#: As much as glibc can be told: 4096 samples of the derivatives of inverse dynamics of 106 degrees of freedom are 1.1 GB.
KEPT = 2**31 - 1

#: The numbers that glibc has for the settings: from what size on memory comes from the system, how much free memory is kept, and
#: how many heaps there are for threads (malloc.h).
MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8


def keep_memory() -> bool:
    """Keep the memory of large results in this process, and use it again. Returns whether that could be done.

    Results of more than 32 MiB then take up to a third less time on Linux, because the system does not make their memory anew for
    each call. It is a setting of the whole process, which keeps up to 2 GiB of free memory from then on; so importing the library
    does not do it. It has no effect with another C library than glibc, where the user has set glibc's own settings
    (`MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_MAX_`, `GLIBC_TUNABLES`), and with `RBD_JAX_MALLOC=0`.

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
    """Have all threads that begin from now on take from one heap, under the same conditions."""
    library = _glibc("MALLOC_ARENA_MAX")
    if library is not None:
        library.mallopt(ARENA_MAX, 1)


def _glibc(*names: str) -> Any:
    """The library, unless it is another one, what it does is unwanted, or one of these variables is set."""
    tuned = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if os.environ.get(OPT_OUT) == "0" or tuned or any(name in os.environ for name in names):
        return None
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "gnu_get_libc_version") else None
