"""A knot of a motion: the point in time that costs and constraints are asked about."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._core.array import gather, matmul
from ..model import Model, neutral
from ..simulate import Simulated
from ..simulate.state import State
from ..simulate.system import System


class Knot:
    """Where a motion is at the start of one of its steps, or at its end.

    - `index`: the number of the knot, from 0 to the number of steps.
    - `time`, `state`: when, and in which state.
    - `control`: what is decided on for the step that begins here, see `Problem`; None at the last knot, where none begins.
    - `system`: what moves, and `motion`, its bodies in motion.

    >>> model = rbd.load("double_pendulum")
    >>> system = rbd.simulate.system_of(model, jnp.zeros(2))
    >>> state = rbd.State(jnp.array([0.1, 0.0]), jnp.zeros(2))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, jnp.array([1.0, 2.0]))
    >>> print(rbd.control.Posture()(knot), rbd.control.Effort()(knot))
    [0.1 0. ] [1. 2.]
    """

    def __init__(
        self,
        system: System,
        index: Int[Array, ""],
        time: Float[Array, ""],
        state: State,
        control: Float[Array, "nu"] | None,
    ):
        self.system, self.index, self.time, self.state = system, index, time, state
        self.motion = system.motion(time, state.q, state.v).computed("world_frames", "twists")
        self._control = control

    @property
    def control(self) -> Float[Array, "nu"]:
        """What is decided on for the step that begins here."""
        if self._control is None:
            raise ValueError(
                "control.Problem: something asks for the control at the last knot, where no step begins; leave it out of "
                "`terminal`, and of constraints `at` the end"
            )
        return self._control

    @property
    def has_control(self) -> bool:
        """Whether a step begins here."""
        return self._control is not None

    @property
    def model(self) -> Simulated:
        """The model that moves."""
        return self.system.simulated

    @property
    def flat(self) -> bool:
        """Whether configurations are moved by adding to them, all of them."""
        model = self.model
        return not isinstance(model, Model) or all(joint.flat for joint in model.joints)

    @property
    def neutral(self) -> Float[Array, "nq"]:
        """The neutral configuration; of a reduced model, its variables at zero."""
        model, q = self.model, self.state.q
        return neutral(model).astype(q.dtype) if isinstance(model, Model) else jnp.zeros_like(q)

    def of_joints(self, values: Float[Array, "nv"], joints: Sequence[str] | None) -> Float[Array, "k"]:
        """Those entries of values for each degree of freedom that are some joints', all if None."""
        return values if joints is None else gather(values, self.system.dof(joints))

    def moved(self, step: Float[Array, "nv"]) -> Knot:
        """The same with the configuration moved: `q ⊕ step`."""
        state = State(self.system.move(self.state.q, step), self.state.v, self.state.own)
        return Knot(self.system, self.index, self.time, state, self._control)

    def along(self, jacobian: Float[Array, "k nv"]) -> Float[Array, "k n"]:
        """The Jacobian of something on the tree as one by what moves: the variables, of a reduced model."""
        if isinstance(self.model, Model):
            return jacobian
        return matmul(jacobian, self.model.at(self.state.q, self.state.v).jacobian)
