"""A motion as one HTML file that plays offline in a browser: the template in `page/`, filled with a recording.

JavaScript on WebGL 2 in `page/` draws and interpolates (decision 0057). This module creates its data: the surfaces of the model
with their normals, and for each sample the times and body frames. Numbers are packed as integers if these are accurate enough,
else as floats.
"""

from __future__ import annotations

import base64
import html
import json
import string
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._core.arguments import number
from .._core.errors import suggest
from .._core.files import whole_file
from ..lie import quaternion
from ..model import Model
from ..shapes.site import Site
from ..simulate.sensing import sense_along
from ..simulate.systems import Simulated
from ..simulate.trajectory import Trajectory
from ..simulate.tree_system import Acting
from .camera import Camera
from .film import checked_numbers, checked_path, checked_samples
from .normals import with_normals
from .painter import GROUND
from .pushes import has_pushes, pushes_of
from .recording import Poses, Recording
from .scene import Scene, Surface, scene_of
from .shot import Shot, shot_of


#: Maximum error of drawn points, relative to the size of the model.
EXACT = 1e-4

#: Minimum number of stored frames of a sample, for slow playback of short motions.
FRAMES = 240

#: Width and height of the picture for the placement of the camera.
SIZE = (500, 400)

#: Optional elements of the picture.
MARKS = ("frames", "sites", "mass", "contacts", "forces", "ghosts")

#: The elements that are shown by default.
SHOWN = ("contacts", "forces", "ghosts")

#: The folder of the page, and its scripts in order.
PAGE = Path(__file__).parent / "page"
SCRIPTS = ("motion.js", "triangles.js", "renderer.js", "camera.js", "player.js")


