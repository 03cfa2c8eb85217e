"""The interface of Lie groups in this library: one set of names and conventions for all of them.

Elements have the representation that suits the group (a matrix, a quaternion, a `Transform`, a tuple of those). Vectors
of the Lie algebra are flat arrays of length `dim`. A group is an object without arrays, so that products and
groups with a dimension can be groups too. All methods take leading axes, which must be the same for all arguments.

This module checks the arguments of all groups with a table of the methods (`SIGNATURES`). Lists and integers become arrays of
floats, and a wrong shape of a vector, element or matrix raises an error.
"""

import functools
import inspect
import reprlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
from jaxtyping import Array, Float

from .._core.arguments import as_array
from .._core.array import matvec
from .._core.jit import compiled


#: Takes the group, the method's name, the argument's name and its value; returns the value to use.
Check: TypeAlias = Callable[[Any, str, str, Any], Any]


def anything(group, function: str, name: str, value: Any) -> Any:
    """Returns the value unchecked; the method checks it."""
    return value


def vector(group, function: str, name: str, value: Any) -> Array:
    """Checks a vector of the algebra."""
    return with_last_axes(function, name, value, (group.dim,))


def element(group, function: str, name: str, value: Any) -> Any:
    """Checks an element: it must have the structure and the last axes of the identity."""
    kind, structure, parts = _identity(jax.tree.structure(group))
    value = tuple(value) if kind is tuple and isinstance(value, list) else value
    try:
        given = structure.flatten_up_to(value)
    except ValueError:
        shapes = ", ".join(str(shape) for _, shape in parts)
        has = f"has shape {value.shape}" if hasattr(value, "shape") else f"is {reprlib.repr(value)}"
        raise ValueError(
            f"{function}: {name} {has}; it must be a {kind.__name__} of {len(parts)} arrays, whose last axes are {shapes}"
        ) from None
    return structure.unflatten(
        [
            with_last_axes(function, name + part, array, shape)
            for (part, shape), array in zip(parts, given, strict=True)
        ]
    )


def algebra_matrix(group, function: str, name: str, value: Any) -> Array:
    """Checks a matrix of the algebra."""
    size = matrix_size(group)
    return with_last_axes(function, name, value, (size, size))


