"""Checks of user input: they return a value in its normal form, or raise an error with the name and the remedy.

There are two kinds of checks. A *check of an argument* is for functions of a model: `takes` assigns one to every parameter,
and refuses to decorate a function with an unchecked parameter. Shapes are known during tracing, so the checks cost nothing in
a compiled function and raise before JAX does. A *check of a value* (`number`, `names`, `direction`, ...) is called where an
object is created.
"""

from __future__ import annotations

import functools
import inspect
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .array import as_jax, floating, floating_numpy, in_numpy, is_known
from .errors import UnknownNameError, is_plain
from .jit import compiled
from .under_vmap import one_operation


F = TypeVar("F", bound=Callable)

#: Takes the function's name, its first argument (the model), the argument's name and its value; returns the value to use.
Check: TypeAlias = Callable[[str, Any, str, Any], Any]


def takes(*, compile: bool = True, planar: bool = False, **checks: Check) -> Callable[[F], F]:
    """Checks the arguments of `function(model, ...)`: a check for every parameter after the first, `anything` for no check.

    A parameter without a check, or a check without a parameter, is an error when the function is defined. The checked
    arguments are passed to the function, which is `compiled` and `one_operation` under `jax.vmap`.

    Args:
      compile: If False, the function is not compiled, because it inspects numbers.
      planar: If True, planar models are accepted as well.
      checks: The check of each parameter after the first.
    """

    def decorate(function: F) -> F:
        names = list(inspect.signature(function).parameters)[1:]
        if set(names) != set(checks):
            raise TypeError(
                f"{function.__name__} has the parameters {names}, and checks for {list(checks)}; every parameter "
                "after the first needs its own"
            )

        run = compiled(one_operation(function)) if compile else function

        @functools.wraps(function)
        def wrapper(model, *args, **kwargs):
            a_model(function.__name__, model, planar=planar)
            given = dict(zip(names, args, strict=False)) | kwargs
            for name, check in checks.items():
                if name in given:
                    given[name] = check(function.__name__, model, name, given[name])
            return run(model, *args[len(names) :], **given)

        return wrapper  # pyright: ignore[reportReturnType]

    return decorate


def a_model(owner: str, value, *, planar: bool = False) -> None:
    """Raises an error for anything but a model (or an object that moves like one), and for planar models unless accepted."""
    if not all(hasattr(value, name) for name in ("name", "nq", "nv")):
        given = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise ValueError(
            f"{owner}: model is {given}; it takes a Model, as rbd.load and rbd.load_urdf give one"
        )
    if not planar and is_planar(value):
        raise ValueError(
            f"{owner}: model {value.name!r} is planar, and this is for spatial models; use the model that was passed to "
            "`rbd.planar`: q, v and tau are the same"
        )


def is_planar(model) -> bool:
    """Returns whether a model, or an object that moves like one, is planar."""
    return getattr(model, "is_planar", False)


# Checks of arguments.


def anything(function: str, model, name: str, value):
    """Returns the value unchecked; the function checks it."""
    return value


def positive(function: str, model, name: str, value):
    """Checks a number greater than zero; None means the default."""
    return None if value is None else number(function, name, value, dtype=model.dtype, above=0)


def configuration(function: str, model, name: str, value) -> Array:
    """Checks a configuration of the model: (nq,)."""
    return _of_length(function, model, name, value, "nq")


def velocity(function: str, model, name: str, value) -> Array:
    """Checks a vector over the degrees of freedom: a velocity, an acceleration, a generalized force: (nv,)."""
    return _of_length(function, model, name, value, "nv")


def _of_length(function: str, model, name: str, value, size: str) -> Array:
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


def dof_columns(function: str, model, name: str, value) -> Array:
    """Checks an array with one row per degree of freedom, and any number of columns or none."""
    expected = f"(nv,) or (nv, k) with nv = {model.nv}"
    array = as_array(function, name, value, f"an array {expected}")
    if array.ndim in (1, 2) and array.shape[0] == model.nv:
        return array
    raise ValueError(
        f"{function}: {name} has shape {array.shape}; it must be {expected} for model {model.name!r}"
    )


