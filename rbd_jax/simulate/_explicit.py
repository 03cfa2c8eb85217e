"""Explicit Runge–Kutta schemes on the configuration manifold: the common loop, and its two variants.

A stage needs a configuration near the start of the step, computed from the rates of the previous stages. In the schemes of
Munthe-Kaas it is `q0 ⊕ h Σ a_ij k_j`, one step in the chart at q0. Their rates are velocities in that chart,
`k = dexp⁻¹ v` (Müller & Terze 2013, eqs. 35 to 37). In the schemes of Crouch & Grossman and the commutator-free schemes of
Celledoni, Marthinsen & Owren it results from several successive steps, and the rates are the velocities. Velocities and internal
states of forces lie in a vector space, so the plain scheme with the same weights applies to them (eqs. 12 to 15, 21 to 24).
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .scheme import Scheme, code_of
from .state import State
from .system import System


#: The displacement of a stage: for each of its successive steps, the weights of the rates of the previous stages.
Displacement: TypeAlias = tuple[tuple[float | int, ...], ...]


class ExplicitRungeKutta(Scheme):
    """A scheme given by the displacements of its stages and of the end of the step. The first stage has zero displacement.

    >>> print(isinstance(rbd.RungeKutta4(), rbd.simulate.ExplicitRungeKutta), rbd.RungeKutta4().stages)
    True (((0.5,),), ((0, 0.5),), ((0, 0, 1),))
    """

    if TYPE_CHECKING:  # schemes define plain tuples instead of properties
        stages: ClassVar[tuple[Displacement, ...]]
        end: ClassVar[Displacement]
    else:

        @property
        @abc.abstractmethod
        def stages(self) -> tuple[Displacement, ...]:
            """The displacements of the stages after the first."""

        @property
        @abc.abstractmethod
        def end(self) -> Displacement:
            """The displacement of the end of the step."""

    @abc.abstractmethod
    def rate(self, system, q0, displacement, v):
        """Returns the rate that later stages use for a stage with velocity `v`."""

    def step(self, here, memory, dt):
        system, state = here.system, here.state

        def rate(displacement, v):
            return self.rate(system, state.q, displacement, v)

        rates, unsolved = stage_rates(system, here.time, state, dt, self.stages, rate)
        end = table((self.end,), len(rates[0]))[0]
        return advanced(system, state, end, rates, dt), memory, code_of(unsolved)

    def step_and_rate(self, system, time, state, dt) -> tuple[State, State]:
        """Returns the state after a step, and its rate there; `q` of the rate is a velocity."""

        def rate(displacement, v):
            return self.rate(system, state.q, displacement, v)

        # The end is one more stage of the same loop.
        rates, _ = stage_rates(system, time, state, dt, (*self.stages, self.end), rate)
        end = table((self.end,), len(rates[0]))[0]
        reached = advanced(system, state, end, rates, dt)
        return reached, State(reached.v, rates[1][-1], rates[2][-1])


def stage_rates(system: System, time, state: State, dt, stages: tuple[Displacement, ...], rate):
    """Returns the rates of configuration, velocity and internal states in all stages, each of shape (stages, size).

    The second result is True if the contact solver did not converge in some stage, and None without a contact model.
    """
    count = len(stages) + 1

    # A loop over the stages compiles the dynamics only once.
    def stage(known, row):
        rates, unsolved = known
        shares, own = row
        shares = jnp.asarray(shares, dt.dtype)
        now, then = advanced(system, state, shares, rates, dt), time + jnp.sum(shares) * dt
        first = dt * jnp.sum(shares[0][:, None] * rates[0], axis=0)
        a, own_rate, failed = system.evaluate(then, now).accelerated()
        found = rate(first, now.v), a, own_rate
        rates = tuple(jnp.where(own[:, None], x[None], old) for x, old in zip(found, rates))
        return (rates, None if failed is None else unsolved | failed), None

    nothing = tuple(jnp.zeros((count, x.size), x.dtype) for x in (state.v, state.v, state.internal))
    rows = table(((), *stages), count), np.eye(count, dtype=bool)
    solved = jnp.zeros((), bool) if system.searches else None
    return lax.scan(stage, (nothing, solved), rows)[0]


def advanced(system: System, state: State, shares: Float[Array, "steps stages"] | np.ndarray, rates, dt):
    """Returns the state after successive steps along weighted sums of the stages' rates."""
    (steps, *changes) = combined(shares, rates, dt)
    q = state.q
    for step in steps:
        q = system.move(q, step)
    return State(q, *(x + change for x, change in zip((state.v, state.internal), changes)))


def combined(shares: Float[Array, "steps stages"] | np.ndarray, rates, dt):
    """Returns the successive steps in the configuration, and the changes of velocity and internal states of forces."""
    shares = jnp.asarray(shares, rates[0].dtype)
    steps = [dt * jnp.sum(share[:, None] * rates[0], axis=0) for share in shares]
    total = jnp.sum(shares, axis=0)[:, None]
    return steps, *(dt * jnp.sum(total * rate, axis=0) for rate in rates[1:])


class MuntheKaas(ExplicitRungeKutta):
    """A Runge–Kutta scheme in the chart at the start of the step.

    >>> class Heun(rbd.simulate.MuntheKaas):
    ...     stages = (((1.0,),),)
    ...     end = ((0.5, 0.5),)
    >>> path = rbd.rollout(rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1)), dt=0.01, steps=100, scheme=Heun())
    >>> print(path.q[-1])
    [-0.499]
    """

    def rate(self, system, q0, displacement, v):
        return system.chart_rate(q0, displacement, v)


class CommutatorFree(ExplicitRungeKutta):
    """A scheme that moves along sums of the stages' velocities, in successive steps.

    >>> class Heun(rbd.simulate.CommutatorFree):
    ...     stages = (((1.0,),),)
    ...     end = ((0.5, 0.5),)
    >>> path = rbd.rollout(rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1)), dt=0.01, steps=100, scheme=Heun())
    >>> print(path.q[-1])
    [-0.499]
    """

    def rate(self, system, q0, displacement, v):
        return v


def table(displacements: tuple[Displacement, ...], count: int) -> np.ndarray:
    """Returns the weights as an array of shape (displacements, steps, stages), padded with zeros."""
    table = np.zeros((len(displacements), max(1, *map(len, displacements)), count))
    for i, steps in enumerate(displacements):
        for j, shares in enumerate(steps):
            table[i, j, : len(shares)] = shares
    return table
