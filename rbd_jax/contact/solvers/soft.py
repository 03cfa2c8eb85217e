"""Soft constraints as one convex problem in the acceleration, as MuJoCo has it.

    min over a:  ½ (a - a₀)ᵀ M (a - a₀) + Σ s(J a - r)

`a₀` is the acceleration without constraints, r the one that each row should have, and s what it costs to miss it: a parabola of
stiffness D, which is a line beyond the force that a row can exert. The force is `-s'`. The problem has one solution, which
Newton's method finds in a few steps, since all pieces are parabolas but those of sliding contacts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..._array import dot, matmul, matvec, transpose, vecmat


class Rows(NamedTuple):
    """Rows that act by themselves: with the force `-D (J a - r)`, cut off at `low` and `high`. D = 0 where a row does nothing.

    An equality has no ends, what only pushes has `low` = 0, dry friction has both.
    """

    jacobian: Float[Array, "r n"]
    reference: Float[Array, "r"]
    stiffness: Float[Array, "r"]
    low: Float[Array, "r"]
    high: Float[Array, "r"]


class Cones(NamedTuple):
    """Contacts with elliptic friction cones: rows along the normal, across it, about it and rolling. D = 0 where there is none.

    - `friction`: the coefficient of each row but the first; zero where it has none.
    - `mu`: that by which the cone is measured (`MuJoCo`: that of sliding by the root of how much softer the normal is).
    """

    jacobian: Float[Array, "c d n"]
    reference: Float[Array, "c d"]
    stiffness: Float[Array, "c d"]
    friction: Float[Array, "c t"]
    mu: Float[Array, "c"]


class Problem(NamedTuple):
    """The problem: M, `a₀`, and all rows."""

    inertia: Float[Array, "n n"]
    free: Float[Array, "n"]
    rows: Rows
    cones: Cones


class Solution(NamedTuple):
    """The acceleration, the force of each row, how many steps it took, and whether that was enough."""

    acceleration: Float[Array, "n"]
    rows: Float[Array, "r"]
    cones: Float[Array, "c d"]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


#: So many steps of Newton's method, and along each of them to find the least.
STEPS, ALONG = 50, 20


def solve_soft(problem: Problem, guess: Float[Array, "n"] | None = None) -> Solution:
    """The acceleration and the forces; differentiable by all that is in the problem, in both modes and to any order.

    - `guess`: an acceleration to begin with, by default `a₀`.
    """
    start = problem.free if guess is None else guess
    a, steps, converged = _solution(problem, lax.stop_gradient(start))
    rows, cones = _forces(problem, *_misses(problem, a))
    return Solution(a, rows, cones, steps, converged)


@jax.custom_jvp
def _solution(problem: Problem, start):
    return _search(problem, start)


@_solution.defjvp
def _change(primals, tangents):
    """`H da = -dg`: of the gradient g at the solution, by what the problem is made of."""
    (problem, start), (change, _) = primals, tangents
    a, steps, converged = _solution(problem, start)
    moved = jax.jvp(lambda problem: _gradient(problem, a), (problem,), (change,))[1]
    da = -_apply_inverse(_factor(problem, a), moved)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jax.dtypes.float0), (steps, converged))
    return (a, steps, converged), (da, *zeros)


def _search(problem: Problem, start):
    def step(at):
        a, count, _ = at
        g = _gradient(problem, a)
        done = jnp.all(jnp.abs(g) <= _rounding(problem, a))
        p = -_apply_inverse(_factor(problem, a), g)
        return jnp.where(done, a, a + _length(problem, a, p) * p), count + 1, done

    def goes_on(at):
        return ~at[2] & (at[1] < STEPS)

    return lax.while_loop(goes_on, step, (start, jnp.zeros((), jnp.int32), jnp.zeros((), bool)))


def _rounding(problem: Problem, a):
    """What the gradient may be off by rounding alone."""
    rows, cones = problem.rows, problem.cones
    sizes = [jnp.abs(one.jacobian) for one in (rows, cones)]
    terms = [matvec(size, jnp.abs(a)) + jnp.abs(one.reference) for size, one in zip(sizes, (rows, cones))]
    own = jnp.where(jnp.isinf(rows.high), rows.stiffness * terms[0], jnp.maximum(rows.high, -rows.low))
    total = vecmat(own, sizes[0]) + jnp.sum(vecmat(cones.stiffness * terms[1], sizes[1]), axis=0)
    total = total + matvec(jnp.abs(problem.inertia), jnp.abs(a) + jnp.abs(problem.free))
    return 4 * float(jnp.finfo(a.dtype).eps) * total


def _length(problem: Problem, a, p):
    """How far along p the least is: the zero of the derivative, which grows, by Newton's method between bounds."""
    mp = matvec(problem.inertia, p)
    offset, curvature = dot(mp, a - problem.free), dot(mp, p)
    rows, cones = _misses(problem, a)
    by_rows, by_cones = matvec(problem.rows.jacobian, p), matvec(problem.cones.jacobian, p)

    def slope(t):
        at = rows + t * by_rows, cones + t * by_cones
        forces = _forces(problem, *at)
        bend_rows, bend_cones = _bends(problem, *at)
        first = offset + t * curvature - dot(forces[0], by_rows) - jnp.sum(forces[1] * by_cones)
        second = curvature + dot(bend_rows, by_rows**2) + jnp.sum(by_cones * matvec(bend_cones, by_cones))
        return first, second

    def step(_, at):
        t, low, high = at
        first, second = slope(t)
        low, high = jnp.where(first < 0, t, low), jnp.where(first < 0, high, t)
        newton = t - first / second
        middle = jnp.where(jnp.isinf(high), 2 * t, 0.5 * (low + high))
        return jnp.where((newton > low) & (newton < high), newton, middle), low, high

    one = jnp.ones((), p.dtype)
    return lax.fori_loop(0, ALONG, step, (one, 0 * one, jnp.inf * one))[0]


