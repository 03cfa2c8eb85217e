"""Newton's method for a few unknowns, differentiated by the implicit function theorem.

The Jacobian is dense and recomputed in every iteration. The full step is taken if it reduces the residual sufficiently, and
halved otherwise. The caller provides a guess in the region of convergence, and unknowns of comparable size.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, Float, Int

from .._core.array import matvec
from .._core.derivatives import custom_jvp
from .implicit import remembered
from .outcome import Code


#: A step is halved until the residual decreases by this share of the linear prediction. At the smallest share the step is
#: taken in any case, so that the iteration can leave a local minimum of the residual.
PROMISED, SMALLEST_SHARE = 1 / 4, 1 / 64


def newton(
    residual: Callable[[Float[Array, "n"]], Float[Array, "n"]],
    guess: Float[Array, "n"],
    tolerance: float | Float[Array, ""] | None = None,
    max_steps: int = 50,
    linear_solve: Callable[[Float[Array, "n n"], Float[Array, "n"]], Float[Array, "n"]] = jnp.linalg.solve,
    near: Callable[[Float[Array, "n"]], Float[Array, "n"]] | None = None,
) -> tuple[Float[Array, "n"], Int[Array, ""], Int[Array, ""]]:
    """Solves `residual(x) = 0`.

    Convergence: the last step δ is small relative to the unknowns, `|δ_i| ≤ tolerance (1 + |x_i|)`. The next step would be of the
    order of its square. Unlike a bound on the residual, this criterion does not depend on the scaling of the equations. If
    round-off keeps the steps above the tolerance, it suffices that they stop shrinking, below the root of the machine precision.

    A step to a point where the next step is not finite (a singular Jacobian, a residual outside its domain) is shortened like a
    step that increases the residual. If that does not help, it is rejected. x is therefore finite whatever the code is, and a
    solution only if the code is `CONVERGED`.

    Derivatives with respect to values that `residual` closes over are `-(∂r/∂x)⁻¹ ∂r/∂p`, of all orders, forward and in reverse.
    The iterations are not stored. The guess has derivative zero. Under `vmap` each sample has its own code and count.

    Args:
      residual: The function r(x).
      guess: The first x.
      tolerance: Relative tolerance of the last step; by default the machine precision to the power 2/3.
      max_steps: Maximum number of iterations.
      linear_solve: Solver of the linear systems. Pass `solve_redundant` if some unknowns are not determined.
      near: A function with nearly the same slopes as `residual` that is cheaper to differentiate. If given, the steps use its
        Jacobian.

    Returns:
      x, a `Code`, and the number of Jacobians that were computed.

    >>> x, code, jacobians = rbd.simulate.newton(lambda x: x**2 - 2.0, jnp.array([1.0]))
    >>> print(x, rbd.simulate.Code(int(code)).name)
    [1.414] CONVERGED
    """
    if max_steps < 1:
        raise ValueError(f"newton: max_steps is {max_steps}; it must be at least 1")
    if not guess.size:
        return guess, jnp.int32(Code.CONVERGED), jnp.int32(0)
    # Closed-over values become arguments, so that the root can be differentiated with respect to them. This traces once.
    residual, constants = jax.closure_convert(residual, guess)
    sloped, known = (residual, ()) if near is None else jax.closure_convert(near, guess)

    @custom_jvp
    def root(constants, known, guess):
        here = lambda x: residual(x, *constants)
        like = here if near is None else lambda x: sloped(x, *known)
        return remembered(_iterate(here, like, guess, tolerance, max_steps, linear_solve))

    @root.defjvp
    def implicit(primals, tangents):
        constants, _, _ = primals
        x, code, steps = root(*primals)
        change = jax.jvp(lambda *constants: residual(x, *constants), constants, tangents[0])[1]
        along = lambda dx: jax.jvp(lambda x: residual(x, *constants), (x,), (dx,))[1]
        slope = -solve_dense(along, change, linear_solve)
        return (x, code, steps), (slope, zero_from_primal(code), zero_from_primal(steps))

    return root(tuple(constants), tuple(known), guess)


def _iterate(residual, near, guess, tolerance, max_steps, linear_solve):
    precision = jnp.finfo(guess.dtype).eps
    fine = jnp.asarray(precision ** (2 / 3) if tolerance is None else tolerance, guess.dtype)
    coarse = precision ** (1 / 2)

    def with_value(x):
        value = residual(x)
        return value, value

    def linearized(x):
        if near is residual:
            return jax.jacfwd(with_value, has_aux=True)(x)
        return jax.jacfwd(near)(x), residual(x)

    def going_on(carry):
        _, _, code, steps = carry
        return (code == Code.NOT_CONVERGED) & (steps < max_steps)

    def advance(carry):
        (x, step, size, weights, missing), share, _, steps = carry
        trial = x - share * step
        # The barrier prevents the compiler from recomputing these in each loop that reads them.
        jacobian, value = lax.optimization_barrier(linearized(trial))
        next_step = linear_solve(jacobian, value)
        next_size = jnp.max(jnp.abs(next_step) / (1 + jnp.abs(trial)))
        finite = jnp.isfinite(next_size)
        # Each equation is scaled by its change along the unknowns, so that the caller need not scale the equations.
        reach = jnp.sum(jnp.abs(jacobian) * (1 + jnp.abs(trial))[None], axis=1)
        next_weights = 1 / jnp.where(reach > 0, reach, 1)
        solvable = jnp.max(next_weights * jnp.abs(matvec(jacobian, next_step) - value)) <= coarse
        less = jnp.max(weights * jnp.abs(value)) <= (1 - PROMISED * share) * missing
        shortest = share <= SMALLEST_SHARE
        taken = finite & (less | (next_size <= coarse) | shortest)
        small = (next_size <= fine) | ((next_size <= coarse) & (next_size > size / 2))
        lost = ~finite & (shortest | (steps == 0))
        code = jnp.where(
            taken & small & solvable, Code.CONVERGED, jnp.where(lost, Code.NOT_FINITE, Code.NOT_CONVERGED)
        )
        after = trial, next_step, next_size, next_weights, jnp.max(next_weights * jnp.abs(value))
        place = tuple(jnp.where(taken, new, old) for new, old in zip(after, carry[0], strict=True))
        share = jnp.where(taken, jnp.minimum(2 * share, 1), share / 2)
        return place, share, code.astype(jnp.int32), steps + 1

    endless = jnp.asarray(jnp.inf, guess.dtype)
    nothing = jnp.zeros_like(guess)
    unknown = jnp.asarray(Code.NOT_CONVERGED, jnp.int32)
    start = (guess, nothing, endless, nothing, endless), jnp.ones_like(endless), unknown, jnp.int32(0)
    (x, step, *_), _, code, steps = lax.while_loop(going_on, advance, start)
    return jnp.where(code == Code.CONVERGED, x - step, x), code, steps


def solve_dense(
    linear: Callable[[Float[Array, "n"]], Float[Array, "n"]],
    rhs: Float[Array, "n"],
    linear_solve: Callable[[Float[Array, "n n"], Float[Array, "n"]], Float[Array, "n"]] = jnp.linalg.solve,
) -> Float[Array, "n"]:
    """Returns the x with `linear(x) = rhs`, from the matrix of the linear function."""
    unit = jnp.eye(rhs.shape[0], dtype=rhs.dtype)
    return linear_solve(jax.vmap(linear, out_axes=1)(unit), rhs)


def solve_redundant(a: Float[Array, "n n"], b: Float[Array, "n"]) -> Float[Array, "n"]:
    """Returns a solution of `A x = b` with redundant rows or unknowns, or the x of least residual if no solution exists.

    Among these it has the least norm, after the rows and columns of A are scaled to size one.

    >>> twice = jnp.array([[1.0, 1.0], [1.0, 1.0]])
    >>> print(rbd.simulate.solve_redundant(twice, jnp.array([2.0, 2.0])))
    [1. 1.]
    """
    rows = _scale(jnp.max(jnp.abs(a), axis=1))
    columns = _scale(jnp.max(jnp.abs(a * rows[:, None]), axis=0))
    tolerance = np.asarray(float(jnp.finfo(a.dtype).eps) ** (2 / 3), a.dtype)
    inverse = jnp.linalg.pinv(a * rows[:, None] * columns[None, :], rtol=tolerance)
    return columns * matvec(inverse, rows * b)


def _scale(size):
    size = lax.stop_gradient(size)
    return jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 1)
