"""Functions that act in a rollout as forces: `(model, state, t) -> tau`."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from .._core.deprecation import deprecated
from ..forces import Force


def asked(function: Callable, model, state, time):
    """Returns the generalized force of a function."""
    return function(model, state.q, state.v) if _is_old(function) else function(model, state, time)


def warn_of_old(owner: str, forces) -> None:
    """Warns of functions `(model, q, v)`, the form of earlier releases."""
    if any(not isinstance(force, Force) and _is_old(force) for force in forces):
        old = f"{owner}: a force that is a function (model, q, v)"
        deprecated(old, "a function (model, state, t)", removed_in="0.3")


def _is_old(function: Callable) -> bool:
    """Returns whether the second parameter is named q."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    return names[1:2] == ["q"]
