"""A file of Python that defines what a command works on.

What goes wrong in such a file, when it is read or when what it has defined is asked later on, is told in one line with the place.
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


#: What a file may define, by name: of what kind it is, and that in words.
Wanted = Mapping[str, tuple[type | tuple[type, ...], str]]


def defined(name: str, what: str, bundled: tuple[str, ...], wanted: Wanted, console) -> dict[str, Any]:
    """What the file of that name defines, or its functions return; None for what it does not define.

    - `what`: what it is to have, for messages; `bundled` are names that would have done as well.
    - `wanted`: what may be in it. The first of them has to be.
    - `console`: where to tell what is suspicious about models in it.
    """
    path = Path(name)
    if path.suffix != ".py":
        raise Refused(
            f"there is no {what} {name!r}; give the path of a .py file, or one of {', '.join(bundled)}"
        )
    if not path.is_file():
        raise Refused(f"{name}: there is no such file")
    with told(console), explained(path), _beside(path):
        module = _run(path)
        found = {one: _given(path, one, getattr(module, one, None), *kind) for one, kind in wanted.items()}
    (first, (_, words)), *_ = wanted.items()
    if found[first] is None:
        raise Refused(f"{path}: it defines no `{first}`: it is {words}, or a function that returns one")
    return found


def _run(path: Path):
    """The file as a module, which classes in it can be found in; under a name that no other module has."""
    spec = importlib.util.spec_from_file_location(f"file {path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Within the block what lies beside the file can be imported, as by `python FILE`."""
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.path.remove(str(path.resolve().parent))


def _given(path: Path, name: str, value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """What the file defines under a name, or what its function of that name returns."""
    if callable(value) and not isinstance(value, kind):
        value = value()
    if value is not None and not isinstance(value, kind):
        raise Refused(
            f"{path}: {name} is a {type(value).__name__}; it is {what}, or a function that returns one"
        )
    return value


@contextlib.contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Within the block errors of a file, and refusals of what it has defined, become one line that names the place in it."""
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
        # Those of JAX go on for a page; what is wrong is in the first paragraph.
        text = " ".join(str(error).split("\n\n")[0].split()) or "no message"
        place = path if line is None else f"{path}:{line}"
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise Refused(f"{place}: {kind}{text}") from error


def _line(path: Path, error: BaseException) -> int | None:
    """Where in the file an error comes from: the innermost of its lines that were at work."""
    found = None
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).resolve() == path.resolve():
            found = frame.lineno
    return found