class Player:
    """A motion as a page: `save` writes it to a file, and a notebook displays it. `html` is its text.

    The arguments are those of `save_html`; `height` is the height of the frame in a notebook, in pixels.

    >>> player = rbd.view.Player(rbd.load("pendulum"), title="At rest")
    >>> "<title>At rest</title>" in player.html
    True
    """

    def __init__(
        self,
        model: Simulated,
        trajectory: Trajectory | None = None,
        *,
        sample: int = 0,
        samples: Sequence[int] = (),
        ghosts: Sequence[int] = (),
        camera: Camera | Mapping[str, Any] | None = None,
        fps: float | int = 60.0,
        title: str | None = None,
        show: Sequence[str] = SHOWN,
        follow: str | bool | None = None,
        curves: str | Sequence[str] | Mapping[str, Any] = (),
        forces: Sequence[Acting] = (),
        speed: float | int = 1.0,
        play: bool = True,
        loop: bool = True,
        height: float | int = 480,
        owner: str = "show",
    ):
        given = {"fps": fps, "speed": speed, "height": height}
        fps, speed, height = (float(number(owner, name, value, above=0)) for name, value in given.items())
        if unknown := sorted(set(show) - set(MARKS)):
            known = ", ".join(map(repr, MARKS))
            raise ValueError(f"{owner}: show has {unknown[0]!r}; its entries must be among {known}")
        recording = Recording(model, trajectory)
        sample, *ghosts = checked_samples(owner, recording, sample, ghosts)
        others = checked_numbers(owner, recording, "samples", samples)
        kept = sorted({sample, *ghosts, *(one for one in others if recording.shown(one))})
        scene, tree = scene_of(model), recording.tree
        most = {one: _frames(recording, one, fps) for one in kept}
        # The user may change the followed body during playback, so each sample has a camera path.
        shots = {
            one: shot_of(owner, recording, scene, SIZE, samples=(one,), follow=True, most=most[one])
            for one in kept
        }
        seen = shot_of(
            owner,
            recording,
            scene,
            SIZE,
            samples=(sample, *ghosts),
            camera=camera,
            follow=follow,
            most=most[sample],
        )
        if title is None:
            of_batch = (
                f", sample {sample} of {recording.samples}" if len(kept) == 1 < recording.samples else ""
            )
            title = f"{tree.name}{of_batch}"
        self.title, self.height = str(title), round(height)
        drawn, pushed = _Drawn(scene, seen), {"contacts", "forces"} & set(show) and has_pushes(model, forces)
        self._data = {
            **drawn.data,
            "samples": [
                {
                    **_motion(recording, drawn, one, shot),
                    "pushes": _pushes(recording, one, most[one], forces) if pushed else None,
                    "curves": _curves(owner, recording, one, most[one], curves, forces),
                }
                for one, shot in shots.items()
            ],
            "sample": sample,
            "ghosts": ghosts,
            "shows": list(show),
            "follow": _followed(tree, follow, seen),
            "speed": speed,
            "play": bool(play),
            "loop": bool(loop),
        }

    @cached_property
    def html(self) -> str:
        """The text of the page."""
        read = lambda name: (PAGE / name).read_text(encoding="utf-8")
        # Escapes names that contain the end tag of a script.
        recording = json.dumps(self._data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        return string.Template(read("page.html")).substitute(
            title=html.escape(self.title),
            style=read("page.css"),
            script="\n".join(map(read, SCRIPTS)),
            recording=recording,
        )

    def save(self, path: str | Path) -> Path:
        """Writes the page to a file atomically, and returns its path."""
        path = checked_path("save", path, (".html", ".htm"), "a page")
        with whole_file(path) as part:
            part.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" title="{html.escape(self.title)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        samples = self._data["samples"]
        many = f"{len(samples)} samples" if len(samples) > 1 else "one sample"
        return f"Player({self.title!r}, {many}, {len(self.html) / 1e6:.2g} MB; .save(path) writes it)"


def save_html(
    model: Simulated,
    trajectory: Trajectory | None,
    path: str | Path,
    *,
    sample: int = 0,
    samples: Sequence[int] = (),
    ghosts: Sequence[int] = (),
    camera: Camera | Mapping[str, Any] | None = None,
    fps: float | int = 60.0,
    title: str | None = None,
    show: Sequence[str] = SHOWN,
    follow: str | bool | None = None,
    curves: str | Sequence[str] | Mapping[str, Any] = (),
    forces: Sequence[Acting] = (),
    speed: float | int = 1.0,
    play: bool = True,
    loop: bool = True,
) -> Path:
    """Writes a motion as one HTML file, which plays offline in a browser, and returns its path.

    The file contains the shapes of the model, the frames of its bodies in the requested samples, and a player. The user rotates,
    pans and zooms the view by mouse or touch, and moves a time slider; the key `?` shows a help text. A model without shapes is
    drawn by its links and the ellipsoids of its inertias. A failed sample plays up to its failure, and the slider shows the time
    and the cause. Positions between frames are interpolated linearly. The file is written atomically.

    Args:
      model: The simulated model.
      trajectory: Its trajectory, of one sample or with any batch axes, whose samples are numbered from 0. None shows the
        model in its neutral configuration.
      path: The file, in an existing folder.
      sample: The sample that is shown first.
      samples: Other samples that can be selected. The file contains only these, `sample` and `ghosts`.
      ghosts: Samples that are shown translucent beside it.
      camera: The initial viewpoint, `rbd.view.Camera(azimuth=..., elevation=..., distance=..., look_at=...)`. Attributes
        that are not set are chosen so that the complete motion is in the picture.
      fps: Stored frames per second of the motion; at least 240 frames in total, but no more than the trajectory has rows.
      title: The title of the page; by default the name of the model.
      show: Elements that are shown initially in addition to the bodies: "frames" of bodies, "sites", the center of "mass",
        "ghosts", and for models with a contact model the points of "contacts" and the "forces" there. Without these two,
        contacts are not computed.
      follow: True if the camera follows the model, or the name of a body to follow; None follows a motion that travels far.
      curves: Curves over time below the slider: names of joints, for their positions, and of sensors, for their readings.
        Alternatively a dict of such names with None, and of other names with values for each state of the trajectory, (...,
        rows) or (..., rows, k).
      forces: The `forces` of the rollout, for contacts and sensors.
      speed: Playback speed relative to real time.
      play: If True, playback starts immediately.
      loop: If True, playback repeats.

    Returns:
      The path.

    >>> model = rbd.load("double_pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5, 1.0]), jnp.zeros(2)), dt=0.01, steps=200)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = rbd.save_html(model, path, f"{folder}/run.html", curves=model.joint_names)
    ...     print(file.name, "is a page" if "</html>" in file.read_text() else "")
    run.html is a page
    """
    path = checked_path("save_html", path, (".html", ".htm"), "a page")
    options = {
        "sample": sample, "samples": samples, "ghosts": ghosts, "camera": camera, "fps": fps, "title": title, "show": show,
        "follow": follow, "curves": curves, "forces": forces, "speed": speed, "play": play, "loop": loop,
    }  # fmt: skip
    return Player(model, trajectory, owner="save_html", **options).save(path)


# Data of the page.


def packed(array: np.ndarray, off: float = 0.0) -> dict:
    """Encodes numbers (n, ...) as text: unchanged, or as integers of two bytes if their error is at most `off`.

    Integers count steps between the minimum and the maximum of each column; trailing axes are flattened.
    """
    array = np.asarray(array)
    if array.dtype != np.float64:
        return _text(array)
    columns = array.reshape(len(array), int(np.prod(array.shape[1:])))
    if off and columns.size:
        low, high = columns.min(axis=0), columns.max(axis=0)
        scale = (high - low) / (2**16 - 2)
        if scale.max() / 2 <= off:
            middle = (low + high) / 2
            counts = np.round((columns - middle) / np.where(scale > 0, scale, 1)).astype(np.int16)
            return {**_text(counts), "offset": middle.tolist(), "scale": scale.tolist()}
    return _text(columns.astype(np.float32))


def _text(array: np.ndarray) -> dict:
    raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"kind": array.dtype.name, "data": base64.b64encode(raw.tobytes()).decode("ascii")}


class _Drawn:
    """The drawn elements of a scene, and their accuracy.

    - `data`: the data of the page.
    - `reach`: the largest distance of each body's points from its origin, (nb,).
    - `off`: the maximum error of a point.
    """

    def __init__(self, scene: Scene, shot: Shot):
        model, setting = scene.model, shot.setting
        self.off = EXACT * scene.size
        self.reach = np.zeros(model.nb)
        for surface in scene.moving:
            far = np.linalg.norm(surface.vertices, axis=-1).max(initial=0)
            self.reach[surface.body] = max(self.reach[surface.body], far)
        grounds = [_plane(surface) for surface in scene.fixed if surface.endless]
        if not grounds and setting.ground is not None:
            point, normal = setting.up.T @ [0, 0, setting.ground], setting.up[2]
            grounds = [{"point": point.tolist(), "normal": normal.tolist(), "rgba": (*GROUND, 1.0)}]
        sites: tuple[Site, ...] = model.sites  # pyright: ignore[reportAssignmentType]
        weight = float(np.nansum(model.inertias.mass)) * float(np.linalg.norm(model.gravity))
        right, _, back = shot.eye.axes
        self.data = {
            "bodies": list(model.body_names),
            "masses": np.nan_to_num(np.asarray(model.inertias.mass, float)).tolist(),
            "centers": np.nan_to_num(np.asarray(model.inertias.com, float)).tolist(),
            "reach": self.reach.tolist(),
            "size": min(scene.size, setting.reach / 2),
            "radius": setting.reach,
            "cell": setting.spacing,
            # The arrow of the total weight is half as long as the model is wide.
            "newton": setting.reach / weight if np.isfinite(weight) and weight > 0 else setting.reach,
            "up": _quaternion(setting.up),
            "camera": {
                "target": (shot.eye.target + shot.path[0]).tolist(),
                "distance": float(np.linalg.norm(shot.eye.point - shot.eye.target)),
                "azimuth": float(np.arctan2(-right[0], right[1])),
                "elevation": float(np.arcsin(np.clip(back[2], -1, 1))),
                "aspect": SIZE[0] / SIZE[1],
                "angle": 2 * float(np.arctan(1 / shot.eye.focal)),
            },
            "grounds": grounds,
            "sites": [_site(model, site) for site in sites],
            "surfaces": self.surfaces(scene),
        }

    def surfaces(self, scene: Scene) -> list[dict]:
        """Returns the surfaces that are drawn as triangles."""
        chosen = [surface for surface in scene.surfaces if not surface.endless or surface.body >= 0]
        drawn = []
        for surface in chosen:
            points, faces, normals = with_normals(surface.vertices, surface.faces)
            if len(faces):
                drawn.append({
                    "name": surface.name,
                    "body": surface.body,
                    "rgba": surface.rgba,
                    "center": ((points.min(axis=0) + points.max(axis=0)) / 2).tolist(),
                    "points": packed(points, self.off),
                    "normals": packed(np.round(127 * normals).astype(np.int8)),
                    "faces": packed(faces.astype(np.uint16 if len(points) <= 2**16 else np.uint32)),
                })  # fmt: skip
        return drawn


def _plane(surface: Surface) -> dict:
    a, b, c = surface.vertices[surface.faces[0]]
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal)
    return {"point": surface.vertices.mean(axis=0).tolist(), "normal": normal.tolist(), "rgba": surface.rgba}


