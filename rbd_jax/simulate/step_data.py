"""A system in a state at a time: what acts there, how it accelerates, its momenta and its constraints."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """How a system accelerates, and what becomes of the states that forces have themselves.

    - `own_change`: their rates; over a step, those states at its end.
    - `unsolved`: whether the search for the forces of contact ended without them; None where nothing was searched for.

    >>> print(rbd.simulate.Accelerated._fields)
    ('acceleration', 'own_change', 'unsolved')
    """

    acceleration: Float[Array, "nv"]
    own_change: Float[Array, "own"]
    unsolved: Bool[Array, ""] | None


class StepData(Module):
    """A system in a state at a time, and its bodies in motion there: `System.evaluate` makes it, and schemes are handed it.

    Every method without a body is one that each kind has to have; those with one are the same for all.

    - `motion`: of a reduced model that of its tree.

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
        """The same with a guess of the acceleration; see `System.searches`."""
        return changed(self, system=self.system.with_guess(acceleration))

    def with_velocity(self, v: Float[Array, "nv"]) -> StepData:
        """The system at the same time in the same configuration, at another velocity."""
        return self.system.evaluate(self.time, State(self.q, v, self.state.own))

    @abc.abstractmethod
    def prepared(self) -> StepData:
        """The same with what several of the methods need worked out. They do that themselves; here it is done once for all."""

    # How it moves.

    @abc.abstractmethod
    def accelerated(self, step: Float[Array, ""] | None = None) -> Accelerated:
        """How it accelerates under all that acts and the constraints, and the change of the states that forces have themselves.

        With a `step`, the mean acceleration over a step of that length, at the end of which the joints' damping and friction are
        taken, and springs, stops and the forces' own states so that they stay stable; see `_resistance`.
        """

    def acceleration(self, step: Float[Array, ""] | None = None) -> Float[Array, "nv"]:
        """The acceleration of `accelerated`."""
        return self.accelerated(step).acceleration

    @abc.abstractmethod
    def contact_doubts(self, first: Bool[Array, ""] | np.bool) -> Int[Array, ""] | None:
        """The code of what is doubtful of its contacts here, the `first` of a simulation or not; None if nothing can be."""

    def begun(self) -> tuple[System, State]:
        """Where velocities jump: how it moves from here on until the next event, and the state after what happens at once."""
        return self.system, self.state

    def until(self) -> Float[Array, "k"]:
        """Numbers that are positive as long as it goes on to move as it does, in a system that `begun` has given."""
        return jnp.zeros(0, self.q.dtype)

    # What acts.

    @abc.abstractmethod
    def force(self, friction: bool = True) -> Float[Array, "nv"]:
        """All generalized forces but gravity and velocity products: controls, the joints' own, force elements.

        The `friction` of the joints is left out where a scheme takes it by itself.
        """

    @abc.abstractmethod
    def friction(self, step: Float[Array, ""]) -> tuple[JointFriction, Float[Array, "dof nv"]]:
        """The friction of the joints over a step, and the rates at which the joints move with v, as a matrix."""

    @abc.abstractmethod
    def own_rate(self) -> Float[Array, "own"]:
        """The rate of the states that the forces have themselves."""

    @abc.abstractmethod
    def own_after(self, v: Float[Array, "nv"], step: Float[Array, ""]) -> Float[Array, "own"]:
        """Those states after a step at whose end the velocity is v, however fast they decay."""

    @abc.abstractmethod
    def residual(self, a: Float[Array, "nv"], friction: bool = True) -> Float[Array, "nv"]:
        """What is missing in the equations of motion: `inverse_dynamics - force`, at the true acceleration `Gᵀ λ`."""

    # Momenta.

    @abc.abstractmethod
    def lagrangian_gradients(self) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """`∂L/∂q` and `∂L/∂v` of the Lagrangian `L = T - V`, with V of gravity; the first along `move(q, step)`."""

    @abc.abstractmethod
    def mass_matrix(self) -> Float[Array, "nv nv"]:
        """M."""

    @abc.abstractmethod
    def solve_mass_matrix(self, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`M⁻¹ p`."""

    def momentum(self) -> Float[Array, "nv"]:
        """The generalized momentum `∂L/∂v`: `M v`, and what joints that move by themselves add."""
        return self.lagrangian_gradients()[1]

    def velocity(self, momentum: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """The velocity with that generalized momentum, whatever its own is."""
        if self.system.rheonomic:
            momentum = momentum - self.with_velocity(jnp.zeros_like(momentum)).momentum()
        return self.solve_mass_matrix(momentum)

    # Constraints g(t, q) = 0.

    @abc.abstractmethod
    def constraint_residual(self) -> Float[Array, "rows"]:
        """g: how far the loops are from closed; zero of what holds velocities alone."""

    def constraint_gap(
        self, span: Float[Array, ""], rate: Callable[[], Float[Array, "rows"]]
    ) -> Float[Array, "rows"]:
        """What an implicit step that ends here is to make zero: how far it leaves the constraints open that hold positions, by
        its `span`.

        Of those that hold velocities alone it is their `constraint_velocity`, `rate()`, where the step asks for it: at its
        end or, with the mean velocity, within.
        """
        gap, held = self.constraint_residual() / span, self.system.holonomic
        return gap if held.all() else jnp.where(held, gap, rate())

    @abc.abstractmethod
    def constraint_velocity(self) -> Float[Array, "rows"]:
        """`ġ = G v + ∂g/∂t`, and what vanishes of constraints that hold velocities alone."""

    @abc.abstractmethod
    def constraint_jacobian(self) -> Float[Array, "rows nv"]:
        """G."""

    @abc.abstractmethod
    def constraint_force(self, multipliers: Float[Array, "rows"]) -> Float[Array, "nv"]:
        """`Gᵀ λ`."""

    @abc.abstractmethod
    def admissible(self, v: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """The velocity nearest to v, in the metric of M, with which the loops stay closed."""
