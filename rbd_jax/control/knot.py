"""A knot of a motion: the point in time at which costs and constraints are evaluated."""

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
    """The state of a motion at the start of one of its steps, or at its end.

    - `index`: the index of the knot, from 0 to the number of steps.
    - `time`, `state`: the time and the state.
    - `control`: the decision variables of the step that begins here, see `Problem`. The last knot has no control.
    - `system`: the system. `motion`: its bodies in motion.

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
        """The decision variables of the step that begins here."""
        if self._control is None:
            raise ValueError(
                "control.Problem: a function requires the control at the last knot, where no step begins. Remove it from "
                "`terminal`, and from constraints `at` the end."
            )
        return self._control

    @property
    def has_control(self) -> bool:
        """True if a step begins here."""
        return self._control is not None

    @property
    def model(self) -> Simulated:
        """The model."""
        return self.system.simulated

    @property
    def flat(self) -> bool:
        """True if all configurations change by addition."""
        model = self.model
        return not isinstance(model, Model) or all(joint.flat for joint in model.joints)

    @property
    def neutral(self) -> Float[Array, "nq"]:
        """The neutral configuration; for a reduced model, zero variables."""
        model, q = self.model, self.state.q
        return neutral(model).astype(q.dtype) if isinstance(model, Model) else jnp.zeros_like(q)

    def of_joints(self, values: Float[Array, "nv"], joints: Sequence[str] | None) -> Float[Array, "k"]:
        """Returns the entries of values that belong to some joints, or all values if `joints` is `None`."""
        return values if joints is None else gather(values, self.system.dof(joints))

    def moved(self, step: Float[Array, "nv"]) -> Knot:
        """Returns the knot with the configuration `q ⊕ step`."""
        state = State(self.system.move(self.state.q, step), self.state.v, self.state.own)
        return Knot(self.system, self.index, self.time, state, self._control)

    def along(self, jacobian: Float[Array, "k nv"]) -> Float[Array, "k n"]:
        """Returns a Jacobian on the tree with respect to the model's velocities, for a reduced model its variables."""
        if isinstance(self.model, Model):
            return jacobian
        return matmul(jacobian, self.model.at(self.state.q, self.state.v).jacobian)
