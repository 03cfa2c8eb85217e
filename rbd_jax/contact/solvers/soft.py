"""Soft constraints as one convex problem in the acceleration, as in MuJoCo.

    min over a:  ½ aᵀ M a - fᵀ a + Σ s(J a - r)

f is the force without constraints, r the reference acceleration of each row, and s the cost of a deviation from it (see `terms`).
The problem has a unique solution. Newton's method finds it in a few iterations, because all costs are piecewise quadratic except
those of sliding contacts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..._core.array import times
from ..._core.derivatives import custom_jvp
from ..._core.positive import Pattern, apply_inverse, solve_positive
from ...optimize.implicit import remembered
from .terms import Term


class Problem(NamedTuple):
    """The data of the problem.

    - `inertia`: M.
    - `force`: f.
    - `terms`: the costs.
    - `pattern`: the sparsity pattern of M and the Hessian; None if they are dense.
    - `couples`: True if terms add Hessian entries outside of the pattern; None if they never do.
    """

    inertia: Float[Array, "n n"]
    force: Float[Array, "n"]
    terms: tuple[Term, ...]
    pattern: Pattern | None = None
    couples: Bool[Array, ""] | None = None


class Solution(NamedTuple):
    """The acceleration, the forces of each term, the number of Newton iterations, and whether the solver converged."""

    acceleration: Float[Array, "n"]
    forces: tuple[Array, ...]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


#: Maximum number of Newton iterations per stage, and of line-search iterations per Newton iteration.
STEPS, ALONG = 20, 20

#: Fractions of the stiffness for successive stages, used if the first stage does not converge.
SOFTER = (1e-6, 1e-4, 1e-2, 1.0)


def solve_soft(problem: Problem, guess: Float[Array, "n"] | None = None) -> Solution:
    """Solves for the acceleration and the forces of soft constraints.

    The result is differentiable by the problem data, in forward and reverse mode and to any order.

    Args:
      problem: The problem.
      guess: The initial acceleration, by default that without constraints, `M⁻¹ f`.

    Returns:
      The acceleration, the forces of each term, the number of Newton iterations, and whether the solver converged.

    >>> from rbd_jax.contact.solvers.soft import Problem
    >>> falling = Problem(jnp.diag(jnp.array([1.0, 2.0])), jnp.array([0.0, -9.81]), terms=())  # nothing that touches
    >>> print(rbd.contact.solvers.solve_soft(falling).acceleration)
    [ 0.    -4.905]
    """
    start = solve_positive(*lax.stop_gradient(problem[:2]), problem.pattern) if guess is None else guess
    a, steps, converged = _solution(problem, lax.stop_gradient(start))
    return Solution(a, tuple(term.force(term.miss(a)) for term in problem.terms), steps, converged)


@custom_jvp
def _solution(problem: Problem, start):
    return remembered(_search(problem, start))


@_solution.defjvp
def _change(primals, tangents):
    """Solves `H da = -dg`, where dg is the change of the gradient g at the solution with the problem data."""
    (problem, start), (change, _) = primals, tangents
    a, steps, converged = _solution(problem, start)
    moved = jax.jvp(lambda problem: _gradient(problem, a), (problem,), (change,))[1]
    da = -_newton(problem, a, moved)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jax.dtypes.float0), (steps, converged))
    return (a, steps, converged), (da, *zeros)


class _At(NamedTuple):
    """An iterate: a, the residual `J a - r` of each term, `M a`, and the gradient."""

    a: Float[Array, "n"]
    misses: tuple[Array, ...]
    momentum: Float[Array, "n"]
    gradient: Float[Array, "n"]

    @staticmethod
    def of(problem: Problem, a, misses, momentum) -> _At:
        pushed = (term.push(miss) for term, miss in zip(problem.terms, misses))
        return _At(a, misses, momentum, momentum - problem.force - sum(pushed, jnp.zeros_like(a)))


def _search(problem: Problem, start):
    """Returns the solution, the number of Newton iterations, and whether the solver converged.

    The cost of a nearly rigid cone has a high curvature near its apex, so Newton's method may oscillate between its sides.
    Solutions with softer cones then provide better initial guesses.
    """
    softer = jnp.array((1.0, *SOFTER), start.dtype)
    problem = problem._replace(terms=tuple(term.acting() for term in problem.terms))

    def stage(state):
        a, number, steps, _ = state
        given = problem._replace(terms=tuple(term.softened(softer[number]) for term in problem.terms))
        a, count, converged = _newtons(given, a)
        return a, number + 1, steps + count, converged & ((number == 0) | (number == len(SOFTER)))

    def goes_on(state):
        return ~state[3] & (state[1] <= len(SOFTER))

    zero = jnp.zeros((), jnp.int32)
    a, _, steps, converged = lax.while_loop(goes_on, stage, (start, zero, zero, jnp.zeros((), bool)))
    return a, steps, converged


def _newtons(problem: Problem, start):
    """Iterates Newton's method until the gradient is of the size of rounding errors."""

    def step(state):
        at, count, _ = state
        p = -_apply_inverse(problem, at.misses, at.gradient)
        decrease = -jnp.sum(at.gradient * p)
        mp = times(problem.inertia, p)
        rows = [term.rows(p) for term in problem.terms]
        t = _length(problem, at, p, mp, rows, decrease)
        misses = jax.tree.map(lambda miss, row: miss + t * row, at.misses, tuple(rows))
        at = _At.of(problem, at.a + t * p, misses, at.momentum + t * mp)
        size = jnp.sum(at.a * at.momentum) + driven
        # An approximate bound on the decrease by the next step.
        small = jnp.sum(at.gradient**2 / mass) <= least * size
        return at, count + 1, small | ~(decrease > precision * size)

    def goes_on(state):
        return ~state[2] & (state[1] < STEPS)

    mass = jnp.diagonal(problem.inertia)
    driven = jnp.sum(problem.force**2 / mass)
    epsilon = float(jnp.finfo(start.dtype).eps)
    # Steps square the error, so a step of relative size ε^0.6 is the last.
    precision, least = epsilon**1.2, epsilon**1.6
    misses = tuple(term.miss(start) for term in problem.terms)
    begin = _At.of(problem, start, misses, times(problem.inertia, start))
    at, steps, converged = lax.while_loop(
        goes_on, step, (begin, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    )
    return at.a, steps, converged


def _length(problem: Problem, start: _At, p, mp, rows, decrease):
    """Returns the approximate minimizer along p, at which the slope is at most 1 % of its initial value.

    This is a bracketed Newton iteration that starts with the full step, which is usually accepted.
    """
    offset, curvature = jnp.sum((start.momentum - problem.force) * p), jnp.sum(mp * p)

    def slope(t):
        first, second = offset + t * curvature, curvature
        for term, miss, row in zip(problem.terms, start.misses, rows):
            own = term.slope(miss, row, t)
            first, second = first + own[0], second + own[1]
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
    begin = one, 0 * one, jnp.inf * one, jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    return lax.while_loop(goes_on, step, begin)[0]


def _gradient(problem: Problem, a):
    pushed = sum((term.push(term.miss(a)) for term in problem.terms), jnp.zeros_like(a))
    return times(problem.inertia, a) - problem.force - pushed


def _newton(problem: Problem, a, g):
    """Returns `H⁻¹ g` with `H = M + Jᵀ s'' J` at `a`. Derivatives use the linear map of H, not its assembly."""
    misses = [term.miss(a) for term in problem.terms]
    bends = [term.bend(miss) for term, miss in zip(problem.terms, misses)]

    def apply(x):
        pushed = (term.pushed(term.turned(bend, term.rows(x))) for term, bend in zip(problem.terms, bends))
        return sum(pushed, times(problem.inertia, x))

    return lax.custom_linear_solve(apply, g, lambda _, g: _apply_inverse(problem, misses, g), symmetric=True)


def _apply_inverse(problem: Problem, misses, g):
    matrix = problem.inertia
    for term, miss in zip(problem.terms, misses):
        matrix = term.stiffened(matrix, miss)
    sparse = lambda: apply_inverse(matrix, g, problem.pattern)
    if problem.couples is None:
        return sparse()
    return lax.cond(problem.couples, lambda: apply_inverse(matrix, g), sparse)
