"""The interface of time-stepping schemes: a map from one state on the model's manifold to the next, with a memory."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ._former import handed_step_data
from .result import Result
from .state import State
from .step_data import StepData
from .system import System
from .trajectory import between


Memory: TypeAlias = Any
"""The values that a scheme passes from step to step: a PyTree returned by `Scheme.init`; None for schemes without memory.

>>> class AdamsBashforth(rbd.Scheme):
...     def init(self, system, time, state, dt) -> rbd.simulate.Memory:
...         return system.acceleration(time, state)
...     def step(self, here, memory, dt):
...         now = here.acceleration()
...         v = here.v + dt * (1.5 * now - 0.5 * memory)
...         moved = here.system.move(here.q, dt * (here.v + v) / 2)
...         return rbd.State(moved, v, here.state.internal), now, rbd.simulate.SUCCESS
>>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
>>> print(rbd.rollout(model, start, dt=0.01, steps=100, scheme=AdamsBashforth()).q[-1])
[-0.499]
"""

SUCCESS = np.int32(Result.SUCCESS)
"""The code of a step without failure or warning.

>>> print(rbd.simulate.SUCCESS, rbd.Result(int(rbd.simulate.SUCCESS)).name)
0 SUCCESS
"""


def code_of(unsolved: Bool[Array, ""] | None) -> Int[Array, ""] | np.int32:
    """Returns the code of a completed step from `Accelerated.unsolved`."""
    if unsolved is None:
        return SUCCESS
    return jnp.where(unsolved, Result.CONTACTS_UNSOLVED, Result.SUCCESS).astype(jnp.int32)


class Scheme(eqx.Module):
    """A scheme that advances a state by one time step.

    >>> class Heun(rbd.simulate.CommutatorFree):
    ...     stages = ((), ((1.0,),))
    ...     end = ((0.5, 0.5),)
    >>> print(isinstance(Heun(), rbd.Scheme))
    True
    >>> path = rbd.rollout(rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1)), dt=0.01, steps=100, scheme=Heun())
    >>> print(path.q[-1])
    [-0.524]
    """

    #: If True, steps can fail with finite values, and a rollout checks the code of every step.
    fallible: ClassVar[bool] = False

    #: If True, steps close loops. Otherwise a rollout projects the end of each step onto the constraints.
    closes_loops: ClassVar[bool] = False

    #: If True, the scheme finds the events at which velocities jump (`System.jumps`), and continues from each.
    finds_events: ClassVar[bool] = False

    #: If True, the step marks its parts for recomputation in reverse mode. Otherwise a rollout marks the complete step.
    recomputes: ClassVar[bool] = False

    #: If True, joint dampers and joint limits may be stiff: the scheme takes them implicitly, which is stable at every step.
    stiff: ClassVar[bool] = False

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = handed_step_data(cls.step)

    def init(self, system: System, time: Float[Array, ""], state: State, dt: Float[Array, ""]) -> Memory:
        """Returns the memory for the first step; empty for most schemes."""
        return ()

    @abc.abstractmethod
    def step(
        self, here: StepData, memory: Memory, dt: Float[Array, ""]
    ) -> tuple[State, Memory, Int[Array, ""] | np.int32]:
        """Returns the state one step later, the memory for the next step, and a code.

        Args:
          here: The system at the start of the step, with its state, time, acceleration and constraints.
          memory: The memory that the previous step or `init` returned.
          dt: The length of the step.

        Returns:
          The state, the memory, and a `Result` as code. A rollout continues after `SUCCESS` and `CONTACTS_UNSOLVED`, and
          ends after any other code.
        """

    def within(
        self, system: System, time: Float[Array, ""], state: State, new: State, dt, share: Float[Array, ""]
    ) -> State:
        """Returns the state at a share of the step from `state` to `new`, by default by cubic interpolation."""
        return between(system, state, new, dt, share)
