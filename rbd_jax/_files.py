"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ._interrupts import clearing_up


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
            os.replace(part, path)
        finally:
            remove()
