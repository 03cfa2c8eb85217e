"""A model that is put into configurations by hand: joint by joint, or by pulling at a body. Loops stay closed."""

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


#: How near a body is brought to where it is pulled, in m and rad, and in how many steps at most.
TOLERANCE, STEPS = 1e-4, 30


class Slider(NamedTuple):
    """A coordinate that can be moved by itself.

    - `name`: of the joint, with the number of the coordinate if it has several; of a reduced model, of the variable.
    - `joint`: None of a reduced model's variable.
    - `place`: where it is in q.
    - `lower`, `upper`: its limits, or where there is none half a turn, or some lengths of the model.
    """

    name: str
    joint: str | None
    place: int
    lower: float
    upper: float


class Posing:
    """A configuration that is changed by hand.

    - `q`: what it is.
    - `sliders`: the coordinates of joints to which one adds. Those that mimic others follow, and have none.
    - `note`: what was not done of what was last asked, and why; empty if all was.
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
        """Another configuration; loops are closed from there."""
        self._close(np.asarray(q, self.model.dtype), None)

    def set_joint(self, slider: Slider, value: float) -> None:
        """One coordinate within its limits, the others where they are, or where loops move them. Where loops do not let it get
        there it stays."""
        q = self.q.copy()
        q[slider.place] = np.clip(value, slider.lower, slider.upper)
        self._close(q, slider.joint)

    def drag(self, body: int, point: Any, position: Any, rotation: Any = None) -> float:
        """The configuration moved so that a point of a body, given in its frame, comes to a position, within the limits of joints
        and with loops closed; with a rotation the body also turns there. What is out of reach is gone as near to as possible.

        A robot that floats is held by its base, unless it is its base that is pulled. Returns how far off it remains, in m or
        rad.
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
            self.note = "cannot follow there with its loops closed"
        return off

    def _close(self, q: np.ndarray, held: str | None) -> None:
        """Take a configuration, its loops closed with a joint held where it is."""
        self.note = ""
        if isinstance(self.model, Model) and self.model.constraints:
            found = assemble(self.model, jnp.asarray(q), hold=() if held is None else (held,))
            if not bool(found.closed):
                self.note = f"loops cannot be closed there: they stay open by {float(found.residual):.2g}"
                return
            q = np.asarray(found.q)
        self.q = q


class _Grip(Residual):
    """Where a point of a body is, less where it should be, and how the body is turned against how it should be: 6 numbers.

    The number of the body is a leaf, so that what pulls at one body is compiled for all.
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
                # What has one limit alone has as much room on its other side.
                low = low if np.isfinite(low) else min(-most, high - most if np.isfinite(high) else -most)
                high = high if np.isfinite(high) else max(most, low + most)
            title = name if joint.nq == 1 else f"{name}[{i}]"
            found.append(Slider(title, name, place, float(low), float(high)))
    return tuple(found)


def _floating(model: Model) -> tuple[tuple[int, str], ...]:
    """The bodies that float, and their joints."""
    topology = model.topology
    return tuple(
        (body, model.joint_names[body])
        for body, (parent, size) in enumerate(zip(topology.parents, topology.joint_nv))
        if parent < 0 and size == 6
    )
