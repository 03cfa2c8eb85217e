"""Cameras: the viewing angles, and the position from which a motion fits into the picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np


#: The share of the height and width of a picture that a motion fills.
FILLED = 0.9


@dataclass(frozen=True)
class Camera:
    """The viewpoint of a picture, in degrees and meters.

    - `azimuth`: the direction of the camera around the vertical: 0 along +x, 90 along +y.
    - `elevation`: the angle of the camera above the horizon, from -90 to 90.
    - `distance`: the distance to `look_at`; by default large enough for the complete motion.
    - `look_at`: the target point in the world; by default the middle of the motion. If the camera follows a body, the point is
      relative to that body.
    - `field_of_view`: the vertical angle of view.

    >>> print(rbd.view.Camera(azimuth=90, elevation=30).axes)  # to the right, up, and towards the camera
    [[-1.     0.     0.   ]
     [ 0.    -0.5    0.866]
     [ 0.     0.866  0.5  ]]
    """

    azimuth: float | int = -60.0
    elevation: float | int = 18.0
    distance: float | int | None = None
    look_at: Any = None
    field_of_view: float | int = 30.0

    def __post_init__(self):
        for name, low, high in (
            ("azimuth", -np.inf, np.inf),
            ("elevation", -90, 90),
            ("distance", 0, np.inf),
            ("field_of_view", 1, 150),
        ):
            value = getattr(self, name)
            if name == "distance" and value is None:
                continue
            try:
                given = float(value)
            except (TypeError, ValueError):
                given = np.nan
            if not (np.isfinite(given) and low <= given <= high) or (name == "distance" and given == 0):
                unit = "m, greater than 0" if name == "distance" else f"degrees, from {low:g} to {high:g}"
                raise ValueError(f"Camera: {name} is {value!r}; it must be a number of {unit}")
            object.__setattr__(self, name, given)
        if self.look_at is not None:
            point = np.asarray(self.look_at, float) if np.size(self.look_at) == 3 else np.full(3, np.nan)
            if point.shape != (3,) or not np.isfinite(point).all():
                raise ValueError(
                    f"Camera: look_at is {self.look_at!r}; it must be a point of three numbers, or None"
                )
            object.__setattr__(self, "look_at", tuple(point.tolist()))

    @property
    def axes(self) -> np.ndarray:
        """The axes of the camera as rows: to the right, up in the picture, and towards the camera."""
        around, above = np.radians(self.azimuth), np.radians(self.elevation)
        back = np.array([np.cos(above) * np.cos(around), np.cos(above) * np.sin(around), np.sin(above)])
        right = np.array([-np.sin(around), np.cos(around), 0.0])
        return np.stack([right, np.cross(back, right), back])


class Eye(NamedTuple):
    """A camera at a position, in a world with z up.

    - `point`: its position; `target`: the point in the middle of the picture.
    - `axes`: as `Camera.axes`.
    - `focal`: focal length for a picture with half height 1.
    """

    point: np.ndarray
    target: np.ndarray
    axes: np.ndarray
    focal: float

    def moved(self, by: np.ndarray) -> Eye:
        return self._replace(point=self.point + by, target=self.target + by)

    def seen(self, points: np.ndarray) -> np.ndarray:
        """Returns points (..., 3) in the camera frame: to the right, up, and ahead."""
        return (points - self.point) @ (self.axes * np.array([[1.0], [1.0], [-1.0]])).T

    def on_screen(self, points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Returns the positions (..., 2) of points (..., 3) in a picture of size (width, height), in pixels from the top left."""
        x, y, ahead = np.moveaxis(self.seen(points), -1, 0)
        scale = self.focal * size[1] / 2 / np.where(ahead > 0, ahead, np.nan)
        return np.stack([size[0] / 2 + scale * x, size[1] / 2 - scale * y], axis=-1)


def given_camera(function: str, camera: Camera | Mapping[str, Any] | None) -> Camera:
    """Returns the camera from a `Camera`, a mapping of its attributes, or None for the default."""
    if camera is None or isinstance(camera, Camera):
        return camera or Camera()
    known = [field.name for field in fields(Camera)]
    if isinstance(camera, Mapping):
        unknown = [name for name in camera if name not in known]
        if not unknown:
            return Camera(**camera)
        raise ValueError(
            f"{function}: camera has no attribute {unknown[0]!r}; its attributes are {', '.join(known)}"
        )
    raise TypeError(
        f"{function}: camera is a {type(camera).__name__}; it must be rbd.view.Camera(azimuth=..., ...), or None"
    )


def placed(camera: Camera, points: np.ndarray, aspect: float, up: np.ndarray) -> Eye:
    """Returns the camera at the given distance and target, or by default at a position where all points are in the picture.

    Args:
      camera: The camera.
      points: The points to show, shape (n, 3), in a world with z up.
      aspect: Width by height of the picture.
      up: The rotation that takes the world to one with z up.
    """
    axes = camera.axes
    focal = 1 / np.tan(np.radians(camera.field_of_view) / 2)
    flat = points @ axes.T
    middle = (flat.min(axis=0) + flat.max(axis=0)) / 2 @ axes
    if camera.look_at is not None:
        middle = up @ np.asarray(camera.look_at, float)
    tangents = np.array([aspect, 1.0]) / focal * FILLED
    distance = camera.distance
    for _ in range(4):
        across, toward = np.split((points - middle) @ axes.T, [2], axis=1)
        # The distance that each side of the picture requires: right and up, left and down.
        one, other = ((toward + side * across / tangents).max(axis=0) for side in (1, -1))
        if camera.distance is None:
            distance = max(float(one.max()), float(other.max()), 1.1 * float(toward.max()), 1e-6)
        if camera.look_at is None:  # equal margins on opposite sides
            middle = middle + (one - other) / 2 * tangents @ axes[:2]
    return Eye(middle + distance * axes[2], middle, axes, focal)
