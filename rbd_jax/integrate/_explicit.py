"""Explicit Runge–Kutta schemes on the configuration manifold: the loop that they share, and the two ways to use it.

A stage needs a configuration near that of the step's start, made of the rates of the stages before it. In the schemes of
Munthe-Kaas it is `q0 ⊕ h Σ a_ij k_j`, one step in the chart at q0, and the rates are velocities seen in that chart,
`k = dexp⁻¹ v` (Müller & Terze 2013, eqs. 35 to 37). In those of Crouch & Grossman and the commutator-free ones of
Celledoni, Marthinsen & Owren it is several steps one after the other, each from where the last one ended, and the
rates are the velocities themselves. The velocity lies in a vector space and takes the plain scheme of the same weights.
"""

from __future__ import annotations

import abc
from typing import ClassVar, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._scheme import SUCCESS, Scheme
from ._system import State, System


#: The displacement of a stage: for each of its successive steps the shares of the rates of the stages before.
Steps: TypeAlias = tuple[tuple[float | int, ...], ...]


class ExplicitRungeKutta(Scheme):
    """A scheme given by the displacements of its stages, the first of which is zero, and of the step's end."""

    stages: ClassVar[tuple[Steps, ...]]
    end: ClassVar[Steps]

    @abc.abstractmethod
    def rate(self, system, q0, displacement, v):
        """The rate that later stages use, of a stage that moves at `v`."""

    def step(self, system, time, state, memory, dt):
        def rate(displacement, v):
            return self.rate(system, state.q, displacement, v)

        rates = stage_rates(system, time, state, dt, self.stages, rate)
        steps, change, _ = combined(table((self.end,), len(rates[0]))[0], rates, dt)
        return State(_moved(system, state.q, steps), state.v + change), memory, SUCCESS


def stage_rates(system: System, time, state: State, dt, stages: tuple[Steps, ...], rate):
    """The rates of configuration and velocity in all stages: (stages, nv) each."""
    count = len(stages) + 1

    # One loop over the stages compiles the dynamics once.
    def stage(rates, row):
        shares, own = row
        steps, change, share = combined(shares, rates, dt)
        now = State(_moved(system, state.q, steps), state.v + change)
        found = rate(steps[0], now.v), system.acceleration(time + share * dt, now)
        return tuple(jnp.where(own[:, None], x[None], old) for x, old in zip(found, rates)), None

    nothing = jnp.zeros((count, state.v.size), state.v.dtype)
    rows = table(((), *stages), count), np.eye(count, dtype=bool)
    return lax.scan(stage, (nothing, nothing), rows)[0]


def combined(shares: Float[Array, "steps stages"] | np.ndarray, rates, dt):
    """Successive steps in the configuration, the change of velocity, and the share of the time step."""
    shares = jnp.asarray(shares, rates[0].dtype)
    steps = [dt * jnp.sum(share[:, None] * rates[0], axis=0) for share in shares]
    total = jnp.sum(shares, axis=0)
    return steps, dt * jnp.sum(total[:, None] * rates[1], axis=0), jnp.sum(total)


class MuntheKaas(ExplicitRungeKutta):
    """A Runge–Kutta scheme in the chart at the step's start."""

    def rate(self, system, q0, displacement, v):
        return system.chart_rate(q0, displacement, v)


class CommutatorFree(ExplicitRungeKutta):
    """A scheme of successive steps along sums of the stages' velocities."""

    def rate(self, system, q0, displacement, v):
        return v


def _moved(system, q, steps):
    for step in steps:
        q = system.move(q, step)
    return q


def table(displacements: tuple[Steps, ...], count: int) -> np.ndarray:
    """Shares as an array (displacements, steps, stages), zero where there are none."""
    table = np.zeros((len(displacements), max(1, *map(len, displacements)), count))
    for i, steps in enumerate(displacements):
        for j, shares in enumerate(steps):
            table[i, j, : len(shares)] = shares
    return table
