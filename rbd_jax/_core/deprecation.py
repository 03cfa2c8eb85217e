"""Warnings about names and forms that a later release removes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path


#: Folders whose frames lie between a user's line and a warning: this library, and the type checkers of its tests.
_BETWEEN = (str(Path(__file__).parents[1]), "<@beartype")

#: Names of packages that wrap methods and classes; their frames lie in between as well.
_WRAPPERS = ("jaxtyping", "equinox", "<frozen abc>")


def deprecated(old: str, new: str, *, removed_in: str) -> None:
    """Warns at the caller's line outside the library that `old` is deprecated. A deprecated form stays for two minor releases.

    Args:
      old: The deprecated form, as a phrase.
      new: Its replacement.
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
    """Returns the `__getattr__` of a package whose names have moved to the top of the library.

    Args:
      package: Its `__name__`.
      names: The names, each with its module relative to the package. Imports by the library itself do not warn.
      top: The package that has the names now.
    """

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not sys._getframe(1).f_code.co_filename.startswith(_BETWEEN):
            deprecated(f"{package}.{name}", f"{top}.{name}", removed_in="0.3")
        return getattr(import_module(names[name], package), name)

    return find
