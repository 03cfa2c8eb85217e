"""Dense convex quadratic programs of the size of a robot, by a primal-dual interior-point method.

    minimize    ½ xᵀ P x + qᵀ x
    subject to  A x = b,  G x ≤ h,  lower ≤ x ≤ upper

The method is Newton's on the optimality conditions, with Mehrotra's predictor and corrector. The proximal method of
multipliers handles the equalities, and a small proximal term holds x to its previous value. Each step then factorizes one
positive definite matrix of the size of x, even if rows are linearly dependent or P is singular (as in Schwan et al. 2023,
PIQP). The data are scaled first (Ruiz 2001).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import as_array, number, whole_number
from .._core.array import times, transpose
from .._core.derivatives import custom_jvp
from .._core.jit import compiled
from .._core.positive import apply_factors, factors, solve_positive
from .outcome import Code


#: Numbers of scaling passes, and of refinement steps of derivatives.
SCALINGS, REFINEMENTS = 5, 4
#: The share of the way to the boundary that a step takes.
SHARE = 0.99
#: The search ends after this number of consecutive steps without improvement.
IDLE = 12
#: The relative duality gap must be smaller than the residuals of the other optimality conditions by this factor.
GAP = 10.0
#: A stalled search counts as converged if its residual is at most this multiple of the tolerance.
ALMOST = 5.0
#: Relative tolerance of infeasibility and unboundedness certificates after a search has stalled.
LIKELY = 1e-3


class QuadraticProgram(eqx.Module):
    """The solution of a quadratic program.

    - `x`: the minimum.
    - `code`: a `Code`: `CONVERGED`, `INFEASIBLE` if no x satisfies the constraints, `UNBOUNDED` if there is no minimum, else
      `NOT_CONVERGED`, `STALLED` or `NOT_FINITE`.
    - `y`, `z`: the multipliers of `A x = b` and `G x ≤ h`.
    - `bounds`: the multipliers of the bounds, positive at `upper`. `P x + q + Aᵀ y + Gᵀ z + bounds = 0`.
    - `residual`: the residual of the optimality conditions, in the units of `tolerance`.
    - `iterations`: the number of steps.

    >>> found = rbd.control.quadratic_program(jnp.eye(2), jnp.array([-1.0, -2.0]), upper=jnp.array([0.5, 5.0]))
    >>> print(found.x, found.bounds, rbd.control.Code(int(found.code)).name)
    [0.5 2. ] [0.5 0. ] CONVERGED
    """

    x: Float[Array, "*batch n"]
    code: Int[Array, "*batch"]
    y: Float[Array, "*batch equalities"]
    z: Float[Array, "*batch inequalities"]
    bounds: Float[Array, "*batch n"]
    residual: Float[Array, "*batch"]
    iterations: Int[Array, "*batch"]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True if x is the minimum."""
        return self.code == Code.CONVERGED


def quadratic_program(
    P: Float[Array, "n n"],
    q: Float[Array, "n"],
    *,
    A: Float[Array, "equalities n"] | None = None,
    b: Float[Array, "equalities"] | None = None,
    G: Float[Array, "inequalities n"] | None = None,
    h: Float[Array, "inequalities"] | None = None,
    lower: Float[Array, "n"] | float | None = None,
    upper: Float[Array, "n"] | float | None = None,
    tolerance: float | None = None,
    max_steps: SupportsIndex = 50,
) -> QuadraticProgram:
    """Returns the x that minimizes `½ xᵀ P x + qᵀ x` subject to `A x = b`, `G x ≤ h` and `lower ≤ x ≤ upper`.

    Rows may be linearly dependent, and P may be singular. If several minima exist, the solver returns one in their middle. h
    and bounds may be infinite. Derivatives are those of the optimality conditions with a fixed active set. They are finite
    wherever the program was solved. If a row is active with a zero multiplier, the derivatives are one-sided. Under `vmap`
    each program has its own code.

    Args:
      P: Symmetric matrix with no negative eigenvalue. Only its symmetric part counts.
      q: Linear term.
      A, b: Equality constraints `A x = b`.
      G, h: Inequality constraints `G x ≤ h`.
      lower, upper: Bounds of x, a number or one for each entry.
      tolerance: Tolerance of the optimality conditions, relative to their largest terms; by default 1e-8, in single
        precision 2e-4.
      max_steps: Maximum number of steps; typical programs take about ten.

    Returns:
      A `QuadraticProgram`. Check its `code`.

    >>> found = rbd.control.quadratic_program(
    ...     jnp.eye(2), jnp.array([-1.0, -2.0]), A=jnp.array([[1.0, 1.0]]), b=jnp.array([1.0]), lower=0.25
    ... )
    >>> print(found.x, found.bounds)
    [0.25 0.75] [-0.5  0. ]
    """
    owner = "quadratic_program"
    program = _checked(owner, P, q, A, b, G, h, lower, upper)
    dtype = program.q.dtype
    allowed = _tolerance(dtype) if tolerance is None else tolerance
    allowed = number(owner, "tolerance", allowed, dtype=dtype, above=0)
    return _solved(program, allowed, whole_number(owner, "max_steps", max_steps))


