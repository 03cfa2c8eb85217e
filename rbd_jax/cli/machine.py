"""What the command line, which has its process for itself, makes of the machine: all its cores, and programs that are kept."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax

from ..parallel.cores import use_cores
from ..parallel.xla import backend_in_use


#: Whether and where compiled programs are kept, and from how many seconds of compiling on.
SWITCH = "jax_enable_compilation_cache"
FOLDER, SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
WORTH_KEEPING = 0.2

#: So many bytes of programs are kept; of more the oldest go.
LARGEST = 2 * 1024**3


def use_all_cores() -> None:
    """Batches run on all cores, where JAX has not begun to use the CPU."""
    if not backend_in_use():
        use_cores()


def keep_programs() -> None:
    """What is compiled is kept in the user's cache folder, and a command that is given again does not compile it again.

    `JAX_COMPILATION_CACHE_DIR` keeps it elsewhere; `JAX_ENABLE_COMPILATION_CACHE=false` does not keep it.
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
        return  # there is no home, or it cannot be written to
    jax.config.update(FOLDER, str(folder))
    jax.config.update(SECONDS, WORTH_KEEPING)


def _make_room(folder: Path) -> None:
    """JAX adds to the folder and removes nothing."""
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
    """A name for what programs are compiled for, since folders of users may be shared by machines of several kinds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:8]}"
