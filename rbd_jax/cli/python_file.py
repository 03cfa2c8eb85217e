"""Loads a Python file that defines the problem of a command.

Errors in such a file, at import or when its functions are called later, are reported in one line with their location.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .model import Refused, told


#: The names that a file may define, with their types and descriptions.
Wanted = Mapping[str, tuple[type | tuple[type, ...], str]]


def defined(name: str, what: str, bundled: tuple[str, ...], wanted: Wanted, console) -> dict[str, Any]:
    """Returns the values that a file defines, or that its functions return; None for missing ones.

    Args:
      name: The path of the file.
      what: The kind of definition, for messages.
      bundled: Names of bundled alternatives, for messages.
      wanted: The names that the file may define. The first one is required.
      console: Where to print warnings of models in the file.
    """
    path = Path(name)
    if path.suffix != ".py":
        raise Refused(
            f"there is no {what} {name!r}; pass the path of a .py file, or one of {', '.join(bundled)}"
        )
    if not path.is_file():
        raise Refused(f"{name}: there is no such file")
    with told(console), explained(path), _beside(path):
        module = _run(path)
        found = {one: _given(path, one, getattr(module, one, None), *kind) for one, kind in wanted.items()}
    (first, (_, words)), *_ = wanted.items()
    if found[first] is None:
        raise Refused(
            f"{path}: it does not define `{first}`, which must be {words}, or a function that returns one"
        )
    return found


def _run(path: Path):
    """Imports the file as a module with a unique name, so that classes in it can be found."""
    spec = importlib.util.spec_from_file_location(f"file {path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Makes modules in the folder of the file importable within the block, as `python FILE` does."""
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.path.remove(str(path.resolve().parent))


def _given(path: Path, name: str, value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """Returns the value that the file defines under a name, or the result of its function of that name."""
    if callable(value) and not isinstance(value, kind):
        value = value()
    if value is not None and not isinstance(value, kind):
        raise Refused(
            f"{path}: {name} is a {type(value).__name__}; it must be {what}, or a function that returns one"
        )
    return value


@contextlib.contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turns errors of a file, and errors about its definitions, into one line with the location in the file."""
    try:
        yield
    except (Refused, MemoryError):
        raise
    except SyntaxError as error:
        raise Refused(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        line = None if path is None else _line(path, error)
        if path is None or (line is None and not isinstance(error, TypeError)):
            raise
        # Messages of JAX are long; the first paragraph names the fault.
        text = " ".join(str(error).split("\n\n")[0].split()) or "no message"
        place = path if line is None else f"{path}:{line}"
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise Refused(f"{place}: {kind}{text}") from error


def _line(path: Path, error: BaseException) -> int | None:
    """Returns the innermost line of the file in the traceback of an error, or None."""
    found = None
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).resolve() == path.resolve():
            found = frame.lineno
    return found
