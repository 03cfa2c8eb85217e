"""A scene on a viser server: one node for each body with everything fixed to it, so that a frame transmits only poses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model import Model
from .normals import with_normals
from .painter import Setting
from .recording import Poses
from .scene import Scene, Surface
from .stage import Arrows, Mark


if TYPE_CHECKING:
    import viser


#: Colors of the center of mass, contacts, reactions, and the lines of the ground.
MASS, CONTACT, REACTION, LINES = (230, 159, 0), (213, 94, 0), (0, 114, 178), (176, 182, 190)

#: Maximum number of triangles, shared among bodies by their size, and the minimum number for a body. A browser without a GPU
#: draws this number at 30 frames per second.
TRIANGLES, FEW = 8_000, 60

#: Opacity of ghosts, relative to the model.
GHOST = 0.3


class Drawing:
    """The nodes of a scene on a server.

    - `bodies`: a node for each body of the model; its pose moves the body.
    - `meshes`: the nodes that the user can drag: meshes, each with the index of its body.
    - `setting`: the up direction, and the height of the ground for a model without its own ground.
    """

    def __init__(self, server: viser.ViserServer, scene: Scene, sites: Sequence[Mark], setting: Setting):
        self._scene, self._server, self._ghosts = server.scene, server, []
        self._up = setting.up
        self._scene.set_up_direction(tuple(self._up[2].tolist()))
        self.scene, size = scene, scene.size
        paths = paths_of(scene.model)
        axes: dict[str, Any] = {"axes_length": 0.4 * size, "axes_radius": 0.012 * size}
        frame = lambda body: self._scene.add_frame(
            paths[body], show_axes=False, origin_radius=0.02 * size, **axes
        )
        frame(-1)
        self.bodies: list[viser.FrameHandle] = [frame(body) for body in range(scene.model.nb)]
        self.meshes: list[tuple[int, Any]] = []
        self._paths, self._shapes = paths, []
        self._add_shapes(fine=False)
        self._ground = None
        if not scene.fixed and setting.ground is not None:
            flat = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], float) + [0, 0, setting.ground]
            faces, white = np.array([[0, 1, 2], [0, 2, 3]]), (1.0, 1.0, 1.0, 1.0)
            made_up = Surface("ground", -1, flat @ self._up, faces, white, endless=True)
            self._ground = self._grid("/ground", made_up)
        self._sites = [
            self._scene.add_frame(
                f"{paths[mark.body]}/site {_safe(mark.name)}",
                axes_length=0.2 * size,
                axes_radius=0.008 * size,
                wxyz=mark.quaternion,
                position=mark.position,
                visible=False,
            )
            for mark in sites
        ]
        floors = [(surface.vertices @ self._up[2]).max() for surface in scene.fixed if surface.endless]
        self._bottom = max(floors, default=setting.ground)
        ball: Any = {"color": MASS, "visible": False, "subdivisions": 2}
        self._mass = self._scene.add_icosphere("/center of mass", 0.06 * size, **ball)
        self._below = self._scene.add_icosphere("/below center of mass", 0.03 * size, **ball)
        self._contacts = self._arrows("/contacts", CONTACT)
        self._touching = self._scene.add_point_cloud(
            "/contact points",
            np.zeros((1, 3), np.float32),
            CONTACT,
            point_size=0.04 * size,
            point_shape="circle",
            precision="float32",
            visible=False,
        )
        self._reactions = self._arrows("/reactions", REACTION)
        self._mark = self._scene.add_label("/mark", "", visible=False)
        self._light(fine=False)

    def _add_shapes(self, fine: bool) -> None:
        """Adds the shapes of bodies; unless `fine`, with a reduced number of triangles."""
        for node in self._shapes:
            node.remove()
        self._shapes, self.meshes = [], []
        for body, number, surface, most in _shared_out(self.scene.surfaces, None if fine else TRIANGLES):
            path = f"{self._paths[body]}/shape{number}"
            if surface.endless and body < 0:
                self._shapes.append(self._grid(path, surface))
                continue
            vertices, faces, _ = with_normals(*_coarser(surface, most))
            node = self._scene.add_mesh_simple(
                path,
                vertices,
                faces,
                color=surface.rgba[:3],
                opacity=surface.rgba[3] if surface.rgba[3] < 1 else None,
                side="double" if surface.endless else "front",
            )
            self._shapes.append(node)
            if body >= 0:
                self.meshes.append((body, node))

    def _grid(self, path: str, surface: Surface) -> Any:
        """Adds an unbounded plane as lines; shading it would take longer than shading a complete robot."""
        corners = surface.vertices[surface.faces[0]]
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= np.linalg.norm(normal)
        x = np.cross(np.eye(3)[np.argmin(np.abs(normal))], normal)
        x /= np.linalg.norm(x)
        y, cell, count = np.cross(normal, x), 0.5 * self.scene.size, 20
        at, ends = cell * np.arange(-count, count + 1), cell * count * np.array([-1, 1])
        lines = [
            along * ends[:, None] + across * place
            for along, across in ((x, y), (y, x))
            for place in at[:, None]
        ]
        return self._scene.add_line_segments(
            path,
            np.stack(lines) + surface.vertices.mean(axis=0),
            LINES,
            thickness=1.0,
            thickness_units="screen",
        )

    def _arrows(self, path: str, color: tuple[int, int, int]) -> Any:
        size = self.scene.size
        return self._scene.add_arrows(
            path,
            np.array([[[0.0, 0, 0], [0, 0, 1]]]),
            color,
            shaft_radius=0.012 * size,
            head_radius=0.03 * size,
            head_length=0.07 * size,
            visible=False,
        )

    # Updates for each frame.

    def move(self, poses: Poses) -> None:
        """Moves the bodies to the first of the poses."""
        for node, position, turned in zip(self.bodies, poses.position[0], poses.quaternion[0], strict=True):
            node.position, node.wxyz = position, turned

    def ghosts(self, count: int) -> None:
        """Adds `count` translucent copies of the model, in place of earlier ones."""
        for _, node in self._ghosts:
            node.remove()
        self._ghosts = []
        if not count:
            return
        nowhere = np.tile([1.0, 0, 0, 0], (count, 1)), np.zeros((count, 3))
        for body, number, surface, most in _shared_out(self.scene.moving, TRIANGLES // count):
            vertices, faces, _ = with_normals(*_coarser(surface, most))
            node = self._scene.add_batched_meshes_simple(
                f"/ghosts/{body} {number}",
                vertices,
                faces,
                *nowhere,
                batched_colors=np.array(surface.rgba[:3]),
                opacity=GHOST * surface.rgba[3],
                lod="off",
                cast_shadow=False,
                receive_shadow=False,
            )
            self._ghosts.append((body, node))

    def move_ghosts(self, poses: Sequence[Poses]) -> None:
        """Moves each ghost to the first of its poses; without any poses, hides the ghosts."""
        for _, node in self._ghosts:
            node.visible = len(poses) > 0
        if not self._ghosts or not poses:
            return
        position = np.stack([one.position[0] for one in poses])
        turned = np.stack([one.quaternion[0] for one in poses])
        for body, node in self._ghosts:
            node.batched_positions = position[:, body].astype(np.float32)
            node.batched_wxyzs = turned[:, body].astype(np.float32)

    def mass(self, position: np.ndarray | None) -> None:
        """Shows the center of mass and its projection onto the ground; None hides both."""
        self._mass.visible = position is not None
        self._below.visible = position is not None and self._bottom is not None
        if position is not None:
            self._mass.position = position
        if self._below.visible:
            vertical = self._up[2]
            self._below.position = position + (self._bottom - vertical @ position) * vertical

    def contacts(self, arrows: Arrows | None, scale: float) -> None:
        """Shows contact points and forces, with `scale` in m/N; None hides them."""
        _point(self._contacts, arrows, scale)
        self._touching.visible = arrows is not None and len(arrows.points) > 0
        if arrows is not None and len(arrows.points):
            self._touching.points = arrows.points.astype(np.float32)

    def reactions(self, arrows: Arrows | None, scale: float) -> None:
        """Shows joint forces, with `scale` in m/N; None hides them."""
        _point(self._reactions, arrows, scale)

    def mark(self, words: str | None, position: np.ndarray) -> None:
        """Shows a label at a position; None hides it."""
        self._mark.visible = words is not None
        if words is not None:
            self._mark.text, self._mark.position = words, position

    @property
    def invents_ground(self) -> bool:
        """True if the ground is not part of the model."""
        return self._ground is not None

    # Display options.

    def show(self, shapes: bool, frames: bool, sites: bool, ground: bool) -> None:
        for node in self._shapes:
            node.visible = shapes
        for node in self.bodies:
            node.show_axes = frames
        for node in self._sites:
            node.visible = sites
        if self._ground is not None:
            self._ground.visible = ground

    def fine(self, fine: bool) -> None:
        """Shows all triangles with shadows and environment light, which needs a GPU, or a reduced version."""
        if sum(len(surface.faces) for surface in self.scene.surfaces) > TRIANGLES:
            self._add_shapes(fine)
        self._light(fine)

    def _light(self, fine: bool) -> None:
        self._scene.configure_default_lights(enabled=fine, cast_shadow=fine)
        if fine:
            self._scene.configure_environment_map("studio")
        else:
            self._scene.configure_environment_map(None)
        for name in ("/lamp", "/sky"):
            self._scene.remove_by_name(name)
        if not fine:
            self._scene.add_light_hemisphere(
                "/sky", sky_color=(255, 255, 255), ground_color=(120, 120, 130), intensity=1.6
            )
            self._scene.add_light_directional(
                "/lamp", intensity=2.2, position=tuple((self._up.T @ [0.4, -0.6, 1.0]).tolist())
            )


def _point(node: Any, arrows: Arrows | None, scale: float) -> None:
    """Updates a node of arrows, which omits arrows of zero length."""
    there = None if arrows is None else scale * np.linalg.norm(arrows.vectors, axis=-1) > 1e-9
    node.visible = there is not None and bool(there.any())
    if arrows is not None and node.visible:
        points, vectors = arrows.points[there], scale * arrows.vectors[there]
        node.points = np.stack([points, points + vectors], axis=1).astype(np.float32)


def _merged(surfaces: Sequence[Surface]) -> Iterator[tuple[int, int, Surface]]:
    """Yields body, number and merged surface for the surfaces of each body with equal color, which a browser draws at once."""
    groups: dict[tuple, list[Surface]] = {}
    for place, surface in enumerate(surfaces):
        alone = place if surface.endless else None
        groups.setdefault((surface.body, surface.rgba, alone), []).append(surface)
    for number, ((body, rgba, _), parts) in enumerate(groups.items()):
        starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
        yield (
            body,
            number,
            Surface(
                parts[0].name,
                body,
                np.concatenate([part.vertices for part in parts]),
                np.concatenate([part.faces + start for part, start in zip(parts, starts)]),
                rgba,
                parts[0].endless,
            ),
        )


def _shared_out(surfaces: Sequence[Surface], most: int | None) -> Iterator[tuple[int, int, Surface, int]]:
    """Yields the merged surfaces, each with its maximum number of triangles in proportion to its size."""
    merged = list(_merged(surfaces))
    counts = np.array([len(surface.faces) for *_, surface in merged], int)
    shares = counts.copy()
    if most is not None and counts.sum() > most:
        sizes = np.array([np.linalg.norm(np.ptp(surface.vertices, axis=0)) + 1e-12 for *_, surface in merged])
        left = most  # surfaces with few triangles leave the rest of their share to the others
        for one in np.argsort(counts / sizes):
            shares[one] = min(counts[one], max(int(left * sizes[one] / sizes.sum()), FEW))
            left, sizes[one] = max(left - shares[one], 0), 0.0
    for (body, number, surface), share in zip(merged, shares.tolist()):
        yield body, number, surface, share


def _coarser(surface: Surface, goal: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns vertices and faces of a surface, reduced to about `goal` faces by quadric error metrics.

    Some meshes cannot be collapsed that far, for example CAD drawings with screws. For these, nearby vertices are merged.
    """
    if goal >= len(surface.faces):
        return surface.vertices, surface.faces
    import fast_simplification

    vertices, place = np.unique(surface.vertices, axis=0, return_inverse=True)
    faces = _proper(place.reshape(-1)[surface.faces]).astype(np.int32)
    vertices, faces = fast_simplification.simplify(vertices, faces, target_count=goal)[:2]
    cells = 256
    merged = vertices, faces
    while len(merged[1]) > 1.2 * goal and cells > 4:
        cells = int(cells / 1.25)
        merged = _clustered(vertices, faces, cells)
    return merged