def wrenches(function: str, model, name: str, value):
    """Checks wrenches on some bodies, as a dict of arrays, or on each body, as one array; or None."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        forces = {}
        for key, wrench in value.items():
            body = model.body_names[model.body_index(body_name(function, model, name, key))]
            if body in forces:
                raise ValueError(f"{function}: {name} has body {body!r} twice, by its name and by its index")
            size = 3 if is_planar(model) else 6
            what = "a wrench [n; f_x; f_y] in a plane" if is_planar(model) else "a wrench [n; f]"
            forces[body] = vector(function, f"{name}[{key!r}]", wrench, size, f"{what} has shape ({size},)")
        return forces
    return _per_body(function, model, name, value, "a dict {body: wrench} or an array")


def wrench_on_each_body(function: str, model, name: str, value) -> Array:
    """Checks a wrench on each body: (nb, 6)."""
    return _per_body(function, model, name, value, "an array")


def _per_body(function: str, model, name: str, value, what: str) -> Array:
    size = 3 if is_planar(model) else 6
    expected = f"{what} (nb, {size}) with nb = {model.nb}"
    array = as_array(function, name, value, expected)
    if array.shape == (model.nb, size):
        return array
    raise ValueError(
        f"{function}: {name} has shape {array.shape}; it must be {expected} for model {model.name!r}"
    )


def matrix_of_each_body(function: str, model, name: str, value) -> Array:
    """Checks a 6 x 6 matrix for each body: (nb, 6, 6)."""
    expected = f"an array (nb, 6, 6) with nb = {model.nb}"
    array = as_array(function, name, value, expected)
    if array.shape == (model.nb, 6, 6):
        return array
    raise ValueError(
        f"{function}: {name} has shape {array.shape}; it must be {expected} for model {model.name!r}"
    )


def body_name(function: str, model, name: str, value):
    """Checks the name or the index of a body."""
    if not isinstance(value, str | int | np.integer) or isinstance(value, bool):
        raise ValueError(
            f"{function}: {name} is {reprlib.repr(value)}; it takes the name of a body or its index"
        )
    try:
        model.body_index(value)
    except UnknownNameError as error:
        raise UnknownNameError(f"{function}: {name}: {error}") from None
    return value


def body_names(function: str, model, name: str, value):
    """Checks the name or the index of a body, or a sequence of them."""
    if isinstance(value, str | int | np.integer):
        return body_name(function, model, name, value)
    if not isinstance(value, Sequence) or not value:
        raise ValueError(
            f"{function}: {name} is {reprlib.repr(value)}; it takes a body's name or index, or a sequence of them"
        )
    return [body_name(function, model, f"{name}[{i}]", one) for i, one in enumerate(value)]


def dof_flags(function: str, model, name: str, value) -> Array:
    """Converts names or indices of joints, or a flag for each degree of freedom, to flags."""
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
        flags[_dof(function, model, name, joint)] = True
    return jnp.asarray(flags)


def joint_names(function: str, model, name: str, value):
    """Checks a sequence of names of joints, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        raise ValueError(f"{function}: {name} is {value!r}; it takes a sequence of joints: [{value!r}]")
    if not isinstance(value, Sequence):
        raise ValueError(f"{function}: {name} is {reprlib.repr(value)}; it takes a sequence of joints")
    for joint in value:
        try:
            model.topology.joint_index(joint)
        except UnknownNameError as error:
            raise UnknownNameError(f"{function}: {name}: {error}") from None
    return tuple(value)


def _dof(function: str, model, name: str, joint) -> slice:
    try:
        return model.v_slice(joint)
    except UnknownNameError as error:
        raise UnknownNameError(f"{function}: {name}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{function}: {name}: {error}") from None


def one_of(*choices: str) -> Check:
    """Returns the check that a value is one of some strings."""

    def check(function: str, model, name: str, value):
        return choice(function, name, value, choices)

    return check


#: The frame of a spatial vector.
frame_name = one_of("world", "body", "world_aligned")


def space_point(function: str, model, name: str, value):
    """Checks a point, or None."""
    return None if value is None else vector(function, name, value, 3, "a point has shape (3,)")


def space_points(function: str, model, name: str, value):
    """Checks points, one per row, or None."""
    if value is None:
        return None
    array = as_array(function, name, value, "an array of points, a row each")
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"{function}: {name} has shape {array.shape}; k points have shape (k, 3)")
    return array


# Checks of values. `owner` is the function or the class that receives the value.


