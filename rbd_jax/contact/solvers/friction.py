"""Contacts with friction as one convex problem in the forces, with circular or elliptic cones or with pyramids.

    min ½ λᵀ A λ + bᵀ λ    with the force λ of each contact in its cone

The first entry of λ is along the normal. The others are two sliding directions, spinning, two rolling directions, or some of
these. `A = J M⁻¹ Jᵀ` is the inverse contact-space inertia, b the contact velocity (or acceleration) without forces, and `A λ + b`
that with forces. Sliding contacts also separate, with the friction coefficient times their speed (Anitescu and Hart, 2004); a
modified b can compensate this.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..._core.array import matmul, matvec, transpose, vecmat
from ...optimize.conic import Point, Problem, solve_conic
from ...optimize.outcome import Code
from .lcp import solve_lcp


class ContactForces(NamedTuple):
    """The force of each contact and the velocity `A λ + b`, along the normal and across it.

    If A is singular, the forces may not be unique; the velocity is. The code is `UNBOUNDED` if the problem has no solution
    because forces in the cones can grow without bound; `force` then contains their directions.
    """

    force: Float[Array, "k d"]
    velocity: Float[Array, "k d"]
    iterations: Int[Array, ""]
    code: Int[Array, ""]


def solve_cone(
    A: Float[Array, "n n"],
    b: Float[Array, "k d"],
    friction: Float[Array, "k t"],
    *,
    smoothing: float | Float[Array, ""] = 0.0,
    guess: Float[Array, "k d"] | None = None,
) -> ContactForces:
    """Solves for contact forces in friction cones `λ₀ ≥ √(Σ (λᵢ / μᵢ)²)`.

    The result is differentiable by all arguments of the problem, in forward and reverse mode and to any order. The derivative by
    a friction coefficient of zero is zero, because the direction of the friction force is not determined there.

    Args:
      A: Positive semidefinite matrix; its rows and columns are in the order of `b.reshape(-1)`.
      b: Velocity of each contact without forces.
      friction: Coefficient μ of each contact in each direction across the normal; zero for directions without friction.
      smoothing: The product of force and velocity of each contact; zero by default.
      guess: Forces that solve a similar problem; they reduce the number of iterations.

    Returns:
      The forces, velocities, number of iterations and code.

    >>> found = rbd.contact.solvers.solve_cone(jnp.eye(3), jnp.array([[-1.0, 2.0, 0.0]]), friction=jnp.array([[0.5, 0.5]]))
    >>> print(found.force, found.velocity)
    [[ 1.6 -0.8  0. ]] [[0.6 1.2 0. ]]
    """
    _check("solve_cone", A, b, friction)
    if not b.shape[0]:
        return _nothing(b)
    k, d = b.shape
    # Scaled by friction, each cone is circular: λ = scale u. Without friction the force is zero for any u.
    scale = _with_normal(friction)
    flat = scale.reshape(-1)
    p, q = flat[:, None] * A * flat[None, :], (scale * b).reshape(-1)
    g = -jnp.eye(k * d, dtype=b.dtype).reshape(k, d, k * d)
    problem = Problem(
        p, q, g, jnp.zeros_like(b), jnp.zeros((0, k * d), b.dtype), q[:0], jnp.asarray(smoothing, b.dtype)
    )
    near = None
    if guess is not None:
        u = jnp.where(scale > 0, guess / jnp.where(scale > 0, scale, 1), 0)
        z = (matvec(p, u.reshape(-1)) + q).reshape(k, d)
        near = Point(u.reshape(-1), u - z, q[:0])
    found = solve_conic(problem, near)
    force = scale * found.s
    return ContactForces(force, _velocity(A, b, force, found.code), found.iterations, found.code)


def solve_pyramid(
    A: Float[Array, "n n"],
    b: Float[Array, "k d"],
    friction: Float[Array, "k t"],
    *,
    smoothing: float | Float[Array, ""] = 0.0,
    guess: Float[Array, "k d"] | None = None,
) -> ContactForces:
    """Solves for contact forces in friction pyramids `λ₀ ≥ Σ |λᵢ| / μᵢ`, which lie inside the cones of `solve_cone`.

    Arguments and results are those of `solve_cone`. The unknowns are non-negative forces along the edges of the pyramids, so
    the problem is an LCP. (For Sueda's eqs. 1.83 and 1.88 to be consistent, eq. 1.84 must be `M Φ - Nᵀ α = f`.)

    >>> found = rbd.contact.solvers.solve_pyramid(jnp.eye(3), jnp.array([[-1.0, 2.0, 0.0]]), friction=jnp.array([[0.5, 0.5]]))
    >>> print(found.force, found.velocity)
    [[ 1.6 -0.8  0. ]] [[0.6 1.2 0. ]]
    """
    _check("solve_pyramid", A, b, friction)
    if not b.shape[0]:
        return _nothing(b)
    if not friction.shape[1]:
        return solve_cone(A, b, friction, smoothing=smoothing, guess=guess)
    edges = _edges(friction)
    k, e, d = edges.shape
    # Blocks for pairs of contacts, projected on the edges of both.
    of_pairs = A.reshape(k, d, k, d).transpose(0, 2, 1, 3)
    inner = matmul(matmul(edges[:, None], of_pairs), transpose(edges)[None]).transpose(0, 2, 1, 3)
    start = None
    if guess is not None:
        across = jnp.where(friction > 0, guess[:, 1:] / jnp.where(friction > 0, friction, 1), 0)
        each = jnp.maximum(jnp.concatenate([across, -across], axis=1), 0)
        rest = guess[:, 0] - jnp.sum(each, axis=1)
        start = (each + rest[:, None] / e).reshape(-1)
    inner, outer = inner.reshape(k * e, k * e), matvec(edges, b).reshape(-1)
    found = solve_lcp(inner, outer, smoothing=smoothing, guess=start)
    force = vecmat(found.force.reshape(k, e), edges)
    code = jnp.where(found.code == Code.INFEASIBLE, Code.UNBOUNDED, found.code).astype(jnp.int32)
    return ContactForces(force, _velocity(A, b, force, code), found.iterations, code)


def _edges(friction):
    """Returns the edges of the pyramids with unit normal parts: (k, 2 t, d)."""
    t = friction.shape[1]
    signs = jnp.concatenate([jnp.eye(t, dtype=friction.dtype), -jnp.eye(t, dtype=friction.dtype)])
    across = signs[None] * friction[:, None, :]
    return jnp.concatenate([jnp.ones((*across.shape[:2], 1), friction.dtype), across], axis=2)


def _with_normal(friction):
    return jnp.concatenate([jnp.ones((friction.shape[0], 1), friction.dtype), friction], axis=1)


def _velocity(A, b, force, code):
    """Returns the contact velocity, without b if the forces are only directions."""
    pushed = matvec(A, force.reshape(-1)).reshape(b.shape)
    return pushed + jnp.where(code == Code.UNBOUNDED, 0, b)


def _check(what: str, A, b, friction):
    k, d = b.shape
    if A.shape[0] != k * d:
        raise ValueError(f"{what}: {k} contacts of dimension {d} have {k * d} rows; A has {A.shape[0]}")
    if friction.shape != (k, d - 1):
        raise ValueError(
            f"{what}: friction must be {(k, d - 1)}, one less than b across; it is {friction.shape}"
        )


def _nothing(b) -> ContactForces:
    zero = jnp.zeros((), jnp.int32)
    return ContactForces(b, b, zero, zero + int(Code.SOLVED))