def _site(model: Model, site: Site) -> dict:
    position = np.asarray(site.placement.position, float)
    body = -1 if site.body == "world" else model.body_index(site.body)
    turned = _quaternion(site.placement.rotation)
    return {"name": site.name, "body": body, "position": position.tolist(), "quaternion": turned}


def _quaternion(rotation) -> list[float]:
    return np.asarray(quaternion.from_matrix(jax.device_put(rotation)), float).tolist()


def _frames(recording: Recording, sample: int, fps: float) -> int:
    """Returns the number of stored frames of a sample."""
    t = recording.t[sample][: recording.shown(sample)]
    return max(FRAMES, int(np.ceil(fps * np.ptp(t))) + 1) if len(t) else FRAMES


def _motion(recording: Recording, drawn: _Drawn, sample: int, shot: Shot) -> dict:
    poses: Poses = shot.poses[0]
    t = recording.t[sample][np.isfinite(recording.t[sample])]
    # An error e of a quaternion causes an error of up to 2 e of the rotation in each direction.
    turn = drawn.off / (2 * np.sqrt(3) * max(drawn.reach.max(initial=0), 1e-12))
    return {
        "number": sample,
        "failure": recording.failure(sample),
        "end": float(max(t.max(), t[0])),
        "t": _text(poses.t.astype(np.float64)),
        "position": packed(poses.position, drawn.off / 2),
        "quaternion": packed(poses.quaternion, min(turn, EXACT)),
        "path": packed(shot.path, drawn.off),
    }


