"""Settings for the process of the command line: all cores, and a cache of compiled programs."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax

from ..parallel.cores import use_cores
from ..parallel.xla import backend_in_use


#: JAX options of the compilation cache: its switch, folder, and minimum compile time in s, with the value used here.
SWITCH = "jax_enable_compilation_cache"
FOLDER, SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
WORTH_KEEPING = 0.2

#: Maximum size of the cache, in bytes; the oldest programs are removed first.
LARGEST = 2 * 1024**3


def use_all_cores() -> None:
    """Runs batches on all cores, if JAX has not initialized the CPU yet."""
    if not backend_in_use():
        use_cores()


def keep_programs() -> None:
    """Caches compiled programs in the user's cache folder, so that later runs of a command do not compile again.

    `JAX_COMPILATION_CACHE_DIR` sets another folder; `JAX_ENABLE_COMPILATION_CACHE=false` disables the cache.
    """
    if getattr(jax.config, FOLDER) is not None or not getattr(jax.config, SWITCH):
        return
    own = os.environ.get("XDG_CACHE_HOME")
    try:
        cache = Path(own) if own else Path.home() / ".cache"
        folder = cache / "rbd_jax" / "compiled" / _kind_of_processor()
        folder.mkdir(parents=True, exist_ok=True)
        _make_room(folder)
    except (OSError, RuntimeError):
        return  # no home directory, or no permission
    jax.config.update(FOLDER, str(folder))
    jax.config.update(SECONDS, WORTH_KEEPING)


def _make_room(folder: Path) -> None:
    """Removes the oldest programs beyond the maximum size, because JAX never removes any."""
    files = sorted(
        (file.stat().st_mtime, file.stat().st_size, file.path)
        for file in os.scandir(folder)
        if file.is_file()
    )
    beyond = sum(size for _, size, _ in files) - LARGEST
    for _, size, path in files:
        if beyond <= 0:
            break
        Path(path).unlink(missing_ok=True)
        beyond -= size


def _kind_of_processor() -> str:
    """Returns a name for the processor type, since machines of several types may share a user's folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:8]}"
