"""Soft constraints as one convex problem in the acceleration, as MuJoCo has it.

    min over a:  ½ (a - a₀)ᵀ M (a - a₀) + Σ s(J a - r)

`a₀` is the acceleration without constraints, r the one that each row should have, and s what it costs to miss it (see `terms`).
The problem has one solution, which Newton's method finds in a few steps, since all pieces are parabolas but those of sliding
contacts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..._array import dot, matvec
from .terms import Term


class Problem(NamedTuple):
    """The problem: M, `a₀`, and what there is beside them."""

    inertia: Float[Array, "n n"]
    free: Float[Array, "n"]
    terms: tuple[Term, ...]


class Solution(NamedTuple):
    """The acceleration, the forces of each term, how many steps it took, and whether that was enough."""

    acceleration: Float[Array, "n"]
    forces: tuple[Array, ...]
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
    return Solution(a, tuple(term.force(_miss(term, a)) for term in problem.terms), steps, converged)


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
    """Newton's steps, until one is so small that the next would be of the size of rounding."""

    def step(at):
        a, count, _ = at
        g = _gradient(problem, a)
        p = -_apply_inverse(_factor(problem, a), g)
        decrease = -dot(g, p)
        size = dot(a, matvec(problem.inertia, a)) + still
        done = ~(decrease > precision * size)
        return a + _length(problem, a, p, decrease) * p, count + 1, done

    def goes_on(at):
        return ~at[2] & (at[1] < STEPS)

    still = dot(problem.free, matvec(problem.inertia, problem.free))
    # Steps square the error, so a step of relative size ε^0.6 is the last.
    precision = float(jnp.finfo(start.dtype).eps) ** 1.2
    return lax.while_loop(goes_on, step, (start, jnp.zeros((), jnp.int32), jnp.zeros((), bool)))


def _length(problem: Problem, a, p, decrease):
    """How far along p the least is, or nearly: where the slope, which grows, is a hundredth of what it is here.

    By Newton's method between bounds, from the full step on, which is it as a rule.
    """
    mp = matvec(problem.inertia, p)
    offset, curvature = dot(mp, a - problem.free), dot(mp, p)
    known = [(term, _miss(term, a), term.rows(p)) for term in problem.terms]

    def slope(t):
        first, second = offset + t * curvature, curvature
        for term, miss, rows in known:
            at = miss + t * rows
            first = first - jnp.sum(term.force(at) * rows)
            second = second + term.bent(term.bend(at), rows)
        return first, second

    def step(at):
        t, low, high, _, count = at
        first, second = slope(t)
        done = jnp.abs(first) <= 0.01 * decrease
        low, high = jnp.where(first < 0, t, low), jnp.where(first < 0, high, t)
        newton = t - first / second
        middle = jnp.where(jnp.isinf(high), 2 * t, 0.5 * (low + high))
        other = jnp.where((newton > low) & (newton < high), newton, middle)
        return jnp.where(done, t, other), low, high, done, count + 1

    def goes_on(at):
        return ~at[3] & (at[4] < ALONG)

    one = jnp.ones((), p.dtype)
    start = one, 0 * one, jnp.inf * one, jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    return lax.while_loop(goes_on, step, start)[0]


def _miss(term: Term, a):
    return term.rows(a) - term.reference


def _gradient(problem: Problem, a):
    pushed = sum((term.pushed(term.force(_miss(term, a))) for term in problem.terms), jnp.zeros_like(a))
    return matvec(problem.inertia, a - problem.free) - pushed


def _factor(problem: Problem, a):
    """The factors of `H = M + Jᵀ s'' J`, scaled to a unit diagonal."""
    h = problem.inertia
    for term in problem.terms:
        h = h + term.curvature(term.bend(_miss(term, a)))
    scale = 1 / jnp.sqrt(jnp.diagonal(h))
    return jnp.linalg.cholesky(h * scale[:, None] * scale[None, :], symmetrize_input=False), scale


def _apply_inverse(factor, x):
    lower, scale = factor
    half = lax.linalg.triangular_solve(lower, (scale * x)[:, None], left_side=True, lower=True)
    full = lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)
    return scale * full[:, 0]
