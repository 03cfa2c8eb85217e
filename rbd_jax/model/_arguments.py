"""Checks of what enters a public function: shapes that fit the model, or an error that says whose and what.

Shapes are known while tracing, so the check costs nothing in a compiled function and speaks before JAX does.
"""

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp

from .._array import floating


F = TypeVar("F", bound=Callable)

#: The length that each argument must have, as a property of the model.
LENGTHS = {"q": "nq", "q0": "nq", "q1": "nq", "v": "nv", "a": "nv", "tau": "nv", "dv": "nv"}


def takes_sample(function: F) -> F:
    """Check the arguments of `function(model, ...)` named in `LENGTHS`, and make arrays of lists and integers."""
    names = list(inspect.signature(function).parameters)
    checked = {name: LENGTHS[name] for name in names if name in LENGTHS}

    @functools.wraps(function)
    def wrapper(model, *args, **kwargs):
        given = dict(zip(names[1:], args, strict=False)) | kwargs
        for name, size in checked.items():
            if name in given:
                given[name] = check_length(function.__name__, model, name, given[name], size)
        extra = args[len(names) - 1 :]
        return function(model, *extra, **given)

    return wrapper  # pyright: ignore[reportReturnType]


def check_length(function: str, model, name: str, value, size: str):
    """`value` as an array of the length that the model prescribes."""
    if value is None:
        raise ValueError(
            f"{function}: {name} is None; it takes an array of length {size} = {getattr(model, size)}"
        )
    array = floating(value)
    length = getattr(model, size)
    if array.shape == (length,):
        return array
    message = f"{function}: {name} has shape {array.shape}, but model {model.name!r} has {size} = {length}"
    if array.ndim == 2 and array.shape[-1] == length:
        message += "; functions take one sample, so batch with jax.vmap or rbd.batch_map"
    elif size == "nv" and array.shape == (model.nq,):
        message += (
            f" (nq = {model.nq}: velocities are shorter than configurations where a joint has a quaternion)"
        )
    raise ValueError(message)


def check_matrix(function: str, model, name: str, value):
    """`value` as an array with one row for each freedom, and any number of columns or none."""
    array = floating(value)
    if array.ndim in (1, 2) and array.shape[0] == model.nv:
        return array
    raise ValueError(
        f"{function}: {name} has shape {jnp.shape(array)}; it must be (nv,) or (nv, k) with nv = {model.nv} "
        f"for model {model.name!r}"
    )
