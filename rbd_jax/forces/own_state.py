"""Internal states of several forces, concatenated in the order of the forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import by_numpy
from ..dynamics import Motion


if TYPE_CHECKING:
    from .force import Force


def own_states(forces: Sequence[Force]) -> Float[Array, "own"]:
    """Returns the initial states."""
    states = [force.own for force in forces if force.own.size]
    return by_numpy(lambda xp, *states: xp.concatenate(states) if states else xp.zeros(0), *states)


def holding(forces: Sequence[Force], own: Float[Array, "own"]) -> tuple[Force, ...]:
    """Returns the forces with these states."""
    held, start = [], 0
    for force in forces:
        size = force.own.size
        held.append(force.holding(own[start : start + size]) if size else force)
        start += size
    return tuple(held)


def own_rates(forces: Sequence[Force], motion: Motion) -> Float[Array, "own"]:
    """Returns the rates of the states."""
    rates = [force.own_rate(motion) for force in forces if force.own.size]
    return jnp.concatenate(rates) if rates else jnp.zeros(0, motion.q.dtype)


def own_after(
    forces: Sequence[Force], motion: Motion, v: Float[Array, "nv"], step: Float[Array, ""]
) -> Float[Array, "own"]:
    """Returns the states after a step that ends with the velocity v; see `Force.own_after`."""
    states = [force.own_after(motion, v, step) for force in forces if force.own.size]
    return jnp.concatenate(states) if states else jnp.zeros(0, motion.q.dtype)


def own_after_explicitly(
    forces: Sequence[Force], motion: Motion, step: Float[Array, ""]
) -> Float[Array, "own"]:
    """Returns the states after an explicit step; see `Force.own_after_explicitly`."""
    states = [force.own_after_explicitly(motion, step) for force in forces if force.own.size]
    return jnp.concatenate(states) if states else jnp.zeros(0, motion.q.dtype)


def velocity_response(
    forces: Sequence[Force], motion: Motion
) -> tuple[Float[Array, "nv k"], Float[Array, "k nv"]] | None:
    """Returns two factors of the derivative of the forces by the velocity; see `Force.velocity_response`."""
    known = [one for force in forces if (one := force.velocity_response(motion)) is not None]
    if not known:
        return None
    along, by_velocity = zip(*known)
    return jnp.concatenate(along, axis=1), jnp.concatenate(by_velocity)


def own_response(
    forces: Sequence[Force], motion: Motion, step: Float[Array, ""]
) -> tuple[Float[Array, "nv n"], Float[Array, "n"], Float[Array, "n nv"]] | None:
    """Returns the response of the forces to their internal states that depend on the velocity; see `Force.own_response`."""
    known = [one for force in forces if (one := force.own_response(motion, step)) is not None]
    if not known:
        return None
    by_own, rates, by_v = zip(*known)
    return jnp.concatenate(by_own, axis=1), jnp.concatenate(rates), jnp.concatenate(by_v)


def relaxed(
    rate: Callable[[Float[Array, "n"]], Float[Array, "n"]], own: Float[Array, "n"], step: Float[Array, ""]
) -> Float[Array, "n"]:
    """Returns states after a step, for rates that depend on the same entry only: exact for linear rates, stable for any decay.

    This is the exponential Euler method, `z + h φ₁(h λ) ż` with `φ₁(x) = (eˣ - 1)/x` and the slope λ of the rate. A positive
    slope counts as zero: growth is explicit.

    Args:
      rate: The rates as a function of the states.
      own: The states at the start of the step.
      step: Length of the step.
    """
    now, slope = jax.jvp(rate, (own,), (jnp.ones_like(own),))
    x = step * jnp.where(slope < 0, slope, 0)
    small = jnp.abs(x) < jnp.sqrt(jnp.finfo(x.dtype).eps)
    far = jnp.where(small, 1, x)
    return own + step * jnp.where(small, 1 + x / 2, jnp.expm1(far) / far) * now
