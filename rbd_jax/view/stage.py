"""The data of a model at one time, independent of the display: frames, center of mass, forces, sensor readings.

A viewer queries a `Stage`, which stores no display state: its inputs are poses and moments, its outputs arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from .._core.array import pick, zeros
from .._core.jit import compiled
from ..constraints.reactions import frame_wrenches
from ..model import Model
from ..sensors import Readings
from ..simulate.begin import in_one_precision
from ..simulate.control import Control, Controls
from ..simulate.controls import control_of
from ..simulate.loads import TreeLoads
from ..simulate.sensing import sense_along
from ..simulate.state import State
from ..simulate.systems import Simulated
from ..simulate.trajectory import Trajectory
from ..simulate.tree_system import Acting, TreeSystem
from .pushes import acting_in
from .recording import Poses, Recording, frames_of
from .scene import Scene, scene_of


#: Maximum number of rows of a motion that are played, evenly spaced.
MOST_ROWS = 20_000


class Moment(NamedTuple):
    """The time, state and controls of a model, for one sample."""

    t: float
    state: State
    controls: Controls


class Arrows(NamedTuple):
    """Vectors at points of the world, (n, 3) each."""

    points: np.ndarray
    vectors: np.ndarray


class Loads(NamedTuple):
    """Forces on a model at one time, in the world.

    - `contacts`: contact points, and the forces on the second shape of each pair; on the first if the second is the world.
    - `reactions`: the joint forces on bodies at their origins, and the forces of constraints at their frames.
    """

    contacts: Arrows
    reactions: Arrows


@dataclass(frozen=True)
class Mark:
    """A named frame on a body: index of the body (-1 for the world), position and quaternion (scalar first) there."""

    name: str
    body: int
    position: np.ndarray
    quaternion: np.ndarray


class Stage:
    """A model to show, with its motion if available.

    - `model`: a `Model` or a `ReducedModel`; `tree` is the model whose bodies are shown.
    - `recording`: the trajectory, or the neutral configuration alone.
    - `scene`: the surfaces of the bodies.
    - `forces`: forces in addition to those that the model carries.
    """

    def __init__(
        self, model: Simulated, trajectory: Trajectory | None = None, *, forces: Sequence[Acting] = ()
    ):
        self.recording = Recording(model, trajectory)
        self.model, self.tree, self.forces = model, self.recording.tree, tuple(forces)
        self.scene: Scene = scene_of(model)
        self._motions: dict[int, Poses] = {}
        self._last: tuple[int, Trajectory] | None = None

    # Motion.

    def motion(self, sample: int = 0) -> Poses:
        """Returns the body frames in all rows of a sample, up to its failure. Recent results are cached."""
        if sample not in self._motions:
            while len(self._motions) >= 64:
                self._motions.pop(next(iter(self._motions)))
            self._motions[sample] = self.recording.poses(sample, most=MOST_ROWS)
        return self._motions[sample]

    def moment(self, sample: int, time: float) -> Moment:
        """Returns the last row of a sample not after a time, with the controls of the step that starts there.

        The last row has the controls of the preceding step.
        """
        path = self._path(sample)
        t = np.asarray(path.t, float)
        row = int(np.clip(np.searchsorted(t, time, side="right") - 1, 0, len(t) - 1))
        own = None if path.own is None else pick(path.own, row)
        step = min(row, len(path.tau) - 1)
        tau = pick(path.tau, step) if step >= 0 else zeros((self.model.nv,), path.q.dtype)
        u = zeros((self.tree.nu,), path.q.dtype) if path.u is None or step < 0 else pick(path.u, step)
        return Moment(float(t[row]), State(pick(path.q, row), pick(path.v, row), own), Controls(u, tau))

    def _path(self, sample: int) -> Trajectory:
        """Returns the path of a sample; the last one is cached."""
        if self._last is None or self._last[0] != sample:
            self._last = sample, self.recording.path(sample)
        return self._last[1]

    def poses(self, q: Any, t: float = 0.0) -> Poses:
        """Returns the frames of the bodies in one configuration."""
        position, turned = frames_of(self.model, np.array([t]), np.asarray(q)[None])
        return Poses(np.array([t]), position, turned)

    # Frames on bodies.

    @functools.cached_property
    def sites(self) -> tuple[Mark, ...]:
        """The sites of the model."""
        index = {"world": -1} | {name: body for body, name in enumerate(self.tree.body_names)}
        found = []
        for site in self.tree.sites:
            position, turned = (np.asarray(x, float)[0] for x in (site.frames.position, site.frames.rotation))
            found.append(
                Mark(
                    site.name or "",
                    index[site.bodies[0]],
                    position,
                    np.roll(Rotation.from_matrix(turned).as_quat(), 1),
                )
            )
        return tuple(found)

    def center_of_mass(self, poses: Poses) -> np.ndarray:
        """Returns the center of mass of all bodies in the world, in the first of the poses."""
        masses = np.asarray(self.tree.inertias.mass, float)
        places = np.einsum("bij,bj->bi", poses.rotation[0], np.asarray(self.tree.inertias.com, float))
        total = masses.sum()
        weights = masses / total if total > 0 else np.full(len(masses), 1 / max(len(masses), 1))
        return weights @ (poses.position[0] + places)

    @property
    def weight(self) -> float:
        """The weight of the model in N; without gravity, its weight on Earth."""
        gravity = float(np.linalg.norm(np.asarray(self.tree.gravity, float))) or 9.81
        return float(np.asarray(self.tree.inertias.mass, float).sum()) * gravity or 1.0

    # Forces.

    @property
    def knows_loads(self) -> bool:
        """True if forces can be shown; the joint forces of a reduced model are unknown."""
        return isinstance(self.model, Model)

    def loads(self, moment: Moment) -> Loads:
        """Returns the forces at a moment of the motion."""
        assert isinstance(self.model, Model)
        return loads(self.model, self.forces, moment)

    # Sensors.

    def traces(self, sample: int, most: int = 500) -> tuple[np.ndarray, Readings] | None:
        """Returns the sensor readings along a sample at up to `most` times; None without steps."""
        assert isinstance(self.model, Model)
        path = self._path(sample)
        if not len(path.tau):
            return None
        readings = sense_along(self.model, path, forces=self.forces)
        rows = np.unique(np.linspace(0, len(path.tau) - 1, min(most, len(path.tau))).astype(int))
        return np.asarray(path.t, float)[rows], Readings(
            jnp.asarray(np.asarray(readings.vector)[rows]), readings.names, readings.sizes
        )


def loads(model: Model, forces: Sequence[Acting], moment: Moment) -> Loads:
    """Returns the contact and reaction forces of a model at a moment, under its controls and the additional `forces`."""
    model, state = in_one_precision("view", model, moment.state)
    told = control_of("view", model, moment.controls, model.dtype)
    t = jnp.asarray(moment.t, model.dtype)
    touching, joints, held = _loads(model, tuple(forces), t, state, told)
    position, turned = frames_of(model, np.array([moment.t]), np.asarray(moment.state.q)[None])
    poses = Poses(np.array([moment.t]), position, turned)
    acting, points, pushes = acting_in(model, touching)
    return Loads(Arrows(points[acting], pushes[acting]), _reactions(model, poses, joints, held))


@compiled
def _loads(model: Model, forces: tuple[Acting, ...], t, state: State, told: Control):
    system = TreeSystem(model=model, tau=told.tau, forces=forces, u=told.u)
    loads = TreeLoads(system, t, state)
    held = [wrenches[:, 3:] for wrenches in frame_wrenches(loads.motion, loads.multipliers)]
    return loads.contacts, loads.joint_wrenches[:, 3:], held


def _reactions(model: Model, poses: Poses, joints, held) -> Arrows:
    rotation, origin = poses.rotation[0], poses.position[0]
    points, vectors = [origin], [np.einsum("bij,bj->bi", rotation, np.asarray(joints, float))]
    index = {"world": -1} | {name: body for body, name in enumerate(model.body_names)}
    for constraint, forces in zip(model.constraints, held, strict=True):
        # The forces on both bodies are opposite; only the force on the last one is shown.
        on = [(slot, index[name]) for slot, name in enumerate(constraint.bodies) if index[name] >= 0]
        for slot, body in on[-1:]:
            turned = rotation[body] @ np.asarray(constraint.frames.rotation[slot], float)
            place = np.asarray(constraint.frames.position[slot], float)
            points.append((origin[body] + rotation[body] @ place)[None])
            vectors.append((turned @ np.asarray(forces[slot], float))[None])
    points, vectors = np.concatenate(points), np.concatenate(vectors)
    there = np.isfinite(vectors).all(axis=-1)
    return Arrows(points[there], vectors[there])
