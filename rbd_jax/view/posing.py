"""Poses of a model set by the user: joint by joint, or by dragging a body. Loops stay closed."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.array import matmul, matvec, transpose
from ..constraints.closure import ReducedModel
from ..constraints.consistency import assemble
from ..control import Cost, Residual, inverse_kinematics
from ..lie import SO3
from ..model import Model, neutral
from ..simulate.systems import Simulated, tree_of


#: Tolerance of the dragged body's pose in m and rad, and the maximum number of steps.
TOLERANCE, STEPS = 1e-4, 30


class Slider(NamedTuple):
    """A coordinate that the user can set.

    - `name`: the name of the joint, with the index of the coordinate if it has several; for a reduced model, of the variable.
    - `joint`: the joint; None for a variable of a reduced model.
    - `place`: its index in q.
    - `lower`, `upper`: its limits; without limits, half a revolution or a few lengths of the model.
    """

    name: str
    joint: str | None
    place: int
    lower: float
    upper: float


class Posing:
    """A configuration that the user changes.

    - `q`: the configuration.
    - `sliders`: the coordinates that the user can set. Mimic joints follow and have no slider.
    - `note`: the reason why the last request was not fulfilled; empty if it was.
    """

    def __init__(self, model: Simulated, q: Any = None, size: float = 1.0):
        self.model, self.note = model, ""
        if q is None:
            q = np.zeros(model.nq) if isinstance(model, ReducedModel) else neutral(model)
        self.q = np.asarray(q, model.dtype)
        self.sliders = _sliders(model, size)
        self._floating = _floating(tree_of(model)) if isinstance(model, Model) else ()
        self._close(self.q, None)

    def set(self, q: Any) -> None:
        """Sets a configuration, from which loops are then closed."""
        self._close(np.asarray(q, self.model.dtype), None)

    def set_joint(self, slider: Slider, value: float) -> None:
        """Sets one coordinate within its limits; others stay or follow the loops.

        If the loops cannot be closed, the configuration does not change.
        """
        q = self.q.copy()
        q[slider.place] = np.clip(value, slider.lower, slider.upper)
        self._close(q, slider.joint)

    def drag(self, body: int, point: Any, position: Any, rotation: Any = None) -> float:
        """Moves a point of a body to a position by inverse kinematics, within joint limits and with loops closed.

        If the target is out of reach, the point moves as close as possible. A floating base stays in place unless it is the
        dragged body.

        Args:
          body: The index of the body.
          point: The point in the frame of the body.
          position: The target in the world.
          rotation: The target rotation of the body; None for any rotation.

        Returns:
          The remaining error in m or rad.
        """
        dtype = self.model.dtype
        array = lambda x: jnp.asarray(np.asarray(x), dtype)
        turned = np.eye(3) if rotation is None else rotation
        weight = np.repeat([1.0, 0.0 if rotation is None else 0.1], 3)
        grip = _Grip(jnp.asarray(body, jnp.int32), array(point), array(position), array(turned))
        roots = {root for root, _ in self._floating}
        hold = () if body in roots else tuple(name for _, name in self._floating)
        found = inverse_kinematics(
            self.model,
            [Cost(grip, array(weight))],
            array(self.q),
            hold=hold,
            starts=1,
            tolerance=TOLERANCE,
            max_steps=STEPS,
        )
        q, off = np.asarray(found.q), float(found.error)
        if np.isfinite(q).all() and float(found.violation) <= 10 * TOLERANCE:
            self.q, self.note = q, "" if off <= 10 * TOLERANCE else f"out of reach by {off:.2g}"
        else:
            self.note = "cannot reach this pose with closed loops"
        return off

    def _close(self, q: np.ndarray, held: str | None) -> None:
        """Sets a configuration after closing its loops, with one joint held."""
        self.note = ""
        if isinstance(self.model, Model) and self.model.constraints:
            found = assemble(self.model, jnp.asarray(q), hold=() if held is None else (held,))
            if not bool(found.closed):
                self.note = f"loops cannot be closed: they stay open by {float(found.residual):.2g}"
                return
            q = np.asarray(found.q)
        self.q = q


class _Grip(Residual):
    """The position and rotation errors of a point of a body: 6 numbers.

    The index of the body is a leaf, so that one compiled function serves all bodies.
    """

    body: Int[Array, ""]
    point: Float[Array, "3"]
    position: Float[Array, "3"]
    rotation: Float[Array, "3 3"]

    def __call__(self, knot):
        frame = jax.tree.map(lambda x: x[self.body], knot.motion.world_frames)
        off = frame.position + matvec(frame.rotation, self.point) - self.position
        return jnp.concatenate([off, SO3.log(matmul(transpose(self.rotation), frame.rotation))])


def _sliders(model: Simulated, size: float) -> tuple[Slider, ...]:
    if isinstance(model, ReducedModel):
        return tuple(Slider(f"y[{i}]", None, i, -np.pi, np.pi) for i in range(model.nq))
    found, lower, upper = [], np.asarray(model.lower, float), np.asarray(model.upper, float)
    for body, name in enumerate(model.joint_names):
        joint = model.joint(body)
        if model.topology.is_mimic[body] or not joint.flat or not joint.nq:
            continue
        for i, place in enumerate(range(*model.q_slice(name).indices(model.nq))):
            low, high = lower[place], upper[place]
            if not np.isfinite([low, high]).all():
                columns = np.asarray(joint.motion_subspace(joint.neutral().astype(model.dtype)), float)
                turns = np.linalg.norm(columns[:3, i]) > 0
                most = np.pi if turns else 2 * size
                # A coordinate with a single limit gets an equal range on its other side.
                low = low if np.isfinite(low) else min(-most, high - most if np.isfinite(high) else -most)
                high = high if np.isfinite(high) else max(most, low + most)
            title = name if joint.nq == 1 else f"{name}[{i}]"
            found.append(Slider(title, name, place, float(low), float(high)))
    return tuple(found)


def _floating(model: Model) -> tuple[tuple[int, str], ...]:
    """Returns the floating bodies and their joints."""
    topology = model.topology
    return tuple(
        (body, model.joint_names[body])
        for body, (parent, size) in enumerate(zip(topology.parents, topology.joint_nv))
        if parent < 0 and size == 6
    )
