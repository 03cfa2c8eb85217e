"""Convex quadratic programs with linear constraints."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...optimize.conic import Point, Problem, solve_conic


class QP(NamedTuple):
    """The minimizer x of a quadratic program, with its multipliers.

    - `slack`: `h - G x`.
    - `multipliers`: the multipliers z of `G x ≤ h`; non-negative, and zero where there is slack.
    - `equality_multipliers`: the multipliers y of `A x = b`.
    - `iterations`: the number of iterations.
    - `code`: a `Code`. If the problem is infeasible, the multipliers prove it: `Gᵀ z + Aᵀ y = 0` and `hᵀ z + bᵀ y < 0`. If the
      problem is unbounded, `x` is a direction of unbounded decrease.
    """

    x: Float[Array, "n"]
    slack: Float[Array, "m"]
    multipliers: Float[Array, "m"]
    equality_multipliers: Float[Array, "p"]
    iterations: Int[Array, ""]
    code: Int[Array, ""]


def solve_qp(
    P: Float[Array, "n n"],
    q: Float[Array, "n"],
    G: Float[Array, "m n"],
    h: Float[Array, "m"],
    A: Float[Array, "p n"] | None = None,
    b: Float[Array, "p"] | None = None,
    *,
    smoothing: float | Float[Array, ""] = 0.0,
    guess: QP | None = None,
) -> QP:
    """Minimizes `½ xᵀ P x + qᵀ x` subject to `G x ≤ h` and `A x = b`, for a positive semidefinite P.

    The result is differentiable by all arguments of the problem, in forward and reverse mode and to any order. If the multipliers
    are not unique, the derivatives of x are still correct; those of the multipliers may be very large, which smoothing prevents.

    Args:
      P: The matrix of the objective.
      q: The vector of the objective.
      G: The matrix of the inequalities.
      h: The right side of the inequalities.
      A: The matrix of the equalities, if any.
      b: The right side of the equalities.
      smoothing: The product of each slack and its multiplier; zero by default. Larger values make x a smoother function of the
        problem and keep it farther from the inequality bounds.
      guess: The solution of a similar problem; it reduces the number of iterations.

    Returns:
      The minimizer, slacks, multipliers, number of iterations and code.

    Raises:
      ValueError: If only one of `A` and `b` is given, or q is empty.

    >>> found = rbd.contact.solvers.solve_qp(jnp.eye(2), jnp.array([-1.0, -2.0]), jnp.eye(2), jnp.array([0.5, 5.0]))
    >>> print(found.x)
    [0.5 2. ]
    """
    if (A is None) != (b is None):
        raise ValueError("solve_qp: A and b belong together; pass both or neither")
    if not q.shape[0]:
        raise ValueError("solve_qp: q is empty; there are no unknowns")
    A = jnp.zeros((0, q.shape[0]), q.dtype) if A is None else A
    b = jnp.zeros((0,), q.dtype) if b is None else b
    near = None
    if guess is not None:
        near = Point(guess.x, (guess.slack - guess.multipliers)[:, None], guess.equality_multipliers)
    problem = Problem(P, q, G[:, None, :], h[:, None], A, b, jnp.asarray(smoothing, q.dtype))
    found = solve_conic(problem, near)
    return QP(found.x, found.s[:, 0], found.z[:, 0], found.y, found.iterations, found.code)
