"""Failures in a compiled loop, which cannot raise: the first one is stored, and later results are NaN."""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .derivatives import custom_jvp


T = TypeVar("T")


class Failure(eqx.Module):
    """The code of the first failed step and its number; 0 and -1 without a failure. Zero is success."""

    code: Int[Array, ""]
    step: Int[Array, ""]

    @staticmethod
    def none() -> Failure:
        return Failure(jnp.int32(0), jnp.int32(-1))

    @property
    def happened(self) -> Bool[Array, ""]:
        return self.code != 0

    def noted(self, code, step) -> Failure:
        """Returns the failure after one more step, which ended with this code."""
        first = ~self.happened & (code != 0)
        code = first_failure(self.code, code).astype(self.code.dtype)
        return Failure(code, jnp.where(first, step.astype(self.step.dtype), self.step))

    def or_else(self, other: Failure) -> Failure:
        """Returns this failure if it happened, else the other."""
        return jax.tree.map(lambda a, b: jnp.where(self.happened, a, b), self, other)


def first_failure(*codes: Int[Array, "*batch"] | np.int32) -> Int[Array, "*batch"]:
    """Returns the first nonzero code.

    >>> print(rbd.simulate.first_failure(jnp.array([0, 0, 2]), jnp.array([0, 1, 1])))
    [0 1 2]
    """
    first = jnp.asarray(codes[0])
    for code in codes[1:]:
        first = jnp.where(first == 0, code, first)
    return first


def lost(rows: T, where: Bool[Array, "rows"]) -> T:
    """Returns a PyTree of rows with NaN at the flagged rows, whose derivatives are infinite unless multiplied by zero."""
    return jax.tree.map(lambda x: _lost(where.reshape(-1, *(1,) * (x.ndim - 1)), x), rows)


@custom_jvp
def _lost(where: Bool[Array, "rows *ones"], x: Float[Array, "rows *shape"]):
    return jnp.where(where, jnp.nan, x)


@_lost.defjvp
def _lost_rule(primals, tangents):
    where, x = primals
    # Infinity times zero would be NaN; the largest number, applied twice, keeps zero.
    large = jnp.where(where, jnp.finfo(x.dtype).max, 1).astype(x.dtype)
    return _lost(where, x), tangents[1] * large * large
