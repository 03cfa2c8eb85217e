"""Derivatives of forward dynamics under constraints, as matrices on the tangent space.

They solve the system of `solving` again, with the same factors, at its solution. With
`g = G a + bias` less the value that stabilization requires,

    M δa - Gᵀ δλ = δtau - δ(inverse dynamics) + δGᵀ λ
    G δa         = -δg
    δλ - G δy    = δG y

where the right-hand sides change at fixed a, λ and y.
"""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import anything, configuration, takes, velocity, wrenches
from .._core.array import transpose
from ..dynamics import ExternalForces, Motion
from ..dynamics.derivatives import forward_derivatives, newton_euler_derivatives
from ..model import Model, integrate
from .dynamics import prepared, solved_system, wanted_rate
from .evaluate import matrix_of
from .solving import Method, Solution
from .stabilization import Stabilization


class ConstrainedDerivatives(eqx.Module):
    """The derivatives of constrained dynamics; it unpacks as the derivatives of the acceleration, `by_q, by_v, by_tau`.

    Derivatives by q are along `integrate(model, q, dq)`. For redundant constraints, the derivatives are those of the
    multipliers of least norm.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), coupling)
    >>> by = rbd.constrained_dynamics_derivatives(model, jnp.zeros(2), jnp.zeros(2), jnp.zeros(2))
    >>> print(by.by_tau)  # the joints share what drives either
    [[0.1 0.1]
     [0.1 0.1]]
    """

    by_q: Float[Array, "*batch nv nv"]
    by_v: Float[Array, "*batch nv nv"]
    by_tau: Float[Array, "*batch nv nv"]
    multipliers_by_q: Float[Array, "*batch m nv"]
    multipliers_by_v: Float[Array, "*batch m nv"]
    multipliers_by_tau: Float[Array, "*batch m nv"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.by_q, self.by_v, self.by_tau))


@takes(q=configuration, v=velocity, tau=velocity, f_ext=wrenches, method=anything, stabilization=anything)
def constrained_dynamics_derivatives(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
    method: Method = "auto",
    stabilization: Stabilization | None = None,
) -> ConstrainedDerivatives:
    """Returns the derivatives of the acceleration and multipliers of `constrained_dynamics` by q, v and tau.

    They are valid where the rank of the constraints does not change. The arguments are those of `constrained_dynamics`.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> q, v = jnp.array([0.5, -1.0]), jnp.array([1.0, -2.0])
    >>> by_q, by_v, by_tau = rbd.constrained_dynamics_derivatives(model, q, v, jnp.zeros(2))
    >>> print(by_tau)
    [[ 0.52  -1.041]
     [-1.041  2.082]]
    """
    motion = Motion(model, q, v)
    if not model.constraints:
        none = jnp.zeros((0, model.nv), q.dtype)
        return ConstrainedDerivatives(*forward_derivatives(motion, tau, f_ext), none, none, none)
    motion = prepared(motion)
    x, factors, _ = solved_system(motion, tau, f_ext, method, stabilization)

    def changed(force, rate, excess):
        """Returns `δa` and `δλ` for each column of the right-hand sides."""

        def of_column(force, rate, excess):
            a, multipliers = factors.motion(force, factors.onto(rate))
            return a, multipliers + excess - factors.onto(excess)

        columns = jax.vmap(of_column)(*(transpose(x) for x in (force, rate, excess)))
        return tuple(transpose(x) for x in columns)

    by_q, by_v, _ = newton_euler_derivatives(motion, x.a, f_ext)

    def turned(dq):
        moved = prepared(Motion(model, integrate(model, q, dq), v))
        held = matrix_of(moved).transposed(x.multipliers)
        return held, _second_rate(moved, x, stabilization), matrix_of(moved).times(x.y)

    def faster(v):
        return _second_rate(motion.with_velocity(v), x, stabilization)

    held, rate, excess = jax.jacfwd(turned)(jnp.zeros_like(v))
    unit, nothing = jnp.eye(model.nv, dtype=q.dtype), jnp.zeros_like(rate)
    parts = (
        changed(held - by_q, -rate, excess),
        changed(-by_v, -jax.jacfwd(faster)(v), nothing),
        changed(unit, nothing, nothing),
    )
    return ConstrainedDerivatives(*(a for a, _ in parts), *(multipliers for _, multipliers in parts))


def _second_rate(motion: Motion, x: Solution, stabilization: Stabilization | None) -> Float[Array, "m"]:
    """Returns `G a + bias` less the value that stabilization requires."""
    return matrix_of(motion).times(x.a) - wanted_rate(motion, stabilization)
