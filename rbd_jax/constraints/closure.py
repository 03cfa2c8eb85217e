"""Loops whose closure is known as a function: independent variables instead of constraints (book §8.11; Sueda §2.6).

`q = γ(y)`, so `v = G ẏ` and `a = G ÿ + g`, and the equation of motion is `Gᵀ M G ÿ = Gᵀ (tau - C - M g)` (8.46). Nothing drifts,
so nothing needs to be stabilized. Gears are the simplest use (§9.6).
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import matmul, transpose, vecmat
from ..dynamics import bias_force
from ..dynamics._external import ExternalForces
from ..dynamics.inverse import inertia_force
from ..model import Model, difference


class Closure(eqx.Module):
    """A configuration given by independent variables, and how it moves: `v = G ẏ`, `a = G ÿ + bias`."""

    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    jacobian: Float[Array, "nv ny"]
    bias: Float[Array, "nv"]


def close(
    model: Model,
    closure: Callable[[Float[Array, "ny"]], Float[Array, "nq"]],
    y: Float[Array, "ny"],
    y_rate: Float[Array, "ny"],
) -> Closure:
    """The state of the model, and G and g (eqs. 8.57 to 8.61), by differentiation of `q = closure(y)`."""

    def velocity(y, rate):
        def along(step):
            return difference(model, closure(y), closure(y + step * rate))

        return jax.jvp(along, (jnp.zeros((), y.dtype),), (jnp.ones((), y.dtype),))[1]

    jacobian = jax.vmap(lambda rate: velocity(y, rate), out_axes=1)(jnp.eye(len(y), dtype=y.dtype))
    v, bias = jax.jvp(lambda y: velocity(y, y_rate), (y,), (y_rate,))
    return Closure(closure(y), v, jacobian, bias)


def closure_dynamics(
    model: Model,
    closure: Callable[[Float[Array, "ny"]], Float[Array, "nq"]],
    y: Float[Array, "ny"],
    y_rate: Float[Array, "ny"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "ny"]:
    """`ÿ` of the independent variables; the model's own constraints, which `closure` satisfies, are left aside."""
    at = close(model, closure, y, y_rate)
    force = tau - bias_force(model, at.q, at.v, f_ext) - inertia_force(model, at.q, at.bias)
    inertia = matmul(transpose(at.jacobian), inertia_force(model, at.q, at.jacobian))
    return jnp.linalg.solve(inertia, vecmat(force, at.jacobian))
