"""Product groups: `Product(SO3, Rn(3))` of different groups, `Power(SE3, n)` of n equal groups.

Every operation acts on each component separately (Müller & Terze 2013 eqs. 25 to 34). The vectors are the concatenated vectors
of the components, and the matrices are block diagonal. An integrator of many bodies does not need these
matrices: multiply by the blocks, which are the matrices of `power.group` at `power.rows(x)`.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import instance, whole_number
from .group import Group, anything, element, matrix_size, vector, with_last_axes


class DirectProduct(Group):
    """A product of a few groups. The subclass chooses the PyTree that holds the components of an element."""

    groups: eqx.AbstractVar[tuple[Group, ...]]

    own_signatures = {"join": (anything,), "components": (element,), "parts": (vector,)}

    @abstractmethod
    def join(self, components: Iterable[Any]) -> Any:
        """Returns the element with these components."""

    @abstractmethod
    def components(self, g: Any) -> Sequence[Any]:
        """Returns the components of an element; the inverse of `join`."""

    @property
    def dim(self) -> int:
        return sum(group.dim for group in self.groups)

    def parts(self, x: Float[Array, "*batch n"]) -> list[Float[Array, "*batch _"]]:
        """Returns the vectors of the components."""
        return jnp.split(x, np.cumsum([group.dim for group in self.groups])[:-1], axis=-1)

    def identity(self, dtype=None) -> Any:
        return self.join(group.identity(dtype) for group in self.groups)

    def compose(self, a: Any, b: Any) -> Any:
        return self.join(self._each("compose", self.components(a), self.components(b)))

    def inverse(self, a: Any) -> Any:
        return self.join(self._each("inverse", self.components(a)))

    def exp(self, x: Float[Array, "*batch n"]) -> Any:
        return self.join(self._each("exp", self.parts(x)))

    def log(self, g: Any) -> Float[Array, "*batch n"]:
        return jnp.concatenate(self._each("log", self.components(g)), axis=-1)

    def matrix(self, g: Any) -> Float[Array, "*batch m m"]:
        return _diagonal(self._each("matrix", self.components(g)))

    def hat(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        return _diagonal(self._each("hat", self.parts(x)))

    def vee(self, m: Float[Array, "*batch m m"]) -> Float[Array, "*batch n"]:
        ends = np.cumsum([matrix_size(group) for group in self.groups])
        blocks = [m[..., start:end, start:end] for start, end in zip([0, *ends], ends)]
        return jnp.concatenate(self._each("vee", blocks), axis=-1)

    def adjoint(self, g: Any) -> Float[Array, "*batch n n"]:
        return _diagonal(self._each("adjoint", self.components(g)))

    def ad(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return _diagonal(self._each("ad", self.parts(x)))

    def bracket(self, x: Float[Array, "*batch n"], y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return jnp.concatenate(self._each("bracket", self.parts(x), self.parts(y)), axis=-1)

    def dexp_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return _diagonal(self._each("dexp_left", self.parts(x)))

    def dexp_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return _diagonal(self._each("dexp_left_inverse", self.parts(x)))

    def cayley(self, x: Float[Array, "*batch n"]) -> Any:
        return self.join(self._each("cayley", self.parts(x)))

    def cayley_inverse(self, g: Any) -> Float[Array, "*batch n"]:
        return jnp.concatenate(self._each("cayley_inverse", self.components(g)), axis=-1)

    def dcay_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return _diagonal(self._each("dcay_left", self.parts(x)))

    def dcay_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return _diagonal(self._each("dcay_left_inverse", self.parts(x)))

    def _each(self, method, *arguments):
        """Returns the results of a method of each group, applied to its component of each argument."""
        return [getattr(group, method)(*own) for group, *own in zip(self.groups, *arguments, strict=True)]


class Product(DirectProduct):
    """The product of the given groups. Elements are tuples of the groups' elements.

    >>> pose = rbd.lie.Product(rbd.lie.S3, rbd.lie.Rn(1))
    >>> print(pose.dim, pose.exp(jnp.array([0.0, 0.0, jnp.pi, 2.0])))
    4 (Array([0., 0., 0., 1.], dtype=float64), Array([2.], dtype=float64))
    """

    groups: tuple[Group, ...]

    def __init__(self, *groups: Group):
        self.groups = groups

    def __check_init__(self):
        if not self.groups:
            raise ValueError("Product: no groups; give it some, as in Product(SO3, Rn(3))")
        for i, group in enumerate(self.groups):
            instance("Product", f"groups[{i}]", group, Group, "groups, as in Product(SO3, Rn(3))")

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.groups))})"

    def join(self, components: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(components)

    def components(self, g: tuple[Any, ...]) -> tuple[Any, ...]:
        return g


def _component_vectors(power, function: str, name: str, value: Any) -> Array:
    """Returns the vectors of the components of a `Power`, one row each."""
    return with_last_axes(function, name, value, (power.n, power.group.dim))


class Power(Group):
    """The product of `n` copies of a group. Elements are the group's elements with a leading axis of length `n`.

    >>> bodies = rbd.lie.Power(rbd.lie.SO3, 3)
    >>> print(bodies.dim, bodies.exp(jnp.zeros(9)).shape)
    9 (3, 3, 3)
    """

    group: Group
    n: int = eqx.field(static=True)

    own_signatures = {"rows": (vector,), "flat": (_component_vectors,)}

    def __check_init__(self):
        instance("Power", "group", self.group, Group, "a group, as in Power(SE3, 5)")
        whole_number("Power", "n", self.n)

    def __repr__(self) -> str:
        return f"Power({self.group!r}, {self.n})"

    @property
    def dim(self) -> int:
        return self.n * self.group.dim

    def rows(self, x: Float[Array, "*batch m"]) -> Float[Array, "*batch n k"]:
        """Returns the vectors of the components."""
        return x.reshape(*x.shape[:-1], self.n, self.group.dim)

    def flat(self, rows: Float[Array, "*batch n k"]) -> Float[Array, "*batch m"]:
        """Returns the vector with these components; the inverse of `rows`."""
        return rows.reshape(*rows.shape[:-2], self.dim)

    def identity(self, dtype=None) -> Any:
        one = self.group.identity(dtype)
        return jax.tree.map(lambda array: jnp.broadcast_to(array, (self.n, *array.shape)), one)

    def compose(self, a: Any, b: Any) -> Any:
        return self.group.compose(a, b)

    def inverse(self, a: Any) -> Any:
        return self.group.inverse(a)

    def exp(self, x: Float[Array, "*batch m"]) -> Any:
        return self.group.exp(self.rows(x))

    def log(self, g: Any) -> Float[Array, "*batch m"]:
        return self.flat(self.group.log(g))

    def matrix(self, g: Any) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.matrix(g))

    def hat(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.hat(self.rows(x)))

    def vee(self, m: Float[Array, "*batch m m"]) -> Float[Array, "*batch n"]:
        size = m.shape[-1] // self.n
        grid = m.reshape(*m.shape[:-2], self.n, size, self.n, size)
        return self.flat(self.group.vee(jnp.einsum("...iaib->...iab", grid)))

    def adjoint(self, g: Any) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.adjoint(g))

    def ad(self, x: Float[Array, "*batch m"]) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.ad(self.rows(x)))

    def bracket(self, x: Float[Array, "*batch m"], y: Float[Array, "*batch m"]) -> Float[Array, "*batch m"]:
        return self.flat(self.group.bracket(self.rows(x), self.rows(y)))

    def dexp_left(self, x: Float[Array, "*batch m"]) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.dexp_left(self.rows(x)))

    def dexp_left_inverse(self, x: Float[Array, "*batch m"]) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.dexp_left_inverse(self.rows(x)))

    def cayley(self, x: Float[Array, "*batch m"]) -> Any:
        return self.group.cayley(self.rows(x))

    def cayley_inverse(self, g: Any) -> Float[Array, "*batch m"]:
        return self.flat(self.group.cayley_inverse(g))

    def dcay_left(self, x: Float[Array, "*batch m"]) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.dcay_left(self.rows(x)))

    def dcay_left_inverse(self, x: Float[Array, "*batch m"]) -> Float[Array, "*batch m m"]:
        return _repeated(self.group.dcay_left_inverse(self.rows(x)))


def _diagonal(blocks):
    """Returns the block-diagonal matrix with these blocks."""
    widths = np.cumsum([0, *(block.shape[-1] for block in blocks)])
    pads = [(before, widths[-1] - after) for before, after in zip(widths, widths[1:])]
    rows = [jnp.pad(block, [(0, 0)] * (block.ndim - 1) + [pad]) for block, pad in zip(blocks, pads)]
    return jnp.concatenate(rows, axis=-2)


def _repeated(blocks):
    """Returns the block-diagonal matrix with the blocks `(..., n, a, a)`."""
    *batch, n, size, _ = blocks.shape
    own = np.eye(n, dtype=bool)[:, None, :, None]
    grid = jnp.where(own, blocks[..., :, :, None, :], 0)
    return grid.reshape(*batch, n * size, n * size)
