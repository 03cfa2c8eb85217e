"""What a Lie group is in this library: one set of names and conventions for all of them.

Elements are whatever represents them best (a matrix, a quaternion, a `Transform`, a tuple of those); vectors
of the Lie algebra are flat arrays of length `dim`. A group is an object without arrays, so that products and
groups with a dimension can be groups too. All methods take leading axes, the same on all arguments.

Arguments are checked here, for all groups, by a table of the methods (`SIGNATURES`): lists and integers become arrays of
floats, and what has not the shape of a vector, an element or a matrix of the group is refused.
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


#: Of the group, the name of its method, the name of the argument and its value: the value to use.
Check: TypeAlias = Callable[[Any, str, str, Any], Any]


def anything(group, function: str, name: str, value: Any) -> Any:
    """Whatever it is; the method looks at it itself."""
    return value


def vector(group, function: str, name: str, value: Any) -> Array:
    """A vector of the algebra."""
    return with_last_axes(function, name, value, (group.dim,))


def element(group, function: str, name: str, value: Any) -> Any:
    """An element: made up of arrays as the identity is, whose last axes are its."""
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
    """A matrix of the algebra."""
    size = matrix_size(group)
    return with_last_axes(function, name, value, (size, size))


def with_last_axes(function: str, name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """`value` as an array whose last axes are these."""
    expected = f"({', '.join(map(str, ('...', *shape)))})"
    array = as_array(function, name, value, f"an array of shape {expected}")
    if array.shape[max(array.ndim - len(shape), 0) :] != shape:
        raise ValueError(f"{function}: {name} has shape {array.shape}; it must be {expected}")
    return array


#: What each method of a group takes, argument by argument. By place: what a group calls its arguments changes nothing.
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
    """The method of a group, compiled, after a check of each argument; refused if it has another number of arguments."""
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
    """A method that all groups share, checked as the table says."""
    return checked(method, SIGNATURES[method.__name__])


def matrix_size(group) -> int:
    """The number of rows of the matrices of a group."""
    return _matrix_size(jax.tree.structure(group))


# A group has no arrays, so its structure is all of it, and is quickly looked up.


@functools.cache
def _identity(structure):
    """Of the identity of the group of this structure: the type, the structure, and its arrays' names and shapes."""
    identity = jax.eval_shape(jax.tree.unflatten(structure, []).identity)
    arrays, inner = jax.tree_util.tree_flatten_with_path(identity)
    return type(identity), inner, [(jax.tree_util.keystr(path), array.shape) for path, array in arrays]


@functools.cache
def _matrix_size(structure):
    group = jax.tree.unflatten(structure, [])
    return jax.eval_shape(lambda: group.matrix(group.identity())).shape[-1]