def function_tree(function: Callable) -> Callable:
    """Returns a function as part of a PyTree: a bare function is wrapped in a Partial, whose function is structure."""
    return jax.tree_util.Partial(function) if jax.tree_util.all_leaves([function]) else function


def as_array(owner: str, name: str, value, expected: str) -> Array:
    """Returns `value` as a floating-point array; anything but an array of real numbers raises an error."""
    return floating(_real(owner, name, value, expected))


def _real(owner: str, name: str, value, expected: str) -> Array | np.ndarray:
    """Returns `value` as an array of real numbers: a NumPy array, unless it is already a JAX array."""
    try:
        array = np.asarray(value) if isinstance(value, float | int) else in_numpy(value)
        array = array if isinstance(array, np.ndarray | jax.Array) else jnp.asarray(array)
        if any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
            return array
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{owner}: {name} is {reprlib.repr(value)}; it takes {expected}") from None


def number(
    owner: str,
    name: str,
    value,
    shape: tuple[int, ...] = (),
    *,
    dtype=None,
    least: float | int | None = None,
    above: float | int | None = None,
    most: float | int | None = None,
    remedy: str = "",
) -> Array:
    """Returns `value` as finite floats of the given shape, within the given limits.

    For traced values only the shape is checked.

    Args:
      owner: The function or class that receives the value.
      name: The name of the argument.
      value: The value.
      shape: The required shape.
      dtype: The precision; by default the precision of the value.
      least: The smallest allowed value.
      above: A bound that the value must exceed.
      most: The largest allowed value.
      remedy: An addition to the message.
    """
    expected = f"an array of shape {shape}" if shape else "one number"
    array = as_array(owner, name, value, expected)
    # Without a weak type: otherwise functions would recompile when a parameter is replaced.
    array = jnp.asarray(array, array.dtype if dtype is None else dtype)
    if array.shape != shape:
        raise ValueError(f"{owner}: {name} has shape {array.shape}; it is {expected}")
    if not is_known(value):
        return array
    # The original value: a JAX array would be traced while a function is traced.
    given = np.asarray(value)
    with np.errstate(over="ignore"):
        seen = given.astype(array.dtype)
    if not np.isfinite(seen).all():
        large = (
            f", which is too large for {array.dtype}" if np.isfinite(given).all() else ", which is not finite"
        )
        raise ValueError(f"{owner}: {name} is {given.tolist()}{large}")
    if least is not None and np.any(seen < least):
        raise ValueError(f"{owner}: {name} is {seen.tolist()}; it cannot be less than {least:g}{remedy}")
    if above is not None and np.any(seen <= above):
        raise ValueError(f"{owner}: {name} is {seen.tolist()}; it must be greater than {above:g}{remedy}")
    if most is not None and np.any(seen > most):
        raise ValueError(f"{owner}: {name} is {seen.tolist()}; it cannot be more than {most:g}")
    return array


def vector(
    owner: str, name: str, value, length: int = 3, expected: str = "a vector of space has shape (3,)"
) -> Array:
    """Checks the length of a vector, but not its numbers; `expected` describes the length in the message."""
    return floating(plain_vector(owner, name, value, length, expected))


def plain_vector(owner: str, name: str, value, length: int, expected: str) -> Array | np.ndarray:
    """Checks a vector as `vector` does, and returns a NumPy array unless it is already a JAX array."""
    array = _real(owner, name, value, f"an array of {length} numbers")
    if array.shape != (length,):
        raise ValueError(f"{owner}: {name} has shape {array.shape}; {expected}")
    return array


def rotation(owner: str, name: str, value) -> Array:
    """Checks a rotation matrix; if its numbers are known, to the tolerance `accuracy`."""
    array = as_array(owner, name, value, "a rotation matrix, of shape (3, 3)")
    if array.shape != (3, 3):
        raise ValueError(f"{owner}: {name} has shape {array.shape}; a rotation matrix has shape (3, 3)")
    fault = rotation_fault(array, accuracy(array.dtype)) if is_known(array) else None
    if fault is not None:
        raise ValueError(
            f"{owner}: {name} {fault}; its columns must be right-handed, perpendicular and of length one"
        )
    return array


UNIT = np.eye(3)


