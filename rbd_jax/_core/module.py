"""The base class of modules with plain methods, and a copy with changed fields."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx


M = TypeVar("M", bound=eqx.Module)


class Module(eqx.Module):
    """An Equinox module with plain Python methods.

    Equinox wraps each bound method in a module and flattens its owner to do so. For a humanoid model this takes 0.2 ms per
    access, and tracing accesses thousands of methods. `jax.jit` cannot hash the wrapped method either.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__


def changed(module: M, **fields) -> M:
    """Returns a copy of a module with other values in some fields, without calling `__init__`."""
    other = copy.copy(module)
    for name, value in fields.items():
        object.__setattr__(other, name, value)
    return other
