"""The interface of the methods for the equations of constrained motion, and the rank tolerance."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class Factors(eqx.Module):
    """The factorization of the equations of a model in a configuration."""

    @property
    @abc.abstractmethod
    def rank(self) -> Int[Array, ""]:
        """The number of independent rows of G."""

    @abc.abstractmethod
    def onto(self, k: Float[Array, "m"]) -> Float[Array, "m"]:
        """The orthogonal projection of k onto the range of G."""

    @abc.abstractmethod
    def motion(self, f: Float[Array, "nv"], k: Float[Array, "m"]) -> tuple[Array, Array]:
        """Returns `(a, λ)` with `M a - Gᵀ λ = f` and `G a = k`, for k in the range of G; λ has least norm."""


def rank_tolerance(size: int, dtype) -> float:
    """Returns the fraction of the largest eigenvalue of `G M⁻¹ Gᵀ` below which an eigenvalue counts as zero.

    Eigenvalues are squares of the distance of rows from dependence: in double precision, rows closer than about 1e-5 rad to
    dependence count as dependent.
    """
    return max(size, 1) * float(jnp.finfo(dtype).eps) ** (2 / 3)


def pseudo_inverse(matrix: Float[Array, "m n"]) -> Float[Array, "n m"]:
    """Returns the pseudo-inverse; its derivative assumes constant rank and needs no singular vectors."""
    tolerance = rank_tolerance(max(matrix.shape), matrix.dtype) ** 0.5
    # A NumPy scalar: `pinv` stores it for its derivative, and a JAX scalar would be a leaked tracer in a loop.
    return jnp.linalg.pinv(matrix, rtol=np.asarray(tolerance, matrix.dtype))
