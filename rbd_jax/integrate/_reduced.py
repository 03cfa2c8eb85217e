"""The system of a model that moves with a few independent variables, `q = γ(y)` (Sueda's notes, §2.6).

With `v = G ẏ` and `a = G ÿ + g`, everything that acts is multiplied by `Gᵀ`, and the mass matrix is `Gᵀ M G` (2.83). Schemes
do not see the difference: y is a vector space, and there are no constraints.
"""

from __future__ import annotations

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from .._array import matmul, matvec, transpose, vecmat
from ..constraints import ReducedModel, Stabilization
from ..dynamics import gravity_force, inverse_dynamics, kinetic_energy
from ..dynamics.inverse import inertia_force
from ..model import Model, at_time
from ._system import Force, System


#: What can be simulated.
Simulated: TypeAlias = Model | ReducedModel


def system_of(
    model: Simulated, tau, forces: tuple[Force, ...] = (), stabilization: Stabilization | None = None
) -> System:
    """The system of a model with the control `tau`."""
    if isinstance(model, Model):
        return System(model, tau, forces, stabilization)
    if stabilization is not None:
        raise ValueError(
            f"rollout: the closure of the reduced model {model.name!r} leaves nothing to stabilize; leave stabilization out"
        )
    return ReducedSystem(model.model, tau, forces, reduced=model)


class ReducedSystem(System):
    """A `System` in the variables of a `ReducedModel`: where the base class says q and v, here they are y and ẏ."""

    reduced: ReducedModel = eqx.field(kw_only=True)

    def force(self, time, q, v):
        at = self.reduced.at(q, v)
        whole = System(self.model, jnp.zeros_like(at.v), self.forces)
        return self.tau + vecmat(whole.force(time, at.q, at.v), at.jacobian)

    def acceleration(self, time, state):
        missing = self.residual(time, state.q, state.v, jnp.zeros_like(state.v))
        return -self.solve_mass_matrix(time, state.q, missing)

    def residual(self, time, q, v, a):
        at = self.reduced.at(q, v)
        needed = inverse_dynamics(at_time(self.model, time), at.q, at.v, matvec(at.jacobian, a) + at.bias)
        return vecmat(needed, at.jacobian) - self.force(time, q, v)

    def slopes(self, time, q, v):
        now = at_time(self.model, time)

        def energy(q, v):
            at = self.reduced.at(q, v)
            return kinetic_energy(now, at.q, at.v)

        by_q, by_v = jax.grad(energy, argnums=(0, 1))(q, v)
        at = self.reduced.at(q, v)
        return by_q - vecmat(gravity_force(now, at.q), at.jacobian), by_v

    def mass_matrix(self, time, q):
        at = self.reduced.at(q, jnp.zeros_like(q))
        carried = inertia_force(at_time(self.model, time), at.q, at.jacobian)
        return matmul(transpose(at.jacobian), carried)

    def solve_mass_matrix(self, time, q, momentum):
        return jnp.linalg.solve(self.mass_matrix(time, q), momentum)

    def move(self, q, step):
        return q + step

    def difference(self, q0, q1):
        return q1 - q0

    def chart_rate(self, q, step, v):
        return v

    def chart_velocity(self, q, step, rate):
        return rate

    def freedoms(self, joints):
        raise ValueError(
            f"joints {joints} of model {self.model.name!r} have no freedoms of their own: they move with the variables "
            "of a ReducedModel"
        )

    def constraint_residual(self, time, q):
        return jnp.zeros(0, q.dtype)

    def constraint_velocity(self, time, q, v):
        return jnp.zeros(0, q.dtype)

    def constraint_jacobian(self, time, q):
        return jnp.zeros((0, q.size), q.dtype)

    def admissible(self, time, q, v):
        return v
