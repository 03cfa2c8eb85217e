"""Convex quadratic problems over cones: an interior-point method, then Newton's method, with implicit derivatives.

    min over x:  ½ xᵀ P x + qᵀ x    where  s = h - G x in K,  A x = b

K is a product of second-order cones. The conic solvers of this package are instances of this problem. The module has three parts:

- `search`: Mehrotra's predictor-corrector method with the Nesterov-Todd scaling on the homogeneous embedding (Goulart and
  Chen, Clarabel, 2024). It ends at a solution or at a certificate that no solution exists.
- `residual`: the optimality conditions as one smooth function without inequalities. With `w = s - z`, z the multipliers, s and z
  are the positive and the negative part of w. They are smooth if `s ∘ z = κ e` is required instead of 0.
- `held`: a solution as a differentiable function of the problem, by the conditions instead of the iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._core.array import dot, matmul, matvec, transpose, vecmat
from .._core.derivatives import custom_jvp
from . import cones
from .implicit import remembered
from .outcome import Code


class Problem(NamedTuple):
    """The data of a problem: P, q, G and h (by cones), A, b and the smoothing κ."""

    p: Float[Array, "n n"]
    q: Float[Array, "n"]
    g: Float[Array, "k d n"]
    h: Float[Array, "k d"]
    a: Float[Array, "p n"]
    b: Float[Array, "p"]
    smoothing: Float[Array, ""]


class Point(NamedTuple):
    """An iterate: x, `w = s - z`, and the multipliers y of the equations."""

    x: Float[Array, "n"]
    w: Float[Array, "k d"]
    y: Float[Array, "p"]


class Found(NamedTuple):
    """A solution: x, slacks s, multipliers z and y. Without a solution, a certificate of size one.

    The certificate of infeasibility is z and y (`Gᵀ z + Aᵀ y = 0`, `hᵀ z + bᵀ y < 0`). The certificate of unboundedness is x
    (`P x = 0`, `A x = 0`, `-G x` in K, `qᵀ x < 0`).
    """

    x: Float[Array, "n"]
    s: Float[Array, "k d"]
    z: Float[Array, "k d"]
    y: Float[Array, "p"]
    iterations: Int[Array, ""]
    code: Int[Array, ""]


#: Maximum numbers of interior-point and Newton iterations; share of the way to the boundary that an interior-point step takes;
#: Newton iterations without sufficient progress before the solver gives up; maximum alternations of the two methods.
STEPS, NEWTON_STEPS, SHARE, FAILURES, TURNS = 60, 16, 0.99, 4, 3


def solve_conic(problem: Problem, guess: Point | None = None) -> Found:
    """Returns the solution, differentiable with respect to the whole problem.

    Args:
      problem: The problem.
      guess: A point from which the search starts. If None, it starts at the default point.
    """
    scale = _scale(lax.stop_gradient(problem))
    problem = scale.problem(problem)
    known = lax.stop_gradient((problem, None if guess is None else scale.into(guess)))
    point, iterations, code = remembered(search(*known))
    found = held(residual)(problem, point)
    # A certificate has no derivatives.
    proof = (code == Code.INFEASIBLE) | (code == Code.UNBOUNDED)
    x, w, y = jax.tree.map(lambda a, b: jnp.where(proof, b, a), found, point)
    s = cones.positive_part(w, jnp.where(proof, 0, problem.smoothing))
    out = scale.out_of(x, s, s - w, y)
    size = jnp.stack([jnp.max(jnp.abs(lax.stop_gradient(part)), initial=0) for part in out])
    size = jnp.where(proof, jnp.where(jnp.max(size) > 0, jnp.max(size), 1), 1)
    x, s, z, y = (part / size for part in out)
    return Found(x, s, z, y, iterations, code)


def held(residual: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a function of a problem and a point with `residual(point, problem) = 0` that returns the point.

    The returned point has the derivatives of the equation, `dpoint = -J⁻¹ d residual`, of all orders and in both modes. The
    derivatives of the given point are ignored.
    """

    @custom_jvp
    def solution(problem, point):
        return point

    @solution.defjvp
    def rule(primals, tangents):
        problem, point = primals
        point = solution(problem, point)
        change = jax.jvp(lambda problem: residual(point, problem), (problem,), (tangents[0],))[1]
        return point, correction(residual, problem, point, change)

    return solution