def rotation_fault(matrix, tolerance: float) -> str | None:
    """Describes why a known 3 x 3 matrix is not a rotation, or returns None for a rotation within the tolerance."""
    # Plain numbers: each NumPy operation would take as long as all of this.
    (a, b, c), (d, e, f), (g, h, i) = rows = np.asarray(matrix, np.float64).tolist()
    lengths = a * a + d * d + g * g - 1, b * b + e * e + h * h - 1, c * c + f * f + i * i - 1
    angles = a * b + d * e + g * h, a * c + d * f + g * i, b * c + e * f + h * i
    off = [abs(x) for x in (*lengths, *angles)]
    if not all(x <= tolerance for x in off):  # also true for NaN
        finite = np.isfinite(rows).all()
        return f"is no rotation matrix: R'R differs from 1 by {max(off):.3g}" if finite else "is not finite"
    if a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g) < 0:
        return "is a reflection: det R = -1"
    return None


def accuracy(dtype) -> float:
    """Returns the tolerance for arguments that must be exact: larger than accumulated rounding, smaller than mistakes."""
    return float(jnp.finfo(dtype).eps) ** 0.5


def direction(owner: str, value, name: str = "axis") -> Array:
    """Returns a direction in space as a unit vector; a known zero or non-finite vector raises an error."""
    axis = plain_direction(owner, value, name)
    return as_jax(axis) if isinstance(axis, np.ndarray) else axis


def plain_direction(owner: str, value, name: str = "axis") -> Array | np.ndarray:
    """Returns a direction as `direction` does, but as a NumPy array if its numbers are known."""
    axis = _real(owner, name, value, "a vector of three components")
    if axis.shape != (3,):
        raise ValueError(f"{owner}: {name} has shape {axis.shape}, but a direction has three components")
    if not is_known(axis):
        axis = floating(axis)
        return axis / jnp.sqrt(jnp.sum(axis**2))
    # NumPy avoids compiling and dispatching small operations.
    given = floating_numpy(np.asarray(axis))
    length = np.sqrt(np.sum(given**2))
    if not 0 < length < np.inf:
        raise ValueError(f"{owner}: {name} {given.tolist()} has no direction; give a finite, non-zero vector")
    return given / length


def choice(owner: str, name: str, value, choices: Sequence[str]) -> str:
    """Checks that a value is one of some strings."""
    if isinstance(value, str) and value in choices:
        return value
    listed = ", ".join(map(repr, choices))
    raise ValueError(f"{owner}: {name} is {reprlib.repr(value)}; it must be one of {listed}")


def names(owner: str, what: str, value, count: int | None = None) -> tuple[str, ...]:
    """Returns a name or a sequence of names as a tuple, of length `count` if it is given."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given) or not given:
        raise ValueError(f"{owner}: {what} is {value!r}; it takes names")
    for name in given:
        if not is_plain(name):
            raise ValueError(
                f"{owner}: {what} is {name!r}, with characters that are not shown; leave them out"
            )
    if count is not None and len(given) != count:
        raise ValueError(f"{owner}: {what} has {len(given)} names; it takes {count}")
    return tuple(given)


def whole_number(owner: str, name: str, value, wanted: str = "it is a positive integer") -> int:
    """Checks a positive integer, of Python or of NumPy."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1 or isinstance(value, bool):
        raise ValueError(f"{owner}: {name} is {value!r}; {wanted}")
    return count


def random_key(owner: str, key: Any, batched: str = "jax.vmap over the keys") -> PRNGKeyArray:
    """Checks one random key; old-style keys, two numbers, become new-style keys."""
    wrong = f"{owner}: key is {reprlib.repr(key)}; it takes a key: jax.random.key(0)"
    if not isinstance(key, jax.Array | np.ndarray):
        raise ValueError(wrong)
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed and (key.shape[-1:] != (2,) or key.dtype != jnp.uint32):
        raise ValueError(wrong)
    if key.shape[: key.ndim - (not typed)]:
        raise ValueError(f"{owner}: key has shape {key.shape}; it takes one, so batch: {batched}")
    return key if typed else jax.random.wrap_key_data(jnp.asarray(key))  # pyright: ignore[reportReturnType]


def instance(owner: str, name: str, value, kind: type, expected: str) -> None:
    """Checks that a value is an instance of a type; a class or an instance of another type raises an error."""
    if not isinstance(value, kind):
        given = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise ValueError(f"{owner}: {name} is {given}; it takes {expected}")
