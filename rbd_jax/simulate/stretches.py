"""A rollout without controls, made in stretches: the same as one made at once, whoever looks at it in between.

All that it hands from step to step is handed from stretch to stretch: what schemes and forces remember, and what has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from .._core.failures import Failure
from ..constraints import Stabilization
from .begin import begun
from .controls import driver
from .rollouts import TOLERANCE, Carry, Run
from .scheme import Scheme
from .state import State
from .systems import Simulated
from .tree_system import Acting


class Stretches(eqx.Module):
    """What a rollout in stretches is made with; its arguments are those of `rollout`. Its methods are of one sample.

    - `owner`: who asks, for messages.
    - `rubs`: whether joints may have dry friction; False where that is known and the model is an argument of what is compiled.

    >>> model, state = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> made = rbd.simulate.Stretches("a loop of mine")
    >>> dt = jnp.asarray(0.01)
    >>> carry = made.start(model, state, dt)
    >>> for first in (0, 50):
    ...     carry = made.advance(model, carry, jnp.int32(first), dt, 50)
    >>> print(carry.state.q, rbd.rollout(model, state, dt=0.01, steps=100).final.q)
    [-0.5] [-0.5]
    """

    owner: str = eqx.field(static=True)
    scheme: Scheme | None = None
    forces: Sequence[Acting] = ()
    stabilization: Stabilization | Literal["auto"] | None = "auto"
    rubs: bool = eqx.field(static=True, default=True)

    def _run(self, model: Simulated, state: State, dt: Float[Array, ""]) -> Run:
        begin = begun(self.owner, model, state, dt, 0.0, self.scheme, self.forces, self.stabilization)
        if not self.rubs:
            begin = begin._replace(system=replace(begin.system, rubs=False))
        drive = driver(self.owner, begin.system.simulated, None, 1, None, None, begin.dt)
        allowed = TOLERANCE if begin.system.constraint_rows else None
        return Run(begin, drive, None, 1, allowed, watched=True)

    def start(self, model: Simulated, state: State, dt: Float[Array, ""]) -> Carry:
        """Before the first step."""
        return self._run(model, state, dt).start(())

    def advance(
        self, model: Simulated, carry: Carry, first: Int[Array, ""], dt: Float[Array, ""], count: int
    ) -> Carry:
        """After so many steps more, of which the `first` has that number."""
        run = self._run(model, carry.state, dt)
        one = lambda carry, number: (run.step(carry, first + number, ())[0], None)
        return lax.scan(one, carry, jnp.arange(count, dtype=jnp.int32))[0]

    def judge(
        self, model: Simulated, start: State, carry: Carry, steps: Int[Array, ""], dt: Float[Array, ""]
    ) -> tuple[Failure, Failure, Float[Array, ""] | None]:
        """After all steps: the step that could not be made, after which states are lost; that, or the first doubt where every
        step could be made; and how far constraints were open, None without any."""
        return self._run(model, start, dt).judged(carry, carry.failure, carry.state, steps, start)