def _gradient(problem: Problem, a):
    rows, cones = _forces(problem, *_misses(problem, a))
    pushed = vecmat(rows, problem.rows.jacobian) + jnp.sum(vecmat(cones, problem.cones.jacobian), axis=0)
    return matvec(problem.inertia, a - problem.free) - pushed


def _factor(problem: Problem, a):
    """The factors of `H = M + Jᵀ s'' J`, scaled to a unit diagonal."""
    bend_rows, bend_cones = _bends(problem, *_misses(problem, a))
    j = problem.rows.jacobian
    h = problem.inertia + matmul(transpose(j), bend_rows[:, None] * j)
    j = problem.cones.jacobian
    h = h + jnp.sum(matmul(transpose(j), matmul(bend_cones, j)), axis=0)
    scale = 1 / jnp.sqrt(jnp.diagonal(h))
    return jnp.linalg.cholesky(h * scale[:, None] * scale[None, :], symmetrize_input=False), scale


def _apply_inverse(factor, x):
    lower, scale = factor
    half = lax.linalg.triangular_solve(lower, (scale * x)[:, None], left_side=True, lower=True)
    return (
        scale * lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)[:, 0]
    )


def _misses(problem: Problem, a):
    """`J a - r` of the rows and of the cones."""
    rows, cones = problem.rows, problem.cones
    return matvec(rows.jacobian, a) - rows.reference, matvec(cones.jacobian, a) - cones.reference


def _forces(problem: Problem, rows, cones):
    """`-s'`, where rows and cones miss by so much."""
    own, force = problem.rows, -problem.rows.stiffness * rows
    # Not a clip, whose derivative at the ends is neither that of one piece nor that of the other.
    force = jnp.where(force <= own.low, own.low, jnp.where(force >= own.high, own.high, force))
    return force, _cone_forces(problem.cones, cones)


def _bends(problem: Problem, rows, cones):
    """`s''`: of each row, and the matrix of each cone."""
    own = problem.rows
    force = -own.stiffness * rows
    return jnp.where((force > own.low) & (force < own.high), own.stiffness, 0), _cone_bends(
        problem.cones, cones
    )


class _Zone(NamedTuple):
    """Where contacts are: sticking, or sliding in a direction, by how much the cone is missed; else apart."""

    sticks: Bool[Array, "c"]
    slides: Bool[Array, "c"]
    direction: Float[Array, "c t"]
    speed: Float[Array, "c"]
    missed: Float[Array, "c"]
    stiffness: Float[Array, "c"]


def _zone(cones: Cones, miss) -> _Zone:
    normal, across = cones.mu * miss[:, 0], cones.friction * miss[:, 1:]
    square = dot(across, across)
    moves = square > 0
    speed = jnp.where(moves, jnp.sqrt(jnp.where(moves, square, 1)), 0)
    there = cones.stiffness[:, 0] > 0
    apart = (normal >= cones.mu * speed) | ~there
    sticks = ~apart & (cones.mu * normal + speed <= 0)
    mu2 = cones.mu**2
    stiffness = cones.stiffness[:, 0] / jnp.where(there, mu2 * (1 + mu2), 1)
    direction = across / jnp.where(moves, speed, 1)[:, None]
    return _Zone(sticks, ~apart & ~sticks, direction, speed, normal - cones.mu * speed, stiffness)


def _cone_forces(cones: Cones, miss):
    """Sticking: a spring along each row. Sliding: `½ Dₘ (N - μ T)²`, N along the normal and T the speed across."""
    zone = _zone(cones, miss)
    push = -zone.stiffness * zone.missed * cones.mu
    sliding = jnp.concatenate([push[:, None], -push[:, None] * zone.direction * cones.friction], axis=1)
    force = jnp.where(zone.sticks[:, None], -cones.stiffness * miss, 0)
    return jnp.where(zone.slides[:, None], sliding, force)


def _cone_bends(cones: Cones, miss):
    zone = _zone(cones, miss)
    size = miss.shape[1]
    eye = jnp.eye(size, dtype=miss.dtype)
    along = jnp.concatenate([cones.mu[:, None], -cones.mu[:, None] * cones.friction * zone.direction], axis=1)
    turned = eye[1:, 1:][None] - zone.direction[:, :, None] * zone.direction[:, None, :]
    moves = zone.speed > 0
    round_ = zone.missed * cones.mu / jnp.where(moves, zone.speed, 1)
    round_ = jnp.where(moves, round_, 0)[:, None, None] * (
        cones.friction[:, :, None] * cones.friction[:, None, :] * turned
    )
    round_ = jnp.pad(round_, ((0, 0), (1, 0), (1, 0)))
    sliding = zone.stiffness[:, None, None] * (along[:, :, None] * along[:, None, :] - round_)
    sticking = cones.stiffness[:, :, None] * eye[None]
    bend = jnp.where(zone.sticks[:, None, None], sticking, 0)
    return jnp.where(zone.slides[:, None, None], sliding, bend)