def correction(residual, problem, point, value):
    """Returns `-J⁻¹ value`, with J the derivative of the residual with respect to the point.

    If J is singular (multipliers that are not unique), the result is close to the solution of least norm, and large if the
    equation has no solution. A small multiple of the identity regularizes J and keeps it monotone. One step of iterative
    refinement corrects the error of the regularization.
    """
    flat, back = ravel_pytree(point)
    jacobian = jax.jacfwd(lambda flat: ravel_pytree(residual(back(flat), problem))[0])(flat)
    regular = jacobian + _little(flat.dtype) * jnp.eye(len(flat), dtype=flat.dtype)
    factors = jax.scipy.linalg.lu_factor(regular)
    value = ravel_pytree(value)[0]
    step = -jax.scipy.linalg.lu_solve(factors, value)
    return back(step - jax.scipy.linalg.lu_solve(factors, value + matvec(jacobian, step)))


def _little(dtype) -> float:
    return float(jnp.finfo(dtype).eps) ** (2 / 3)


def residual(point: Point, problem: Problem) -> Point:
    """Returns the residual of the optimality conditions."""
    x, w, y = point
    s = cones.positive_part(w, problem.smoothing)
    return Point(
        matvec(problem.p, x) + problem.q + _across(problem.g, s - w) + vecmat(y, problem.a),
        _along(problem.g, x) + s - problem.h,
        problem.b - matvec(problem.a, x),
    )


def _along(g, x):
    """Returns `G x`."""
    return matvec(g, x)


def _across(g, z):
    """Returns `Gᵀ z`."""
    return vecmat(z.reshape(-1), g.reshape(-1, g.shape[-1]))


def refined(residual, problem, point):
    """Solves the optimality conditions by Newton's method with a line search.

    The conditions are piecewise smooth. A step past a kink may have to pass through points with a larger residual.

    Returns:
      The best point, its largest residual, and the number of iterations.
    """
    lengths = 0.5 ** jnp.arange(6, dtype=ravel_pytree(point)[0].dtype)

    def missing(point):
        error = jnp.max(jnp.abs(ravel_pytree(residual(point, problem))[0]), initial=0)
        return jnp.where(jnp.isfinite(error), error, jnp.inf)

    def goes_on(at):
        _, _, error, count, failures = at
        return (failures < FAILURES) & (count < NEWTON_STEPS) & (error > 0)

    def step(at):
        point, best, error, count, failures = at
        change = correction(residual, problem, point, residual(point, problem))
        tried = jax.vmap(lambda t: jax.tree.map(lambda a, b: a + t * b, point, change))(lengths)
        errors = jax.vmap(missing)(tried)
        least = jnp.argmin(errors)
        point, now = jax.tree.map(lambda a: a[least], tried), errors[least]
        best = jax.tree.map(lambda a, b: jnp.where(now < error, a, b), point, best)
        # Near the solution, a step that does not halve the residual ends the iteration.
        failures = jnp.where(
            now < 0.5 * error, 0, jnp.where(error < _fine(now.dtype), FAILURES, failures + 1)
        )
        return point, best, jnp.minimum(now, error), count + 1, failures

    error, zero = missing(point), jnp.zeros((), jnp.int32)
    solved = error <= 4 * float(jnp.finfo(error.dtype).eps)
    start = point, point, error, zero, jnp.where(solved, FAILURES, zero)
    return lax.while_loop(goes_on, step, start)[1:4]


def _fine(dtype) -> float:
    """Returns the accuracy that the interior-point method reaches: 4e-10, or 7e-5 in single precision."""
    return float(jnp.finfo(dtype).eps) ** 0.6


class _Scale(NamedTuple):
    """Units of x, of each cone and of each equation, and one common unit, in which the data are of order one."""

    x: Float[Array, "n"]
    cone: Float[Array, "k"]
    equation: Float[Array, "p"]
    all: Float[Array, ""]

    def problem(self, problem: Problem) -> Problem:
        p, q, g, h, a, b, smoothing = problem
        x, cone, equation, size = self
        return Problem(
            p * x[:, None] * x[None, :],
            q * x / size,
            g * x[None, None, :] * cone[:, None, None],
            h * cone[:, None] / size,
            a * x[None, :] * equation[:, None],
            b * equation / size,
            smoothing / size**2,
        )

    def into(self, point: Point) -> Point:
        s = cones.positive_part(point.w, jnp.zeros((), point.w.dtype))
        w = s * self.cone[:, None] - (s - point.w) / self.cone[:, None]
        return Point(point.x / self.x / self.all, w / self.all, point.y / self.equation / self.all)

    def out_of(self, x, s, z, y):
        cone = self.cone[:, None]
        return self.all * self.x * x, self.all * s / cone, self.all * z * cone, self.all * self.equation * y


