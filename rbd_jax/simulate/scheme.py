"""What a time-stepping scheme is: a rule from one state on the model's manifold to the next, with a memory of its own."""

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
"""What a scheme remembers from step to step: a PyTree, made by `Scheme.init`; None where there is nothing to remember.

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
"""The code of a step that has nothing to report.

>>> print(rbd.simulate.SUCCESS, rbd.Result(int(rbd.simulate.SUCCESS)).name)
0 SUCCESS
"""


def code_of(unsolved: Bool[Array, ""] | None) -> Int[Array, ""] | np.int32:
    """Returns the code of a completed step from `Accelerated.unsolved`."""
    if unsolved is None:
        return SUCCESS
    return jnp.where(unsolved, Result.CONTACTS_UNSOLVED, Result.SUCCESS).astype(jnp.int32)


class Scheme(eqx.Module):
    """A rule that carries a state over one step of time.

    >>> class Heun(rbd.simulate.CommutatorFree):
    ...     stages = ((), ((1.0,),))
    ...     end = ((0.5, 0.5),)
    >>> print(isinstance(Heun(), rbd.Scheme))
    True
    >>> path = rbd.rollout(rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1)), dt=0.01, steps=100, scheme=Heun())
    >>> print(path.q[-1])
    [-0.524]
    """

    #: Whether a step can fail in another way than by numbers that are not finite. If so, every step's code is looked at.
    fallible: ClassVar[bool] = False

    #: Whether a step closes loops by itself. Where it does not, a rollout moves the end of each step onto the constraints.
    closes_loops: ClassVar[bool] = False

    #: Whether it finds the events at which velocities jump (`System.jumps`), and goes on from each.
    finds_events: ClassVar[bool] = False

    #: Whether reverse mode computes the parts of a step again instead of storing them, as the step itself sees to. If not, a
    #: rollout sees to it, for the step as a whole.
    recomputes: ClassVar[bool] = False

    #: Whether dampers and stops at the joints may be stiff: taken implicitly, they are stable at every step.
    stiff: ClassVar[bool] = False

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = handed_step_data(cls.step)

    def init(self, system: System, time: Float[Array, ""], state: State, dt: Float[Array, ""]) -> Memory:
        """What the first step needs to know beside the state; nothing, for most schemes."""
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
          The state, the memory, and a `Result` as code. A rollout continues after `SUCCESS` and `CONTACTS_UNSOLVED`, and ends
          after any other code.
        """

    def within(
        self, system: System, time: Float[Array, ""], state: State, new: State, dt, share: Float[Array, ""]
    ) -> State:
        """The state at a share of the step from `state` to `new`: a cubic between the two, unless a scheme knows better."""
        return between(system, state, new, dt, share)