def with_last_axes(function: str, name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Returns `value` as an array and checks that its last axes are `shape`."""
    expected = f"({', '.join(map(str, ('...', *shape)))})"
    array = as_array(function, name, value, f"an array of shape {expected}")
    if array.shape[max(array.ndim - len(shape), 0) :] != shape:
        raise ValueError(f"{function}: {name} has shape {array.shape}; it must be {expected}")
    return array


#: The check of each positional argument of each method, independent of the argument's name.
SIGNATURES: dict[str, tuple[Check, ...]] = {
    "identity": (anything,),
    "compose": (element, element),
    "inverse": (element,),
    "exp": (vector,),
    "log": (element,),
    "matrix": (element,),
    "hat": (vector,),
    "vee": (algebra_matrix,),
    "adjoint": (element,),
    "ad": (vector,),
    "bracket": (vector, vector),
    "dexp_left": (vector,),
    "dexp_left_inverse": (vector,),
    "dexp_right": (vector,),
    "dexp_right_inverse": (vector,),
    "cayley": (vector,),
    "cayley_inverse": (element,),
    "dcay_left": (vector,),
    "dcay_left_inverse": (vector,),
    "dcay_right": (vector,),
    "dcay_right_inverse": (vector,),
}


def checked(method: Callable, checks: tuple[Check, ...]) -> Callable:
    """Returns a compiled method that checks its arguments; raises an error for a wrong number of parameters."""
    _, *parameters = inspect.signature(method).parameters.values()
    names = [parameter.name for parameter in parameters]
    plain = all(parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    if len(names) != len(checks) or not plain:
        raise TypeError(
            f"{method.__qualname__} has the parameters {names} after the group; it takes {len(checks)}, each by place "
            f"or by name: {', '.join(check.__name__ for check in checks) or 'none'}"
        )

    run = compiled(method)

    @functools.wraps(method)
    def wrapper(group, *args, **kwargs):
        given = dict(zip(names, args, strict=False)) | kwargs
        for name, check in zip(names, checks, strict=True):
            if name in given:
                given[name] = check(group, f"{group}.{method.__name__}", name, given[name])
        return run(group, *args[len(names) :], **given)

    return method if set(checks) <= {anything} else wrapper


def _as_listed(method: Callable) -> Callable:
    """Checks a method that all groups share by its entry in the table."""
    return checked(method, SIGNATURES[method.__name__])


def matrix_size(group) -> int:
    """Returns the number of rows of the matrices of a group."""
    return _matrix_size(jax.tree.structure(group))


# A group has no arrays, so its structure determines it and is a fast cache key.


@functools.cache
def _identity(structure):
    """Returns the type and structure of the identity of a group, and the names and shapes of its arrays."""
    identity = jax.eval_shape(jax.tree.unflatten(structure, []).identity)
    arrays, inner = jax.tree_util.tree_flatten_with_path(identity)
    return type(identity), inner, [(jax.tree_util.keystr(path), array.shape) for path, array in arrays]


@functools.cache
def _matrix_size(structure):
    group = jax.tree.unflatten(structure, [])
    return jax.eval_shape(lambda: group.matrix(group.identity())).shape[-1]


class Group(eqx.Module):
    """A Lie group, with two maps from its algebra and their derivatives (Müller & Terze 2013).

    `exp` is the exponential map. `cayley` is the rational map `(I - X/2)⁻¹ (I + X/2)` of the matrices `X = hat(x)`,
    which is cheaper and agrees with `exp` to second order. "Left" and "right" name the side of an element on which a small
    change of its vector appears:

        exp(x + δ) = exp(dexp_left(x) δ) exp(x) + O(δ²) = exp(x) exp(dexp_right(x) δ) + O(δ²)

    So `dexp_left` gives velocities in the fixed frame and `dexp_right` in the moving frame. `dcay_left` and
    `dcay_right` are the same for `cayley`.

    A new group implements these methods with the same numbers of parameters; their arguments are checked on entry. It lists its
    other public methods in `own_signatures`, with a check for each argument (`anything` for no check).

    >>> def geodesic(group, a, b, t):
    ...     return group.compose(a, group.exp(t * group.log(group.compose(group.inverse(a), b))))
    >>> a, b = rbd.lie.SO3.identity(jnp.float64), rbd.lie.SO3.exp(jnp.array([0.0, 0.0, 1.0]))
    >>> print(rbd.lie.SO3.log(geodesic(rbd.lie.SO3, a, b, 0.25)))
    [0.   0.   0.25]
    """

    own_signatures: ClassVar[Mapping[str, tuple[Check, ...]]] = {}

    def __init_subclass__(cls, **kwargs):
        """Wraps the methods of a group to check their arguments. A public method without an entry in a table is an error."""
        super().__init_subclass__(**kwargs)
        known = dict(SIGNATURES)
        for base in reversed(cls.__mro__):
            known |= vars(base).get("own_signatures", {})
        for name, method in list(vars(cls).items()):
            if not inspect.isfunction(method) or name.startswith("_"):
                continue
            if name not in known:
                raise TypeError(
                    f"{cls.__name__}.{name} is no method of a Group; list what it takes in {cls.__name__}.own_signatures, "
                    "or begin its name with an underscore"
                )
            setattr(cls, name, checked(method, known[name]))

    @property
    @abstractmethod
    def dim(self) -> int:
        """The dimension of the group."""

    @abstractmethod
    def identity(self, dtype=None) -> Any:
        """Returns the neutral element."""

    @abstractmethod
    def compose(self, a: Any, b: Any) -> Any:
        """Returns the product `a b`."""

    @abstractmethod
    def inverse(self, a: Any) -> Any:
        """Returns `a⁻¹`."""

    @abstractmethod
    def exp(self, x: Float[Array, "*batch n"]) -> Any:
        """Returns the element reached from the identity in unit time at the constant velocity `x`."""

    @abstractmethod
    def log(self, g: Any) -> Float[Array, "*batch n"]:
        """Returns the shortest `x` with `exp(x) = g`."""

    @abstractmethod
    def matrix(self, g: Any) -> Float[Array, "*batch m m"]:
        """Returns the element as a matrix: `matrix(a b) = matrix(a) matrix(b)`; different elements have different matrices."""

    @abstractmethod
    def hat(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        """Returns the matrix of the Lie algebra with coordinates `x`: `matrix(exp(x))` is its matrix exponential."""

    @abstractmethod
    def vee(self, m: Float[Array, "*batch m m"]) -> Float[Array, "*batch n"]:
        """Returns the coordinates of a matrix of the Lie algebra; the inverse of `hat`."""

    @abstractmethod
    def adjoint(self, g: Any) -> Float[Array, "*batch n n"]:
        """Returns the matrix `Ad(g)`: `hat(Ad(g) x) = g hat(x) g⁻¹`, which maps moving-frame velocities to the fixed frame."""

    @abstractmethod
    def ad(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the matrix `ad(x)`: `ad(x) y = bracket(x, y)`."""

    @_as_listed
    def bracket(self, x: Float[Array, "*batch n"], y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """Returns the Lie bracket: `hat(bracket(x, y)) = hat(x) hat(y) - hat(y) hat(x)`.

        The default is `ad(x) y`. Groups override it where a few cross products are cheaper.
        """
        return matvec(self.ad(x), y)

    @abstractmethod
    def dexp_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the left Jacobian `Σ_k ad(x)^k / (k + 1)!`: `d/dt exp(x) = hat(dexp_left(x) ẋ) exp(x)`."""

    @abstractmethod
    def dexp_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the inverse of `dexp_left(x)`, `Σ_k B_k ad(x)^k / k!` with Bernoulli numbers (`B_1 = -1/2`)."""

    @abstractmethod
    def cayley(self, x: Float[Array, "*batch n"]) -> Any:
        """Returns the element `(I - X/2)⁻¹ (I + X/2)` with `X = hat(x)`, for `x` of any length."""

    @abstractmethod
    def cayley_inverse(self, g: Any) -> Float[Array, "*batch n"]:
        """Returns the `x` with `cayley(x) = g`.

        It is unbounded near the elements whose matrix has the eigenvalue -1 (half turns; in S3 the full turn). Exactly at these
        elements the result is not finite.
        """

    @abstractmethod
    def dcay_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the left derivative of the Cayley map: `d/dt cayley(x) = hat(dcay_left(x) ẋ) cayley(x)`."""

    @abstractmethod
    def dcay_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the inverse of `dcay_left(x)`, which is a polynomial: `y ↦ Y - (X Y - Y X)/2 - X Y X/4`, hatted."""

    # The right derivatives follow from `exp(-x) = exp(x)⁻¹`. This is as fast and as accurate as the left ones. The
    # alternative, the adjoint of the element, takes an additional exponential and product.

    @_as_listed
    def dexp_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the right Jacobian: `d/dt exp(x) = exp(x) hat(dexp_right(x) ẋ)`."""
        return self.dexp_left(-x)

    @_as_listed
    def dexp_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the inverse of `dexp_right(x)`."""
        return self.dexp_left_inverse(-x)

    @_as_listed
    def dcay_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the right derivative of the Cayley map: `d/dt cayley(x) = cayley(x) hat(dcay_right(x) ẋ)`."""
        return self.dcay_left(-x)

    @_as_listed
    def dcay_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """Returns the inverse of `dcay_right(x)`."""
        return self.dcay_left_inverse(-x)
