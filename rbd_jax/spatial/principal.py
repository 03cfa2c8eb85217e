"""The principal axes of a symmetric matrix, differentiable also where two eigenvalues are equal."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import matmul, transpose
from .._core.derivatives import custom_jvp


@custom_jvp
def principal_axes(matrix: Float[Array, "3 3"]) -> tuple[Float[Array, "3"], Float[Array, "3 3"]]:
    """Returns the eigenvalues of a symmetric matrix in ascending order, and its axes as the columns of a rotation.

    The largest component of the first two axes is positive. For equal eigenvalues the axes are an arbitrary choice in their
    plane, and their derivative within that plane is zero.
    """
    values, axes = jnp.linalg.eigh(matrix)
    largest = jnp.take_along_axis(axes, jnp.argmax(jnp.abs(axes), axis=0)[None], axis=0)
    first, second, _ = (jnp.where(largest < 0, -axes, axes)).T
    return values, jnp.stack([first, second, jnp.cross(first, second)], axis=1)


@principal_axes.defjvp
def _rule(primals, tangents):
    values, axes = principal_axes(*primals)
    seen = matmul(transpose(axes), matmul(tangents[0], axes))
    gaps = values[None, :] - values[:, None]
    equal = jnp.abs(gaps) <= 64 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
    turning = jnp.where(equal, 0, seen / jnp.where(equal, 1, gaps))
    return (values, axes), (jnp.diagonal(seen), matmul(axes, turning))
