"""A rollout without controls in several parts, with the same result as a single rollout.

The carry contains all values that pass from one part to the next: memory of the scheme, internal states, and failures.
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
    """The settings of a rollout in several parts; its arguments are those of `rollout`. Its methods take one sample.

    - `owner`: name of the caller, for messages.
    - `rubs`: whether joints may have dry friction. Pass False if it is known that they have none, while the model is an
      argument of compiled code.

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
        """Returns the carry before the first step."""
        return self._run(model, state, dt).start(())

    def advance(
        self, model: Simulated, carry: Carry, first: Int[Array, ""], dt: Float[Array, ""], count: int
    ) -> Carry:
        """Returns the carry after `count` more steps, the first of which has the number `first`."""
        run = self._run(model, carry.state, dt)
        one = lambda carry, number: (run.step(carry, first + number, ())[0], None)
        return lax.scan(one, carry, jnp.arange(count, dtype=jnp.int32))[0]

    def judge(
        self, model: Simulated, start: State, carry: Carry, steps: Int[Array, ""], dt: Float[Array, ""]
    ) -> tuple[Failure, Failure, Float[Array, ""] | None]:
        """Evaluates failures and warnings after all steps.

        Args:
          model: The model.
          start: The initial state.
          carry: The carry after the last step.
          steps: The number of steps.
          dt: Length of a step.

        Returns:
          The first failed step, after which states are discarded; this or else the first warning; and the largest constraint
          violation, None without constraints.
        """
        return self._run(model, start, dt).judged(carry, carry.failure, carry.state, steps, start)
