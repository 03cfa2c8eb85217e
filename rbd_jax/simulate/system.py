"""The interface between schemes and models: a state on a manifold, forces, and constraints.

Schemes use no other interface. `System` contains the operations of the manifold. Within a step `q0 ⊕ ξ` is a chart, and the
derivative of that chart maps rates of ξ to velocities and back (dexp and its inverse in Müller & Terze 2013, eqs. 35 to 37).
`System.evaluate` returns a `StepData` with the forces and constraints in a state at a time.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.module import Module
from ..dynamics import Motion
from ._former import moved_method
from .control import Control
from .state import State
from .step_data import StepData


class System(Module):
    """A mechanical system with the control of the current step: `tau`, and `u` of its actuators.

    A system must implement every method without a body; the other methods have defaults.

    >>> model = rbd.load("pendulum")
    >>> system = rbd.simulate.system_of(model, jnp.zeros(1))
    >>> print(type(system).__name__, isinstance(system, rbd.System), system.name)
    TreeSystem True pendulum
    """

    if TYPE_CHECKING:  # every system has these fields, in any position
        tau: Float[Array, "nv"]
        u: Float[Array, "nu"] | None

    else:

        def __getattr__(self, name):
            return moved_method(self, name)

    @property
    def control(self) -> Control:
        """The complete control."""
        u = jnp.zeros(self.nu, self.tau.dtype) if self.u is None else self.u
        return Control(u, self.tau)

    def with_control(self, control: Control) -> System:
        """Returns the system with another complete control."""
        return replace(self, tau=control.tau, u=control.u)

    def prepared(self) -> System:
        """Returns the system with quantities stored that are constant during a simulation."""
        return self

    @property
    def searches(self) -> bool:
        """True if an iterative solver computes the acceleration, so that an initial guess helps: its field `guess`."""
        return False

    def with_guess(self, acceleration: Float[Array, "nv"]) -> System:
        """Returns the system with an initial guess of the acceleration."""
        return replace(self, guess=acceleration)

    # Events.

    @property
    def jumps(self) -> bool:
        """True if velocities jump at events, which a scheme must find."""
        return False

    # Description.

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its name in messages."""

    @property
    @abc.abstractmethod
    def simulated(self) -> Any:
        """The model of the system."""

    @property
    @abc.abstractmethod
    def nu(self) -> int:
        """The number of its actuators."""

    @property
    @abc.abstractmethod
    def rheonomic(self) -> bool:
        """True if the motion of some joints is prescribed as a function of time, so that momentum exists without velocity."""

    @property
    @abc.abstractmethod
    def own(self) -> Float[Array, "own"]:
        """The initial internal states of forces."""

    @abc.abstractmethod
    def motion(
        self, time: Float[Array, ""], q: Float[Array, "nq"], v: Float[Array, "nv"] | None = None
    ) -> Motion:
        """Returns the kinematics of the bodies; for a reduced model, of its tree."""

    @abc.abstractmethod
    def singular(
        self, time: Float[Array, ""], q: Float[Array, "nq"], step: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Returns whether `M + step D` is singular up to rounding, with the damping D of the joints."""

    @abc.abstractmethod
    def evaluate(self, time: Float[Array, ""], state: State) -> StepData:
        """Returns the system in a state at a time."""

    @abc.abstractmethod
    def dof(self, joints: Sequence[str]) -> np.ndarray:
        """Returns the indices of these joints in v."""

    @property
    def frictional_own(self) -> Bool[np.ndarray, "own"]:
        """A mask of the internal states that belong to the `friction` of joints; by default none."""
        return np.zeros(self.own.size, bool)

    def acceleration(
        self, time: Float[Array, ""], state: State, step: Float[Array, ""] | None = None
    ) -> Float[Array, "nv"]:
        """Returns `StepData.acceleration` in a state at a time."""
        return self.evaluate(time, state).acceleration(step)

    def own_rate(self, time: Float[Array, ""], state: State) -> Float[Array, "own"]:
        """Returns `StepData.own_rate` in a state at a time."""
        return self.evaluate(time, state).own_rate()

    # The manifold.

    @abc.abstractmethod
    def move(self, q: Float[Array, "nq"], step: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """Returns `q ⊕ step`."""

    def advanced(
        self,
        q: Float[Array, "nq"],
        v: Float[Array, "nv"],
        a: Float[Array, "nv"],
        h: Float[Array, ""],
        fixed_axes: bool = False,
    ) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """Returns `q ⊕ h v⁺` and `v⁺ = v + h a`: the end of a semi-implicit step with the mean acceleration a.

        If `fixed_axes`, the velocities of floating bodies are integrated in axes that do not rotate.
        """
        v = v + h * a
        return self.move(q, h * v), v

    @abc.abstractmethod
    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """Returns `q1 ⊖ q0`."""

    @abc.abstractmethod
    def chart_rate(
        self, q: Float[Array, "nq"], step: Float[Array, "nv"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """Returns the rate of ξ at which `q ⊕ ξ` moves with the velocity `v`, at ξ = `step`: dexp⁻¹."""

    @abc.abstractmethod
    def chart_velocity(
        self, q: Float[Array, "nq"], step: Float[Array, "nv"], rate: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """Returns the velocity of `q ⊕ ξ` if ξ = `step` changes at `rate`: dexp, the inverse of `chart_rate`."""

    @property
    def charted(self) -> bool:
        """True if the coordinates have singularities, which `reparametrized` avoids."""
        return False

    def reparametrized(self, state: State, near: Float[Array, "nq"] | None = None) -> State:
        """Returns the same state in the best coordinates for the next step, or in those nearest to `near`."""
        return state

    def chart_rate_transposed(self, q, step, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """Returns the momentum conjugate to v, from the momentum conjugate to the rate of ξ."""
        return jax.linear_transpose(lambda v: self.chart_rate(q, step, v), step)(momentum)[0]

    def chart_velocity_transposed(self, q, step, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """Returns the momentum conjugate to the rate of ξ, from the momentum conjugate to v."""
        return jax.linear_transpose(lambda rate: self.chart_velocity(q, step, rate), step)(momentum)[0]

    # Constraints g(t, q) = 0.

    @property
    @abc.abstractmethod
    def constraint_rows(self) -> int:
        """The number of constraint equations."""

    @property
    def holonomic(self) -> np.ndarray:
        """A mask of the equations that constrain positions, by default all.

        The other equations constrain velocities alone, and their residual is zero.
        """
        return np.ones(self.constraint_rows, bool)

    @property
    def constraint_scales(self) -> Float[Array, "rows"]:
        """The scale of each constraint equation; by default one."""
        return jnp.ones(self.constraint_rows)

    @abc.abstractmethod
    def settled(self, time: Float[Array, ""], state: State) -> State:
        """Returns the stabilized state after a step. Rollouts call this method, schemes do not."""
