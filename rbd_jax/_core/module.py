"""What the library's own modules have beyond those of Equinox."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx


M = TypeVar("M", bound=eqx.Module)


class Module(eqx.Module):
    """A module of Equinox whose methods are those of Python.

    For each method that is asked for, Equinox makes a module of it and its owner, and flattens the owner for that. Of a model
    that takes a fifth of a millisecond, thousands of times while a program is traced; and `jax.jit` cannot hash the result.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__


def changed(module: M, **fields) -> M:
    """The same module with other values in some fields, whatever its `__init__` asks for."""
    other = copy.copy(module)
    for name, value in fields.items():
        object.__setattr__(other, name, value)
    return other
