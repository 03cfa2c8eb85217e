"""Packages that are also functions: `rbd.view(model)` beside `rbd.view.plot_model(...)`. Decision 0056."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Generic, ParamSpec, TypeVar


Given = ParamSpec("Given")
Returned = TypeVar("Returned")


class CallablePackage(ModuleType, Generic[Given, Returned]):
    """A package that can be called as one of its functions. Otherwise it stays a module: `import`, `help`, `dir`.

    - `__wrapped__`: The function, from which `inspect.signature` takes the arguments.
    """

    __wrapped__: Callable[Given, Returned]

    def __init__(self, function: Callable[Given, Returned]):
        # For type checkers only; at run time `make_callable` changes the existing module.
        super().__init__(function.__module__)
        self.__wrapped__ = function

    def __call__(self, *given: Given.args, **named: Given.kwargs) -> Returned:
        return self.__wrapped__(*given, **named)


def make_callable(package: str, function: Callable) -> None:
    """Makes a package callable as the function: `make_callable(__name__, view)` at the end of its `__init__`."""
    module = sys.modules[package]
    module.__class__ = CallablePackage
    module.__dict__["__wrapped__"] = function
