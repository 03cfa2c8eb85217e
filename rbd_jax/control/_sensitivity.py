"""Derivatives of a solution of inverse kinematics with respect to its inputs, by the implicit function theorem.

Entries at a limit stay there, and active constraints stay active. If targets are reached, their rows stay zero. Otherwise
the derivative of the Lagrangian stays zero, including second derivatives. Undetermined directions do not move.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.array import matmul, matvec, transpose, vecmat
from ..optimize.newton import solve_redundant
from ._configurations import At, Local, Rows, weights


class Changes:
    """A configuration, and the change of its linearization with the inputs at a fixed configuration."""

    def __init__(self, at: At, local: Local, by: Local, rows: Rows, tolerance: Float[Array, ""]):
        self.at, self.local, self.by, self.rows = at, local, by, rows
        low, high = local.low, local.high
        upper = local.r > 0.5 * (low + high)
        upper = jnp.where(jnp.isinf(low), True, jnp.where(jnp.isinf(high), False, upper))
        near = (local.r <= low + 10 * tolerance) | (local.r >= high - 10 * tolerance)
        end = jnp.where(upper, by.high, by.low)
        count = len(local.r)
        whose = lambda part: jnp.zeros(count, bool).at[part].set(True)
        #: The rows of targets, and the rows of constraints that are active.
        self.targets = whose(rows.targets) & (local.weight > 0)
        self.constraints = whose(rows.constraints) & near
        #: The change of each held row at a fixed configuration.
        self.missing = by.r - jnp.where(self.constraints, end, 0)
        self.stuck = (local.least >= 0) | (local.most <= 0)
        self.given = jnp.where(local.least >= 0, by.least, by.most)

    def reached(self) -> Float[Array, "nv"]:
        """Returns the least change that keeps targets reached, constraints satisfied, and entries at limits there."""
        held = self.targets | self.constraints
        jacobian = jnp.where(held[:, None], self.local.jacobian, 0)
        own = jnp.where(self.stuck, self.given, 0)
        missing = jnp.where(held, self.missing, 0) + matvec(jacobian, own)
        free = jnp.where(self.stuck[None, :], 0, jacobian)
        return own - matvec(_pseudo_inverse(free), missing)

    def least(self, reached: Bool[Array, ""]) -> Float[Array, "nv"]:
        """Returns the change that keeps the weighted squares at their minimum, and held rows held."""
        local, by, n = self.local, self.by, len(self.stuck)
        held = self.constraints | (self.targets & reached)
        weight, turned = jax.jvp(
            lambda weight: weights(local._replace(weight=weight), self.rows, reached),
            (local.weight,),
            (by.weight,),
        )
        holding = jnp.where(held[:, None], local.jacobian, 0)
        free = ~self.stuck
        pull = weight * local.r
        # Multipliers of the held rows, from the balance along free directions.
        against = jnp.where(free, vecmat(pull, local.jacobian), 0)
        multiplier = -vecmat(against, _pseudo_inverse(jnp.where(free[None, :], holding, 0)))
        force = lax.stop_gradient(pull + jnp.where(held, multiplier, 0))
        still = jnp.zeros_like(local.least)
        bent = jax.jacfwd(lambda step: vecmat(force, self.at(local.q, step).jacobian))(still)
        squares = matmul(transpose(local.jacobian), weight[:, None] * local.jacobian)
        curvature = squares + 0.5 * (bent + transpose(bent))
        slope = vecmat(force, by.jacobian) + vecmat(weight * by.r + turned * local.r, local.jacobian)
        own = jnp.where(self.stuck, self.given, 0)
        slope = jnp.where(free, slope + matvec(curvature, own), 0)
        both = free[:, None] & free[None, :]
        inner = jnp.where(both, curvature, jnp.where(np.eye(n, dtype=bool), jnp.ones_like(curvature), 0))
        sides = jnp.where(free[None, :], holding, 0)
        corner = jnp.zeros((len(held), len(held)), own.dtype)
        matrix = jnp.block([[inner, transpose(sides)], [sides, corner]])
        missing = jnp.where(held, self.missing, 0) + matvec(holding, own)
        return own + solve_redundant(matrix, -jnp.concatenate([slope, missing]))[:n]

    def change(self, reached: Bool[Array, ""]) -> Float[Array, "nv"]:
        """Returns the change of the configuration, along the tangent space."""
        if self.rows.secondary.start < self.rows.secondary.stop:
            return self.least(reached)
        return lax.cond(reached, self.reached, lambda: self.least(reached))


def _pseudo_inverse(matrix: Float[Array, "m n"]) -> Float[Array, "n m"]:
    return jnp.linalg.pinv(
        matrix, rtol=jnp.asarray(float(jnp.finfo(matrix.dtype).eps) ** (2 / 3), matrix.dtype)
    )
