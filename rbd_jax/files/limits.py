"""Limits on the size of the files that models are loaded from."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, fields
from pathlib import Path

from .._core.errors import ModelError


@dataclass(frozen=True)
class Limits:
    """The maximum size of a file. Larger files are refused before they take time and memory.

    Files of real robots have up to ten thousand elements. Raise a limit for larger files:
    `load_urdf(path, limits=Limits(elements=10**7))`.

    - `size`: bytes of the file.
    - `elements`: XML elements; in MJCF also the elements that `<replicate>`, `<composite>` and `<flexcomp>` generate.
    - `depth`: nesting depth of elements.
    - `pixels`: total pixels of the textures that an MJCF file generates.
    - `seconds`, `memory`: time in seconds and memory in bytes that MuJoCo may take to compile an untrusted MJCF file.

    >>> rbd.load_urdf("<robot name='box'><link name='box'/></robot>", limits=rbd.files.Limits(elements=2))
    box: 1 bodies, nq = 0, nv = 0
    └─ box (root_joint)  Fixed, massless
    """

    size: int = 64 * 2**20
    elements: int = 100_000
    depth: int = 100
    pixels: int = 2**26
    seconds: float = 60.0
    memory: int = 8 * 2**30

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
                raise ValueError(f"Limits: {field.name} must be a positive number, got {value!r}")

    def check_elements(self, count: int) -> None:
        if count > self.elements:
            raise self._too_many("elements", "elements")

    def check_depth(self, depth: int) -> None:
        if depth > self.depth:
            raise self._too_many("elements within each other", "depth")

    def check_pixels(self, count: int) -> None:
        if count > self.pixels:
            raise self._too_many("pixels in textures", "pixels")

    def check_size(self, size: int) -> None:
        if size > self.size:
            raise ModelError(
                f"it has {_megabytes(size)}, more than the limit of {_megabytes(self.size)}. To allow it, load it with "
                f"limits=rbd.files.Limits(size={size})"
            )

    def _too_many(self, what: str, limit: str) -> ModelError:
        most = getattr(self, limit)
        return ModelError(
            f"it has more than {most:,} {what}. To allow them, load it with limits=rbd.files.Limits({limit}=...)"
        )


#: The default limits.
USUAL = Limits()


def read_file(path: Path, limits: Limits) -> bytes:
    """Returns the content of a regular file. Pipes, sockets and devices are refused, since reading them may block forever."""
    # Without O_NONBLOCK, opening a pipe blocks until another process writes to it.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(found.st_mode):
            raise ModelError("it is a pipe, a socket or a device; save its content to a file")
        limits.check_size(found.st_size)
        content = file.read(found.st_size + 1)
    limits.check_size(len(content))
    return content


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.3g} MB"
