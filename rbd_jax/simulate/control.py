"""What a model is told during a step: the controls of its actuators, and generalized forces beside."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float


class Controls(eqx.Module):
    """What the actuators of a model are told, and what acts beside them.

    - `u`: a number for each of `model.actuators`, in their order: (nu,), or of every step (steps, nu).
    - `tau`: a generalized force beside, (nv,) or (steps, nv); none by default.

    An array alone, where controls are asked for, is `tau`, never `u`.

    >>> rbd.Controls(jnp.array([0.5, -0.5]))
    Controls(u=f64[2])
    """

    u: Float[Array, "*steps nu"] | None
    tau: Float[Array, "*steps nv"] | None = None

    def __init__(self, u: Any, tau: Any = None):
        self.u, self.tau = u, tau


class Control(NamedTuple):
    """What a model is told during a step, in full."""

    u: Float[Array, "nu"]
    tau: Float[Array, "nv"]
