"""Checks of what enters a public function: shapes that fit the model, or an error that says whose and what.

Shapes are known while tracing, so the check costs nothing in a compiled function and speaks before JAX does.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import jax.numpy as jnp
import numpy as np

from .._arguments import as_array
from .._errors import UnknownNameError


F = TypeVar("F", bound=Callable)

#: The length that each argument must have, as a property of the model.
LENGTHS = {"q": "nq", "q0": "nq", "q1": "nq", "v": "nv", "a": "nv", "tau": "nv", "dv": "nv"}


def takes_sample(function: F) -> F:
    """Check the arguments of `function(model, ...)` by their names, and make arrays of lists and integers."""
    names = list(inspect.signature(function).parameters)
    checked = {name: CHECKS[name] for name in names if name in CHECKS}

    @functools.wraps(function)
    def wrapper(model, *args, **kwargs):
        given = dict(zip(names[1:], args, strict=False)) | kwargs
        for name, check in checked.items():
            if name in given:
                given[name] = check(function.__name__, model, name, given[name])
        extra = args[len(names) - 1 :]
        return function(model, *extra, **given)

    return wrapper  # pyright: ignore[reportReturnType]


def check_length(function: str, model, name: str, value, size: str):
    """`value` as an array of the length that the model prescribes."""
    length = getattr(model, size)
    array = as_array(function, name, value, f"an array of length {size} = {length}")
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
    expected = f"(nv,) or (nv, k) with nv = {model.nv}"
    array = as_array(function, name, value, f"an array {expected}")
    if array.ndim in (1, 2) and array.shape[0] == model.nv:
        return array
    raise ValueError(
        f"{function}: {name} has shape {array.shape}; it must be {expected} for model {model.name!r}"
    )


def check_forces(function: str, model, name: str, value):
    """A wrench for each body, as a dict of arrays or one array; or None."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        forces = {}
        for body, wrench in value.items():
            check_body(function, model, name, body)
            forces[body] = _vector(function, f"{name}[{body!r}]", wrench, "a wrench [n; f] has shape (6,)", 6)
        return forces
    expected = f"a dict {{body: wrench}} or an array (nb, 6) with nb = {model.nb}"
    array = as_array(function, name, value, expected)
    if array.shape == (model.nb, 6):
        return array
    raise ValueError(
        f"{function}: {name} has shape {array.shape}; it must be {expected} for model {model.name!r}"
    )


def check_body(function: str, model, name: str, value):
    """The name or the index of a body."""
    if not isinstance(value, str | int | np.integer):
        raise ValueError(
            f"{function}: {name} is {reprlib.repr(value)}; it takes the name of a body or its index"
        )
    try:
        model.body_index(value)
    except UnknownNameError as error:
        raise UnknownNameError(f"{function}: {name}: {error}") from None
    return value


def check_bodies(function: str, model, name: str, value):
    """The name or the index of a body, or a sequence of them."""
    if isinstance(value, str | int | np.integer):
        return check_body(function, model, name, value)
    if not isinstance(value, Sequence) or not value:
        raise ValueError(
            f"{function}: {name} is {reprlib.repr(value)}; it takes a body's name or index, or a sequence of them"
        )
    return [check_body(function, model, f"{name}[{i}]", body) for i, body in enumerate(value)]


def check_freedoms(function: str, model, name: str, value):
    """Names or indices of joints, or a flag for each freedom: as flags."""
    expected = f"a sequence of joints, by name or index, or an array of nv = {model.nv} booleans"
    if hasattr(value, "dtype") and value.dtype == bool:
        if value.shape == (model.nv,):
            return jnp.asarray(value)
        raise ValueError(
            f"{function}: {name} has shape {value.shape}; for model {model.name!r} it takes {expected}"
        )
    joints = value if isinstance(value, Sequence) and not isinstance(value, str) else [None]
    if not all(isinstance(joint, str | int | np.integer) and not isinstance(joint, bool) for joint in joints):
        raise ValueError(f"{function}: {name} is {reprlib.repr(value)}; it takes {expected}")
    flags = np.zeros(model.nv, bool)
    for joint in joints:
        try:
            flags[model.v_slice(joint)] = True
        except UnknownNameError as error:
            raise UnknownNameError(f"{function}: {name}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{function}: {name}: {error}") from None
    return jnp.asarray(flags)


def check_frame(function: str, model, name: str, value):
    """What a spatial vector is expressed in."""
    if value in ("world", "body", "world_aligned"):
        return value
    raise ValueError(
        f"{function}: {name} is {reprlib.repr(value)}; it is one of 'world', 'body', 'world_aligned'"
    )


def check_point(function: str, model, name: str, value):
    """A point, or None."""
    return None if value is None else _vector(function, name, value, "a point has shape (3,)", 3)


def check_points(function: str, model, name: str, value):
    """Points, a row each, or None."""
    if value is None:
        return None
    array = as_array(function, name, value, "an array of points, a row each")
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"{function}: {name} has shape {array.shape}; k points have shape (k, 3)")
    return array


def _vector(function: str, name: str, value, expected: str, length: int):
    array = as_array(function, name, value, f"an array of {length} numbers")
    if array.shape != (length,):
        raise ValueError(f"{function}: {name} has shape {array.shape}; {expected}")
    return array


#: How each argument is checked.
CHECKS = {name: functools.partial(check_length, size=size) for name, size in LENGTHS.items()}
CHECKS |= {
    "rhs": check_matrix,
    "f_ext": check_forces,
    "body": check_body,
    "bodies": check_bodies,
    "prescribed": check_freedoms,
    "frame": check_frame,
    "point": check_point,
    "points": check_points,
}
