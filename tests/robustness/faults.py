"""System calls that fail during writing, and the required state afterward."""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import rbd_jax as rbd


#: System errors: a full disk, a broken one, no permission, too many open files, quota exceeded.
ERRORS = errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE, errno.EDQUOT

STATES = rbd.State(*jax.device_put((np.array([[0.1, 0.2], [0.3, 0.4]]), np.zeros((2, 2)))))


class Faults:
    """In this context one of the calls that open, write and rename files below a folder fails."""

    def __init__(self, below: Path, fails: int | None = None, error: int = errno.ENOSPC):
        self.below, self.fails, self.error = below, fails, error
        self.count = 0

    def __enter__(self) -> Faults:
        self._true: list[tuple[Any, str, Any]] = []
        for module, name in (
            (builtins, "open"), (io, "open"), (os, "open"), (os, "replace"), (os, "rename"), (os, "mkdir"), (os, "truncate"),
        ):  # fmt: skip
            self._watch(module, name)
        for name in ("fsync", "write"):
            self._watch(os, name, always=True)
        return self

    def __exit__(self, *what: object) -> None:
        for module, name, true in self._true:
            setattr(module, name, true)

    def called(self) -> None:
        self.count += 1
        if self.count == self.fails:
            raise OSError(self.error, os.strerror(self.error))

    def _watch(self, module: Any, name: str, always: bool = False) -> None:
        true = getattr(module, name)
        opens = name == "open" and module is not os

        def watched(path, *args, **named):
            mode = args[0] if args else named.get("mode", "r")
            ours = always or str(path).startswith(str(self.below))
            if not ours or (opens and not set(mode) & set("wax+")):  # other files, or reading
                return true(path, *args, **named)
            self.called()
            found = true(path, *args, **named)
            return _Written(found, self) if opens else found

        self._true.append((module, name, true))
        setattr(module, name, watched)


class _Written:
    """A file whose writes may fail too."""

    def __init__(self, file: Any, faults: Faults):
        self._file, self._faults = file, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *what: object) -> None:
        self._file.close()

    def write(self, content: Any) -> int:
        self._faults.called()
        return self._file.write(content)


@functools.cache
def model() -> Any:
    return rbd.load("double_pendulum")


@functools.cache
def moved() -> Any:
    first = jax.tree.map(lambda x: jax.device_put(np.asarray(x)[0]), STATES)
    return rbd.rollout(model(), first, dt=0.01, steps=3)


#: Functions that write one file at a path.
FILES: dict[str, Callable[[Path], object]] = {
    "a.urdf": lambda path: rbd.save_urdf(model(), path),
    "a.xml": lambda path: rbd.save_mjcf(model(), path),
    "a.html": lambda path: rbd.save_html(model(), moved(), path),
    "a.gif": lambda path: rbd.save_video(model(), moved(), path, size=(32, 24), progress=False),
    "a.mp4": lambda path: rbd.save_video(model(), moved(), path, size=(32, 24), progress=False),
}


def batch_on_disk(path: Path) -> None:
    with warnings.catch_warnings(action="ignore", category=rbd.CheckpointWarning):
        rbd.parallel.simulate_to_disk(path, model(), STATES, dt=0.01, steps=4, frames=2, every=0)


#: Functions that write a folder and resume an earlier run.
FOLDERS: dict[str, Callable[[Path], object]] = {"batch": batch_on_disk}

WRITERS = FILES | FOLDERS


def fault_of_file(name: str, place: Path, number: int, error: int = errno.ENOSPC) -> tuple[str | None, bool]:
    """Lets one call fail while a file is overwritten.

    Args:
      name: Name of the function in `FILES`.
      place: The folder of the file.
      number: Number of the failing call.
      error: The system error.

    Returns:
      The fault or None, and whether a call with this number exists.
    """
    path = place / name
    path.write_text("before")
    with Faults(place, number, error) as faults:
        try:
            FILES[name](path)
        except OSError as said:
            if said.errno != error:
                return f"{said} is not the error that was", True
            if path.read_text() != "before":
                return "what was there is gone", True
        except (
            Exception
        ) as said:  # a third-party library may raise another error; then the old file must be unchanged
            if type(said).__module__.startswith("rbd_jax") or path.read_text() != "before":
                return f"{type(said).__name__}: {said}", True
        else:
            if path.read_bytes() == b"before":
                return "nothing was written, and no error was raised", True
    left = [one.name for one in place.iterdir()]
    return (None if left == [name] else f"{left} are left"), faults.count >= number


def fault_of_folder(
    name: str, place: Path, expected: dict[str, bytes], number: int, error: int = errno.ENOSPC
) -> tuple[str | None, bool]:
    """Returns the same for a new folder. After a failure the run resumes to `expected`: files by name."""
    path = place / name
    with Faults(place, number, error) as faults:
        try:
            FOLDERS[name](path)
        except (OSError, rbd.CheckpointError):
            if path.exists():
                return "a folder is there by half", True
            failed = True
        else:
            failed = False
    if failed:
        FOLDERS[name](path)
    if content(path) != expected:
        return "the files differ", True
    left = sorted(one.name for one in place.iterdir())
    shutil.rmtree(path)
    return (None if left == [name] else f"{left} are left"), faults.count >= number


def content(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of the array files in a folder."""
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}
