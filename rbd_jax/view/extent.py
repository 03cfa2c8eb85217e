"""How far a motion reaches: what a camera looks at, and where the ground is under a model that brings none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .recording import Poses
from .scene import Scene


#: In so many frames of a motion it is looked at how far bodies reach.
FRAMES = 32


class Extent(NamedTuple):
    """The boxes around bodies.

    - `low`, `high`: the corners of the box around them in each frame that was looked at, one motion after the other: (n, 3).
    - `ground`: the height of a ground that they do not fall through: 0, or lower where they get below that.
    """

    low: np.ndarray
    high: np.ndarray
    ground: float

    @property
    def center(self) -> np.ndarray:
        """The middle of what is to be seen of all the motion."""
        return (self.low.min(axis=0) + self.high.max(axis=0)) / 2

    @property
    def radius(self) -> float:
        """Half the diagonal of the box around the bodies in one frame: the median of all frames, so that few stray ones do not
        count."""
        return float(np.median(np.linalg.norm(self.high - self.low, axis=-1))) / 2

    @property
    def reach(self) -> float:
        """Half the diagonal of the box around all of the motion."""
        return float(np.linalg.norm(self.high.max(axis=0) - self.low.min(axis=0))) / 2

    @property
    def travels(self) -> bool:
        """Whether bodies leave the place where they are at first, so that a camera has to follow them."""
        return self.reach > 2.5 * self.radius


def extent(scene: Scene, motions: Sequence[Poses]) -> Extent:
    """How far one or several motions of a scene reach: those of its surfaces that are on bodies, or of the bodies' origins."""
    lows, highs = [], []
    for poses in motions:
        rows = np.unique(np.linspace(0, len(poses.t) - 1, FRAMES).astype(int))
        few = Poses(poses.t[rows], poses.position[rows], poses.quaternion[rows])
        boxes = []
        for surface in scene.moving:
            points = surface.vertices @ np.swapaxes(few.rotation[:, surface.body], 1, 2)
            place = few.position[:, surface.body]
            boxes.append((points.min(axis=1) + place, points.max(axis=1) + place))
        boxes = boxes or [(few.position.min(axis=1), few.position.max(axis=1))]
        lows.append(np.min([low for low, _ in boxes], axis=0))
        highs.append(np.max([high for _, high in boxes], axis=0))
    low, high = np.concatenate(lows), np.concatenate(highs)
    bottom = float(low[:, 2].min())
    return Extent(low, high, bottom if bottom < -1e-2 * scene.size else 0.0)
