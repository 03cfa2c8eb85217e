"""A motion as one HTML file that plays anywhere, without a network: the page that `page/` holds, filled with a recording.

What is drawn, and how it is interpolated, is in JavaScript of our own on WebGL 2 (decision 0057). Here is what it is given: the
surfaces of the model with their normals, and for each sample that is shown times and frames of bodies; numbers as integers where
these are exact enough, and as floats where they are not.
"""

from __future__ import annotations

import base64
import html
import json
import string
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import suggest
from .._files import whole_file
from ..lie import quaternion
from ..model import Model
from ..shapes import Site
from ..simulate import Trajectory, sense_along
from ..simulate.systems import Simulated
from ..simulate.tree_system import Acting
from .extent import Extent, extent
from .normals import with_normals
from .pushes import has_pushes, pushes_of
from .recording import Poses, Recording
from .scene import Scene, Surface, scene_of


#: As a share of the size of the model, by so much what is drawn may be off.
EXACT = 1e-4

#: At least so many frames of a sample are kept, however short it is: it may be played slowly.
FRAMES = 240

#: From where a model is seen at first: azimuth and elevation in rad.
VIEW = (np.radians(-55.0), np.radians(18.0))

#: The colour of the ground under a model that brings none.
GROUND = (0.87, 0.89, 0.92, 1.0)

#: What can be shown beside the bodies.
MARKS = ("frames", "sites", "mass", "contacts", "forces", "ghosts")

#: What is shown of that.
SHOWN = ("contacts", "forces", "ghosts")

#: The scripts of the page, in their order.
SCRIPTS = ("motion.js", "triangles.js", "renderer.js", "camera.js", "player.js")