class Group(eqx.Module):
    """A Lie group, with two maps from its algebra and the derivatives of those (Müller & Terze 2013).

    `exp` is the exponential map. `cayley` is the rational map `(I - X/2)⁻¹ (I + X/2)` of the matrices `X = hat(x)`,
    which is cheaper and agrees with it to second order. "Left" and "right" tell on which side of an element a small
    change of its vector shows:

        exp(x + δ) = exp(dexp_left(x) δ) exp(x) + O(δ²) = exp(x) exp(dexp_right(x) δ) + O(δ²)

    so `dexp_left` gives velocities in the fixed frame and `dexp_right` in the moving one. `dcay_left` and
    `dcay_right` are the same of `cayley`.

    A new group implements these methods, with as many parameters; their arguments are checked before. Public methods
    of its own it lists in `own_signatures`, with a check for each argument (`anything` where none is due).

    >>> def geodesic(group, a, b, t):
    ...     return group.compose(a, group.exp(t * group.log(group.compose(group.inverse(a), b))))
    >>> a, b = rbd.lie.SO3.identity(jnp.float64), rbd.lie.SO3.exp(jnp.array([0.0, 0.0, 1.0]))
    >>> print(rbd.lie.SO3.log(geodesic(rbd.lie.SO3, a, b, 0.25)))
    [0.   0.   0.25]
    """

    own_signatures: ClassVar[Mapping[str, tuple[Check, ...]]] = {}

    def __init_subclass__(cls, **kwargs):
        """The methods of a group check their arguments. One that no table lists is an error: none goes unchecked unseen."""
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
        """The neutral element."""

    @abstractmethod
    def compose(self, a: Any, b: Any) -> Any:
        """The product `a b`."""

    @abstractmethod
    def inverse(self, a: Any) -> Any:
        """`a⁻¹`."""

    @abstractmethod
    def exp(self, x: Float[Array, "*batch n"]) -> Any:
        """The element reached from the identity in unit time at the constant velocity `x`."""

    @abstractmethod
    def log(self, g: Any) -> Float[Array, "*batch n"]:
        """The shortest `x` with `exp(x) = g`."""

    @abstractmethod
    def matrix(self, g: Any) -> Float[Array, "*batch m m"]:
        """The element as a matrix: `matrix(a b) = matrix(a) matrix(b)`, different elements differently."""

    @abstractmethod
    def hat(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        """The matrix of the Lie algebra with coordinates `x`: `matrix(exp(x))` is its matrix exponential."""

    @abstractmethod
    def vee(self, m: Float[Array, "*batch m m"]) -> Float[Array, "*batch n"]:
        """The coordinates of a matrix of the Lie algebra; the inverse of `hat`."""

    @abstractmethod
    def adjoint(self, g: Any) -> Float[Array, "*batch n n"]:
        """The matrix `Ad(g)`: `hat(Ad(g) x) = g hat(x) g⁻¹`, a velocity of the moving frame in the fixed."""

    @abstractmethod
    def ad(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The matrix `ad(x)`: `ad(x) y = bracket(x, y)`."""

    @_as_listed
    def bracket(self, x: Float[Array, "*batch n"], y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """The Lie bracket: `hat(bracket(x, y)) = hat(x) hat(y) - hat(y) hat(x)`.

        By default `ad(x) y`. Where that is a few cross products, these are the cheaper way.
        """
        return matvec(self.ad(x), y)

    @abstractmethod
    def dexp_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The left Jacobian `Σ_k ad(x)^k / (k + 1)!`: `d/dt exp(x) = hat(dexp_left(x) ẋ) exp(x)`."""

    @abstractmethod
    def dexp_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dexp_left(x)`, `Σ_k B_k ad(x)^k / k!` with Bernoulli numbers (`B_1 = -1/2`)."""

    @abstractmethod
    def cayley(self, x: Float[Array, "*batch n"]) -> Any:
        """The element `(I - X/2)⁻¹ (I + X/2)` with `X = hat(x)`, for `x` of any length."""

    @abstractmethod
    def cayley_inverse(self, g: Any) -> Float[Array, "*batch n"]:
        """The `x` with `cayley(x) = g`. It grows beyond all bounds towards the elements whose matrix has the
        eigenvalue -1 (half turns; in S3 the whole turn): exactly there the result is not finite.
        """

    @abstractmethod
    def dcay_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The left derivative of the Cayley map: `d/dt cayley(x) = hat(dcay_left(x) ẋ) cayley(x)`."""

    @abstractmethod
    def dcay_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dcay_left(x)`, which is a polynomial: `y ↦ Y - (X Y - Y X)/2 - X Y X/4`, hatted."""

    # The right derivatives follow from `exp(-x) = exp(x)⁻¹`. That is as fast and as accurate as the left ones; the other
    # way, by the adjoint of the element, takes an exponential and a product more.

    @_as_listed
    def dexp_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The right Jacobian: `d/dt exp(x) = exp(x) hat(dexp_right(x) ẋ)`."""
        return self.dexp_left(-x)

    @_as_listed
    def dexp_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dexp_right(x)`."""
        return self.dexp_left_inverse(-x)

    @_as_listed
    def dcay_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The right derivative of the Cayley map: `d/dt cayley(x) = cayley(x) hat(dcay_right(x) ẋ)`."""
        return self.dcay_left(-x)

    @_as_listed
    def dcay_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dcay_right(x)`."""
        return self.dcay_left_inverse(-x)
