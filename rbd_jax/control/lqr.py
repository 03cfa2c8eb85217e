"""The linear-quadratic regulator: the subproblem of optimal-control solvers, and a public function.

    minimize    Σ ½ [x; u]ᵀ [Q Sᵀ; S R] [x; u] + qᵀ x + rᵀ u  +  ½ x_Nᵀ Q_N x_N + q_Nᵀ x_N
    subject to  x_{k+1} = A x_k + B u_k + c

The solution uses Riccati's recursion from the end, `V_k(x) = ½ xᵀ P_k x + p_kᵀ x`, and a forward pass.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.array import floating, matmul, matvec, transpose, vecmat


class LinearQuadratic(eqx.Module):
    """The data of a linear-quadratic problem of N steps.

    - `A`, `B`, `c`: of the steps, (N, nx, nx), (N, nx, nu), (N, nx).
    - `Q`, `q`: of the states, (N + 1, nx, nx), (N + 1, nx); the last rows are of the end.
    - `R`, `S`, `r`: of the controls, (N, nu, nu), (N, nu, nx), (N, nu).

    Each may be given without its first axis if it is the same for all steps; `steps` is then their number. Omitted data are
    zero. `end` replaces the last Q.

    >>> A, B = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[0.0], [0.1]])
    >>> problem = rbd.control.LinearQuadratic(A, B, Q=jnp.eye(2), R=jnp.eye(1), end=10 * jnp.eye(2), steps=100)
    """

    A: Float[Array, "N nx nx"]
    B: Float[Array, "N nx nu"]
    c: Float[Array, "N nx"]
    Q: Float[Array, "M nx nx"]
    q: Float[Array, "M nx"]
    R: Float[Array, "N nu nu"]
    S: Float[Array, "N nu nx"]
    r: Float[Array, "N nu"]

    def __init__(
        self,
        A: Any,
        B: Any,
        *,
        Q: Any,
        R: Any,
        c: Any = None,
        q: Any = None,
        S: Any = None,
        r: Any = None,
        end: Any = None,
        steps: int | None = None,
    ):
        owner = "control.LinearQuadratic"
        # name: the given value, the number of axes of one step, and the number of rows beyond the number of steps
        kinds = {"A": (A, 2, 0), "B": (B, 2, 0), "Q": (Q, 2, 1), "R": (R, 2, 0), "c": (c, 1, 0)}
        kinds |= {"q": (q, 1, 1), "S": (S, 2, 0), "r": (r, 1, 0), "end": (end, 2, None)}
        arrays = {name: floating(given) for name, (given, _, _) in kinds.items() if given is not None}
        dtype = functools.reduce(jnp.promote_types, [array.dtype for array in arrays.values()])
        for name, array in arrays.items():
            _, axes, more = kinds[name]
            if array.ndim == axes + 1 and more is not None and steps is None:
                steps = len(array) - more
        if steps is None:
            raise ValueError(f"{owner}: the number of steps is missing. Pass steps=100.")
        nx, nu = self._sizes(owner, arrays["A"], arrays["B"])
        sizes = {"A": (nx, nx), "B": (nx, nu), "c": (nx,), "Q": (nx, nx), "q": (nx,)}
        sizes |= {"R": (nu, nu), "S": (nu, nx), "r": (nu,), "end": (nx, nx)}
        full = {}
        for name, (_, _, more) in kinds.items():
            size, array = sizes[name], arrays.get(name)
            if array is None:
                full[name] = None if name == "end" else jnp.zeros((steps + (more or 0), *size), dtype)
                continue
            shape = size if more is None else (steps + more, *size)
            if array.shape not in (size, shape):
                once = "" if more is None else f", or {size} for all steps alike"
                raise ValueError(
                    f"{owner}: {name} has shape {array.shape}; it is an array of shape {shape}{once}"
                )
            full[name] = jnp.broadcast_to(array, shape).astype(dtype)
        last = full.pop("end")
        if last is not None:
            full["Q"] = full["Q"].at[-1].set(last)
        for name, array in full.items():
            setattr(self, name, array)

    @staticmethod
    def _sizes(owner: str, A: Array, B: Array) -> tuple[int, int]:
        if A.ndim < 2 or B.ndim < 2:
            raise ValueError(f"{owner}: A and B have shapes {A.shape} and {B.shape}; they are matrices")
        return A.shape[-1], B.shape[-1]

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.A)


class Policy(eqx.Module):
    """The solution of a linear-quadratic problem as a feedback, `u_k = k_k + K_k x_k`, and the value of each stage.

    - `K`, `k`: (N, nu, nx), (N, nu).
    - `P`, `p`: (N + 1, nx, nx), (N + 1, nx).
    - `positive`: whether the second derivative with respect to the control of every stage was positive definite. Otherwise
      no minimum exists.

    >>> A, B = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[0.0], [0.1]])
    >>> policy = rbd.control.lqr(rbd.control.LinearQuadratic(A, B, Q=jnp.eye(2), R=jnp.eye(1), steps=100))
    >>> print(policy.K[0] @ jnp.array([1.0, 0.0]) + policy.k[0], policy.positive)
    [-0.917] True
    """

    K: Float[Array, "N nu nx"]
    k: Float[Array, "N nu"]
    P: Float[Array, "M nx nx"]
    p: Float[Array, "M nx"]
    positive: Bool[Array, ""]


def solved(
    matrix: Float[Array, "m m"], columns: Float[Array, "m k"], least: Float[Array, ""] | float = 0.0
) -> tuple[Float[Array, "m k"], Bool[Array, ""]]:
    """Returns `A⁻¹ X` of a positive definite A by Gauss-Jordan elimination, and whether all pivots exceeded `least`.

    The elimination is a single loop without calls out of it, see `solve_positive`.
    """
    size = matrix.shape[0]
    places = np.arange(size, dtype=np.int32)

    def eliminate(carry, j):
        rows, positive = carry
        row = lax.dynamic_index_in_dim(rows, j, 0, keepdims=False)
        pivot = lax.dynamic_index_in_dim(row, j, 0, keepdims=False)
        row = row / pivot
        column = jnp.where(places == j, 0, lax.dynamic_index_in_dim(rows, j, 1, keepdims=False))
        rows = rows - column[:, None] * row[None, :]
        return (lax.dynamic_update_index_in_dim(rows, row, j, 0), positive & (pivot > least)), None

    start = jnp.concatenate([matrix, columns], axis=1), jnp.array(True)
    (rows, positive), _ = lax.scan(eliminate, start, jnp.arange(size, dtype=jnp.int32))
    return rows[:, size:], positive


#: Maximum number of changes of the active bounds in the minimization of a stage.
CHANGES = 30


def minimized(
    uu: Float[Array, "nu nu"],
    u: Float[Array, "nu"],
    ux: Float[Array, "nu nx"],
    limits: tuple[Float[Array, "nu"], Float[Array, "nu"]] | None = None,
) -> tuple[Float[Array, "nu"], Float[Array, "nu nx"], Bool[Array, ""]]:
    """Returns the k that minimizes `½ kᵀ uu k + uᵀ k` within limits, its feedback K, and whether `uu` is positive definite.

    With limits the method takes projected Newton steps (Bertsekas 1982; Tassa, Mansard & Todorov 2014). Entries at a limit
    whose slope points outwards stay there. The others take a Newton step that is clipped to the limits, until the slope
    vanishes.
    """
    if limits is None:
        both, positive = solved(uu, jnp.concatenate([u[:, None], ux], axis=1))
        return -both[:, 0], -both[:, 1:], positive
    lower, upper = limits
    eye = jnp.eye(len(u), dtype=u.dtype)
    small = float(jnp.finfo(u.dtype).eps) ** (2 / 3)

    def free_at(k):
        slope = u + matvec(uu, k)
        return slope, ~(((k <= lower) & (slope > 0)) | ((k >= upper) & (slope < 0)))

    def masked(free):
        both = free[:, None] & free[None, :]
        return jnp.where(both, uu, jnp.where(free[:, None], 0, eye))

    value = lambda k: jnp.sum(k * (0.5 * matvec(uu, k) + u))

    def going_on(carry):
        _, _, done, _, count = carry
        return ~done & (count < CHANGES)

    def change(carry):
        k, share, _, positive, count = carry
        slope, free = free_at(k)
        step, fine = solved(masked(free), jnp.where(free, slope, 0)[:, None])
        trial = jnp.clip(k - share * step[:, 0], lower, upper)
        promised = jnp.sum(slope * (k - trial))
        better = value(trial) <= value(k) - 0.1 * promised
        size = jnp.max(jnp.abs(u)) + jnp.max(jnp.abs(slope - u))
        done = (jnp.max(jnp.where(free, jnp.abs(slope), 0), initial=0) <= small * size) | ~fine
        share = jnp.where(better, 1, share / 2)
        return jnp.where(better & ~done, trial, k), share, done, positive & fine, count + 1

    carry = (
        jnp.clip(jnp.zeros_like(u), lower, upper),
        jnp.ones((), u.dtype),
        jnp.array(False),
        jnp.array(True),
        jnp.int32(0),
    )
    k, _, _, positive, _ = lax.while_loop(going_on, change, carry)
    _, free = free_at(k)
    K, fine = solved(masked(free), jnp.where(free[:, None], ux, 0))
    return k, -K, positive & fine


def riccati(problem: LinearQuadratic) -> Policy:
    """Returns the optimal feedback, stage by stage from the end."""
    eps = float(jnp.finfo(problem.A.dtype).eps)

    def back(value, stage):
        P, p = value
        A, B, c, Q, q, R, S, r = stage
        ahead = p + matvec(P, c)
        PA, PB = matmul(P, A), matmul(P, B)
        uu, ux, u = R + matmul(transpose(B), PB), S + matmul(transpose(B), PA), r + vecmat(ahead, B)
        # Smaller pivots are rounding errors of the sum.
        size = jnp.max(jnp.abs(R), initial=0) + jnp.max(jnp.abs(P)) * jnp.max(jnp.abs(B), initial=0) ** 2
        both, positive = solved(uu, jnp.concatenate([ux, u[:, None]], axis=1), 10 * eps * size)
        K, k = -both[:, :-1], -both[:, -1]
        P = Q + matmul(transpose(A), PA) + matmul(transpose(ux), K)
        p = q + vecmat(ahead, A) + vecmat(k, ux)
        P = 0.5 * (P + transpose(P))
        return (P, p), (K, k, P, p, positive)

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
    """Returns states and controls under a feedback, from a first state."""

    def ahead(x, stage):
        A, B, c, K, k = stage
        u = k + matvec(K, x)
        return matvec(A, x) + matvec(B, u) + c, (x, u)

    stages = (problem.A, problem.B, problem.c, policy.K, policy.k)
    end, (x, u) = lax.scan(ahead, start, stages)
    return jnp.concatenate([x, end[None]]), u


def in_common(owner: str, **given: Any) -> list[Array]:
    """Returns the matrices of one step in a common precision; those that are `None` become zero."""
    arrays = {name: floating(one) for name, one in given.items() if one is not None}
    dtype = functools.reduce(jnp.promote_types, [array.dtype for array in arrays.values()])
    nx, nu = (arrays[name].shape[-1] if arrays[name].ndim else 0 for name in "AB")
    sizes = {"A": (nx, nx), "B": (nx, nu), "Q": (nx, nx), "R": (nu, nu), "S": (nu, nx)}
    for name, array in arrays.items():
        if array.shape != sizes[name]:
            raise ValueError(
                f"{owner}: {name} has shape {array.shape}; it is a matrix of shape {sizes[name]}"
            )
    return [arrays.get(name, jnp.zeros(sizes[name])).astype(dtype) for name in given]
