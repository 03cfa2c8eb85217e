"""How a trajectory shows itself, though what draws is in a room above it: the package says here where that is. Decision 0057."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


_find: Callable[[], Callable[..., Any]] | None = None


def played_by(find: Callable[[], Callable[..., Any]]) -> None:
    """`find()` returns what makes of a model and a trajectory something that shows itself. It is called when that is wanted, so
    that nothing that draws is imported before."""
    global _find
    _find = find


def player() -> Callable[..., Any]:
    assert _find is not None  # the package names it, and comes before its parts
    return _find()
