"""Packages that are functions too: `rbd.view(model)` beside `rbd.view.plot_model(...)`. Decision 0056."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Generic, ParamSpec, TypeVar


Given = ParamSpec("Given")
Returned = TypeVar("Returned")


class CallablePackage(ModuleType, Generic[Given, Returned]):
    """A package that is called as one of its functions is. It stays a module in everything else: `import`, `help`, `dir`.

    - `__wrapped__`: the function, which is where `inspect.signature` looks for the arguments.
    """

    __wrapped__: Callable[Given, Returned]

    def __init__(self, function: Callable[Given, Returned]):
        # What type checkers are told of the package; at run time `make_callable` changes the one that is there.
        super().__init__(function.__module__)
        self.__wrapped__ = function

    def __call__(self, *given: Given.args, **named: Given.kwargs) -> Returned:
        return self.__wrapped__(*given, **named)


def make_callable(package: str, function: Callable) -> None:
    """Let the package of that name be called as the function is: `make_callable(__name__, view)` at the end of its `__init__`."""
    module = sys.modules[package]
    module.__class__ = CallablePackage
    module.__dict__["__wrapped__"] = function
