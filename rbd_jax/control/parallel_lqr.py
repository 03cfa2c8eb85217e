"""Riccati's recursion as an associative scan, after Särkkä & García-Fernández (2022), for long horizons on many cores.

The cost of the motion from one knot to a later knot is a function of both ends,

    V(x, y) = max_λ  ½ xᵀ J x - ηᵀ x - ½ λᵀ C λ - λᵀ (y - A x - b),

and two consecutive segments combine to one of the same form. The segments from all knots to the end, and the states under
the resulting feedback, have a sequential depth logarithmic in the number of steps. The total work is a few times that of the
recursion.

The cost of a knot counts with the step that ends there. A step's control therefore needs a cost only as far as the next
state has none: `R + Bᵀ Q⁺ B` must be positive definite.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._core.array import identity_like, matmul, matvec, transpose, vecmat
from .lqr import LinearQuadratic, Policy


class Stretch(NamedTuple):
    """The cost of the motion along a segment between two knots, see above; one row for each segment."""

    A: Float[Array, "rows nx nx"]
    b: Float[Array, "rows nx"]
    C: Float[Array, "rows nx nx"]
    eta: Float[Array, "rows nx"]
    J: Float[Array, "rows nx nx"]


def joined(first: Stretch, second: Stretch) -> Stretch:
    """Returns two consecutive segments as one."""
    both = identity_like(first.C) + matmul(first.C, second.J)
    columns = jnp.concatenate([first.A, (first.b + matvec(first.C, second.eta))[..., None], first.C], axis=-1)
    through = jnp.linalg.solve(both, columns)
    nx = first.b.shape[-1]
    A, b, C = through[..., :nx], through[..., nx], through[..., nx + 1 :]
    # (I + J C)⁻¹ (η - J b) = η - J (I + C J)⁻¹ (b + C η)
    eta = second.eta - matvec(second.J, b)
    return Stretch(
        matmul(second.A, A),
        matvec(second.A, b) + second.b,
        _symmetric(matmul(matmul(second.A, C), transpose(second.A)) + second.C),
        vecmat(eta, first.A) + first.eta,
        _symmetric(matmul(transpose(first.A), matmul(second.J, A)) + first.J),
    )


def stretches(problem: LinearQuadratic) -> tuple[Stretch, Array]:
    """Returns the segments of all steps, and whether each has a minimizing control.

    Each segment includes the cost of the knot at its end, but not at its start.
    """
    A, B, c = problem.A, problem.B, problem.c
    ahead = problem.Q[1:]
    at_c = problem.q[1:] + matvec(ahead, c)
    BQ, AQ = matmul(transpose(B), ahead), matmul(transpose(A), ahead)
    R, S, r = problem.R + matmul(BQ, B), problem.S + matmul(BQ, A), problem.r + vecmat(at_c, B)
    factor = jnp.linalg.cholesky(R)
    nx = A.shape[-1]
    through = _solved(factor, jnp.concatenate([S, r[..., None], transpose(B)], axis=-1))
    RS, Rr, RB = through[..., :nx], through[..., nx], through[..., nx + 1 :]
    return Stretch(
        A - matmul(B, RS),
        c - matvec(B, Rr),
        _symmetric(matmul(B, RB)),
        vecmat(r, RS) - vecmat(at_c, A),
        _symmetric(matmul(AQ, A) - matmul(transpose(S), RS)),
    ), jnp.all(jnp.isfinite(factor), axis=(-2, -1))


def parallel_riccati(problem: LinearQuadratic) -> Policy:
    """Returns the optimal feedback of `riccati`, for all stages in parallel."""
    A, B, c, nx = problem.A, problem.B, problem.c, problem.A.shape[-1]
    steps, positive = stretches(problem)
    to_end = lax.associative_scan(lambda later, earlier: joined(earlier, later), steps, reverse=True)
    zero = jnp.zeros_like(problem.q[:1])
    P = problem.Q + jnp.concatenate([to_end.J, jnp.zeros_like(problem.Q[:1])])
    p = problem.q - jnp.concatenate([to_end.eta, zero])
    ahead = p[1:] + matvec(P[1:], c)
    BP = matmul(transpose(B), P[1:])
    factor = jnp.linalg.cholesky(problem.R + matmul(BP, B))
    ux, u = problem.S + matmul(BP, A), problem.r + vecmat(ahead, B)
    both = -_solved(factor, jnp.concatenate([ux, u[..., None]], axis=-1))
    positive = jnp.all(positive) & jnp.all(jnp.isfinite(factor))
    return Policy(both[..., :nx], both[..., nx], P, p, positive)


def parallel_followed(
    problem: LinearQuadratic, policy: Policy, start: Float[Array, "nx"]
) -> tuple[Float[Array, "M nx"], Float[Array, "N nu"]]:
    """Returns states and controls under a feedback, as `followed` does, for all stages in parallel."""
    closed = problem.A + matmul(problem.B, policy.K), problem.c + matvec(problem.B, policy.k)

    def one_after(first, second):
        return matmul(second[0], first[0]), matvec(second[0], first[1]) + second[1]

    through, offset = lax.associative_scan(one_after, closed)
    x = jnp.concatenate([start[None], matvec(through, start[None]) + offset])
    return x, policy.k + matvec(policy.K, x[:-1])


def _solved(factor, columns):
    """Returns `(L Lᵀ)⁻¹ X`."""
    half = lax.linalg.triangular_solve(factor, columns, left_side=True, lower=True)
    return lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)


def _symmetric(matrix):
    return 0.5 * (matrix + transpose(matrix))
