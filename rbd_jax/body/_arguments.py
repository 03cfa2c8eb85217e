"""Checks of what enters a public function of this room: shapes always, numbers where they are known."""

import jax.numpy as jnp
import numpy as np

from .._array import is_known
from ..model._arguments import as_array


def check_vector(function: str, name: str, value):
    """A vector of space."""
    array = as_array(function, name, value, "a vector of space, of shape (3,)")
    if array.shape != (3,):
        raise ValueError(f"{function}: {name} has shape {array.shape}; a vector of space has shape (3,)")
    return array


def check_frame(function: str, name: str, value):
    """A rotation matrix whose columns are the directors."""
    array = as_array(function, name, value, "a rotation matrix, of shape (3, 3)")
    if array.shape != (3, 3):
        raise ValueError(f"{function}: {name} has shape {array.shape}; a frame has shape (3, 3)")
    if is_known(array):
        numbers = np.asarray(array, np.float64)
        fault = np.max(np.abs(numbers.T @ numbers - np.eye(3)))
        if not (fault <= accuracy(array.dtype) and np.linalg.det(numbers) > 0):
            raise ValueError(
                f"{function}: {name} is no rotation matrix; its columns must be right-handed, perpendicular and "
                "of length one"
            )
    return array


def check_instance(function: str, name: str, value, kind: type, expected: str) -> None:
    """An object of a kind; a class instead of one, or an object of another room, is refused."""
    if not isinstance(value, kind):
        given = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise ValueError(f"{function}: {name} is {given}; it takes {expected}")


def check_step(function: str, value):
    """A step of time."""
    array = as_array(function, "dt", value, "a number")
    if array.shape != ():
        raise ValueError(f"{function}: dt has shape {array.shape}; it takes a number")
    if is_known(array) and not (np.isfinite(array) and array != 0):
        raise ValueError(f"{function}: dt is {float(array)}; it is finite and not zero")
    return array


def accuracy(dtype) -> float:
    """How far from exact an argument may be that must be exact: as far as long computations leave it, not as mistakes do."""
    return float(jnp.finfo(dtype).eps) ** 0.5
