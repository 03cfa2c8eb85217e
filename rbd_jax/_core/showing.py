"""The hook by which trajectories display themselves: the package registers the player here. Decision 0057."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


_find: Callable[[], Callable[..., Any]] | None = None


def played_by(find: Callable[[], Callable[..., Any]]) -> None:
    """Registers `find`, which returns the class that displays a model and a trajectory.

    `find` is called on first use, so that no drawing package is imported before.
    """
    global _find
    _find = find


def player() -> Callable[..., Any]:
    assert _find is not None  # the package sets it on import
    return _find()
