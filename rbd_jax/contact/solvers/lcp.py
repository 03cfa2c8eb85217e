"""Linear complementarity problems of unilateral contact forces (book §11.2, §11.5).

    λ ≥ 0,  ζ = M λ + d ≥ 0,  λᵀ ζ = 0

`solve_lcp` minimizes `½ λᵀ M λ + dᵀ λ` (book eq. 11.43) by an interior-point method; this is equivalent if M is positive
semidefinite. `lemke` is an exact pivoting method for any M that changes one force per iteration.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..._core.array import matvec
from ...optimize.conic import Point, Problem, held, solve_conic
from ...optimize.implicit import remembered
from ...optimize.outcome import Code


class LCP(NamedTuple):
    """The forces λ, the `slack` ζ, the number of iterations, and a `Code`.

    If M is singular, λ may not be unique; for a symmetric M, `M λ` and ζ are. If there is no solution, the `force` of `solve_lcp`
    is a certificate, a direction in which forces grow without bound (`M λ = 0`, `dᵀ λ < 0`); that of `lemke` is zero.
    """

    force: Float[Array, "n"]
    slack: Float[Array, "n"]
    iterations: Int[Array, ""]
    code: Int[Array, ""]


def solve_lcp(
    M: Float[Array, "n n"],
    d: Float[Array, "n"],
    *,
    smoothing: float | Float[Array, ""] = 0.0,
    guess: Float[Array, "n"] | None = None,
) -> LCP:
    """Solves an LCP with a symmetric positive semidefinite matrix.

    If λ is not unique, the solution has as many nonzero forces as possible. The result is differentiable by all arguments of the
    problem, in forward and reverse mode and to any order. If λ is not unique, derivatives of unique quantities are correct;
    others may be very large, which smoothing prevents.

    Args:
      M: The matrix.
      d: The vector.
      smoothing: The product of each force and its slack; zero by default.
      guess: Forces that solve a similar problem; they reduce the number of iterations.

    Returns:
      The forces, slacks, number of iterations and code.

    >>> found = rbd.contact.solvers.solve_lcp(jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([-1.0, 1.0]))
    >>> print(found.force, found.slack)
    [0.5 0. ] [0.  1.5]
    """
    if not d.shape[0]:
        return _nothing(d)
    near = None
    if guess is not None:
        near = Point(guess, (guess - matvec(M, guess) - d)[:, None], d[:0])
    found = solve_conic(_problem(M, d, smoothing), near)
    code = jnp.where(found.code == Code.UNBOUNDED, Code.INFEASIBLE, found.code).astype(jnp.int32)
    return LCP(found.s[:, 0], found.z[:, 0], found.iterations, code)


def _problem(M, d, smoothing) -> Problem:
    n, dtype = d.shape[0], d.dtype
    g, zeros = -jnp.eye(n, dtype=dtype)[:, None, :], jnp.zeros((n, 1), dtype)
    return Problem(M, d, g, zeros, jnp.zeros((0, n), dtype), d[:0], jnp.asarray(smoothing, dtype))


def _nothing(d) -> LCP:
    zero = jnp.zeros((), jnp.int32)
    return LCP(d, d, zero, zero + int(Code.SOLVED))


def lemke(M: Float[Array, "n n"], d: Float[Array, "n"], *, max_pivots: int | None = None) -> LCP:
    """Solves an LCP with any matrix by Lemke's pivoting method.

    The lexicographic rule breaks ties, so the method does not cycle. If the pivots end on a ray, the code is `INFEASIBLE`. For a
    positive semidefinite M there is then no solution; for other M a solution may exist that the method does not find.

    Derivatives are those of the equations with the final basis, in which each force or its slack stays zero. If both are zero,
    several bases have the same solution but different derivatives. The derivatives are then those of the final basis.

    Args:
      M: The matrix.
      d: The vector.
      max_pivots: The maximum number of pivots, by default 50 + 10 n. Beyond it the code is `NOT_CONVERGED`.

    Returns:
      The forces, slacks, number of pivots and code.

    >>> found = rbd.contact.solvers.lemke(jnp.array([[2.0, 1.0], [0.0, 2.0]]), jnp.array([-1.0, 1.0]))
    >>> print(found.force, found.slack)
    [0.5 0. ] [0. 1.]
    """
    if not d.shape[0]:
        return _nothing(d)
    limit = 50 + 10 * d.shape[0] if max_pivots is None else max_pivots
    known_M, known_d = lax.stop_gradient((M, d))
    force, pushes, iterations, code = remembered(_pivoted(known_M, known_d, limit))
    basic = pushes * force + (1 - pushes) * jnp.maximum(matvec(known_M, force) + known_d, 0)
    basic = jnp.where(code == Code.SOLVED, held(_difference)((M, d, pushes), basic), 0)
    return LCP(pushes * basic, (1 - pushes) * basic, iterations, code)


def _difference(basic, problem):
    """Returns `M λ + d - ζ` for the forces and slacks in the basis; the others are zero."""
    M, d, pushes = problem
    return matvec(M, pushes * basic) + d - (1 - pushes) * basic


def _pivoted(M, d, limit):
    """Returns the forces, a mask of the final basis (1 for forces in it, else 0), the number of pivots and the code.

    Lemke's tableau is `[1, -M, -1, d]` for the equations `ζ - M λ - z₀ = d`; its columns are ζ, λ, z₀ and the right side.
    """
    n, dtype = d.shape[0], d.dtype
    covering, right = 2 * n, 2 * n + 1
    size = jnp.max(jnp.abs(M))
    M = M / jnp.where(size > 0, size, 1)
    scale = jnp.max(jnp.abs(d))
    scale = jnp.where(scale > 0, scale, 1)
    one = jnp.ones((n, 1), dtype)
    tableau = jnp.concatenate([jnp.eye(n, dtype=dtype), -M, -one, d[:, None] / scale], axis=1)
    whole = lambda size: jnp.arange(size, dtype=jnp.int32)
    basis = whole(n)
    small = float(jnp.finfo(dtype).eps) ** 0.75
    # The order in which ties are broken: the right side, then the columns of the inverse of the basis.
    order = jnp.concatenate([jnp.array([right], jnp.int32), whole(n)])

    def leaving(tableau, basis, entering):
        """Returns the row that becomes zero first, and whether one exists."""
        column = tableau[:, entering]
        allowed = column > small
        slope = jnp.where(allowed, column, 1)

        def narrow(i, kept):
            ratio = jnp.where(kept, tableau[:, order[i]] / slope, jnp.inf)
            least = jnp.min(ratio)
            return kept & (ratio <= least + small * (1 + jnp.abs(least)))

        # z₀ leaves the basis as soon as possible.
        tied = narrow(0, allowed)
        ends = tied & (basis == covering)
        kept = lax.fori_loop(1, n + 1, narrow, tied)
        return jnp.argmax(jnp.where(ends.any(), ends, kept)).astype(jnp.int32), allowed.any()

    def pivot(tableau, basis, row, entering):
        own = tableau[row] / tableau[row, entering]
        rest = tableau - tableau[:, entering][:, None] * own[None, :]
        here = whole(n) == row
        tableau = jnp.where(here[:, None], own[None, :], rest)
        tableau = jnp.where((whole(2 * n + 2) == entering)[None, :], here[:, None].astype(dtype), tableau)
        return tableau, jnp.where(here, entering, basis).astype(jnp.int32), basis[row]

    def goes_on(at):
        return (at[4] == Code.NOT_CONVERGED) & (at[3] < limit)

    def step(at):
        tableau, basis, entering, count, _ = at
        row, some = leaving(tableau, basis, entering)
        tried, changed, left = pivot(tableau, basis, row, entering)
        tableau, basis = jnp.where(some, tried, tableau), jnp.where(some, changed, basis)
        code = jnp.where(left == covering, Code.SOLVED, Code.NOT_CONVERGED)
        code = jnp.where(some, code, Code.INFEASIBLE).astype(jnp.int32)
        return tableau, basis, (left + n) % (2 * n), count + 1, code

    done = jnp.all(d >= 0)
    # First z₀ enters the basis in the row with the smallest d; the lexicographic rule selects the last of equal rows.
    worst = (n - 1 - jnp.argmin(tableau[::-1, right])).astype(jnp.int32)
    tableau, basis, left = pivot(tableau, basis, worst, jnp.asarray(covering, jnp.int32))
    code = jnp.where(done, Code.SOLVED, Code.NOT_CONVERGED).astype(jnp.int32)
    start = tableau, basis, left + n, jnp.where(done, 0, 1).astype(jnp.int32), code
    tableau, basis, _, count, code = lax.while_loop(goes_on, step, start)
    values = jnp.maximum(tableau[:, right], 0) * scale / jnp.where(size > 0, size, 1)
    mine = ~done & (basis[None, :] == (n + whole(n))[:, None])
    force = jnp.sum(jnp.where(mine, values[None, :], 0), axis=1)
    return force, jnp.any(mine, axis=1).astype(dtype), count, code
