"""Contacts with friction as one convex problem in the forces: circular or elliptic cones, or pyramids.

    min ½ λᵀ A λ + bᵀ λ    with the force λ of each contact in its cone

λ is along the normal, then across it: two directions of sliding, spinning, two of rolling, or some of these. A is the inverse
of the inertia that forces find at the contacts, `J M⁻¹ Jᵀ`, b the velocity (or acceleration) there without forces, and `A λ + b`
that with them. What slides parts as well, by the friction coefficient times its speed (Anitescu and Hart, 2004); b can
take this back.
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

    Where A is singular forces may not be unique; the velocity is. The code is `UNBOUNDED` where forces within their cones can
    push against each other without end and would have to; `force` then has their directions.
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
    """With `λ₀ ≥ √(Σ (λᵢ / μᵢ)²)` for each contact, μ its `friction` in each direction across; zero where it has none.

    Differentiable by all of the problem, in both modes and to any order. The derivative by friction that is zero is zero: where
    the force across would point is not determined.

    **Arguments**

    - `A`: positive semidefinite, its rows and columns in the order of `b.reshape(-1)`.
    - `smoothing`: the product of force and velocity of each contact, zero by default.
    - `guess`: forces that solve a problem nearby, from which this one takes fewer steps.

    >>> found = rbd.contact.solvers.solve_cone(jnp.eye(3), jnp.array([[-1.0, 2.0, 0.0]]), friction=jnp.array([[0.5, 0.5]]))
    >>> print(found.force, found.velocity)
    [[ 1.6 -0.8  0. ]] [[0.6 1.2 0. ]]
    """
    _check("solve_cone", A, b, friction)
    if not b.shape[0]:
        return _nothing(b)
    k, d = b.shape
    # In units of friction each cone is round: λ = scale u. What has no friction has no force there, whatever u is.
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
    """With `λ₀ ≥ Σ |λᵢ| / μᵢ` for each contact: as `solve_cone`, with pyramids inside its cones.

    The forces are sums of those along the edges, which are not negative: an LCP. (Sueda's eq. 1.84 must be
    `M Φ - Nᵀ α = f` for eqs. 1.83 and 1.88 to be what it says.)

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
    # Of each pair of contacts, between the edges of the one and those of the other.
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
    """The edges of the pyramids, each as long as its normal part is one: (k, 2 t, d)."""
    t = friction.shape[1]
    signs = jnp.concatenate([jnp.eye(t, dtype=friction.dtype), -jnp.eye(t, dtype=friction.dtype)])
    across = signs[None] * friction[:, None, :]
    return jnp.concatenate([jnp.ones((*across.shape[:2], 1), friction.dtype), across], axis=2)


def _with_normal(friction):
    return jnp.concatenate([jnp.ones((friction.shape[0], 1), friction.dtype), friction], axis=1)


def _velocity(A, b, force, code):
    """Without b where the forces are but directions."""
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
