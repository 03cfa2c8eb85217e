"""Newton's method for a few unknowns, differentiated by the implicit function theorem.

The Jacobian is dense and fresh at every step, and the full step is taken: no damping, no line search, no sparsity. What is
left to the caller is a guess within the basin of convergence and unknowns of the order of one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int


class Code(enum.IntEnum):
    """How an iteration ended. Anything but zero is a failure."""

    CONVERGED = 0
    NOT_CONVERGED = 1
    NOT_FINITE = 2


def solve(
    residual: Callable[[Float[Array, "n"]], Float[Array, "n"]],
    guess: Float[Array, "n"],
    tolerance: float | Float[Array, ""],
    max_steps: int,
) -> tuple[Float[Array, "n"], Int[Array, ""], Int[Array, ""]]:
    """The x with `residual(x) = 0`, a `Code`, and the number of Newton steps.

    It has converged when no entry of the last step exceeds `tolerance · max(1, |x|_∞)`. As a step's error is of the order
    of the step's square, that leaves far less than `tolerance`; and unlike a bound on the residual it does not depend on
    how the equations are scaled. A step that is not finite (a singular Jacobian, a residual outside its domain) is not
    taken: x is finite whatever the code says, and is a solution only where it says `CONVERGED`.

    Derivatives by whatever `residual` closes over are `-(∂r/∂x)⁻¹ ∂r/∂p`, of all orders, forward and in reverse; none of the
    iteration is remembered. The guess has derivative zero. Under `vmap` each sample has its own code and count.
    """
    if max_steps < 1:
        raise ValueError(f"solve: max_steps is {max_steps}; it must be at least 1")

    def iterate(residual, guess):
        def going_on(carry):
            _, code, steps = carry
            return (code == Code.NOT_CONVERGED) & (steps < max_steps)

        def advance(carry):
            x, _, steps = carry
            value, slope = jax.linearize(residual, x)
            step = solve_dense(slope, value)
            after = x - step
            finite = jnp.all(jnp.isfinite(after))
            small = jnp.max(jnp.abs(step)) <= tolerance * jnp.maximum(1, jnp.max(jnp.abs(after)))
            code = jnp.where(finite, jnp.where(small, Code.CONVERGED, Code.NOT_CONVERGED), Code.NOT_FINITE)
            return jnp.where(finite, after, x), code.astype(jnp.int32), steps + 1

        start = guess, jnp.asarray(Code.NOT_CONVERGED, jnp.int32), jnp.zeros((), jnp.int32)
        x, *account = lax.while_loop(going_on, advance, start)
        # Handed out as real numbers, since `custom_root` cannot differentiate beside integers.
        return x, [number.astype(x.dtype) for number in account]

    x, account = lax.custom_root(residual, guess, iterate, solve_dense, has_aux=True)
    code, steps = (number.astype(jnp.int32) for number in account)
    return x, code, steps


def solve_dense(
    linear: Callable[[Float[Array, "n"]], Float[Array, "n"]], rhs: Float[Array, "n"]
) -> Float[Array, "n"]:
    """The x with `linear(x) = rhs`, from the matrix of the linear function."""
    unit = jnp.eye(rhs.shape[0], dtype=rhs.dtype)
    return jnp.linalg.solve(jax.vmap(linear, out_axes=1)(unit), rhs)
