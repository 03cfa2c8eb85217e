"""The public functions of the linear-quadratic regulator, with finite and infinite horizon."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import instance, number
from .._core.array import matmul, transpose
from .._core.jit import compiled
from .lqr import LinearQuadratic, Policy, followed, in_common, riccati
from .parallel_lqr import Stretch, joined, parallel_followed, parallel_riccati


def lqr(problem: LinearQuadratic, *, parallel: bool = False) -> Policy:
    """Returns the optimal feedback `u_k = k_k + K_k x_k` of a linear-quadratic problem, and the value of each stage.

    The result is differentiable with respect to all data of the problem.

    Args:
      problem: The problem.
      parallel: If True, processes all stages in parallel by an associative scan, instead of sequentially by Riccati's
        recursion: for long horizons on a GPU. The scan requires `R + Bᵀ Q⁺ B` to be positive definite, with Q⁺ the cost of
        the next state. The recursion requires that only with the complete remaining cost in place of Q⁺.

    Returns:
      A `Policy`. Its `positive` is False if no minimum exists.

    >>> A, B = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[0.0], [0.1]])
    >>> problem = rbd.control.LinearQuadratic(A, B, Q=0.1 * jnp.eye(2), R=0.1 * jnp.eye(1), steps=100)
    >>> policy = rbd.control.lqr(problem)
    >>> x, u = rbd.control.lqr_rollout(problem, policy, jnp.array([1.0, 0.0]))
    >>> print(policy.K[0], u[0])
    [[-0.917 -1.682]] [-0.917]
    """
    instance("control.lqr", "problem", problem, LinearQuadratic, "a control.LinearQuadratic")
    return _parallel(problem) if parallel else _sequential(problem)


def lqr_rollout(
    problem: LinearQuadratic, policy: Policy, start: Any, *, parallel: bool = False
) -> tuple[Float[Array, "M nx"], Float[Array, "N nu"]]:
    """Returns the states, including the first, and the controls under the feedback of `lqr`.

    Args:
      problem: The problem.
      policy: The result of `lqr`.
      start: The first state, (nx,).
      parallel: As for `lqr`.

    >>> A, B = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[0.0], [0.1]])
    >>> problem = rbd.control.LinearQuadratic(A, B, Q=jnp.eye(2), R=jnp.eye(1), steps=100)
    >>> x, u = rbd.control.lqr_rollout(problem, rbd.control.lqr(problem), jnp.array([1.0, 0.0]))
    >>> print(x[::25, 0])
    [ 1.     0.236  0.004 -0.003  0.   ]
    """
    instance("control.lqr_rollout", "problem", problem, LinearQuadratic, "a control.LinearQuadratic")
    instance("control.lqr_rollout", "policy", policy, Policy, "what control.lqr returned")
    shape, dtype = problem.q.shape[1:], problem.q.dtype
    start = number("control.lqr_rollout", "start", start, shape, dtype=dtype)
    return _in_parallel(problem, policy, start) if parallel else _one_by_one(problem, policy, start)


def lqr_gain(
    A: Any, B: Any, Q: Any, R: Any, S: Any = None
) -> tuple[Float[Array, "nu nx"], Float[Array, "nx nx"]]:
    """Returns the optimal feedback `u = K x` for an infinite horizon, and the matrix P of its cost, `½ xᵀ P x`.

        minimize    Σ ½ xᵀ Q x + uᵀ S x + ½ uᵀ R u,    x⁺ = A x + B u

    P solves the discrete Riccati equation. The method doubles the horizon up to 2²⁵ steps (Chu, Fan, Lin & Wang 2004), and
    is differentiable with respect to all arguments. R must be positive definite, A and B stabilizable, and unstable modes
    must have a cost. Otherwise the result is not finite, or does not stabilize.

    Args:
      A, B: (nx, nx) and (nx, nu), for example from `rbd.step_derivatives`.
      Q, R, S: (nx, nx), (nu, nu) and (nu, nx); S is zero by default.

    Returns:
      K (nu, nx) and P (nx, nx).

    >>> model = rbd.load("pendulum")
    >>> upright = rbd.State(jnp.array([jnp.pi]), jnp.zeros(1))
    >>> A, B = rbd.step_derivatives(model, upright, dt=0.01)
    >>> K, P = rbd.control.lqr_gain(A, B, Q=jnp.eye(2), R=jnp.eye(1))
    >>> print(jnp.abs(jnp.linalg.eigvals(A + B @ K)) < 1)
    [ True  True]
    """
    A, B, Q, R, S = in_common("control.lqr_gain", A=A, B=B, Q=Q, R=R, S=S)
    return _without_end(A, B, Q, R, S)


@compiled
def _sequential(problem: LinearQuadratic):
    return riccati(problem)


@compiled
def _parallel(problem: LinearQuadratic):
    return parallel_riccati(problem)


@compiled
def _one_by_one(problem: LinearQuadratic, policy: Policy, start):
    return followed(problem, policy, start)


@compiled
def _in_parallel(problem: LinearQuadratic, policy: Policy, start):
    return parallel_followed(problem, policy, start)


#: Number of doublings of the horizon.
DOUBLINGS = 25


@compiled
def _without_end(A, B, Q, R, S):
    through = jnp.linalg.solve(R, jnp.concatenate([S, transpose(B)], axis=1))
    RS, RB = through[:, : len(A)], through[:, len(A) :]
    nothing = jnp.zeros(len(A), A.dtype)
    once = Stretch(A - matmul(B, RS), nothing, matmul(B, RB), nothing, Q - matmul(transpose(S), RS))
    P = lax.scan(lambda stretch, _: (joined(stretch, stretch), None), once, None, length=DOUBLINGS)[0].J
    BP = matmul(transpose(B), P)
    return -jnp.linalg.solve(R + matmul(BP, B), S + matmul(BP, A)), P
