"""How large a file may be that a model is read from."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, fields
from pathlib import Path

from .._core.errors import ModelError


@dataclass(frozen=True)
class Limits:
    """How large a file may be that a model is read from: what is larger is refused, before it takes time and memory.

    Real robots have up to ten thousand elements. Raise what a larger one needs: `load_urdf(path, limits=Limits(elements=10**7))`.

    - `size`: bytes of the file.
    - `elements`: elements of its XML; of MJCF also as many as `<replicate>`, `<composite>` and `<flexcomp>` make of them.
    - `depth`: elements within elements.
    - `pixels`: of the textures that an MJCF file has made, together.
    - `seconds`, `memory`: what MuJoCo may take to compile an MJCF file that is untrusted, in seconds and bytes.

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
                raise ValueError(f"Limits: {field.name} is {value!r}; it is a positive number")

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
                f"it has {_megabytes(size)}, and up to {_megabytes(self.size)} are read; if it is meant to, read it with "
                f"limits=rbd.files.Limits(size={size})"
            )

    def _too_many(self, what: str, limit: str) -> ModelError:
        most = getattr(self, limit)
        return ModelError(
            f"it has more than {most:,} {what}; if it is meant to, read it with limits=rbd.files.Limits({limit}=...)"
        )


#: Those of files that nothing is said of.
USUAL = Limits()


def read_file(path: Path, limits: Limits) -> bytes:
    """The content of a file, of a real one: others may never end, or wait for ever."""
    # Without O_NONBLOCK the opening of a pipe waits for one that writes to it.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(found.st_mode):
            raise ModelError("it is no file but a pipe, a socket or a device; save what it gives to a file")
        limits.check_size(found.st_size)
        content = file.read(found.st_size + 1)
    limits.check_size(len(content))
    return content


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.3g} MB"
