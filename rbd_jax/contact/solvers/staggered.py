"""Staggered projections: alternately solves for normal impulses and friction impulses, until neither changes.

Unlike one convex problem, this method (Kaufman et al., 2008; Sueda's algorithm 7) does not make sliding contacts separate:

    v = v₀ + M⁻¹ (Nᵀ α + Tᵀ β)
    α:  min ½ vᵀ M v  with  α ≥ 0            (N v ≥ 0, and α = 0 where N v > 0; Sueda eq. 2.113)
    β:  min ½ vᵀ M v  with  |β| ≤ μ |α|      (against the sliding T v; Sueda eq. 2.114)

Bilateral contacts represent the friction of joints (Sueda §2.11): their α has either sign, and is the smallest with `N v = 0`
(Sueda eq. 2.118). Here impulses act along the rows of N and T (in Sueda, against them), and the friction limit is a disc, not a
square.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..._core.array import dot, matmul, matvec, transpose, vecmat
from ...optimize import conic
from ...optimize.conic import Point, Problem, held, refined, solve_conic
from ...optimize.implicit import remembered
from ...optimize.outcome import Code


class Staggered(NamedTuple):
    """The result of staggered projections.

    - `velocity`: v.
    - `normal`, `tangent`: the impulses α and β of each contact.
    - `residual`: the residual of the equations of both problems, in units in which impulses are about one.
    - `iterations`: the number of iterations.
    - `code`: `SOLVED` if the residual is small; `INFEASIBLE` if the contacts cannot all be satisfied.
    """

    velocity: Float[Array, "n"]
    normal: Float[Array, "c"]
    tangent: Float[Array, "c t"]
    residual: Float[Array, ""]
    iterations: Int[Array, ""]
    code: Int[Array, ""]


class _Matrices(NamedTuple):
    """The problem in the impulses: `N M⁻¹ Nᵀ`, `N M⁻¹ Tᵀ`, `T M⁻¹ Tᵀ`, `N v₀`, `T v₀`, μ, and 1 where a contact is bilateral."""

    normal: Float[Array, "c c"]
    across: Float[Array, "c ct"]
    tangent: Float[Array, "ct ct"]
    parting: Float[Array, "c"]
    sliding: Float[Array, "ct"]
    friction: Float[Array, "c"]
    bilateral: Float[Array, "c"]


class _Both(NamedTuple):
    """The points of both problems; x of the second is β in units of `μ |α|`."""

    contact: Point
    friction: Point


def staggered_projections(
    inertia: Float[Array, "n n"],
    free: Float[Array, "n"],
    normal: Float[Array, "c n"],
    tangent: Float[Array, "c t n"],
    friction: Float[Array, "c"],
    *,
    bilateral: Bool[Array, "c"] | None = None,
    guess: Staggered | None = None,
    tolerance: float | None = None,
    max_rounds: int = 50,
) -> Staggered:
    """Returns the velocity after contact with friction, for one step or one impact.

    The iterations stop when α no longer changes. Newton's method on both problems together then removes the remaining error.
    The result is differentiable by all arguments of the problem, in forward and reverse mode. A solution need not exist, and
    there may be several. If the iterations do not converge, the code reports it. If normal impulses are not unique (redundant
    contacts), friction is not unique either; the choice of the solution is not differentiated. The derivative by a friction
    coefficient of zero is zero. In contrast, `solve_cone` always converges to a unique velocity.

    Args:
      inertia: M.
      free: v₀, the velocity without contact.
      normal: N; `N v` is the separation velocity.
      tangent: T; `T v` is the sliding velocity.
      friction: μ of each contact.
      bilateral: Which contacts act in both directions; none by default.
      guess: The result for a similar problem.
      tolerance: Relative change of α, in the norm of `N M⁻¹ Nᵀ`, at which the iterations stop. The default is the square root
        of the machine precision.
      max_rounds: The maximum number of iterations.

    Returns:
      The velocity, impulses, residual, number of iterations and code.

    Raises:
      ValueError: If `max_rounds` is below 1, or there are no contacts or no tangents.

    >>> normal, tangent = jnp.array([[0.0, 1.0]]), jnp.array([[[1.0, 0.0]]])  # a point of 1 kg on the floor
    >>> found = rbd.contact.solvers.staggered_projections(jnp.eye(2), jnp.array([1.0, -0.5]), normal, tangent, jnp.array([0.4]))
    >>> print(found.velocity, found.normal)  # it is braked, and falls no further
    [0.8 0. ] [0.5]
    """
    c, t, n = tangent.shape
    if max_rounds < 1:
        raise ValueError(f"staggered_projections: max_rounds is {max_rounds}; it must be at least 1")
    if not c or not t:
        raise ValueError("staggered_projections: there are no contacts, or no tangents; see solve_lcp")
    rows = jnp.concatenate([normal, tangent.reshape(c * t, n)])
    response = jnp.linalg.solve(inertia, transpose(rows))
    answer, speed = matmul(rows, response), matvec(rows, free)
    sides = jnp.zeros(c, free.dtype) if bilateral is None else bilateral.astype(free.dtype)
    # Scaled so that impulses are about one.
    known, fast = lax.stop_gradient((answer, speed))
    size = jnp.diagonal(known)[:c] + jnp.sum(jnp.diagonal(known)[c:].reshape(c, t), axis=1)
    unit = 1 / jnp.sqrt(jnp.where(size > 0, size, 1))
    units = jnp.concatenate([unit, jnp.repeat(unit, t)])
    all_ = jnp.max(jnp.abs(units * fast))
    all_ = jnp.where(all_ > 0, all_, 1)
    answer, speed = units[:, None] * answer * units[None, :], units * speed / all_
    matrices = _Matrices(
        answer[:c, :c], answer[:c, c:], answer[c:, c:], speed[:c], speed[c:], friction, sides
    )
    start = jnp.zeros(c * t, free.dtype)
    if guess is not None:
        start = (guess.tangent / unit[:, None] / all_).reshape(-1)
    tolerance = float(jnp.finfo(free.dtype).eps) ** 0.5 if tolerance is None else tolerance
    equations = lambda both, matrices: _residual(both, matrices, t)
    known, start = lax.stop_gradient((matrices, start))
    both, rounds, code = _rounds(known, start, t, tolerance, max_rounds)
    both, residual, _ = refined(equations, known, both)
    both, residual, rounds, code = remembered((both, residual, rounds, code))
    good = residual <= float(jnp.finfo(free.dtype).eps) ** 0.6
    code = jnp.where(code == Code.SOLVED, jnp.where(good, Code.SOLVED, Code.NOT_CONVERGED), code)
    kept = held(equations)(matrices, both)
    both = jax.tree.map(lambda a, b: jnp.where(code == Code.SOLVED, a, b), kept, both)
    alpha, beta = _impulses(both, matrices, t)
    impulses = all_ * units * jnp.concatenate([alpha, beta])
    velocity = free + matvec(response, impulses)
    return Staggered(
        velocity, impulses[:c], impulses[c:].reshape(c, t), residual, rounds, code.astype(jnp.int32)
    )


def _rounds(matrices: _Matrices, beta, t, tolerance, max_rounds):
    def contact(beta, guess):
        return _found(_contact_problem(matrices, beta), guess)

    def goes_on(at):
        _, _, residual, count, code = at
        return (residual > tolerance) & (count < max_rounds) & (code == Code.SOLVED)

    def step(at):
        both, beta, _, count, _ = at
        normal, code = contact(beta, both.contact)
        alpha = normal.x
        change = alpha - both.contact.x
        residual = jnp.sqrt(jnp.maximum(dot(change, matvec(matrices.normal, change)), 0))
        residual = residual / (1 + jnp.sqrt(jnp.maximum(dot(alpha, matvec(matrices.normal, alpha)), 0)))
        residual = jnp.where(count == 0, jnp.inf, residual)
        sliding, worked = _found(_friction_problem(matrices, alpha, t), both.friction)
        beta = jnp.repeat(matrices.friction * jnp.abs(alpha), t) * sliding.x
        return _Both(normal, sliding), beta, residual, count + 1, jnp.maximum(code, worked)

    c, dtype = matrices.parting.shape[0], beta.dtype
    none = jnp.zeros(0, dtype)
    first = _Both(
        Point(jnp.zeros(c, dtype), jnp.zeros((c, 1), dtype), none),
        Point(jnp.zeros(c * t, dtype), jnp.zeros((c, 1 + t), dtype), none),
    )
    zero = jnp.zeros((), jnp.int32)
    start = first, beta, jnp.full((), jnp.inf, dtype), zero, zero + int(Code.SOLVED)
    both, _, _, count, code = lax.while_loop(goes_on, step, start)
    # Unbounded impulses mean that the contacts cannot all be satisfied.
    return both, count, jnp.where(code == Code.UNBOUNDED, Code.INFEASIBLE, code)


def _found(problem: Problem, guess: Point):
    found = solve_conic(problem, guess)
    return Point(found.x, found.s - found.z, found.y), found.code


def _contact_problem(matrices: _Matrices, beta) -> Problem:
    """Returns the problem in α. A bilateral row has no inequality, and a small compliance that selects the smallest impulses."""
    c, dtype = matrices.parting.shape[0], beta.dtype
    soft = float(jnp.finfo(dtype).eps) ** 0.6 * matrices.bilateral
    g = -jnp.diag(1 - matrices.bilateral)
    return Problem(
        matrices.normal + jnp.diag(soft),
        matrices.parting + matvec(matrices.across, beta),
        g[:, None, :],
        matrices.bilateral[:, None],
        jnp.zeros((0, c), dtype),
        jnp.zeros(0, dtype),
        jnp.zeros((), dtype),
    )


def _friction_problem(matrices: _Matrices, alpha, t) -> Problem:
    """Returns the problem in β, in units of the friction limit of each contact, so that a limit of zero is well posed."""
    c, dtype = alpha.shape[0], alpha.dtype
    most = jnp.repeat(matrices.friction * jnp.abs(alpha), t)
    across = -jnp.eye(c * t, dtype=dtype).reshape(c, t, c * t)
    return Problem(
        most[:, None] * matrices.tangent * most[None, :],
        most * (matrices.sliding + vecmat(alpha, matrices.across)),
        jnp.concatenate([jnp.zeros((c, 1, c * t), dtype), across], axis=1),
        jnp.zeros((c, 1 + t), dtype) + (jnp.arange(1 + t) == 0).astype(dtype)[None, :],
        jnp.zeros((0, c * t), dtype),
        jnp.zeros(0, dtype),
        jnp.zeros((), dtype),
    )


def _impulses(both: _Both, matrices: _Matrices, t):
    alpha = both.contact.x
    return alpha, jnp.repeat(matrices.friction * jnp.abs(alpha), t) * both.friction.x


def _residual(both: _Both, matrices: _Matrices, t) -> _Both:
    """Returns the residuals of both problems, each with the solution of the other."""
    alpha, beta = _impulses(both, matrices, t)
    return _Both(
        conic.residual(both.contact, _contact_problem(matrices, beta)),
        conic.residual(both.friction, _friction_problem(matrices, alpha, t)),
    )