def _clustered(vertices: np.ndarray, faces: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a mesh whose vertices are merged within each cell; there are `cells` cells along its longest side."""
    low = vertices.min(axis=0)
    width = np.ptp(vertices, axis=0).max() / cells
    _, place, count = np.unique(
        np.floor((vertices - low) / width).astype(int), axis=0, return_inverse=True, return_counts=True
    )
    place = place.reshape(-1)
    middle = np.stack([np.bincount(place, x) for x in vertices.T], axis=1) / count[:, None]
    faces = _proper(place[faces])
    # Removes duplicate faces, whose first corner may differ; opposite orientations stay separate.
    turn = np.argmin(faces, axis=1)[:, None] + np.arange(3)
    return middle, np.unique(np.take_along_axis(faces, turn % 3, axis=1), axis=0)


def _proper(faces: np.ndarray) -> np.ndarray:
    """Returns the faces with three distinct corners."""
    a, b, c = faces.T
    return faces[(a != b) & (b != c) & (c != a)]


def paths_of(model: Model) -> dict[int, str]:
    """Returns the path of the node of each body, -1 for the world."""
    paths: dict[int, str] = {}
    for body, name in enumerate(("world", *model.body_names), start=-1):
        path = f"/model/{_safe(name)}"
        paths[body] = f"{path}_{body}" if path in paths.values() else path
    return paths


def _safe(name: str) -> str:
    """Returns a name as a component of a path."""
    return re.sub(r"[/\s]+", "_", name) or "_"
