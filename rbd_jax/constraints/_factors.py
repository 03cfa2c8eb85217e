"""What every way to solve the equations of constrained motion offers, and when a row counts as dependent on others."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class Factors(eqx.Module):
    """What a method knows of a model in a configuration, before it is asked to solve."""

    @property
    @abc.abstractmethod
    def rank(self) -> Int[Array, ""]:
        """The number of independent rows of G."""

    @abc.abstractmethod
    def onto(self, k: Float[Array, "m"]) -> Float[Array, "m"]:
        """The orthogonal projection of k onto the range of G."""

    @abc.abstractmethod
    def motion(self, f: Float[Array, "nv"], k: Float[Array, "m"]) -> tuple[Array, Array]:
        """`(a, λ)` with `M a - Gᵀ λ = f` and `G a = k`, for a k in the range of G; of the possible λ that of least norm."""


def rank_tolerance(size: int, dtype) -> float:
    """The share of the largest eigenvalue of `G M⁻¹ Gᵀ` below which an eigenvalue counts as zero.

    Eigenvalues are squares of what tells rows apart: in double precision, rows closer than about 1e-5 rad to dependence are
    dependent.
    """
    return max(size, 1) * float(jnp.finfo(dtype).eps) ** (2 / 3)


def pseudo_inverse(matrix: Float[Array, "m n"]) -> Float[Array, "n m"]:
    """The inverse of what has rank; its derivative is that of the same rank, and free of singular vectors."""
    tolerance = rank_tolerance(max(matrix.shape), matrix.dtype) ** 0.5
    # A number of numpy: `pinv` keeps it for its derivative, and one of jax would be a leaked tracer in a loop.
    return jnp.linalg.pinv(matrix, rtol=np.asarray(tolerance, matrix.dtype))
