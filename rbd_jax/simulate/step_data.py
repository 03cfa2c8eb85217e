"""Evaluated system state: acceleration, forces, momenta and constraints in a state at a time."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.module import Module, changed
from ..dynamics import Motion
from ..forces import JointFriction
from .state import State


if TYPE_CHECKING:
    from .system import System


class Accelerated(NamedTuple):
    """The acceleration of a system, and the change of the internal states of its forces.

    - `own_change`: the rates of internal states; for a mean over a step, the internal states at its end.
    - `unsolved`: whether the contact solver did not converge; None without a contact model.

    >>> print(rbd.simulate.Accelerated._fields)
    ('acceleration', 'own_change', 'unsolved')
    """

    acceleration: Float[Array, "nv"]
    own_change: Float[Array, "own"]
    unsolved: Bool[Array, ""] | None


#: The forces that a step takes implicitly.
Implicit: TypeAlias = Literal["passive forces", "damping", "velocities"]


class StepData(Module):
    """A system in a state at a time. `System.evaluate` returns it, and schemes take it.

    - `motion`: the kinematics of the model; for a reduced model, of its tree.

    >>> system = rbd.simulate.system_of(rbd.load("pendulum"), jnp.array([2.0]))
    >>> here = system.evaluate(jnp.array(0.0), rbd.State(jnp.zeros(1), jnp.zeros(1)))
    >>> print(here.acceleration(), here.mass_matrix())
    [1.998] [[1.001]]
    """

    system: Any
    time: Float[Array, ""]
    state: State
    motion: Motion

    @property
    def q(self) -> Float[Array, "nq"]:
        return self.state.q

    @property
    def v(self) -> Float[Array, "nv"]:
        return self.state.v

    def guessing(self, acceleration: Float[Array, "nv"]) -> StepData:
        """Returns the step data with an initial guess of the acceleration; see `System.searches`."""
        return changed(self, system=self.system.with_guess(acceleration))

    def with_velocity(self, v: Float[Array, "nv"]) -> StepData:
        """Returns the step data at another velocity, with equal time and configuration."""
        return self.system.evaluate(self.time, State(self.q, v, self.state.own))

    @abc.abstractmethod
    def prepared(self) -> StepData:
        """Returns the step data with the quantities stored that several methods share. Methods compute missing ones."""

    # Acceleration.

    @abc.abstractmethod
    def accelerated(
        self, step: Float[Array, ""] | None = None, implicit: Implicit = "passive forces"
    ) -> Accelerated:
        """Returns the acceleration under all forces and constraints, and the change of internal states.

        Args:
          step: Length of a step. If given, the result is the mean acceleration over it.
          implicit: The forces that the step takes implicitly. "passive forces": damping and friction of joints, with springs,
            joint limits and internal states stabilized; see `_resistance`. "damping" and "velocities": as MuJoCo's `Euler` and
            `implicitfast`; see `rbd.MujocoEuler`.
        """

    def acceleration(self, step: Float[Array, ""] | None = None) -> Float[Array, "nv"]:
        """Returns the acceleration of `accelerated`."""
        return self.accelerated(step).acceleration

    @abc.abstractmethod
    def contact_doubts(self, first: Bool[Array, ""] | np.bool) -> Int[Array, ""] | None:
        """Returns the code of a warning about contacts, or None if the model cannot cause one.

        Args:
          first: True for the initial state of a simulation.
        """

    def begun(self) -> tuple[System, State]:
        """Returns the system in the contact mode that begins here, and the state after impacts."""
        return self.system, self.state

    def until(self) -> Float[Array, "k"]:
        """Returns guard functions: positive while the contact mode that `begun` returned holds."""
        return jnp.zeros(0, self.q.dtype)

    # Forces.

    @abc.abstractmethod
    def force(self, friction: bool = True) -> Float[Array, "nv"]:
        """Returns all generalized forces except gravity and velocity products: controls, passive joint forces, force elements.

        Args:
          friction: If True, includes dry friction of joints.
        """

    @abc.abstractmethod
    def friction(self, step: Float[Array, ""]) -> tuple[JointFriction, Float[Array, "dof nv"]]:
        """Returns the dry friction over a step, and the matrix that maps v to joint rates."""

    @abc.abstractmethod
    def own_rate(self) -> Float[Array, "own"]:
        """Returns the rates of the internal states of forces."""

    @abc.abstractmethod
    def own_after(self, v: Float[Array, "nv"], step: Float[Array, ""]) -> Float[Array, "own"]:
        """Returns the internal states after a step that ends with velocity v, stable for any decay rate."""

    @abc.abstractmethod
    def residual(self, a: Float[Array, "nv"], friction: bool = True) -> Float[Array, "nv"]:
        """Returns the residual of the equations of motion, `inverse_dynamics - force`: `Gᵀ λ` at the true acceleration."""

    # Momenta.

    @abc.abstractmethod
    def lagrangian_gradients(self) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """Returns `∂L/∂q` (along `move(q, step)`) and `∂L/∂v` of the Lagrangian `L = T - V`, V being that of gravity."""

    @abc.abstractmethod
    def mass_matrix(self) -> Float[Array, "nv nv"]:
        """Returns the mass matrix M."""

    @abc.abstractmethod
    def solve_mass_matrix(self, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """Returns `M⁻¹ p`."""

    def momentum(self) -> Float[Array, "nv"]:
        """Returns the generalized momentum `∂L/∂v`: `M v` plus the contribution of prescribed joints."""
        return self.lagrangian_gradients()[1]

    def velocity(self, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """Returns the velocity with a generalized momentum."""
        if self.system.rheonomic:
            momentum = momentum - self.with_velocity(jnp.zeros_like(momentum)).momentum()
        return self.solve_mass_matrix(momentum)

    # Constraints g(t, q) = 0.

    @abc.abstractmethod
    def constraint_residual(self) -> Float[Array, "rows"]:
        """Returns g, zero for nonholonomic constraints."""

    def constraint_gap(
        self, span: Float[Array, ""], rate: Callable[[], Float[Array, "rows"]]
    ) -> Float[Array, "rows"]:
        """Returns the constraint equations of an implicit step that ends here: `g / span`, and `rate()` if nonholonomic.

        Args:
          span: Length of the step.
          rate: Returns the constraint velocity at the end of the step, or with the mean velocity within it.
        """
        gap, held = self.constraint_residual() / span, self.system.holonomic
        return gap if held.all() else jnp.where(held, gap, rate())

    @abc.abstractmethod
    def constraint_velocity(self) -> Float[Array, "rows"]:
        """Returns `ġ = G v + ∂g/∂t`, and the residual of nonholonomic constraints."""

    @abc.abstractmethod
    def constraint_jacobian(self) -> Float[Array, "rows nv"]:
        """Returns the constraint Jacobian G."""

    @abc.abstractmethod
    def constraint_force(self, multipliers: Float[Array, "rows"]) -> Float[Array, "nv"]:
        """Returns `Gᵀ λ`."""

    @abc.abstractmethod
    def admissible(self, v: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """Returns the velocity nearest to v in the metric of M that satisfies the constraints."""
