"""Files that are there as a whole or not at all, whatever happens meanwhile, a loss of power too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .interrupts import clearing_up


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name beside `path`, with its ending, to write to; the file is given the name `path` when the block ends.

    If the block fails or is interrupted nothing of it is left, and what had the name `path` before still has it.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")

    def remove() -> None:
        part.unlink(missing_ok=True)

    with clearing_up(remove):
        try:
            yield part
            brought_to_disk(part)
            os.replace(part, path)
        finally:
            remove()
    with contextlib.suppress(OSError):
        brought_to_disk(path.parent)


def brought_to_disk(path: Path) -> None:
    """Wait until a file is on the disk and not on its way, or a folder with the names in it. Some systems have no way to wait
    for folders, and say so; there names come to the disk in time."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