def _pushes(recording: Recording, sample: int, most: int, forces: Sequence[Acting]) -> dict:
    rows = recording.chosen(sample, most)
    found = pushes_of(recording, sample, rows, forces)
    return {
        "count": packed(found.count.astype(np.uint16)),
        "point": packed(found.point.astype(np.float32)),
        "force": packed(found.force.astype(np.float32)),
    }


def _curves(owner: str, recording: Recording, sample: int, most: int, curves, forces) -> list[dict]:
    """Returns the requested curves at the times of the frames: joint positions, sensor readings, or given values."""
    if not curves:
        return []
    rows = recording.chosen(sample, most)
    given = (
        curves
        if isinstance(curves, Mapping)
        else dict.fromkeys([curves] if isinstance(curves, str) else curves)
    )
    model = recording.tree
    sensors = [sensor.name for sensor in model.sensors]  # pyright: ignore[reportAttributeAccessIssue]
    readings, found = None, []
    for name, values in given.items():
        if values is not None:
            values = _rows(owner, recording, sample, name, values)[rows]
        elif name in model.joint_names and recording.model is model:
            values = recording.q[sample][rows, model.q_slice(name)]
        elif name in sensors and recording.model is model:
            if readings is None:
                readings = sense_along(model, recording.steps(sample, rows), forces=forces)
            values = np.asarray(readings[name], float)[: len(rows)]
        else:
            known = [*model.joint_names, *sensors] if recording.model is model else []
            raise ValueError(
                f"{owner}: curves has {name!r}, which is neither a joint nor a sensor{suggest(name, known)}"
            )
        values = np.asarray(values, np.float32).reshape(len(rows), -1)
        lines = [{"label": f"{name}[{i}]", "values": packed(column)} for i, column in enumerate(values.T)]
        found.append({"label": name, "lines": lines})
    return found


def _rows(owner: str, recording: Recording, sample: int, name: str, values) -> np.ndarray:
    """Returns the values (rows, k) of one sample from values for all rows of a trajectory, (..., rows) or (..., rows, k)."""
    values, wanted = np.asarray(values, float), (*recording.batch, recording.rows)
    if values.shape[: len(wanted)] != wanted or values.ndim > len(wanted) + 1:
        raise ValueError(
            f"{owner}: curves[{name!r}] has shape {values.shape}; it must have one or more values for each state of the "
            f"trajectory, so its shape begins with {wanted}"
        )
    return values.reshape(recording.samples, recording.rows, -1)[sample]


def _followed(model: Model, follow: str | bool | None, shot: Shot) -> str:
    """Returns the followed object as the page names it: empty, "whole", or the index of a body."""
    if isinstance(follow, str):
        return str(model.body_index(follow))
    return "whole" if shot.follows or follow else ""
