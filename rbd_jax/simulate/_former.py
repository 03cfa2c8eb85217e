"""Deprecated forms of schemes and systems."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import jax.numpy as jnp

from .._core.deprecation import deprecated
from .state import State
from .step_data import StepData


#: Methods of `StepData` that were methods of `System`, each with the part of the state that followed the time in its arguments.
MOVED = {
    **dict.fromkeys(("force", "friction", "own_after", "residual"), "state"),
    **dict.fromkeys(("lagrangian_gradients", "momentum", "constraint_velocity"), "q, v"),
    **dict.fromkeys(("mass_matrix", "solve_mass_matrix", "velocity", "admissible"), "q"),
    **dict.fromkeys(
        ("constraint_residual", "constraint_jacobian", "constraint_force", "constraint_gap"), "q"
    ),
}


def moved_method(system, name: str) -> Callable:
    """Returns a deprecated method of a system that calls the method of its `StepData`."""
    if name not in MOVED:
        raise AttributeError(f"{type(system).__name__!r} object has no attribute {name!r}")
    taken = MOVED[name]

    def method(time, *given):
        deprecated(
            f"System.{name}(time, {taken}, ...)",
            f"System.evaluate(time, state).{name}(...)",
            removed_in="0.3",
        )
        if taken == "state":
            state, *rest = given
        elif taken == "q, v":
            q, v, *rest = given
            state = State(q, v)
        else:
            q, *rest = given
            state = State(q, jnp.zeros(jnp.shape(system.tau), q.dtype))
        return getattr(system.evaluate(time, state), name)(*rest)

    return method


def handed_step_data(step: Callable) -> Callable:
    """Returns a `Scheme.step` that also supports the deprecated arguments `(system, time, state, memory, dt)`."""
    old, new = "Scheme.step(system, time, state, memory, dt)", "Scheme.step(here, memory, dt)"
    former = len(inspect.signature(step).parameters) == 6
    if former:
        deprecated(f"{step.__qualname__}: {old}", new, removed_in="0.3")

    @functools.wraps(step)
    def handed(self, here, *rest):
        if not isinstance(here, StepData):
            deprecated(old, new, removed_in="0.3")
            (time, state, *rest), system = rest, here
            here = system.evaluate(time, state)
        if former:
            return step(self, here.system, here.time, here.state, *rest)
        return step(self, here, *rest)

    return handed
