"""What a Lie group is in this library: one set of names and conventions for all of them.

Elements are whatever represents them best (a matrix, a quaternion, a `Transform`, a tuple of those); vectors
of the Lie algebra are flat arrays of length `dim`. A group is an object without arrays, so that products and
groups with a dimension can be groups too. All methods take leading axes, the same on all arguments.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .._array import matvec


class Group(eqx.Module):
    """A Lie group, with two maps from its algebra and the derivatives of those (Müller & Terze 2013).

    `exp` is the exponential map. `cayley` is the rational map `(I - X/2)⁻¹ (I + X/2)` of the matrices `X = hat(x)`,
    which is cheaper and agrees with it to second order. "Left" and "right" tell on which side of an element a small
    change of its vector shows:

        exp(x + δ) = exp(dexp_left(x) δ) exp(x) + O(δ²) = exp(x) exp(dexp_right(x) δ) + O(δ²)

    so `dexp_left` gives velocities in the fixed frame and `dexp_right` in the moving one. `dcay_left` and
    `dcay_right` are the same of `cayley`.
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

    def dexp_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The right Jacobian: `d/dt exp(x) = exp(x) hat(dexp_right(x) ẋ)`."""
        return self.dexp_left(-x)

    def dexp_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dexp_right(x)`."""
        return self.dexp_left_inverse(-x)

    def dcay_right(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The right derivative of the Cayley map: `d/dt cayley(x) = cayley(x) hat(dcay_right(x) ẋ)`."""
        return self.dcay_left(-x)

    def dcay_right_inverse(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """The inverse of `dcay_right(x)`."""
        return self.dcay_left_inverse(-x)