def _scale(problem: Problem) -> _Scale:
    """Computes the scaling by Ruiz' method.

    Each of three passes divides by the root of the largest entry of each row of `[[P, Gᵀ, Aᵀ], [G], [A]]`.
    """
    p, q, g, h, a, b, _ = problem
    dtype = q.dtype
    one = jnp.ones((), dtype)
    scale = _Scale(jnp.ones(q.shape, dtype), jnp.ones(g.shape[0], dtype), jnp.ones(b.shape, dtype), one)

    def step(_, scale):
        p, _, g, _, a, _, _ = jax.tree.map(jnp.abs, scale.problem(problem))
        largest = lambda x, axis: jnp.max(x, axis, initial=0)
        by_x = jnp.maximum(jnp.maximum(largest(p, 0), largest(g, (0, 1))), largest(a, 0))
        return scale._replace(
            x=scale.x * _reciprocal_root(by_x),
            cone=scale.cone * _reciprocal_root(largest(g, (1, 2))),
            equation=scale.equation * _reciprocal_root(largest(a, 1)),
        )

    scale = lax.fori_loop(0, 3, step, scale)
    scaled = scale.problem(problem)
    size = jnp.stack([jnp.max(jnp.abs(part), initial=0) for part in (scaled.q, scaled.h, scaled.b)])
    return scale._replace(all=jnp.where(jnp.max(size) > 0, jnp.max(size), 1))


def _reciprocal_root(x):
    return jnp.where(x > 0, 1 / jnp.sqrt(jnp.where(x > 0, x, 1)), 1)


class _At(NamedTuple):
    """A point of the homogeneous embedding. If τ > 0 the solution is `x / τ`; if κ > 0 no solution exists."""

    x: Array
    y: Array
    s: Array
    z: Array
    tau: Array
    kappa: Array


def search(problem: Problem, guess: Point | None):
    """Returns a point that solves the problem, the number of iterations, and the code.

    With a guess, Newton's method runs first. It suffices if the guess has the right active set. Each later pass starts the
    interior-point method near the point where the previous pass ended, away from the boundary.
    """
    zero = jnp.zeros((), jnp.int32)
    at = _start(problem) if guess is None else _start_near(problem, guess)
    first = zero if guess is None else zero - 1

    def goes_on(carry):
        _, _, _, code, turn = carry
        return (code == Code.NOT_CONVERGED) & (turn < TURNS)

    def step(carry):
        _, at, count, _, turn = carry
        at, more, code = _interior(problem, at, turn)
        proof = (code == Code.INFEASIBLE) | (code == Code.UNBOUNDED)
        largest = jnp.max(jnp.abs(ravel_pytree(at)[0]))
        size = jnp.where(proof, largest, jnp.maximum(at.tau, float(jnp.finfo(largest.dtype).eps) * largest))
        point = Point(at.x / size, (at.s - at.z) / size, at.y / size)
        better, _, steps = refined(residual, problem, point)
        point = jax.tree.map(lambda a, b: jnp.where(proof, a, b), point, better)
        end = jnp.where(_is_good(problem, point), Code.SOLVED, Code.NOT_CONVERGED)
        code = jnp.where(proof, code, end).astype(jnp.int32)
        return point, _start_near(problem, point), count + more + jnp.where(proof, 0, steps), code, turn + 1

    none = Point(at.x, at.s - at.z, at.y)
    start = none, at, zero, zero + int(Code.NOT_CONVERGED), first
    point, _, count, code, _ = lax.while_loop(goes_on, step, start)
    return point, count, code


