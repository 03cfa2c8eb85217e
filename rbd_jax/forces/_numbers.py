"""Checks of the parameters that a force is made of, in the words of the force."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from .._array import is_known
from ..model._arguments import as_array


def number(
    force: str,
    name: str,
    value,
    shape: tuple[int, ...] = (),
    *,
    least: float | int | None = None,
    above: float | int | None = None,
    most: float | int | None = None,
    remedy: str = "",
) -> Array:
    """`value` as floats of the given shape: finite, not below `least`, greater than `above`, not beyond `most`."""
    expected = f"an array of shape {shape}" if shape else "one number"
    array = as_array(force, name, value, expected)
    # Not of a weak type: what takes the force would be compiled anew where a parameter is replaced.
    array = jnp.asarray(array, array.dtype)
    if array.shape != shape:
        raise ValueError(f"{force}: {name} has shape {array.shape}; it is {expected}")
    if not is_known(array):
        return array
    if not jnp.all(jnp.isfinite(array)):
        raise ValueError(f"{force}: {name} is {array.tolist()}, which is not finite")
    if least is not None and jnp.any(array < least):
        raise ValueError(f"{force}: {name} is {array.tolist()}; it cannot be less than {least:g}{remedy}")
    if above is not None and jnp.any(array <= above):
        raise ValueError(f"{force}: {name} is {array.tolist()}; it must be greater than {above:g}{remedy}")
    if most is not None and jnp.any(array > most):
        raise ValueError(f"{force}: {name} is {array.tolist()}; it cannot be more than {most:g}")
    return array


def names(force: str, what: str, value, count: int | None = None) -> tuple[str, ...]:
    """A sequence of names as a tuple, of a given length if `count` says so."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given) or not given:
        raise ValueError(f"{force}: {what} is {value!r}; it takes names")
    if count is not None and len(given) != count:
        raise ValueError(f"{force}: {what} has {len(given)} names; it takes {count}")
    return tuple(given)
