"""The folder that a command writes its results to: looked at before the work begins, and there as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .._interrupts import clearing_up
from .model import Refused


def results_folder(wanted: Path | None, name: str, files: Sequence[str], overwrite: bool) -> Path:
    """Where to write: `wanted`, or runs/NAME. Refused if it cannot be, or if something would be lost.

    - `files`: the names of what may be written: what an earlier run left there is replaced with `overwrite` only.
    """
    wanted = Path("runs") / name if wanted is None else wanted
    try:
        folder = wanted.resolve()
        if folder == Path.cwd() or folder in Path.cwd().parents:
            raise Refused(
                f"cannot write to {wanted}: it is the current folder, or one around it; name another --out"
            )
        if folder.exists() and not folder.is_dir():
            raise Refused(f"cannot write to {wanted}: it is a file; choose another --out")
        there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        others = [name for name in there if name not in files]
        if others:
            raise Refused(
                f"{wanted} has other files ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''}), which would be "
                "lost; choose "
                "another --out"
            )
        if there and not overwrite:
            raise Refused(f"{wanted} is there already; choose another --out, or replace it by --overwrite")
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(folder.parent, os.W_OK):
            raise PermissionError(None, "Permission denied")
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"cannot write to {wanted}: {reason}; choose another --out") from error
    return folder


def written_together(folder: Path, overwrite: bool, write: Callable[[Path], Sequence[str]]) -> list[Path]:
    """What `write` has written to the folder that it is given, and names, under `folder`, which gets that all at once."""
    part, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{what}") for what in ("part", "old"))

    def remove() -> None:
        shutil.rmtree(part, ignore_errors=True)

    with clearing_up(remove):
        try:
            part.mkdir()
            names = write(part)
            if folder.exists() and any(folder.iterdir()):
                if not overwrite:
                    raise Refused(
                        f"{folder} is there by now; choose another --out, or replace it by --overwrite"
                    )
                os.replace(folder, old)
                try:
                    os.replace(part, folder)
                except OSError:
                    os.replace(old, folder)
                    raise
                shutil.rmtree(old)
            else:
                os.replace(part, folder)
        finally:
            remove()
    return [folder / name for name in names]
