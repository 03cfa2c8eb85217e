"""Random errors and delays of sensors."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .sensing import per_number
from .sensor import Sensor


def drawn(
    sensors: Sequence[Sensor], key, times: Float[Array, "*times"], dtype
) -> Float[Array, "*times n"] | None:
    """Returns the errors of all concatenated readings at one or more times; None if no sensor has noise."""
    if all(sensor.noise is None for sensor in sensors):
        return None

    def share(what: str):
        halves = [
            0.5 if one.unit and one.size == 4 else 1.0 for one in sensors
        ]  # an angle is twice the angle of the quaternion
        own = [one.noise and half * getattr(one.noise, what) for one, half in zip(sensors, halves)]
        return per_number(sensors, own, 0.0, dtype)

    def spread(what: str):
        return jnp.broadcast_to(share(what), (*times.shape, size))

    anew, once, walk = jax.random.split(key, 3)
    size = sum(sensor.size for sensor in sensors)
    shape = (*times.shape, size)
    errors = share("bias") * jax.random.normal(once, (size,), dtype)
    errors = jnp.broadcast_to(errors, shape) + spread("deviation") * jax.random.normal(anew, shape, dtype)
    if not times.ndim:
        return errors
    spans = jnp.abs(jnp.diff(times, prepend=times[:1]))
    steps = jnp.where(spans > 0, jnp.sqrt(jnp.where(spans > 0, spans, 1)), 0)
    walked = jnp.cumsum(steps[:, None] * jax.random.normal(walk, shape, dtype), axis=0)
    return errors + spread("drift") * walked


def delayed(
    sensors: Sequence[Sensor], times: Float[Array, "rows"], read: Float[Array, "rows n"]
) -> Float[Array, "rows n"]:
    """Returns readings with delays: interpolated between two rows, and equal to the first row before its time."""
    if all(sensor.delay is None for sensor in sensors):
        return read
    delay = per_number(sensors, [one.delay for one in sensors], 0.0, read.dtype)

    def seen(late, column):
        t = times - late
        # On a row, the previous interval is used, because a delay of zero can only grow.
        row = jnp.clip(jnp.searchsorted(times, t, side="left") - 1, 0, max(len(times) - 2, 0))
        after = jnp.minimum(row + 1, len(times) - 1)
        span = times[after] - times[row]
        left = (times[after] - t) / jnp.where(span > 0, span, 1)
        chord = column[after] - left * (column[after] - column[row])
        return jnp.where(t <= times[0], column[0], chord)

    return jax.vmap(seen, in_axes=(0, 1), out_axes=1)(delay, read)
