"""Explicit Runge–Kutta schemes on the configuration manifold: the loop that they share, and the two ways to use it.

A stage needs a configuration near that of the step's start, made of the rates of the stages before it. In the schemes of
Munthe-Kaas it is `q0 ⊕ h Σ a_ij k_j`, one step in the chart at q0, and the rates are velocities seen in that chart,
`k = dexp⁻¹ v` (Müller & Terze 2013, eqs. 35 to 37). In those of Crouch & Grossman and the commutator-free ones of
Celledoni, Marthinsen & Owren it is several steps one after the other, each from where the last one ended, and the
rates are the velocities themselves. The velocity lies in a vector space and takes the plain scheme of the same weights (eqs.
12 to 15, 21 to 24), and so do the states that forces have themselves.
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


#: The displacement of a stage: for each of its successive steps the shares of the rates of the stages before.
Displacement: TypeAlias = tuple[tuple[float | int, ...], ...]


class ExplicitRungeKutta(Scheme):
    """A scheme given by the displacements of its stages, the first of which is zero, and of the step's end.

    >>> print(isinstance(rbd.RungeKutta4(), rbd.simulate.ExplicitRungeKutta), rbd.RungeKutta4().stages)
    True (((0.5,),), ((0, 0.5),), ((0, 0, 1),))
    """

    if TYPE_CHECKING:  # a scheme gives plain tuples, which is no error
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
            """The displacement of the step's end."""

    @abc.abstractmethod
    def rate(self, system, q0, displacement, v):
        """The rate that later stages use, of a stage that moves at `v`."""

    def step(self, here, memory, dt):
        system, state = here.system, here.state

        def rate(displacement, v):
            return self.rate(system, state.q, displacement, v)

        rates, unsolved = stage_rates(system, here.time, state, dt, self.stages, rate)
        end = table((self.end,), len(rates[0]))[0]
        return advanced(system, state, end, rates, dt), memory, code_of(unsolved)

    def step_and_rate(self, system, time, state, dt) -> tuple[State, State]:
        """The state after a step, and how it changes there: `q` of the rate is a velocity."""

        def rate(displacement, v):
            return self.rate(system, state.q, displacement, v)

        # The end is one stage more of the same loop.
        rates, _ = stage_rates(system, time, state, dt, (*self.stages, self.end), rate)
        end = table((self.end,), len(rates[0]))[0]
        reached = advanced(system, state, end, rates, dt)
        return reached, State(reached.v, rates[1][-1], rates[2][-1])


def stage_rates(system: System, time, state: State, dt, stages: tuple[Displacement, ...], rate):
    """The rates of configuration, velocity and the forces' own states in all stages, (stages, size) each; and whether forces of
    contact were searched for in vain in one, None where nothing was searched for."""
    count = len(stages) + 1

    # One loop over the stages compiles the dynamics once.
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
    """The state after successive steps along shares of the rates of the stages."""
    (steps, *changes) = combined(shares, rates, dt)
    q = state.q
    for step in steps:
        q = system.move(q, step)
    return State(q, *(x + change for x, change in zip((state.v, state.internal), changes)))


def combined(shares: Float[Array, "steps stages"] | np.ndarray, rates, dt):
    """Successive steps in the configuration, and the changes of velocity and of the forces' own states."""
    shares = jnp.asarray(shares, rates[0].dtype)
    steps = [dt * jnp.sum(share[:, None] * rates[0], axis=0) for share in shares]
    total = jnp.sum(shares, axis=0)[:, None]
    return steps, *(dt * jnp.sum(total * rate, axis=0) for rate in rates[1:])


class MuntheKaas(ExplicitRungeKutta):
    """A Runge–Kutta scheme in the chart at the step's start.

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
    """A scheme of successive steps along sums of the stages' velocities.

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
    """Shares as an array (displacements, steps, stages), zero where there are none."""
    table = np.zeros((len(displacements), max(1, *map(len, displacements)), count))
    for i, steps in enumerate(displacements):
        for j, shares in enumerate(steps):
            table[i, j, : len(shares)] = shares
    return table
