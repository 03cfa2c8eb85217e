"""Products of k second-order cones `K = {u: u₀ ≥ |u₁|}` of dimension d, as arrays (k, d); `u ≥ 0` if d = 1.

`u ∘ v = (uᵀv, u₀ v₁ + v₀ u₁)`, with the unit `e = (1, 0)`. Interior means `u₀ > |u₁|`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import dot


class Scaling(NamedTuple):
    """The Nesterov-Todd scaling: the symmetric `W = η [[w₀, w₁ᵀ], [w₁, 1 + w₁ w₁ᵀ / (1 + w₀)]]` with `W z = W⁻¹ s`."""

    size: Float[Array, "k"]
    point: Float[Array, "k d"]

    def apply(self, u):
        """Returns `W u` for an array (k, d, ...)."""
        return self._stretched(u, self.point, self.size)

    def apply_inverse(self, u):
        """Returns `W⁻¹ u` for an array (k, d, ...)."""
        return self._stretched(u, _mirrored(self.point), 1 / self.size)

    @staticmethod
    def _stretched(u, point, size):
        more = (1,) * (u.ndim - 2)
        size, first, rest = (
            size.reshape(-1, *more),
            point[:, 0].reshape(-1, *more),
            point[:, 1:].reshape(*point[:, 1:].shape, *more),
        )
        across = jnp.sum(rest * u[:, 1:], axis=1)
        along = first * u[:, 0] + across
        turned = u[:, 1:] + rest * (u[:, 0] + across / (1 + first))[:, None]
        return size[:, None] * jnp.concatenate([along[:, None], turned], axis=1)


def scaling(s: Float[Array, "k d"], z: Float[Array, "k d"]) -> Scaling:
    """Returns the scaling of two interior points."""
    size_s, size_z = determinant_root(s), determinant_root(z)
    s, z = s / size_s[:, None], z / size_z[:, None]
    middle = jnp.sqrt((1 + dot(s, z)) / 2)
    point = (s + _mirrored(z)) / (2 * middle[:, None])
    # Recompute w₀ so that the determinant is exactly one.
    rest = point[:, 1:]
    point = jnp.concatenate([jnp.sqrt(1 + dot(rest, rest))[:, None], rest], axis=1)
    return Scaling(jnp.sqrt(size_s / size_z), point)


def determinant_root(u: Float[Array, "k d"]) -> Float[Array, "k"]:
    """Returns `√(u₀² - |u₁|²)`."""
    rest = _norm(u[:, 1:])
    return jnp.sqrt((u[:, 0] - rest) * (u[:, 0] + rest))


def product(u: Float[Array, "k d"], v: Float[Array, "k d"]) -> Float[Array, "k d"]:
    """Returns `u ∘ v`."""
    return jnp.concatenate([dot(u, v)[:, None], u[:, :1] * v[:, 1:] + v[:, :1] * u[:, 1:]], axis=1)


def quotient(u: Float[Array, "k d"], v: Float[Array, "k d"]) -> Float[Array, "k d"]:
    """Returns the w with `u ∘ w = v`, for an interior u."""
    determinant = determinant_root(u) ** 2
    first = (u[:, 0] * v[:, 0] - dot(u[:, 1:], v[:, 1:])) / determinant
    return jnp.concatenate([first[:, None], (v[:, 1:] - first[:, None] * u[:, 1:]) / u[:, :1]], axis=1)


def unit(like: Float[Array, "k d"]) -> Float[Array, "k d"]:
    """Returns `e` of each cone."""
    return jnp.zeros_like(like) + (jnp.arange(like.shape[1]) == 0).astype(like.dtype)[None, :]


def reach(u: Float[Array, "k d"], du: Float[Array, "k d"]) -> Float[Array, ""]:
    """Returns the multiple of the step du at which interior points u reach the boundary."""
    size = determinant_root(u)[:, None]
    u, du = u / size, du / size
    along = u[:, 0] * du[:, 0] - dot(u[:, 1:], du[:, 1:])
    across = du[:, 1:] - ((along + du[:, 0]) / (u[:, 0] + 1))[:, None] * u[:, 1:]
    inward = jnp.max(_norm(across) - along, initial=0)
    return jnp.where(inward > 0, 1 / jnp.where(inward > 0, inward, 1), jnp.inf)


def positive_part(w: Float[Array, "k d"], smoothing: Float[Array, ""]) -> Float[Array, "k d"]:
    """Returns the s in K with `s - z = w` and `s ∘ z = κ e`.

    If the smoothing κ is 0, s is the projection of w onto K. The function is differentiable in both arguments, to all orders
    if κ > 0. At the kinks of κ = 0 the derivative is the mean of the two one-sided derivatives.
    """
    square, rest = w[:, 0] ** 2, dot(w[:, 1:], w[:, 1:])
    # The sum of `√(l² + 4 κ)` over the eigenvalues `l = w₀ ± |w₁|`.
    if w.shape[1] == 1:
        total = 2 * _root(square + 4 * smoothing)
    else:
        inner = (square - rest) ** 2 + 8 * smoothing * (square + rest) + 16 * smoothing**2
        total = _root(2 * (square + rest + 4 * smoothing) + 2 * _root(inner))
    share = 0.5 + w[:, 0] / jnp.where(total > 0, total, 1)
    return jnp.concatenate([(w[:, 0] / 2 + total / 4)[:, None], share[:, None] * w[:, 1:]], axis=1)


def _mirrored(u):
    return jnp.concatenate([u[:, :1], -u[:, 1:]], axis=1)


def _norm(u):
    return _root(dot(u, u))


def _root(x):
    """Returns the square root, with derivative zero at zero."""
    there = x > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, x, 1)), 0)
