"""Files that are written atomically, also across a power failure."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .interrupts import clearing_up


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, with the same suffix; the file is renamed to `path` when the block ends.

    If the block fails or is interrupted, the temporary file is removed, and an existing file at `path` is unchanged.
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
    """Waits until a file, or a folder with its names, is on the disk.

    Some systems cannot wait for folders and raise an error; there the names are written later.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
