"""The system that a scheme steps: a model, what acts on it, and its manifold, asked for at a time.

`rollout` makes one for each step, the controls held. What schemes need to know of Lie groups is here and is generic, in
terms of the joints' own ⊕ and ⊖: within a step `q0 ⊕ ξ` is a chart, and the derivative of that chart takes rates of ξ to
velocities and back (dexp and its inverse in Müller & Terze 2013, eqs. 35 to 37). Loop constraints enter here and nowhere
else in this room: in `acceleration` for the explicit schemes, in the `constraint_...` methods for the implicit ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..constraints import (
    Stabilization,
    constrained_dynamics,
    constraint_force,
    constraint_jacobian,
    constraint_residual,
    constraint_velocity,
    project_velocity,
)
from ..dynamics import (
    inverse_dynamics,
    lagrangian_slopes,
    mass_matrix,
    passive_force,
    solve_mass_matrix,
)
from ..model import Model, at_time, chart_rate, chart_velocity, difference, integrate
from ..model._arguments import check_length


class State(eqx.Module):
    """Configuration q and velocity v of a model."""

    q: Float[Array, "*batch nq"]
    v: Float[Array, "*batch nv"]


#: A generalized force of the model's own making, from the model, its configuration and its velocity.
Force: TypeAlias = Callable[[Model, Float[Array, "nq"], Float[Array, "nv"]], Float[Array, "nv"]]


class System(eqx.Module):
    """A model with the control `tau` of the present step, the user's `forces`, and what holds its constraints."""

    model: Model
    tau: Float[Array, "nv"]
    forces: tuple[Force, ...] = ()
    stabilization: Stabilization | None = None

    # What acts.

    def force(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """All generalized forces but gravity and velocity products: controls, the joints' own, the user's."""
        now = at_time(self.model, time)
        acting = self.tau + passive_force(now, q, v)
        for index, force in enumerate(self.forces):
            name = f"the result of forces[{index}]"
            acting = acting + check_length("rollout", self.model, name, force(now, q, v), "nv")
        return acting

    def acceleration(self, time: Float[Array, ""], state: State) -> Float[Array, "nv"]:
        """The acceleration that all that acts produces."""
        acting = self.force(time, state.q, state.v)
        now, (q, v) = at_time(self.model, time), (state.q, state.v)
        return constrained_dynamics(now, q, v, acting, stabilization=self.stabilization).acceleration

    def residual(self, time: Float[Array, ""], q, v, a) -> Float[Array, "nv"]:
        """What is missing in the equations of motion: `inverse_dynamics - force`, zero at the true acceleration."""
        return inverse_dynamics(at_time(self.model, time), q, v, a) - self.force(time, q, v)

    # Momenta.

    def slopes(self, time: Float[Array, ""], q, v) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """`∂L/∂q` and `∂L/∂v` of the Lagrangian `L = T - V`, with V of gravity; the first along `move(q, step)`."""
        return lagrangian_slopes(at_time(self.model, time), q, v)

    def mass_matrix(self, time: Float[Array, ""], q) -> Float[Array, "nv nv"]:
        return mass_matrix(at_time(self.model, time), q)

    def solve_mass_matrix(self, time: Float[Array, ""], q, momentum) -> Float[Array, "nv"]:
        """`M⁻¹ p`."""
        return solve_mass_matrix(at_time(self.model, time), q, momentum)

    def momentum(self, time: Float[Array, ""], q, v) -> Float[Array, "nv"]:
        """The generalized momentum `∂L/∂v`: `M v`, and what joints that move by themselves add."""
        return self.slopes(time, q, v)[1]

    def velocity(self, time: Float[Array, ""], q, momentum) -> Float[Array, "nv"]:
        """The velocity with that generalized momentum."""
        if self.model.topology.rheonomic:
            momentum = momentum - self.momentum(time, q, jnp.zeros_like(momentum))
        return self.solve_mass_matrix(time, q, momentum)

    # The manifold.

    def move(self, q, step) -> Float[Array, "nq"]:
        """`q ⊕ step`."""
        return integrate(self.model, q, step)

    def difference(self, q0, q1) -> Float[Array, "nv"]:
        """`q1 ⊖ q0`."""
        return difference(self.model, q0, q1)

    def chart_rate(self, q, step, v) -> Float[Array, "nv"]:
        """The rate of ξ at which `q ⊕ ξ` moves with the velocity `v`, at ξ = `step`: dexp⁻¹."""
        return chart_rate(self.model, q, step, v)

    def chart_velocity(self, q, step, rate) -> Float[Array, "nv"]:
        """The velocity of `q ⊕ ξ` where ξ = `step` changes at `rate`: dexp, the inverse of `chart_rate`."""
        return chart_velocity(self.model, q, step, rate)

    def chart_rate_transposed(self, q, step, momentum) -> Float[Array, "nv"]:
        """The momentum that belongs to v, from the one that belongs to the rate of ξ."""
        return jax.linear_transpose(lambda v: self.chart_rate(q, step, v), step)(momentum)[0]

    def chart_velocity_transposed(self, q, step, momentum) -> Float[Array, "nv"]:
        """The momentum that belongs to the rate of ξ, from the one that belongs to v."""
        return jax.linear_transpose(lambda rate: self.chart_velocity(q, step, rate), step)(momentum)[0]

    def freedoms(self, joints: Sequence[str]) -> np.ndarray:
        """The entries of v that are those joints'."""
        entries = [np.arange(self.model.nv)[self.model.v_slice(joint)] for joint in joints]
        return np.concatenate([np.zeros(0, int), *entries])

    # Loop constraints g(t, q) = 0.

    @property
    def constraint_rows(self) -> int:
        """The number of equations that the model's constraints put."""
        return sum(constraint.rows for constraint in self.model.constraints)

    def constraint_residual(self, time: Float[Array, ""], q) -> Float[Array, "rows"]:
        """g: how far the loops are from closed."""
        return constraint_residual(at_time(self.model, time), q)

    def constraint_velocity(self, time: Float[Array, ""], q, v) -> Float[Array, "rows"]:
        """`ġ = G v + ∂g/∂t`."""
        return constraint_velocity(at_time(self.model, time), q, v)

    def constraint_jacobian(self, time: Float[Array, ""], q) -> Float[Array, "rows nv"]:
        """G."""
        return constraint_jacobian(at_time(self.model, time), q)

    def constraint_force(self, time: Float[Array, ""], q, multipliers) -> Float[Array, "nv"]:
        """`Gᵀ λ`."""
        return constraint_force(at_time(self.model, time), q, multipliers)

    def settled(self, time: Float[Array, ""], state: State) -> State:
        """The state to go on with after a step."""
        if self.stabilization is None:
            return state
        return State(*self.stabilization.settled(at_time(self.model, time), state.q, state.v))

    def admissible(self, time: Float[Array, ""], q, v) -> Float[Array, "nv"]:
        """The velocity nearest to v, in the metric of M, with which the loops stay closed."""
        return project_velocity(at_time(self.model, time), q, v)