def _interior(problem: Problem, at: _At, turn):
    """Runs the interior-point method; it takes no steps in the pass before the first (`turn < 0`).

    Slacks at their limit with a zero multiplier are accurate only to the root of the gap, so later passes require a smaller gap.
    """
    idle = turn < 0
    precision = float(jnp.finfo(at.tau.dtype).eps)
    narrow = jnp.maximum(precision**0.9 * jnp.where(turn > 0, precision**0.4, 1), 4 * problem.smoothing)

    def code_of(at):
        return _code(problem, at, _gap(at) <= narrow * at.tau**2)

    def goes_on(carry):
        _, count, code, stuck = carry
        return (code == Code.NOT_CONVERGED) & ~stuck & (count < STEPS)

    def step(carry):
        at, count, _, _ = carry
        tried, length = _advance(problem, at)
        # Near convergence, rounding may increase the gap again.
        before, now = _gap(at) / at.tau**2, _gap(tried) / tried.tau**2
        better = jnp.isfinite(ravel_pytree(tried)[0]).all() & ((before > _fine(now.dtype)) | (now < before))
        at = jax.tree.map(lambda a, b: jnp.where(better, b, a), at, tried)
        lost = ~better | (length < 1e-6) | (_gap(at) <= 0.01 * narrow * at.tau**2)
        return at, count + 1, code_of(at), lost

    code = jnp.where(idle, Code.SOLVED, Code.NOT_CONVERGED).astype(jnp.int32)
    return lax.while_loop(goes_on, step, (at, jnp.zeros((), jnp.int32), code, idle))[:3]


def _start(problem: Problem) -> _At:
    e = cones.unit(problem.h)
    one = jnp.ones((), problem.q.dtype)
    return _At(jnp.zeros_like(problem.q), jnp.zeros_like(problem.b), e, e, one, one)


def _start_near(problem: Problem, guess: Point) -> _At:
    """Returns a strictly interior start near a guess, closer to the boundary for a better guess."""
    off = jnp.max(jnp.abs(ravel_pytree(residual(guess, problem))[0]))
    off = jnp.clip(jnp.where(jnp.isfinite(off), off, 1), _fine(off.dtype), 1)
    s = cones.positive_part(guess.w, off)
    near = _At(guess.x, guess.y, s, s - guess.w, jnp.ones((), off.dtype), off)
    return near


def _code(problem: Problem, at: _At, narrow):
    """Returns the code of a point: solved (if the gap is `narrow`), infeasible, unbounded, or not converged yet."""
    _, q, g, h, a, b, smoothing = problem
    x, y, s, z, tau, kappa = at
    left = _left(problem, x, s, z, y, tau)
    # With smoothing the solution is away from the boundary, and Newton's method provides the remaining accuracy.
    tolerance = jnp.maximum(_fine(q.dtype), 0.01 * jnp.sqrt(smoothing))
    solved = _all_small(left, tau, tolerance) & narrow
    # A certificate is exact relative to its value. Once τ has vanished, it is exact relative to its size, to rounding.
    precision = float(jnp.finfo(q.dtype).eps)
    gone = tau <= precision * kappa

    def proves(promise, off, size):
        exact = (off <= precision**0.5 * promise) | (gone & (off <= precision**0.6 * size))
        return (promise > 0) & exact

    pulled = _size(_across(g, z) + vecmat(y, a))
    infeasible = proves(-(jnp.sum(h * z) + dot(b, y)), pulled, jnp.maximum(_size(z), _size(y)))
    moved = jnp.maximum(
        _size(matvec(problem.p, x)), jnp.maximum(_size(_along(g, x) + s), _size(matvec(a, x)))
    )
    unbounded = proves(-dot(q, x), moved, _size(x))
    code = jnp.where(infeasible, Code.INFEASIBLE, jnp.where(unbounded, Code.UNBOUNDED, Code.NOT_CONVERGED))
    return jnp.where(solved, Code.SOLVED, code).astype(jnp.int32)


def _is_good(problem: Problem, point: Point):
    """Returns whether the equations hold, each relative to its largest term."""
    x, w, y = point
    s = cones.positive_part(w, problem.smoothing)
    one = jnp.ones((), x.dtype)
    return _all_small(_left(problem, x, s, s - w, y, one), one, _fine(x.dtype))


def _left(problem: Problem, x, s, z, y, tau):
    """Returns the residual of each equation, and its largest term."""
    p, q, g, h, a, b, _ = problem
    sums = (
        (matvec(p, x), _across(g, z), vecmat(y, a), tau * q),
        (_along(g, x), s, -tau * h),
        (matvec(a, x), -tau * b),
    )
    return [(_size(sum(terms)), jnp.max(jnp.stack([_size(term) for term in terms]))) for terms in sums]


def _all_small(left, tau, tolerance):
    return jnp.all(jnp.stack([missing <= tolerance * (tau + largest) for missing, largest in left]))


def _size(u):
    return jnp.max(jnp.abs(u), initial=0)


def _gap(at: _At):
    """Returns the mean of `sᵀ z` over the cones."""
    return jnp.sum(at.s * at.z) / max(at.s.shape[0], 1)


