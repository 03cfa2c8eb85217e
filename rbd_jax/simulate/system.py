"""What a scheme steps: a state on a manifold, what acts on it, and its constraints, asked for at a time.

Schemes know nothing else. What they need to know of Lie groups is here and is generic: within a step `q0 ⊕ ξ` is a chart, and
the derivative of that chart takes rates of ξ to velocities and back (dexp and its inverse in Müller & Terze 2013, eqs. 35 to
37). Constraints enter in `acceleration` for the explicit schemes, and in the `constraint_...` methods for the implicit ones.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..dynamics import Motion
from ..forces import JointFriction
from .control import Control
from .state import State


class System(eqx.Module):
    """Something that moves, with the control of the present step: `tau`, and `u` of its actuators.

    Every method without a body is one that a system has to have; those with one are the same for all.

    >>> model = rbd.load("pendulum")
    >>> system = rbd.simulate.system_of(model, jnp.zeros(1))
    >>> print(type(system).__name__, isinstance(system, rbd.System), system.name)
    TreeSystem True pendulum
    """

    if TYPE_CHECKING:  # a field of every system, in a place of its own choice among its fields
        tau: Float[Array, "nv"]
        u: Float[Array, "nu"] | None
    else:
        # Equinox flattens the module, with its model, for every bound method that is asked for.
        __getattribute__ = object.__getattribute__

    @property
    def control(self) -> Control:
        """What it is told, in full."""
        u = jnp.zeros(self.nu, self.tau.dtype) if self.u is None else self.u
        return Control(u, self.tau)

    def with_control(self, control: Control) -> System:
        """The system under another control, which is given in full."""
        return replace(self, tau=control.tau, u=control.u)

    def prepared(self) -> System:
        """The system with what is the same all through a simulation worked out, once for all steps."""
        return self

    @property
    def searches(self) -> bool:
        """Whether its acceleration is searched for, so that a guess of it helps: its field `guess`."""
        return False

    def with_guess(self, acceleration: Float[Array, "nv"]) -> System:
        """The same with such a guess."""
        return replace(self, guess=acceleration)

    def contact_doubts(
        self, time: Float[Array, ""], state: State, first: Bool[Array, ""] | np.bool
    ) -> Int[Array, ""] | None:
        """The code of what is doubtful of its contacts in a state, the `first` of a simulation or not; None if nothing can be."""
        return None

    def unsolved(self, time: Float[Array, ""], state: State) -> Bool[Array, ""] | None:
        """Whether the search for its acceleration there ended without one; None where it was not asked for, or nothing tells."""
        return None

    # Velocities that jump.

    @property
    def jumps(self) -> bool:
        """Whether velocities jump at events, which a scheme has to find."""
        return False

    def phase_from(self, time: Float[Array, ""], state: State) -> tuple[System, State]:
        """How it moves from a state on, until the next event, and the state after what happens at once there."""
        return self, state

    def until(self, time: Float[Array, ""], state: State) -> Float[Array, "k"]:
        """Numbers that are positive as long as it goes on to move as it does; of what `phase_from` has given."""
        return jnp.zeros(0, state.q.dtype)

    # What it is.

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is called in messages."""

    @property
    @abc.abstractmethod
    def simulated(self) -> Any:
        """The model that it is the system of."""

    @property
    @abc.abstractmethod
    def nu(self) -> int:
        """The number of its actuators."""

    @property
    @abc.abstractmethod
    def rheonomic(self) -> bool:
        """Whether joints move by themselves as time passes, so that there is momentum without velocity."""

    @property
    @abc.abstractmethod
    def own(self) -> Float[Array, "own"]:
        """Where the states start that the forces have themselves."""

    @abc.abstractmethod
    def motion(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"] | None = None
    ) -> Motion:
        """The bodies in motion: of a reduced model those of its tree."""

    @abc.abstractmethod
    def dof(self, joints: Sequence[str]) -> np.ndarray:
        """The entries of v that are those joints'."""

    # What acts.

    @abc.abstractmethod
    def force(self, time: Float[Array, ""], state: State, friction: bool = True) -> Float[Array, "nv"]:
        """All generalized forces but gravity and velocity products: controls, the joints' own, force elements.

        The `friction` of the joints is left out where a scheme takes it by itself.
        """

    @abc.abstractmethod
    def friction(
        self, time: Float[Array, ""], state: State, step: Float[Array, ""]
    ) -> tuple[JointFriction, Float[Array, "dof nv"]]:
        """The friction of the joints over a step, and the rates at which the joints move with v, as a matrix."""

    @abc.abstractmethod
    def own_rate(self, time: Float[Array, ""], state: State) -> Float[Array, "own"]:
        """The rate of the states that the forces have themselves."""

    def own_after(
        self, time: Float[Array, ""], state: State, v: Float[Array, "nv"], step: Float[Array, ""]
    ) -> Float[Array, "own"]:
        """The states that the forces have themselves after a step at whose end the velocity is v, however fast they decay.

        By default linearly implicit in them, `z + h (1 - h ∂ż/∂z)⁻¹ ż`.
        """
        rate = lambda own: self.own_rate(time, State(state.q, v, own))
        own = state.internal
        by_own = jax.jacfwd(rate)(own)
        unit = jnp.eye(own.size, dtype=own.dtype)
        return own + step * jnp.linalg.solve(unit - step * by_own, rate(own))

    @property
    def frictional_own(self) -> Bool[np.ndarray, "own"]:
        """Which of those states belong to the `friction` of the joints; by default none."""
        return np.zeros(self.own.size, bool)

    def stepped(
        self, time: Float[Array, ""], state: State, step: Float[Array, ""]
    ) -> tuple[Float[Array, "nv"], Float[Array, "own"]]:
        """The mean `acceleration` over a step, and the states that the forces have themselves at its end."""
        a = self.acceleration(time, state, step)
        return a, self.own_after(time, state, self.advanced(state.q, state.v, a, step)[1], step)

    @abc.abstractmethod
    def acceleration(
        self, time: Float[Array, ""], state: State, step: Float[Array, ""] | None = None
    ) -> Float[Array, "nv"]:
        """The acceleration that all that acts produces, under the constraints.

        With a `step`, the mean over a step of that length, at the end of which the joints' damping and friction are taken, and
        springs, stops and the forces' own states so that they stay stable; see `_resistance`.
        """

    @abc.abstractmethod
    def residual(
        self, time: Float[Array, ""], state: State, a: Float[Array, "nv"], friction: bool = True
    ) -> Float[Array, "nv"]:
        """What is missing in the equations of motion: `inverse_dynamics - force`, at the true acceleration `Gᵀ λ`."""

    # Momenta.

    @abc.abstractmethod
    def lagrangian_gradients(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """`∂L/∂q` and `∂L/∂v` of the Lagrangian `L = T - V`, with V of gravity; the first along `move(q, step)`."""

    @abc.abstractmethod
    def mass_matrix(self, time: Float[Array, ""], q: Float[Array, "nq"]) -> Float[Array, "nv nv"]:
        """M."""

    @abc.abstractmethod
    def solve_mass_matrix(
        self, time: Float[Array, ""], q: Float[Array, "nq"], momentum: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """`M⁻¹ p`."""

    @abc.abstractmethod
    def singular(
        self, time: Float[Array, ""], q: Float[Array, "nq"], step: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether `M + step D` is singular to rounding, D being the damping of the joints."""

    def momentum(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The generalized momentum `∂L/∂v`: `M v`, and what joints that move by themselves add."""
        return self.lagrangian_gradients(time, q, v)[1]

    def velocity(
        self, time: Float[Array, ""], q: Float[Array, "nq"], momentum: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The velocity with that generalized momentum."""
        if self.rheonomic:
            momentum = momentum - self.momentum(time, q, jnp.zeros_like(momentum))
        return self.solve_mass_matrix(time, q, momentum)

    # The manifold.

    @abc.abstractmethod
    def move(self, q: Float[Array, "nq"], step: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """`q ⊕ step`."""

    def advanced(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], a: Float[Array, "nv"], h: Float[Array, ""]
    ) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """Configuration and velocity after a semi-implicit step with the mean acceleration a: `q ⊕ h v⁺` and `v⁺ = v + h a`."""
        v = v + h * a
        return self.move(q, h * v), v

    @abc.abstractmethod
    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """`q1 ⊖ q0`."""

    @abc.abstractmethod
    def chart_rate(
        self, q: Float[Array, "nq"], step: Float[Array, "nv"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The rate of ξ at which `q ⊕ ξ` moves with the velocity `v`, at ξ = `step`: dexp⁻¹."""

    @abc.abstractmethod
    def chart_velocity(
        self, q: Float[Array, "nq"], step: Float[Array, "nv"], rate: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The velocity of `q ⊕ ξ` where ξ = `step` changes at `rate`: dexp, the inverse of `chart_rate`."""

    @property
    def charted(self) -> bool:
        """Whether coordinates are singular somewhere, so that `reparametrized` has something to do."""
        return False

    def reparametrized(self, state: State, near: Float[Array, "nq"] | None = None) -> State:
        """The same state in the coordinates that are best to go on in, or in those nearest to `near`."""
        return state

    def chart_rate_transposed(self, q, step, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """The momentum that belongs to v, from the one that belongs to the rate of ξ."""
        return jax.linear_transpose(lambda v: self.chart_rate(q, step, v), step)(momentum)[0]

    def chart_velocity_transposed(self, q, step, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """The momentum that belongs to the rate of ξ, from the one that belongs to v."""
        return jax.linear_transpose(lambda rate: self.chart_velocity(q, step, rate), step)(momentum)[0]

    # Constraints g(t, q) = 0.

    @property
    @abc.abstractmethod
    def constraint_rows(self) -> int:
        """The number of equations that the constraints put."""

    @abc.abstractmethod
    def constraint_residual(self, time: Float[Array, ""], q: Float[Array, "nq"]) -> Float[Array, "rows"]:
        """g: how far the loops are from closed; zero of what holds velocities alone."""

    @property
    def holonomic(self) -> np.ndarray:
        """Which of the equations hold positions, by default all; the others hold velocities alone. Their residual is zero."""
        return np.ones(self.constraint_rows, bool)

    def constraint_gap(
        self,
        time: Float[Array, ""],
        q: Float[Array, "nq"],
        span: Float[Array, ""],
        rate: Callable[[], Float[Array, "rows"]],
    ) -> Float[Array, "rows"]:
        """What an implicit step is to make zero: how far it leaves the constraints open that hold positions, by its `span`.

        Of those that hold velocities alone it is their `constraint_velocity`, `rate()`, where the step asks for it: at its
        end or, with the mean velocity, within.
        """
        gap = self.constraint_residual(time, q) / span
        return gap if self.holonomic.all() else jnp.where(self.holonomic, gap, rate())

    @property
    def constraint_scales(self) -> Float[Array, "rows"]:
        """What is large for each of the equations; by default one."""
        return jnp.ones(self.constraint_rows)

    @abc.abstractmethod
    def constraint_velocity(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "rows"]:
        """`ġ = G v + ∂g/∂t`, and what vanishes of constraints that hold velocities alone."""

    @abc.abstractmethod
    def constraint_jacobian(self, time: Float[Array, ""], q: Float[Array, "nq"]) -> Float[Array, "rows nv"]:
        """G."""

    @abc.abstractmethod
    def constraint_force(
        self, time: Float[Array, ""], q: Float[Array, "nq"], multipliers: Float[Array, "rows"]
    ) -> Float[Array, "nv"]:
        """`Gᵀ λ`."""

    @abc.abstractmethod
    def admissible(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The velocity nearest to v, in the metric of M, with which the loops stay closed."""

    @abc.abstractmethod
    def settled(self, time: Float[Array, ""], state: State) -> State:
        """The state to go on with after a step. Rollouts ask for it, schemes do not."""
