"""Storage of the object files of kernels in the folder of JAX's compilation cache, from which other processes load them."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import jax

from ..._core.files import whole_file


_DIGEST = hashlib.sha256().digest_size


def key_of(*parts: str) -> str:
    """Returns the name of an object file, a hash of everything that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)} {part}".encode())
    return digest.hexdigest()


def load(key: str) -> bytes | None:
    """Returns the stored object file of this name, or None if it is missing or damaged."""
    if (path := _path(key)) is None or not path.is_file():
        return None
    stored = path.read_bytes()
    code = stored[_DIGEST:]
    return code if hashlib.sha256(code).digest() == stored[:_DIGEST] else None


def store(key: str, code: bytes, seconds: float) -> None:
    """Stores an object file that took some seconds to compile, unless JAX's settings exclude it."""
    if (path := _path(key)) is None or seconds < _setting("jax_persistent_cache_min_compile_time_secs"):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            part.write_bytes(hashlib.sha256(code).digest() + code)
    except OSError as error:
        if _setting("jax_raise_persistent_cache_errors"):
            raise
        warnings.warn(
            f"The machine code of a kernel could not be stored: {error}", RuntimeWarning, stacklevel=2
        )


def _setting(name: str):
    """Returns the value of a setting of JAX."""
    return getattr(jax.config, name)


def _path(key: str) -> Path | None:
    folder = _setting("jax_compilation_cache_dir")
    # JAX can store programs in a cloud bucket. Kernels are stored only in local folders.
    if not folder or not _setting("jax_enable_compilation_cache") or "://" in str(folder):
        return None
    return Path(folder) / f"rbd_jax-kernel-{key}"
