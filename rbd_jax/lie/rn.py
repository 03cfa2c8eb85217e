"""The vectors of n numbers under addition, `Rn(n)`: elements and algebra vectors are the same, and all maps are trivial.

It serves as a factor in products, for positions, strains or velocities beside rotations. As a matrix, a
vector is a translation, `[[I, a], [0, 1]]`.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import whole_number
from .._core.array import identity_like
from .group import Group


class Rn(Group):
    """The vectors of `n` numbers under addition.

    >>> R2 = rbd.lie.Rn(2)
    >>> print(R2.compose(jnp.array([1.0, 2.0]), R2.exp(jnp.array([0.5, 0.5]))))
    [1.5 2.5]
    """

    n: int = eqx.field(static=True)

    def __check_init__(self):
        whole_number("Rn", "n", self.n)

    def __repr__(self) -> str:
        return f"Rn({self.n})"

    @property
    def dim(self) -> int:
        return self.n

    def identity(self, dtype=None) -> Float[Array, "n"]:
        return jnp.zeros(self.n, dtype)

    def compose(self, a: Float[Array, "*batch n"], b: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return a + b

    def inverse(self, a: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return -a

    def exp(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return x

    def log(self, g: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return g

    def matrix(self, g: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        hat = self.hat(g)
        return hat + identity_like(hat)

    def hat(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        """`[[0, x], [0, 0]]`."""
        zeros = jnp.zeros((*x.shape[:-1], self.n + 1, self.n), x.dtype)
        column = jnp.concatenate([x, jnp.zeros_like(x[..., :1])], axis=-1)
        return jnp.concatenate([zeros, column[..., None]], axis=-1)

    def vee(self, m: Float[Array, "*batch m m"]) -> Float[Array, "*batch n"]:
        return m[..., :-1, -1]

    def adjoint(self, g: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return self._identity(g)

    def ad(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return jnp.zeros((*x.shape, self.n), x.dtype)

    def dexp_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return self._identity(x)

    def dexp_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return self._identity(x)

    def cayley(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return x

    def cayley_inverse(self, g: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        return g

    def dcay_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return self._identity(x)

    def dcay_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        return self._identity(x)

    def _identity(self, x):
        return jnp.broadcast_to(jnp.eye(self.n, dtype=x.dtype), (*x.shape, self.n))
