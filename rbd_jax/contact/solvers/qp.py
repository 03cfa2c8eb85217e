"""Convex quadratic problems with linear conditions."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...optimize.conic import Point, Problem, solve_conic


class QP(NamedTuple):
    """The x of a quadratic problem and what shows that it is the least.

    - `slack`: `h - G x`.
    - `multipliers`: of `G x ≤ h`, not negative, zero where there is slack.
    - `equality_multipliers`: of `A x = b`.
    - `iterations`: how many steps it took.
    - `code`: a `Code`. Where nothing is feasible, the multipliers prove it (`Gᵀ z + Aᵀ y = 0` and `hᵀ z + bᵀ y < 0`); where there
      is no bound, `x` is a direction in which the problem falls without end.
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
    """`min ½ xᵀ P x + qᵀ x` where `G x ≤ h` and `A x = b`, for a positive semidefinite P.

    The result is differentiable by all of the problem, in both modes and to any order. Where multipliers are not unique the
    derivatives of x are right all the same; those of multipliers may be very large, which smoothing prevents.

    **Arguments**

    - `smoothing`: the product of each slack and its multiplier, zero by default. The greater, the smoother is x as a function of
      the problem, and the farther from the sides.
    - `guess`: the solution of a problem nearby, from which this one takes fewer steps.

    >>> found = rbd.contact.solvers.solve_qp(jnp.eye(2), jnp.array([-1.0, -2.0]), jnp.eye(2), jnp.array([0.5, 5.0]))
    >>> print(found.x)
    [0.5 2. ]
    """
    if (A is None) != (b is None):
        raise ValueError("solve_qp: A and b belong together; give both or none")
    if not q.shape[0]:
        raise ValueError("solve_qp: there are no unknowns")
    A = jnp.zeros((0, q.shape[0]), q.dtype) if A is None else A
    b = jnp.zeros((0,), q.dtype) if b is None else b
    near = None
    if guess is not None:
        near = Point(guess.x, (guess.slack - guess.multipliers)[:, None], guess.equality_multipliers)
    problem = Problem(P, q, G[:, None, :], h[:, None], A, b, jnp.asarray(smoothing, q.dtype))
    found = solve_conic(problem, near)
    return QP(found.x, found.s[:, 0], found.z[:, 0], found.y, found.iterations, found.code)
