"""The linear-quadratic regulator: what solvers of optimal control solve in each iteration, and a public function of its own.

    minimize    Σ ½ [x; u]ᵀ [Q Sᵀ; S R] [x; u] + qᵀ x + rᵀ u  +  ½ x_Nᵀ Q_N x_N + q_Nᵀ x_N
    subject to  x_{k+1} = A x_k + B u_k + c

By Riccati's recursion from the end, `V_k(x) = ½ xᵀ P_k x + p_kᵀ x`, and a pass forward.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .._array import matmul, matvec, transpose, vecmat


class LinearQuadratic(eqx.Module):
    """The numbers of a linear-quadratic problem of N steps.

    - `A`, `B`, `c`: (N, nx, nx), (N, nx, nu), (N, nx).
    - `Q`, `q`: (N + 1, nx, nx), (N + 1, nx); the last rows are of the end.
    - `R`, `S`, `r`: (N, nu, nu), (N, nu, nx), (N, nu).
    """

    A: Float[Array, "N nx nx"]
    B: Float[Array, "N nx nu"]
    c: Float[Array, "N nx"]
    Q: Float[Array, "M nx nx"]
    q: Float[Array, "M nx"]
    R: Float[Array, "N nu nu"]
    S: Float[Array, "N nu nx"]
    r: Float[Array, "N nu"]


class Policy(eqx.Module):
    """The solution of a linear-quadratic problem as a feedback, `u_k = k_k + K_k x_k`, and the value of each stage.

    - `K`, `k`: (N, nu, nx), (N, nu).
    - `P`, `p`: (N + 1, nx, nx), (N + 1, nx).
    - `positive`: whether the second derivative by the control of every stage was positive definite; if not, there is no minimum.
    """

    K: Float[Array, "N nu nx"]
    k: Float[Array, "N nu"]
    P: Float[Array, "M nx nx"]
    p: Float[Array, "M nx"]
    positive: Bool[Array, ""]


def riccati(problem: LinearQuadratic) -> Policy:
    """The feedback of least cost, stage by stage from the end."""

    def back(value, stage):
        P, p = value
        A, B, c, Q, q, R, S, r = stage
        ahead = p + matvec(P, c)
        PA, PB = matmul(P, A), matmul(P, B)
        uu, ux, u = R + matmul(transpose(B), PB), S + matmul(transpose(B), PA), r + vecmat(ahead, B)
        factor = jnp.linalg.cholesky(uu)
        solved = -jax.scipy.linalg.cho_solve((factor, True), jnp.concatenate([ux, u[:, None]], axis=1))
        K, k = solved[:, :-1], solved[:, -1]
        P = Q + matmul(transpose(A), PA) + matmul(transpose(ux), K)
        p = q + vecmat(ahead, A) + vecmat(k, ux)
        P = 0.5 * (P + transpose(P))
        return (P, p), (K, k, P, p, jnp.all(jnp.isfinite(factor)))

    stages = (
        problem.A,
        problem.B,
        problem.c,
        problem.Q[:-1],
        problem.q[:-1],
        problem.R,
        problem.S,
        problem.r,
    )
    end = problem.Q[-1], problem.q[-1]
    _, (K, k, P, p, positive) = lax.scan(back, end, stages, reverse=True)
    append = lambda rows, last: jnp.concatenate([rows, last[None]])
    return Policy(K, k, append(P, end[0]), append(p, end[1]), jnp.all(positive))


def followed(
    problem: LinearQuadratic, policy: Policy, start: Float[Array, "nx"]
) -> tuple[Float[Array, "M nx"], Float[Array, "N nu"]]:
    """States and controls under a feedback, from a first state."""

    def ahead(x, stage):
        A, B, c, K, k = stage
        u = k + matvec(K, x)
        return matvec(A, x) + matvec(B, u) + c, (x, u)

    stages = (problem.A, problem.B, problem.c, policy.K, policy.k)
    end, (x, u) = lax.scan(ahead, start, stages)
    return jnp.concatenate([x, end[None]]), u
