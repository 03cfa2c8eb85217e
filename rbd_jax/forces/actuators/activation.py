"""Activation dynamics: how the input of an actuator follows its control in time."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._core.arguments import number
from ..._core.array import clamped
from .._one_sided import rises


class Activation(eqx.Module):
    """The rate of an activation as a function of control and activation.

    >>> class Fatigue(rbd.actuators.Activation):
    ...     def rate(self, control, activation):
    ...         return control - 0.1 * activation
    >>> print(Fatigue().rate(jnp.array(0.5), jnp.array(1.0)))
    0.4
    """

    @abc.abstractmethod
    def rate(self, control: Float[Array, ""], activation: Float[Array, ""]) -> Float[Array, ""]:
        """Returns `d activation / dt`."""


class Integrator(Activation):
    """The activation is the integral of the control.

    >>> print(rbd.actuators.Integrator().rate(jnp.array(0.2), jnp.array(0.5)))
    0.2
    """

    def rate(self, control, activation):
        return control


class Filter(Activation):
    """The activation follows the control with a time constant: `T ȧ = u - a`.

    Args:
      time_constant: T.
      exact: If True, steps of `rbd.MujocoEuler` are exact for a constant control, as in MuJoCo's `filterexact`; otherwise they
        are explicit, as in its `filter`. Other schemes ignore it.

    >>> print(rbd.actuators.Filter(0.1).rate(jnp.array(0.2), jnp.array(0.5)).round(3))
    -3.0
    """

    time_constant: Float[Array, ""]
    exact: bool = eqx.field(static=True)

    def __init__(self, time_constant: Any, exact: bool = True):
        self.time_constant = number("Filter", "time_constant", time_constant, above=0)
        self.exact = bool(exact)

    def rate(self, control, activation):
        return (control - activation) / self.time_constant


class MuscleActivation(Activation):
    """The activation of a muscle, from 0 to 1, which rises faster than it falls.

    - `rising`, `falling`: the time constants at half activation.
    - `smoothing`: the width of the transition between the two time constants, in terms of `u - a`.

    >>> activation = rbd.actuators.MuscleActivation()
    >>> print(jax.vmap(lambda control: activation.rate(control, jnp.array(0.5)))(jnp.array([1.0, 0.0])))
    [ 40.    -15.625]
    """

    numbers: Float[Array, "3"]

    def __init__(self, rising: Any = 0.01, falling: Any = 0.04, smoothing: Any = 0.0):
        owner = "MuscleActivation"
        self.numbers = jnp.stack(
            [
                number(owner, "rising", rising, above=0),
                number(owner, "falling", falling, above=0),
                number(owner, "smoothing", smoothing, least=0),
            ]
        )

    def rate(self, control, activation):
        rising, falling, smoothing = self.numbers
        missing = clamped(control, 0, 1) - activation
        share = 0.5 + 1.5 * clamped(activation, 0, 1)
        rising, falling = rising * share, falling / share
        sharp = smoothing <= 0
        x = clamped(missing / jnp.where(sharp, 1, smoothing) + 0.5, 0, 1)
        x = x * x * x * (3 * x * (2 * x - 5) + 10)
        x = jnp.where(sharp, rises(missing, activation).astype(x.dtype), x)
        return missing / (falling + (rising - falling) * x)
