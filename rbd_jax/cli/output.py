"""Where a command writes its results: looked at before the work begins, and there as a whole or not at all.

A command has a folder of its own, or adds its files to one that is shared with others.
"""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .._core.files import brought_to_disk
from .._core.interrupts import clearing_up
from .model import Refused


#: What is written to, and what is about to be replaced by it, end so.
PART, OLD = ".part", ".old"


def results_folder(wanted: Path | None, name: str, files: Sequence[str], overwrite: bool) -> Path:
    """Where to write: `wanted`, or runs/NAME. Refused if it cannot be, or if something would be lost.

    - `files`: the names of what may be written: what an earlier run left there is replaced with `overwrite` only.
    """
    wanted = Path("runs") / name if wanted is None else wanted
    try:
        folder = wanted.resolve()
        _restore(folder)
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
    part = _new_part(folder.parent, f".{folder.name}.")
    old = part.with_suffix(OLD)

    def remove() -> None:
        shutil.rmtree(part, ignore_errors=True)

    with clearing_up(remove):
        try:
            part.mkdir()
            names = write(part)
            _brought_to_disk(part, names)
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


def shared_folder(wanted: Path | None, name: str, files: Sequence[str], overwrite: bool) -> Path:
    """Where to write, which may have other files: `wanted`, or runs/NAME, made and tried. Refused if it cannot be.

    - `files`: the names of what may be written: what an earlier run left there is replaced with `overwrite` only.
    """
    folder = Path("runs") / name if wanted is None else wanted
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        there = [name for name in files if (folder / name).exists()]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"cannot write to {folder}: {reason}; choose another --out") from error
    if there and not overwrite:
        raise Refused(
            f"{folder} has {', '.join(there)} already; choose another --out, or replace them by --overwrite"
        )
    return folder


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """A folder that others share, while this process is at work in it: another run into it is refused.

    The lock is on the folder itself, and goes with the process. Where there are none it is not waited for.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    f"another run is at work in {folder}; wait for its end, or choose another --out"
                ) from None
        yield
    finally:
        os.close(held)


def added_together(folder: Path, files: Sequence[str], write: Callable[[Path], Sequence[str]]) -> list[Path]:
    """What `write` has written to the folder that it is given, and names, in `folder`, which gets it when all is there.

    - `files`: those of which earlier ones go then, whether there are new ones or not.
    """
    part = _new_part(folder, ".")

    def remove() -> None:
        shutil.rmtree(part, ignore_errors=True)

    with clearing_up(remove):
        try:
            part.mkdir()
            names = write(part)
            _brought_to_disk(part, names)
            for name in files:
                if name not in names:
                    (folder / name).unlink(missing_ok=True)
            for name in names:
                os.replace(part / name, folder / name)
        finally:
            remove()
    return [folder / name for name in names]


def _new_part(where: Path, prefix: str) -> Path:
    """A folder for this process to write to, which is not there yet. What processes of this machine have left that were killed
    while they wrote is removed."""
    for path in _left(where, prefix, PART):
        shutil.rmtree(path, ignore_errors=True)
    return where / f"{prefix}{os.getpid()}.{platform.node()}{PART}"


def _restore(folder: Path) -> None:
    """An earlier result, if a process was killed when it had given that up and not yet put its own in the place."""
    for old in _left(folder.parent, f".{folder.name}.", OLD):
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(old, folder)


def _left(where: Path, prefix: str, suffix: str) -> list[Path]:
    """What processes of this machine have left that are no more."""
    ending = f".{platform.node()}{suffix}"
    found = []
    for path in where.glob(f"{glob.escape(prefix)}*{glob.escape(ending)}"):
        process = path.name.removeprefix(prefix).removesuffix(ending)
        if process.isdecimal() and _has_ended(int(process)):
            found.append(path)
    return found


def _has_ended(process: int) -> bool:
    if os.name != "posix":  # where asking is a signal of its own
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is somebody else's
        return False
    return False


def _brought_to_disk(folder: Path, names: Sequence[str]) -> None:
    """Files of a folder, before others are given up for them."""
    for name in names:
        brought_to_disk(folder / name)
