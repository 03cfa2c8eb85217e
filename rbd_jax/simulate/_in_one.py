"""A function as one operation, where there is a compiler for it."""

from __future__ import annotations

from collections.abc import Callable


try:
    from .. import compiler
except ImportError:  # it is a part that the library does without, in more time
    compiler = None  # pyright: ignore[reportAssignmentType]


def in_one(owner: str, function: Callable) -> Callable:
    """`function`, which is compiled once, however often it is called in a program, where that is worth it."""
    return function if compiler is None else compiler.alone(owner, function)
