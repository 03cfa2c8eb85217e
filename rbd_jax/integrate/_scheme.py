"""What a time-stepping scheme is: a state on the model's manifold, and a step from one state to the next."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, Float

from ..model import Model


class State(eqx.Module):
    """Configuration q and velocity v of a model."""

    q: Float[Array, "*batch nq"]
    v: Float[Array, "*batch nv"]


#: The acceleration of the model at a time and in a state, everything that acts on it included.
Acceleration: TypeAlias = Callable[[Float[Array, ""], State], Float[Array, "nv"]]


class Scheme(eqx.Module):
    """A rule that carries a state over one step of time."""

    @abc.abstractmethod
    def step(
        self,
        model: Model,
        acceleration: Acceleration,
        time: Float[Array, ""],
        state: State,
        dt: Float[Array, ""],
    ) -> State:
        """The state at `time + dt`, from the state at `time`."""
