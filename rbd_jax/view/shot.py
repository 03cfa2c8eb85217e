"""The framing of a motion: up direction, ground, camera position, and camera motion.

The framing ignores bodies that diverge, as parts of failed models do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..model import Model
from .camera import Camera, Eye, given_camera, placed
from .painter import Placed, Setting
from .recording import Poses, Recording
from .scene import Scene, Surface


#: Points farther from the median than this multiple of the initial reach count as diverged, and are not framed. The same
#: applies to bodies whose distance from their parent grows by more than the reach, and to their descendants.
FAR = 4.0

#: By default, the camera follows a motion that travels farther than this multiple of the model's reach.
WIDE = 3.0

#: Number of times at which the extent of a motion is evaluated, and the averaging time (s) of the camera path.
LOOKS, STEADY = 60, 0.5

#: Directions for the extreme points of a body.
DIRECTIONS = np.array(
    [[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if x or y or z], float
)


@dataclass(frozen=True)
class Shot:
    """One or several simultaneous motions in front of a camera.

    - `setting`: the up direction and the ground.
    - `poses`: the poses of each motion, the framed one first; `opacity`: the opacity of each.
    - `corners`: points to keep in the picture, relative to the path of the camera, with z up.
    - `eye`: the camera at the first time; `path`: its displacements (frames, 3) for each frame of the first motion.
    """

    scene: Scene
    setting: Setting
    poses: tuple[Poses, ...]
    opacity: tuple[float, ...]
    corners: np.ndarray
    eye: Eye
    path: np.ndarray

    @property
    def follows(self) -> bool:
        """True if the camera moves."""
        return bool(np.ptp(self.path, axis=0).max(initial=0) > 0)

    def at(self, times: np.ndarray) -> Shot:
        """Returns the same camera at other times."""
        t = self.poses[0].t
        path = np.stack([np.interp(times, t, column) for column in self.path.T], axis=-1)
        moved = tuple(poses.at(times) for poses in self.poses)
        return replace(self, poses=moved, path=path)

    def __len__(self) -> int:
        return len(self.path)

    def frame(self, number: int) -> tuple[Eye, list[Placed]]:
        """Returns the camera and the placed bodies at one of the times."""
        eye = self.eye.moved(self.path[number]) if self.follows else self.eye
        rows = slice(number, number + 1)
        return eye, [
            Placed(
                poses.position[number],
                Poses(poses.t[rows], poses.position[rows], poses.quaternion[rows]).rotation[0],
                much,
            )
            for poses, much in zip(self.poses, self.opacity)
        ]


def shot_of(
    function: str,
    recording: Recording,
    scene: Scene,
    size: tuple[int, int],
    *,
    samples: Sequence[int] = (0,),
    opacity: Sequence[float] | None = None,
    camera: Camera | Mapping[str, Any] | None = None,
    follow: bool | str | None = None,
    most: int | None = None,
) -> Shot:
    """Returns the framing of some samples of a recording.

    Args:
      function: Name of the calling function, for messages.
      recording: The recording.
      scene: The scene of its model.
      size: The size of the pictures (width, height).
      samples: The samples, the framed one first.
      opacity: The opacity of each sample; by default 1.
      camera: The viewpoint.
      follow: True if the camera follows the motion, by default if it travels far; or the name of a body to follow.
      most: The maximum number of rows of a sample that are evaluated.
    """
    camera = given_camera(function, camera)
    poses = tuple(recording.poses(sample, most) for sample in samples)
    up = upright(recording.tree)
    looks = [one.at(np.linspace(one.t[0], one.t[-1], min(LOOKS, len(one.t)))) for one in poses]
    points, where = _outermost(scene)
    seen = [_in_world(look, points, where, up) for look in looks]
    near, reach = _near(seen, where, looks, recording.tree)
    corners = np.concatenate([one[kept] for one, kept in zip(seen, near)])
    still = _still(scene, up, corners, reach)
    ground = _ground(recording.tree, scene, up, corners, reach)
    path = _path(function, recording.tree, poses[0], seen[0], near[0], looks[0].t, reach, follow, up)
    if path is None:
        target, path = np.concatenate([corners, still]), np.zeros((len(poses[0].t), 3))
    else:
        moved = np.stack([np.interp(looks[0].t, poses[0].t, column) for column in path.T], axis=-1)
        target = (seen[0] - moved[:, None])[near[0]]
    eye = placed(camera, target, size[0] / size[1], up)
    wide = float(np.ptp(target, axis=0).max()) / 2
    setting = Setting(up, ground, max(reach, wide))
    return Shot(scene, setting, poses, tuple(opacity or (1.0,) * len(poses)), target, eye, path)


def upright(model: Model) -> np.ndarray:
    """Returns the smallest rotation that takes gravity to -z; the identity without gravity."""
    gravity = np.asarray(model.gravity, float)
    size = np.linalg.norm(gravity)
    if not (np.isfinite(size) and size > 0):
        return np.eye(3)
    above = -gravity / size
    if above[2] < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    x, y, z = np.cross(above, [0, 0, 1])
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + skew + skew @ skew / (1 + above[2])


def _outermost(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Returns the extreme points of the bodies in their frames (n, 3), and their body indices (n,)."""
    points, where = [np.zeros((0, 3))], [np.zeros(0, int)]
    for surface in scene.moving:
        if len(surface.vertices):
            own = _extreme(surface)
            points.append(own)
            where.append(np.full(len(own), surface.body))
    if len(points) == 1:  # no body has a surface
        bodies = np.arange(scene.model.nb)
        return np.zeros((len(bodies), 3)), bodies
    return np.concatenate(points), np.concatenate(where)


