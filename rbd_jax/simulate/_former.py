"""Forms of earlier releases."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from .._core.deprecation import deprecated
from .system import System


def handed_step_data(step: Callable) -> Callable:
    """`Scheme.step`, which may be written and called with `(system, time, state, memory, dt)` instead of `(here, memory, dt)`."""
    old, new = "Scheme.step(system, time, state, memory, dt)", "Scheme.step(here, memory, dt)"
    former = len(inspect.signature(step).parameters) == 6
    if former:
        deprecated(f"{step.__qualname__}: {old}", new, removed_in="0.3")

    @functools.wraps(step)
    def handed(self, here, *rest):
        if isinstance(here, System):
            deprecated(old, new, removed_in="0.3")
            time, state, *rest = rest
            here = here.evaluate(time, state)
        if former:
            return step(self, here.system, here.time, here.state, *rest)
        return step(self, here, *rest)

    return handed
