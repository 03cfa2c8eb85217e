"""Output folders of commands, checked before the work begins and written atomically.

A command has a folder of its own, or adds its files to a shared folder.
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


#: Suffixes of the folder that is being written, and of the folder that it is about to replace.
PART, OLD = ".part", ".old"


def results_folder(wanted: Path | None, name: str, files: Sequence[str], overwrite: bool) -> Path:
    """Returns the folder to write: `wanted`, or runs/NAME. Refuses it if it is not writable or has other files.

    Args:
      wanted: The folder of the option `--out`, or None.
      name: NAME in the default folder runs/NAME.
      files: The names of the files that may be written.
      overwrite: If True, files of an earlier run may be replaced.
    """
    wanted = Path("runs") / name if wanted is None else wanted
    try:
        folder = wanted.resolve()
        _restore(folder)
        if folder == Path.cwd() or folder in Path.cwd().parents:
            raise Refused(
                f"cannot write to {wanted}: it is the current folder or contains it; choose another --out"
            )
        if folder.exists() and not folder.is_dir():
            raise Refused(f"cannot write to {wanted}: it is a file; choose another --out")
        there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        others = [name for name in there if name not in files]
        if others:
            raise Refused(
                f"{wanted} has other files ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''}), which would be "
                "deleted; choose "
                "another --out"
            )
        if there and not overwrite:
            raise Refused(f"{wanted} exists already; choose another --out, or replace it with --overwrite")
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(folder.parent, os.W_OK):
            raise PermissionError(None, "Permission denied")
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"cannot write to {wanted}: {reason}; choose another --out") from error
    return folder


def written_together(folder: Path, overwrite: bool, write: Callable[[Path], Sequence[str]]) -> list[Path]:
    """Calls `write` with a temporary folder, then renames that to `folder`. Returns the paths of the files that `write` names."""
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
                        f"{folder} exists by now; choose another --out, or replace it with --overwrite"
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
    """Returns the folder to write, which may have other files: `wanted`, or runs/NAME. Creates it and checks access.

    Args:
      wanted: The folder of the option `--out`, or None.
      name: NAME in the default folder runs/NAME.
      files: The names of the files that may be written.
      overwrite: If True, files of an earlier run may be replaced.
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
            f"{folder} has {', '.join(there)} already; choose another --out, or replace them with --overwrite"
        )
    return folder


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Locks a shared folder within the block; another run into that folder is refused.

    The lock is on the folder itself, and ends with the process. Systems without such locks skip it.
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
                    f"another run is writing to {folder}; wait until it ends, or choose another --out"
                ) from None
        yield
    finally:
        os.close(held)


def added_together(folder: Path, files: Sequence[str], write: Callable[[Path], Sequence[str]]) -> list[Path]:
    """Calls `write` with a temporary folder, then moves the files that it names to `folder` and returns their paths.

    Earlier files among `files` are removed, even without a replacement.
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
    """Returns the path of a new folder for this process.

    Removes the folders of processes of this machine that were killed while writing.
    """
    for path in _left(where, prefix, PART):
        shutil.rmtree(path, ignore_errors=True)
    return where / f"{prefix}{os.getpid()}.{platform.node()}{PART}"


def _restore(folder: Path) -> None:
    """Restores an earlier result if a process was killed after moving it away and before moving its own result in place."""
    for old in _left(folder.parent, f".{folder.name}.", OLD):
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(old, folder)


def _left(where: Path, prefix: str, suffix: str) -> list[Path]:
    """Returns the folders that ended processes of this machine left behind."""
    ending = f".{platform.node()}{suffix}"
    found = []
    for path in where.glob(f"{glob.escape(prefix)}*{glob.escape(ending)}"):
        process = path.name.removeprefix(prefix).removesuffix(ending)
        if process.isdecimal() and _has_ended(int(process)):
            found.append(path)
    return found


def _has_ended(process: int) -> bool:
    if os.name != "posix":  # elsewhere this signal would end the process
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # the process of another user
        return False
    return False


def _brought_to_disk(folder: Path, names: Sequence[str]) -> None:
    """Writes the files of a folder to disk, before other files are replaced by them."""
    for name in names:
        brought_to_disk(folder / name)