def _tolerance(dtype) -> float:
    return 1e-8 if dtype == np.float64 else 2e-4


class Program(NamedTuple):
    """A quadratic program with all its data."""

    P: Float[Array, "n n"]
    q: Float[Array, "n"]
    A: Float[Array, "e n"]
    b: Float[Array, "e"]
    G: Float[Array, "i n"]
    h: Float[Array, "i"]
    lower: Float[Array, "n"]
    upper: Float[Array, "n"]


def _checked(owner: str, P, q, A, b, G, h, lower, upper) -> Program:
    q = as_array(owner, "q", q, "an array of length n")
    if q.ndim != 1:
        raise ValueError(f"{owner}: q has shape {q.shape}; it is (n,); batch with jax.vmap or rbd.batch_map")
    n = len(q)
    P = as_array(owner, "P", P, "a symmetric matrix (n, n)")
    if P.shape != (n, n):
        raise ValueError(f"{owner}: P has shape {P.shape}, and q has {n} entries; P is ({n}, {n})")
    A, b = _rows(owner, "A", A, "b", b, n, q.dtype)
    G, h = _rows(owner, "G", G, "h", h, n, q.dtype)
    sides = []
    for name, side, missing in (("lower", lower, -jnp.inf), ("upper", upper, jnp.inf)):
        side = as_array(owner, name, missing if side is None else side, f"a number, or {n} of them")
        if side.shape not in ((), (n,)):
            raise ValueError(
                f"{owner}: {name} has shape {side.shape}; it must be a number or have shape ({n},)"
            )
        sides.append(side)
    dtype = jnp.result_type(*(x.dtype for x in (P, q, *(x for x in (A, b, G, h) if x.size))))
    cast = lambda x: x.astype(dtype)
    lower, upper = (jnp.broadcast_to(cast(side), (n,)) for side in sides)
    P, q, A, b, G, h = (cast(x) for x in (P, q, A, b, G, h))
    return Program(0.5 * (P + transpose(P)), q, A, b, G, h, lower, upper)


def _rows(owner: str, left: str, matrix, right: str, side, n: int, dtype):
    if (matrix is None) != (side is None):
        raise ValueError(f"{owner}: {left} and {right} belong together, and only one of them is given")
    if matrix is None:
        return jnp.zeros((0, n), dtype), jnp.zeros(0, dtype)
    matrix = as_array(owner, left, matrix, f"an array (rows, {n})")
    side = as_array(owner, right, side, "an array with a number for each row")
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise ValueError(f"{owner}: {left} has shape {matrix.shape}; it is (rows, {n})")
    if side.shape != matrix.shape[:1]:
        raise ValueError(f"{owner}: {right} has shape {side.shape}; {left} has {matrix.shape[0]} rows")
    return matrix, side


