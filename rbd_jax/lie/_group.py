"""What a Lie group is in this library: one set of names and conventions for all of them.

Elements are whatever represents them best (a matrix, a `Transform`); vectors of the Lie algebra are flat
arrays of length `dim`. A group is an object without arrays, so that products and groups with a dimension can
be groups too. The methods act on one element; those of the groups here also take leading axes, the same on
all arguments.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


class Group(eqx.Module):
    """A Lie group of matrices, with its exponential map and the derivative of that (Müller & Terze 2013).

    "Left" and "right" tell on which side of `exp(x)` a small change of `x` shows:

        exp(x + δ) = exp(dexp_left(x) δ) exp(x) + O(δ²) = exp(x) exp(dexp_right(x) δ) + O(δ²)

    so `dexp_left` gives velocities in the fixed frame and `dexp_right` in the moving one.
    """

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
    def hat(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch m m"]:
        """The matrix of the Lie algebra with coordinates `x`."""

    @abstractmethod
    def vee(self, m: Float[Array, "*batch m m"]) -> Float[Array, "*batch n"]:
        """The coordinates of a matrix of the Lie algebra; the inverse of `hat`."""

    @abstractmethod
    def adjoint(self, g: Any) -> Float[Array, "*batch n n"]:
        """The matrix `Ad(g)`: `hat(Ad(g) x) = g hat(x) g⁻¹`, a velocity of the moving frame in the fixed."""

    @abstractmethod
    def ad(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The matrix `ad(x)`: `ad(x) y = bracket(x, y)`."""

    @abstractmethod
    def bracket(self, x: Float[Array, "*batch n"], y: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """The Lie bracket: `hat(bracket(x, y)) = hat(x) hat(y) - hat(y) hat(x)`."""

    @abstractmethod
    def dexp_left(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The left Jacobian `Σ_k ad(x)^k / (k + 1)!`: `d/dt exp(x) = hat(dexp_left(x) ẋ) exp(x)`."""

    @abstractmethod
    def dexp_left_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dexp_left(x)`, `Σ_k B_k ad(x)^k / k!` with Bernoulli numbers (`B_1 = -1/2`)."""

    def dexp_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The right Jacobian: `d/dt exp(x) = exp(x) hat(dexp_right(x) ẋ)`."""
        return self.dexp_left(-x)

    def dexp_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dexp_right(x)`."""
        return self.dexp_left_inverse(-x)
