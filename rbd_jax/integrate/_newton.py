"""Newton's iteration for the equations of an implicit step, differentiated by the implicit function theorem.

The Jacobian is dense and made by automatic differentiation: a step has few unknowns. Nothing of the iteration is
differentiated or remembered: the derivative of the root is `-J⁻¹ ∂residual`, with J once more at the root.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, Float, Int

from ._result import Result


ITERATIONS = 30


def newton(
    residual: Callable[[Float[Array, "n"]], Float[Array, "n"]], guess: Float[Array, "n"]
) -> tuple[Float[Array, "n"], Int[Array, ""]]:
    """The root of `residual` near `guess`, and a code.

    It has converged when the last change δ is small against the unknowns, `|δ_i| ≤ ε^(2/3) (1 + |x_i|)`; the next one would
    be of the order of its square. The residual then is small against the terms it is made of: `|r_i| ≤ ε^(2/3) Σ |J_ij|
    (1 + |x_j|)`. So the unknowns should be of comparable size; the schemes here ask for velocities. Where round-off
    keeps the changes above that bound they may also stop shrinking, below `√ε`. A root that is not found is not a
    root: whoever asks must look at the code.
    """
    if not guess.size:
        return guess, jnp.int32(Result.SUCCESS)
    # What the residual refers to becomes arguments, so that the root can be differentiated by it.
    residual, constants = jax.closure_convert(residual, guess)

    @jax.custom_jvp
    def root(constants, guess):
        return _iterate(lambda x: residual(x, *constants), guess)

    @root.defjvp
    def implicit(primals, tangents):
        constants, _ = primals
        x, code = root(*primals)
        change = jax.jvp(lambda *constants: residual(x, *constants), constants, tangents[0])[1]
        jacobian = jax.jacfwd(residual)(x, *constants)
        return (x, code), (-jnp.linalg.solve(jacobian, change), zero_from_primal(code))

    return root(tuple(constants), guess)


def _iterate(residual, guess):
    precision = jnp.finfo(guess.dtype).eps
    fine, coarse = precision ** (2 / 3), precision ** (1 / 2)

    def with_value(x):
        value = residual(x)
        return value, value

    def improve(carry):
        x, last, _, count = carry
        jacobian, value = jax.jacfwd(with_value, has_aux=True)(x)
        change = jnp.linalg.solve(jacobian, value)
        size = jnp.max(jnp.abs(change) / (1 + jnp.abs(x)))
        done = (size <= fine) | ((size <= coarse) & (size > last / 2))
        return x - change, size, done, count + 1

    def going_on(carry):
        _, size, done, count = carry
        return ~done & jnp.isfinite(size) & (count < ITERATIONS)

    large = jnp.asarray(jnp.finfo(guess.dtype).max, guess.dtype)
    x, size, done, _ = lax.while_loop(going_on, improve, (guess, large, jnp.array(False), jnp.int32(0)))
    failure = jnp.where(jnp.isfinite(size), Result.NOT_CONVERGED, Result.NOT_FINITE)
    return x, jnp.where(done, Result.SUCCESS, failure).astype(jnp.int32)