@compiled
def _solved(program: Program, tolerance: Float[Array, ""], max_steps: int) -> QuadraticProgram:
    """Solves a program whose arguments are already checked."""

    @custom_jvp
    def minimum(program, tolerance):
        return solve(program, tolerance, max_steps)

    @minimum.defjvp
    def implicit(primals, tangents):
        found = minimum(*primals)
        changes = jax.tree.map(zero_from_primal, found)
        x, y, z, bounds = _changes(primals[0], found, tangents[0])
        where = lambda tree: (tree.x, tree.y, tree.z, tree.bounds)
        return found, eqx.tree_at(where, changes, (x, y, z, bounds))

    return minimum(program, tolerance)


class _State(NamedTuple):
    """An iterate: x, the multipliers y of equalities, and z and slacks s of inequalities: rows of G, upper and lower bounds."""

    x: Float[Array, "n"]
    y: Float[Array, "e"]
    z: Float[Array, "m"]
    s: Float[Array, "m"]


class _Ends(NamedTuple):
    """The state of a search.

    - `state`: the iterate. `best`: the best iterate so far, with its `residual`.
    - `hold`: the proximal weight on x. It grows after a step that is not finite.
    - `idle`: the number of steps since the best iterate was found.
    """

    state: _State
    best: _State
    residual: Float[Array, ""]
    code: Int[Array, ""]
    steps: Int[Array, ""]
    hold: Float[Array, ""]
    idle: Int[Array, ""]


class _Scaled:
    """A program scaled to size one: `x = columns x̂`, rows times `of_A` and `of_G`, the cost times `of_cost`."""

    def __init__(self, program: Program):
        P, A, G = program.P, program.A, program.G
        n, e, i = len(program.q), len(program.b), len(program.h)
        columns, of_A, of_G = (jnp.ones(size, P.dtype) for size in (n, e, i))

        def scale(size):
            """Returns the reciprocal root, or one for a row or column of zeros."""
            return jnp.where(size > 0, lax.rsqrt(jnp.where(size > 0, size, 1)), 1)

        def scaled(_, sizes):
            columns, of_A, of_G = sizes
            by = lambda matrix, rows: jnp.abs(matrix * rows[:, None] * columns[None, :])
            P_, A_, G_ = by(P, columns), by(A, of_A), by(G, of_G)
            largest = [jnp.max(x, axis=0, initial=0) for x in (P_, A_, G_)]
            column = jnp.maximum(jnp.maximum(largest[0], largest[1]), largest[2])
            rows = [jnp.max(x, axis=1, initial=0) for x in (A_, G_)]
            return columns * scale(column), of_A * scale(rows[0]), of_G * scale(rows[1])

        columns, of_A, of_G = lax.fori_loop(0, SCALINGS, scaled, (columns, of_A, of_G))
        q = program.q * columns
        P = P * columns[:, None] * columns[None, :]
        size = jnp.maximum(jnp.max(jnp.abs(q), initial=0), jnp.max(jnp.abs(P), initial=0))
        of_cost = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 1)
        self.columns, self.of_A, self.of_G, self.of_cost = columns, of_A, of_G, of_cost
        self.P, self.q = P * of_cost, q * of_cost
        self.A, self.b = A * of_A[:, None] * columns[None, :], program.b * of_A
        self.G = G * of_G[:, None] * columns[None, :]
        sides = jnp.concatenate([program.h * of_G, program.upper / columns, -program.lower / columns])
        #: Rows with a finite bound.
        self.counts = jnp.isfinite(sides)
        self.h = jnp.where(self.counts, sides, 0)

    # The rows of G, of the upper and of the lower bounds form one matrix.

    def rows(self, x):
        return jnp.where(self.counts, jnp.concatenate([times(self.G, x), x, -x]), 0)

    def transposed(self, z):
        of_G, upper, lower = self.parts(jnp.where(self.counts, z, 0))
        return jnp.sum(self.G * of_G[:, None], axis=0) + upper - lower

    def parts(self, z):
        i, n = len(self.G), len(self.q)
        return z[:i], z[i : i + n], z[i + n :]

    def squares(self, w):
        """Returns `Gᵀ W G`."""
        of_G, upper, lower = self.parts(jnp.where(self.counts, w, 0))
        return gram(self.G, of_G) + jnp.where(np.eye(len(upper), dtype=bool), (upper + lower)[:, None], 0)