def _advance(problem: Problem, at: _At):
    """Takes one predictor-corrector step. Returns the new point and the length of the step."""
    p, q, g, h, a, b, smoothing = problem
    x, y, s, z, tau, kappa = at
    w = cones.scaling(s, z)
    middle = w.apply(z)
    px = matvec(p, x)
    bend = dot(x, px) / tau
    left = (
        px + _across(g, z) + vecmat(y, a) + tau * q,
        _along(g, x) + s - tau * h,
        matvec(a, x) - tau * b,
        bend + dot(q, x) + jnp.sum(h * z) + dot(b, y) + kappa,
    )
    apply_inverse = _linear(problem, w)
    by_tau = apply_inverse(-q, h, b)

    def along(x, z, y):
        return dot(q + 2 / tau * px, x) + jnp.sum(h * z) + dot(b, y)

    mu = (jnp.sum(s * z) + tau * kappa) / (s.shape[0] + 1)

    def length(d):
        ways = cones.reach(s, d.s), cones.reach(z, d.z), _way(tau, d.tau), _way(kappa, d.kappa)
        return jnp.minimum(jnp.min(jnp.stack(ways)), 1)

    def direction(_, d):
        """Returns the step with the second-order terms of the previous direction d, which is zero at first."""
        # The centering respects the smoothing.
        share = jnp.clip(smoothing * tau**2 / mu, (1 - length(d)) ** 3, 1)
        crossed = cones.product(w.apply_inverse(d.s), w.apply(d.z)) - share * mu * cones.unit(s)
        by_cone = w.apply(middle + cones.quotient(middle, crossed))
        by_tau_kappa = tau * kappa + d.tau * d.kappa - share * mu
        less = share - 1
        dx, dz, dy = apply_inverse(less * left[0], less * left[1] + by_cone, less * left[2])
        dtau = along(dx, dz, dy) - less * left[3] - by_tau_kappa / tau
        dtau = dtau / (kappa / tau - along(*by_tau) + bend / tau)
        dx, dz, dy = (one + dtau * other for one, other in zip((dx, dz, dy), by_tau))
        ds = -by_cone - w.apply(w.apply(dz))
        return _At(dx, dy, ds, dz, dtau, -(by_tau_kappa + kappa * dtau) / tau)

    d = lax.fori_loop(0, 2, direction, jax.tree.map(jnp.zeros_like, at))
    t = SHARE * length(d)
    return jax.tree.map(lambda value, change: value + t * change, at, d), t


def _way(x, dx):
    return jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, -1), jnp.inf)


def _linear(problem: Problem, w: cones.Scaling):
    """Returns a function for the x, z and y with `P x + Gᵀ z + Aᵀ y = f`, `G x - W² z = k`, `A x = l`."""
    p, _, g, _, a, _, _ = problem
    scaled = w.apply_inverse(g)
    flat = scaled.reshape(-1, g.shape[-1])
    little = _little(p.dtype) ** 1.25
    inner = p + matmul(transpose(flat), flat)
    size = 1 / jnp.sqrt(jnp.maximum(jnp.diagonal(inner), little))
    inner = inner * size[:, None] * size[None, :] + little * jnp.eye(len(inner), dtype=p.dtype)
    rows = a.shape[0]
    if rows:
        side = a * size[None, :]
        corner = -little * jnp.eye(rows, dtype=p.dtype)
        factors = jax.scipy.linalg.lu_factor(jnp.block([[inner, transpose(side)], [side, corner]]))
    else:
        factors = jnp.linalg.cholesky(inner, symmetrize_input=False)

    def solve(f, l):
        if rows:
            found = jax.scipy.linalg.lu_solve(factors, jnp.concatenate([size * f, l]))
            return size * found[: len(f)], found[len(f) :]
        return size * jax.scipy.linalg.cho_solve((factors, True), size * f), l

    def apply_inverse(f, k, l):
        def step(_, at):
            # The second pass is iterative refinement.
            x, z, y = at
            own = w.apply_inverse(k - _along(g, x)) + w.apply(z)
            dx, dy = solve(
                f - matvec(p, x) - _across(g, z) - vecmat(y, a) + _across(scaled, own), l - matvec(a, x)
            )
            return x + dx, z + w.apply_inverse(_along(scaled, dx) - own), y + dy

        return lax.fori_loop(0, 2, step, jax.tree.map(jnp.zeros_like, (f, k, l)))

    return apply_inverse
