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

        def __getattr__(self, name):
            return moved_method(self, name)

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

    # Velocities that jump.

    @property
    def jumps(self) -> bool:
        """Whether velocities jump at events, which a scheme has to find."""
        return False

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
    def singular(
        self, time: Float[Array, ""], q: Float[Array, "nq"], step: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether `M + step D` is singular to rounding, D being the damping of the joints."""

    @abc.abstractmethod
    def evaluate(self, time: Float[Array, ""], state: State) -> StepData:
        """Returns the system in a state at a time."""

    @abc.abstractmethod
    def dof(self, joints: Sequence[str]) -> np.ndarray:
        """The entries of v that are those joints'."""

    @property
    def frictional_own(self) -> Bool[np.ndarray, "own"]:
        """Which of those states belong to the `friction` of the joints; by default none."""
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

    @property
    def holonomic(self) -> np.ndarray:
        """Which of the equations hold positions, by default all; the others hold velocities alone. Their residual is zero."""
        return np.ones(self.constraint_rows, bool)

    @property
    def constraint_scales(self) -> Float[Array, "rows"]:
        """What is large for each of the equations; by default one."""
        return jnp.ones(self.constraint_rows)

    @abc.abstractmethod
    def settled(self, time: Float[Array, ""], state: State) -> State:
        """The state to go on with after a step. Rollouts ask for it, schemes do not."""