class Player:
    """A motion as a page: `save` writes it to a file, and in a notebook it shows itself. The arguments are those of `save_html`."""

    def __init__(
        self,
        model: Simulated,
        trajectory: Trajectory | None = None,
        *,
        sample: int = 0,
        samples: Sequence[int] = (),
        ghosts: Sequence[int] = (),
        fps: float = 60.0,
        title: str | None = None,
        show: Sequence[str] = SHOWN,
        follow: str | bool | None = None,
        curves: str | Sequence[str] | Mapping[str, Any] = (),
        forces: Sequence[Acting] = (),
        speed: float = 1.0,
        play: bool = True,
        loop: bool = True,
        height: int = 480,
    ):
        self.height = height
        recording = Recording(model, trajectory)
        ghosts = [_sample(recording, "ghosts", one) for one in ghosts]
        sample = _sample(recording, "sample", sample)
        kept = sorted({sample, *ghosts, *(_sample(recording, "samples", one) for one in samples)})
        for name, value in (("fps", fps), ("speed", speed), ("height", height)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"view: {name} is {value}; it is a number above 0")
        if unknown := sorted(set(show) - set(MARKS)):
            raise ValueError(f"view: show has {unknown[0]!r}; it takes names of {', '.join(map(repr, MARKS))}")
        scene, tree = scene_of(model), recording.tree
        motions = {one: recording.poses(one, _frames(recording, one, fps)) for one in kept}
        found = extent(scene, list(motions.values()))
        if title is None:
            of_batch = f", sample {sample} of {recording.samples}" if len(kept) == 1 < recording.samples else ""
            title = f"{tree.name}{of_batch}"
        self.title = str(title)
        drawn, pushed = _Drawn(scene, found), {"contacts", "forces"} & set(show) and has_pushes(model, forces)
        self._data = {
            **drawn.data,
            "samples": [
                {
                    **_motion(recording, drawn, one, poses),
                    "pushes": _pushes(recording, one, fps, forces) if pushed else None,
                    "curves": _curves(recording, one, fps, curves, forces),
                }
                for one, poses in motions.items()
            ],
            "sample": sample,
            "ghosts": ghosts,
            "shows": list(show),
            "follow": _follow(tree, follow, found),
            "speed": float(speed),
            "play": bool(play),
            "loop": bool(loop),
        }

    @cached_property
    def html(self) -> str:
        """The page."""
        page = resources.files(__package__).joinpath("page")
        read = lambda name: page.joinpath(name).read_text(encoding="utf-8")
        # A name in the recording may look like the end of a script.
        recording = json.dumps(self._data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        return string.Template(read("page.html")).substitute(
            title=html.escape(self.title),
            style=read("page.css"),
            script="\n".join(map(read, SCRIPTS)),
            recording=recording,
        )

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all, and return its path."""
        path = Path(path)
        try:
            with whole_file(path) as part:
                part.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise OSError(f"save_html: cannot write {path}: {error.strerror or error}") from error
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
    fps: float = 60.0,
    title: str | None = None,
    show: Sequence[str] = SHOWN,
    follow: str | bool | None = None,
    curves: str | Sequence[str] | Mapping[str, Any] = (),
    forces: Sequence[Acting] = (),
    speed: float = 1.0,
    play: bool = True,
    loop: bool = True,
) -> Path:
    """Write a motion as one HTML file, which plays in a browser without a network, and return its path.

    The file holds the shapes of the model and the frames of its bodies in the samples that are asked for, and a player: it turns,
    moves and zooms by mouse and fingers, has a slider for time, and says by `?` what else it knows. A model without shapes is
    drawn by its links and the ellipsoids of its inertias. A sample that failed plays up to there, and the slider says when that was
    and why. Between frames positions are on chords. The file is written as a whole, or not at all.

    **Arguments**

    - `trajectory`: of one sample, or with any batch axes, whose samples are counted through from 0. None shows the model in its
      neutral configuration.
    - `path`: of the file. Its folder is there.
    - `sample`: the one that is shown at first.
    - `samples`: others that can be chosen; and `ghosts`: those that are shown with it, translucent. No others are in the file.
    - `fps`: so many frames of a second of the motion are kept, and 240 of all of it at least, as far as there are so many rows.
    - `title`: of the page; else the name of the model.
    - `show`: what is shown beside the bodies at first: "frames" of bodies, "sites", the centre of "mass", "ghosts", and of models
      with a contact law the points of "contacts" and the "forces" there. Without these two, contacts are not worked out.
    - `follow`: whether the camera goes along, or the body that it goes along with; None has it follow what travels far.
    - `curves`: what is drawn over time under the slider: names of joints, for their positions, and of sensors, for what they read;
      or a dict of such names with None, or any other names with numbers for each state of the trajectory, (..., rows) or
      (..., rows, k).
    - `forces`: what the rollout was given beside what the model carries, for contacts and sensors.
    - `speed`, `play`, `loop`: how fast it plays, whether at once, and whether again and again.

    **Returns** the path.

    >>> model = rbd.load("double_pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5, 1.0]), jnp.zeros(2)), dt=0.01, steps=200)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = rbd.save_html(model, path, f"{folder}/run.html", curves=model.joint_names)
    ...     print(file.name, "is a page" if "</html>" in file.read_text() else "")
    run.html is a page
    """
    path = Path(path)
    # What cannot be written is told before the work begins.
    reason = "it is a folder" if path.is_dir() else None if path.parent.is_dir() else f"there is no folder {path.parent}"
    if reason:
        raise OSError(f"save_html: cannot write {path}: {reason}")
    options = {
        "sample": sample, "samples": samples, "ghosts": ghosts, "fps": fps, "title": title, "show": show, "follow": follow,
        "curves": curves, "forces": forces, "speed": speed, "play": play, "loop": loop,
    }  # fmt: skip
    return Player(model, trajectory, **options).save(path)


# What the page is given.


def packed(array: np.ndarray, off: float = 0.0) -> dict:
    """Numbers as text: (n, ...) as they are, or, where that is right to `off`, as integers of two bytes.

    Integers count steps between the least and the greatest number of each column, the rest of the axes taken together.
    """
    array = np.asarray(array)
    if array.dtype != np.float64:
        return _text(array)
    columns = array.reshape(len(array), -1)
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
    """What is drawn of a scene, and how exact it has to be.

    - `data`: for the page.
    - `reach`: how far each body reaches from its origin, (nb,).
    - `off`: by how much a point may be off.
    """

    def __init__(self, scene: Scene, found: Extent):
        model = scene.model
        radius = max(found.radius, scene.size / 2)
        self.off = EXACT * scene.size
        self.reach = np.zeros(model.nb)
        for surface in scene.moving:
            far = np.linalg.norm(surface.vertices, axis=-1).max(initial=0)
            self.reach[surface.body] = max(self.reach[surface.body], far)
        grounds = [_plane(surface) for surface in scene.fixed if surface.endless]
        if not grounds:
            grounds = [{"point": [0.0, 0.0, found.ground], "normal": [0.0, 0.0, 1.0], "rgba": GROUND}]
        sites: tuple[Site, ...] = model.sites  # pyright: ignore[reportAssignmentType]
        weight = float(np.nansum(model.inertias.mass)) * float(np.linalg.norm(model.gravity))
        middle = found.center if not found.travels else (found.low[0] + found.high[0]) / 2
        distance = 2.9 * (radius if found.travels else max(min(found.reach, 3 * radius), radius))
        self.data = {
            "bodies": list(model.body_names),
            "masses": np.nan_to_num(np.asarray(model.inertias.mass, float)).tolist(),
            "centers": np.nan_to_num(np.asarray(model.inertias.com, float)).tolist(),
            "reach": self.reach.tolist(),
            "size": scene.size,
            "radius": radius,
            "cell": 10.0 ** np.floor(np.log10(radius)),
            "newton": 1.2 * radius / weight if weight > 0 else radius,
            "camera": {"target": middle.tolist(), "distance": distance, "azimuth": VIEW[0], "elevation": VIEW[1]},
            "grounds": grounds,
            "sites": [_site(model, site) for site in sites],
            "surfaces": self.surfaces(scene),
        }

    def surfaces(self, scene: Scene) -> list[dict]:
        """Those that are drawn as triangles, opaque ones first."""
        chosen = [surface for surface in scene.surfaces if not surface.endless or surface.body >= 0]
        drawn = []
        for surface in sorted(chosen, key=lambda surface: surface.rgba[3] < 1):
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
    turned = np.asarray(quaternion.from_matrix(site.placement.rotation), float)
    position = np.asarray(site.placement.position, float)
    body = -1 if site.body == "world" else model.body_index(site.body)
    return {"name": site.name, "body": body, "position": position.tolist(), "quaternion": turned.tolist()}


def _frames(recording: Recording, sample: int, fps: float) -> int:
    """How many frames of a sample are kept."""
    t = recording.t[sample][: recording.shown(sample)]
    return max(FRAMES, int(np.ceil(fps * np.ptp(t))) + 1) if len(t) else FRAMES


def _motion(recording: Recording, drawn: _Drawn, sample: int, poses: Poses) -> dict:
    t = recording.t[sample][np.isfinite(recording.t[sample])]
    # Of a quaternion that is off by e a rotation is off by up to 2 e in each direction.
    turn = drawn.off / (2 * np.sqrt(3) * max(drawn.reach.max(initial=0), 1e-12))
    return {
        "number": sample,
        "failure": recording.failure(sample),
        "end": float(max(t.max(), t[0])),
        "t": _text(poses.t.astype(np.float64)),
        "position": packed(poses.position, drawn.off / 2),
        "quaternion": packed(poses.quaternion, min(turn, EXACT)),
    }


def _pushes(recording: Recording, sample: int, fps: float, forces: Sequence[Acting]) -> dict:
    rows = recording.chosen(sample, _frames(recording, sample, fps))
    found = pushes_of(recording, sample, rows, forces)
    return {
        "count": packed(found.count.astype(np.uint16)),
        "point": packed(found.point.astype(np.float32)),
        "force": packed(found.force.astype(np.float32)),
    }


def _curves(recording: Recording, sample: int, fps: float, curves, forces) -> list[dict]:
    """The curves asked for, each over the times of the frames: a joint's positions, what a sensor reads, or rows given."""
    if not curves:
        return []
    rows = recording.chosen(sample, _frames(recording, sample, fps))
    given = curves if isinstance(curves, Mapping) else dict.fromkeys([curves] if isinstance(curves, str) else curves)
    model = recording.tree
    sensors = [sensor.name for sensor in model.sensors]  # pyright: ignore[reportAttributeAccessIssue]
    readings, found = None, []
    for name, values in given.items():
        if values is not None:
            values = _rows(recording, sample, name, values)[rows]
        elif name in model.joint_names and recording.model is model:
            values = recording.q[sample][rows, model.q_slice(name)]
        elif name in sensors and recording.model is model:
            if readings is None:
                readings = sense_along(model, recording.steps(sample, rows), forces=forces)
            values = np.asarray(readings[name], float)[: len(rows)]
        else:
            known = [*model.joint_names, *sensors] if recording.model is model else []
            raise ValueError(f"view: curves has {name!r}, which is no joint nor sensor{suggest(name, known)}")
        values = np.asarray(values, np.float32).reshape(len(rows), -1)
        lines = [{"label": f"{name}[{i}]", "values": packed(column)} for i, column in enumerate(values.T)]
        found.append({"label": name, "lines": lines})
    return found


def _rows(recording: Recording, sample: int, name: str, values) -> np.ndarray:
    """Those of one sample of what is given for all rows of a trajectory: (rows,), (rows, k), or the same behind the batch axes."""
    values, wanted = np.asarray(values, float), (*recording.batch, recording.rows)
    if values.shape[: len(wanted)] != wanted or values.ndim > len(wanted) + 1:
        raise ValueError(
            f"view: curves[{name!r}] has shape {values.shape}; it has a number or several for each state of the trajectory, "
            f"so its shape begins with {wanted}"
        )
    return values.reshape(recording.samples, recording.rows, -1)[sample]


def _follow(model: Model, follow: str | bool | None, found: Extent) -> str:
    """What the camera follows, as the page names it: nothing, the whole, or the number of a body."""
    if follow is None:
        follow = found.travels
    if isinstance(follow, (bool, np.bool_)):
        return "mass" if follow else ""
    return str(model.body_index(follow))


def _sample(recording: Recording, name: str, value) -> int:
    if not (isinstance(value, (int, np.integer)) and 0 <= value < recording.samples):
        raise ValueError(f"view: {name} has {value!r}; the trajectory has {recording.samples} samples, counted from 0")
    return int(value)