def _extreme(surface: Surface) -> np.ndarray:
    return surface.vertices[np.unique(np.argmax(surface.vertices @ DIRECTIONS.T, axis=0))]


def _in_world(poses: Poses, points: np.ndarray, where: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Returns the points over time, (frames, n, 3), with z up."""
    return (np.einsum("fnij,nj->fni", poses.rotation[:, where], points) + poses.position[:, where]) @ up.T


def _near(
    seen: Sequence[np.ndarray], where: np.ndarray, looks: Sequence[Poses], model: Model
) -> tuple[list[np.ndarray], float]:
    """Returns masks of the points that have not diverged, and the initial reach of the points around their median."""
    first = np.concatenate([one[:1] for one in seen])
    reach = max(float(np.linalg.norm(one - np.median(one, axis=0), axis=1).max(initial=0)) for one in first)
    reach = reach if np.isfinite(reach) and reach > 1e-6 else 1.0
    near = []
    for one, look in zip(seen, looks):
        there = ~_torn_off(look, model, reach)[:, where]
        middle = np.median(one, axis=1, keepdims=True)
        near.append(there & (np.linalg.norm(one - middle, axis=-1) < FAR * reach))
    return near, reach


def _torn_off(look: Poses, model: Model, reach: float) -> np.ndarray:
    """Returns a mask (frames, nb) of detached bodies and their descendants.

    A body is detached if its distance from its parent has grown by more than the reach.
    """
    off = np.zeros(look.position.shape[:2], bool)
    for body, parent in enumerate(model.topology.parents):
        if parent >= 0:
            away = np.linalg.norm(look.position[:, body] - look.position[:, parent], axis=-1)
            off[:, body] = off[:, parent] | (away - away[0] > reach)
    return off


def _still(scene: Scene, up: np.ndarray, corners: np.ndarray, reach: float) -> np.ndarray:
    """Returns points of surfaces fixed to the world that are near the motion and not much larger."""
    parts = [np.zeros((0, 3))]
    for surface in scene.fixed:
        if surface.endless or not len(surface.vertices):
            continue
        own = _extreme(surface) @ up.T
        if np.ptp(own, axis=0).max() < FAR * reach and np.abs(own - corners.mean(axis=0)).max() < FAR * reach:
            parts.append(own)
    return np.concatenate(parts)


def _ground(model: Model, scene: Scene, up: np.ndarray, corners: np.ndarray, reach: float) -> float | None:
    """Returns the height of the model's ground, else of the lowest point of the motion, at most 0; None without gravity."""
    for surface in scene.fixed:
        heights = surface.vertices @ up[2]
        if surface.endless and np.ptp(heights) < 1e-6 * max(reach, float(np.ptp(surface.vertices))):
            return float(heights.mean())
    if not np.any(np.asarray(model.gravity)):
        return None
    return min(float(corners[:, 2].min()), 0.0)


def _path(function, model: Model, poses: Poses, seen, near, t, reach, follow, up) -> np.ndarray | None:
    """Returns the displacements of the camera, with z up; None if it does not move."""
    if follow is not None and not isinstance(follow, (bool, np.bool_, str)):
        raise TypeError(
            f"{function}: follow is {follow!r}; it must be True, False, None, or the name of a body"
        )
    if isinstance(follow, str):
        path = poses.position[:, model.body_index(follow)] @ up.T
        return _steady(path, poses.t)
    count = near.sum(axis=1)
    some = count > 0  # all points are near in the first row
    middle = (np.where(near[..., None], seen, 0).sum(axis=1)[some]) / count[some, None]
    middle = np.stack([np.interp(t, t[some], column) for column in middle.T], axis=-1)
    if not (follow or (follow is None and np.ptp(middle, axis=0).max() > WIDE * reach)):
        return None
    if np.ptp(middle[:, 2]) < reach:  # a camera at constant height shows hops better
        middle[:, 2] = middle[:, 2].mean()
    path = np.stack([np.interp(poses.t, t, column) for column in middle.T], axis=-1)
    return _steady(path, poses.t)


def _steady(path: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Returns moving averages over a short time."""
    if len(t) < 3 or not t[-1] > t[0]:
        return path
    even = np.linspace(t[0], t[-1], max(3, min(4 * len(t), 2000)))
    half = min(int(STEADY / 2 / (even[1] - even[0])), (len(even) - 1) // 2)
    if not half:
        return path
    smooth = []
    for column in path.T:
        values = np.interp(even, t, column)
        # Extends the values beyond the ends by reflection through the last points.
        padded = np.concatenate(
            [2 * values[0] - values[half:0:-1], values, 2 * values[-1] - values[-2 : -half - 2 : -1]]
        )
        mean = np.convolve(padded, np.full(2 * half + 1, 1 / (2 * half + 1)), mode="valid")
        smooth.append(np.interp(t, even, mean))
    return np.stack(smooth, axis=-1)
