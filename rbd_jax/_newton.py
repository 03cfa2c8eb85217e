"""Newton's method for a few unknowns, differentiated by the implicit function theorem.

The Jacobian is dense and fresh at every step, and the full step is taken: no damping, no line search, no sparsity. What is
left to the caller is a guess within the basin of convergence and unknowns of comparable size.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, Float, Int


class Code(enum.IntEnum):
    """How an iteration ended. Anything but zero is a failure."""

    CONVERGED = 0
    NOT_CONVERGED = 1
    NOT_FINITE = 2


def solve(
    residual: Callable[[Float[Array, "n"]], Float[Array, "n"]],
    guess: Float[Array, "n"],
    tolerance: float | Float[Array, ""] | None = None,
    max_steps: int = 30,
) -> tuple[Float[Array, "n"], Int[Array, ""], Int[Array, ""]]:
    """The x with `residual(x) = 0`, a `Code`, and the number of Newton steps.

    It has converged when the last step δ is small against the unknowns, `|δ_i| ≤ tolerance (1 + |x_i|)`, by default with the
    precision to the power of two thirds: the next step would be of the order of its square, and unlike a bound on the
    residual that does not depend on how the equations are scaled. Where round-off keeps the steps above the tolerance they
    may also stop shrinking, below the root of the precision. A step that is not finite (a singular Jacobian, a residual
    outside its domain) is not taken: x is finite whatever the code says, and is a solution only where it says `CONVERGED`.

    Derivatives by whatever `residual` closes over are `-(∂r/∂x)⁻¹ ∂r/∂p`, of all orders, forward and in reverse; none of the
    iteration is remembered. The guess has derivative zero. Under `vmap` each sample has its own code and count.
    """
    if max_steps < 1:
        raise ValueError(f"solve: max_steps is {max_steps}; it must be at least 1")
    if not guess.size:
        return guess, jnp.int32(Code.CONVERGED), jnp.int32(0)
    # What the residual refers to becomes arguments, so that the root can be differentiated by it. It is traced once.
    residual, constants = jax.closure_convert(residual, guess)

    @jax.custom_jvp
    def root(constants, guess):
        return _iterate(lambda x: residual(x, *constants), guess, tolerance, max_steps)

    @root.defjvp
    def implicit(primals, tangents):
        constants, _ = primals
        x, code, steps = root(*primals)
        change = jax.jvp(lambda *constants: residual(x, *constants), constants, tangents[0])[1]
        slope = -solve_dense(lambda dx: jax.jvp(lambda x: residual(x, *constants), (x,), (dx,))[1], change)
        return (x, code, steps), (slope, zero_from_primal(code), zero_from_primal(steps))

    return root(tuple(constants), guess)


def _iterate(residual, guess, tolerance, max_steps):
    precision = jnp.finfo(guess.dtype).eps
    fine = jnp.asarray(precision ** (2 / 3) if tolerance is None else tolerance, guess.dtype)
    coarse = precision ** (1 / 2)

    def with_value(x):
        value = residual(x)
        return value, value

    def going_on(carry):
        _, _, code, steps = carry
        return (code == Code.NOT_CONVERGED) & (steps < max_steps)

    def advance(carry):
        x, last, _, steps = carry
        jacobian, value = jax.jacfwd(with_value, has_aux=True)(x)
        after = x - jnp.linalg.solve(jacobian, value)
        finite = jnp.all(jnp.isfinite(after))
        size = jnp.max(jnp.abs(after - x) / (1 + jnp.abs(x)))
        small = (size <= fine) | ((size <= coarse) & (size > last / 2))
        code = jnp.where(finite, jnp.where(small, Code.CONVERGED, Code.NOT_CONVERGED), Code.NOT_FINITE)
        return jnp.where(finite, after, x), size, code.astype(jnp.int32), steps + 1

    far = jnp.asarray(jnp.finfo(guess.dtype).max, guess.dtype)
    start = guess, far, jnp.asarray(Code.NOT_CONVERGED, jnp.int32), jnp.zeros((), jnp.int32)
    x, _, code, steps = lax.while_loop(going_on, advance, start)
    return x, code, steps


def solve_dense(
    linear: Callable[[Float[Array, "n"]], Float[Array, "n"]], rhs: Float[Array, "n"]
) -> Float[Array, "n"]:
    """The x with `linear(x) = rhs`, from the matrix of the linear function."""
    unit = jnp.eye(rhs.shape[0], dtype=rhs.dtype)
    return jnp.linalg.solve(jax.vmap(linear, out_axes=1)(unit), rhs)
