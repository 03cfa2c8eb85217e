"""Warnings about names and forms that a later release removes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path


#: Folders whose frames lie between a user's line and a warning: this library, and the type checkers of its tests.
_BETWEEN = (str(Path(__file__).parents[1]), "<@beartype")

#: Packages whose frames do, too: they wrap methods and classes.
_WRAPPERS = ("jaxtyping", "equinox", "<frozen abc>")


def deprecated(old: str, new: str, *, removed_in: str) -> None:
    """Warns at the caller's line outside the library that `old` is deprecated. A deprecated form stays for two minor releases.

    Args:
      old: What the user wrote, as a phrase.
      new: What to write instead.
      removed_in: The release that removes it, as "0.3".
    """
    level, frame = 1, sys._getframe(0)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_BETWEEN)
        or any(wrapper in frame.f_code.co_filename for wrapper in _WRAPPERS)
    ):
        level, frame = level + 1, frame.f_back
    message = f"{old} is deprecated and will be removed in version {removed_in}. Use {new} instead."
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def at_the_top(package: str, names: Mapping[str, str], top: str = "rbd_jax") -> Callable[[str], object]:
    """The `__getattr__` of a package some of whose names are at the top of the library now.

    Args:
      package: Its `__name__`.
      names: The names, and the module of each relative to the package. The library itself imports them without a warning.
      top: The package in which they are now, if it is another one.
    """

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not sys._getframe(1).f_code.co_filename.startswith(_BETWEEN):
            deprecated(f"{package}.{name}", f"{top}.{name}", removed_in="0.3")
        return getattr(import_module(names[name], package), name)

    return find
