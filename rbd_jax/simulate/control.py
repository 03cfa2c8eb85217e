"""Commands during a step: the controls of actuators, and additional generalized forces."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float


class Controls(eqx.Module):
    """The controls of a model's actuators, and additional generalized forces.

    - `u`: one number for each of `model.actuators`, in their order: (nu,), or (steps, nu) for all steps.
    - `tau`: an additional generalized force, (nv,) or (steps, nv); None, the default, for no force.

    Functions with an argument for controls interpret a plain array as `tau`, never as `u`.

    >>> rbd.Controls(jnp.array([0.5, -0.5]))
    Controls(u=f64[2])
    """

    u: Float[Array, "*steps nu"] | None
    tau: Float[Array, "*steps nv"] | None = None

    def __init__(self, u: Any, tau: Any = None):
        self.u, self.tau = u, tau


class Control(NamedTuple):
    """The complete control of a model during a step."""

    u: Float[Array, "nu"]
    tau: Float[Array, "nv"]