def gram(matrix: Float[Array, "m n"], weight: Float[Array, "m"]) -> Float[Array, "n n"]:
    """Returns `Aᵀ W A`, as a loop over the rows."""

    def add(total, row):
        vector, weight = row
        return total + (weight * vector)[:, None] * vector[None, :], None

    n = matrix.shape[1]
    return lax.scan(add, jnp.zeros((n, n), matrix.dtype), (matrix, weight))[0]


def solve(program: Program, tolerance: Float[Array, ""], max_steps: int) -> QuadraticProgram:
    """Returns the solution, without derivatives."""
    scaled = _Scaled(program)
    end = _Search(scaled, tolerance).run(max_steps)
    state = end.best
    of_G, upper, lower = scaled.parts(jnp.where(scaled.counts, state.z, 0))
    x = jnp.clip(state.x * scaled.columns, program.lower, program.upper)
    y = state.y * scaled.of_A / scaled.of_cost
    z = of_G * scaled.of_G / scaled.of_cost
    bounds = (upper - lower) / scaled.columns / scaled.of_cost
    return QuadraticProgram(x, end.code, y, z, bounds, end.residual, end.steps)


class _Search:
    """The interior-point iteration for a scaled program.

    - `give`: proximal weight: each step leaves equalities violated by this multiple of the change of their multipliers.
    - `proven`: relative tolerance of certificates that the program is infeasible or unbounded.
    - `fixed`: the part of the matrix that is equal in all iterations.
    """

    def __init__(self, own: _Scaled, tolerance: Float[Array, ""]):
        self.own, self.tolerance = own, tolerance
        self.counts = own.counts
        self.count = jnp.maximum(jnp.sum(own.counts), 1).astype(own.q.dtype)
        precision, dtype = float(jnp.finfo(own.q.dtype).eps), own.q.dtype
        self.give = np.asarray(precision**0.4, dtype)
        self.proven = np.asarray(max(precision**0.5, 1e-6), dtype)
        self.hold = jnp.asarray(10 * precision**0.75, dtype)
        self.At = transpose(own.A)
        self.fixed = own.P + gram(own.A, jnp.full(len(own.A), 1 / self.give, dtype))

    def run(self, max_steps: int) -> _Ends:
        own, dtype = self.own, self.own.q.dtype
        s = jnp.where(self.counts, jnp.maximum(jnp.where(self.counts, own.h, 1), 1), 1)
        start = _State(jnp.zeros_like(own.q), jnp.zeros_like(own.b), jnp.where(self.counts, 1 / s, 0), s)
        endless, unknown = jnp.asarray(jnp.inf, dtype), jnp.int32(Code.NOT_CONVERGED)
        begun = _Ends(start, start, endless, unknown, jnp.int32(0), self.hold, jnp.int32(0))
        going = lambda ends: (ends.code == Code.NOT_CONVERGED) & (ends.steps < max_steps)
        return lax.while_loop(going, self.advance, begun)

    def residuals(self, state: _State):
        """Returns the residuals of stationarity, equalities and inequalities."""
        own = self.own
        dual = times(own.P, state.x) + own.q + times(self.At, state.y) + own.transposed(state.z)
        unequal = jnp.where(self.counts, own.rows(state.x) + state.s - own.h, 0)
        return dual, times(own.A, state.x) - own.b, unequal

    def direction(self, factored, weight, state: _State, off, against) -> _State:
        """Returns the Newton step; `against` is the residual of complementarity."""
        own, counts = self.own, self.counts
        dual, equal, unequal = off
        pushed = weight * unequal - jnp.where(counts, against / state.s, 0)
        rhs = dual + own.transposed(pushed) + times(self.At, equal) / self.give
        x = -apply_factors(factored, rhs)
        y = (times(own.A, x) + equal) / self.give
        s = jnp.where(counts, -unequal - own.rows(x), 0)
        z = jnp.where(counts, weight * (own.rows(x) + unequal) - against / state.s, 0)
        return _State(x, y, z, s)

    def longest(self, state: _State, step: _State) -> Float[Array, ""]:
        """Returns the largest multiple of a step that keeps slacks and multipliers positive."""

        def of(values, changes):
            inward = self.counts & (changes < 0)
            short = jnp.where(inward, -values / jnp.where(changes < 0, changes, -1), jnp.inf)
            return jnp.min(short, initial=jnp.inf)

        return jnp.minimum(of(state.s, step.s), of(state.z, step.z))

    def corrected_step(self, factored, weight, state: _State) -> _State:
        """Returns Mehrotra's predictor-corrector step. A loop keeps the compiled code short."""
        off, product = self.residuals(state), state.s * state.z
        mean = jnp.sum(jnp.where(self.counts, product, 0)) / self.count

        def corrected(_, known):
            """Returns the complementarity residual for the corrector, and the step."""
            step = self.direction(factored, weight, state, off, known[0])
            ahead = _moved(state, step, jnp.minimum(self.longest(state, step), 1))
            left = jnp.sum(jnp.where(self.counts, ahead.s * ahead.z, 0)) / self.count
            centering = jnp.minimum((left / jnp.where(mean > 0, mean, 1)) ** 3, 1)
            return product + step.s * step.z - centering * mean, step

        return lax.fori_loop(0, 2, corrected, (product, state))[1]

    def missed(self, state: _State) -> Float[Array, ""]:
        """Returns the largest residual of the optimality conditions, relative to their largest terms."""
        own, counts = self.own, self.counts
        dual, equal, unequal = self.residuals(state)
        of_dual = _size(times(own.P, state.x), own.q, times(self.At, state.y), own.transposed(state.z))
        of_primal = _size(times(own.A, state.x), own.b, own.rows(state.x), jnp.where(counts, own.h, 0))
        gap = jnp.sum(jnp.where(counts, state.s * state.z, 0))
        cost = jnp.abs(0.5 * jnp.sum(state.x * times(own.P, state.x)) + jnp.sum(own.q * state.x))
        missed = jnp.maximum(_size(dual) / (1 + of_dual), _size(equal, unequal) / (1 + of_primal))
        # The gap has a tighter tolerance: where a multiplier is small, the error of x may be larger than the gap.
        return jnp.maximum(missed, GAP * gap / (1 + cost))

    def proof(self, state: _State) -> Callable:
        """Returns a function of a tolerance and a default code. It returns the default, `INFEASIBLE` or `UNBOUNDED`."""
        own, one = self.own, jnp.asarray(1, self.own.q.dtype)
        # Diverging multipliers prove infeasibility: no x satisfies the sum of constraints that they weight.
        large = jnp.maximum(_size(state.y, state.z), one)
        against = _size(times(self.At, state.y) + own.transposed(state.z)) / large
        proof = (jnp.sum(own.b * state.y) + jnp.sum(own.h * jnp.where(self.counts, state.z, 0))) / large
        # A diverging x proves unboundedness: the cost decreases along it without violating constraints.
        far = jnp.maximum(_size(state.x), one)
        ways = _size(times(own.P, state.x), times(own.A, state.x), jnp.maximum(own.rows(state.x), 0)) / far
        down = jnp.sum(own.q * state.x) / far

        def otherwise(share, code):
            code = jnp.where((down < 0) & (ways <= share * -down) & (far > 1), Code.UNBOUNDED, code)
            return jnp.where((proof < 0) & (against <= share * -proof) & (large > 1), Code.INFEASIBLE, code)

        return otherwise

    def advance(self, ends: _Ends) -> _Ends:
        own, state = self.own, ends.state
        weight = jnp.where(self.counts, state.z / state.s, 0)
        matrix = self.fixed + own.squares(weight)
        held = jnp.where(np.eye(len(own.q), dtype=bool), matrix + ends.hold, matrix)
        step = self.corrected_step(factors(held), weight, state)
        after = _moved(state, step, jnp.minimum(SHARE * self.longest(state, step), 1))
        finite = jnp.all(jnp.isfinite(after.x)) & jnp.all(jnp.isfinite(after.z))
        choose = lambda yes, new, old: jax.tree.map(lambda new, old: jnp.where(yes, new, old), new, old)
        after = choose(finite, after, state)

        missed, otherwise = self.missed(after), self.proof(after)
        none = otherwise(self.proven, Code.NOT_CONVERGED)
        code = jnp.where(missed <= self.tolerance, Code.CONVERGED, none).astype(jnp.int32)
        better = finite & (missed < ends.residual)
        idle = jnp.where(better, 0, ends.idle + 1)
        stalled = (idle >= IDLE) & (code == Code.NOT_CONVERGED)
        almost = ends.residual <= ALMOST * self.tolerance
        lost = jnp.where(almost, Code.CONVERGED, otherwise(LIKELY, Code.STALLED))
        code = jnp.where(stalled, jnp.where(jnp.isfinite(ends.residual), lost, Code.NOT_FINITE), code)
        best = choose(better | (code == Code.INFEASIBLE) | (code == Code.UNBOUNDED), after, ends.best)
        least = jnp.minimum(missed, ends.residual)
        hold = jnp.where(finite, ends.hold, 30 * ends.hold)
        return _Ends(after, best, least, code.astype(jnp.int32), ends.steps + 1, hold, idle)


