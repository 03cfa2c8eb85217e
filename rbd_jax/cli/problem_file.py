"""A problem of optimal control as a user has it: a bundled one by its name, or a file of Python that defines one.

What goes wrong in such a file, when it is read or when what it has defined is asked later on, is told in one line with the place.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..control import Guess, Problem, Solution, Solver, problems
from ..control.problems import Posed
from .model import Refused, told


#: What a file defines, and what each is to be.
WANTED = {
    "problem": (Problem, "an rbd.control.Problem"),
    "solver": (Solver, "a solver, such as rbd.control.DDP()"),
    "guess": ((Guess, Solution), "an rbd.control.Guess, or an earlier solution"),
}


def posed(name: str, console) -> Posed:
    """The problem of that name or file, with what is suspicious about its model in yellow."""
    if name in problems.NAMES:
        return problems.load(name)
    path = Path(name)
    if path.suffix != ".py":
        known = ", ".join(problems.NAMES)
        raise Refused(f"there is no problem {name!r}; give the path of a .py file, or one of {known}")
    if not path.is_file():
        raise Refused(f"{name}: there is no such file")
    with told(console), explained(path), _beside(path):
        module = _run(path)
        found = {one: _given(path, one, getattr(module, one, None)) for one in WANTED}
    if found["problem"] is None:
        raise Refused(
            f"{path}: it defines no `problem`: problem = rbd.control.Problem(...), or a function that returns one"
        )
    return Posed(**found)


def _run(path: Path):
    """The file as a module, which classes in it can be found in; under a name that no other module has."""
    spec = importlib.util.spec_from_file_location(f"problem file {path.stem}", path)
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


def _given(path: Path, name: str, value: Any) -> Any:
    """What the file defines under a name, or what its function of that name returns."""
    kind, what = WANTED[name]
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