def _moved(state: _State, step: _State, share: Float[Array, ""]) -> _State:
    return jax.tree.map(lambda value, change: value + share * change, state, step)


def _size(*parts: Float[Array, "_"]) -> Float[Array, ""]:
    """Returns the largest absolute value in all arrays."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(part), initial=0) for part in parts]))


def _changes(program: Program, found: QuadraticProgram, by: Program):
    """Returns the changes of x and the multipliers with the data, for a fixed active set."""
    own, dtype = _Scaled(program), program.q.dtype
    x, y = found.x, found.y
    # The multipliers of the upper and the lower bounds.
    pairs = jnp.maximum(found.bounds, 0), jnp.maximum(-found.bounds, 0)
    slack = jnp.concatenate([program.h - times(program.G, x), program.upper - x, x - program.lower])
    slack = slack * jnp.concatenate([own.of_G, 1 / own.columns, 1 / own.columns])
    z = jnp.concatenate([found.z / own.of_G, pairs[0] * own.columns, pairs[1] * own.columns]) * own.of_cost
    tight = own.counts & (z > slack)
    dual = (
        times(by.P, x) + by.q + jnp.sum(by.A * y[:, None], axis=0) + jnp.sum(by.G * found.z[:, None], axis=0)
    )
    dual = dual * own.columns * own.of_cost
    equal = (times(by.A, x) - by.b) * own.of_A
    unequal = [(times(by.G, x) - by.h) * own.of_G, -by.upper / own.columns, by.lower / own.columns]
    unequal = jnp.where(tight, jnp.concatenate(unequal), 0)
    precision = float(jnp.finfo(dtype).eps)
    # The two weights are close enough that rounding stays below the changes of active rows.
    give, hold = 100 * precision**0.5, precision**0.55
    stiff = jnp.where(tight, jnp.asarray(1 / give, dtype), 0)
    eye = jnp.eye(len(x), dtype=dtype)
    matrix = own.P + gram(own.A, jnp.full(len(y), 1 / give, dtype)) + own.squares(stiff) + hold * eye

    def refined(changes, _):
        dx, dy, dz = changes
        asked, pushed = dy + equal / give, jnp.where(tight, dz + unequal / give, 0)
        rhs = hold * dx - dual - jnp.sum(own.A * asked[:, None], axis=0) - own.transposed(pushed)
        dx = solve_positive(matrix, rhs)
        dy = dy + (times(own.A, dx) + equal) / give
        return (dx, dy, jnp.where(tight, dz + (own.rows(dx) + unequal) / give, 0)), None

    start = tuple(jnp.zeros_like(part) for part in (x, equal, unequal))
    dx, dy, dz = lax.scan(refined, start, length=REFINEMENTS)[0]
    of_G, upper, lower = own.parts(dz)
    return (
        dx * own.columns,
        dy * own.of_A / own.of_cost,
        of_G * own.of_G / own.of_cost,
        (upper - lower) / own.columns / own.of_cost,
    )
