"""The appearance of a model: triangles fixed to its bodies, in NumPy. All renderers use it.

A tree of bodies is drawn by the visual shapes of its model, or by its collision shapes if it has no visual ones. If the shapes
of a body are away from the axis of its joint, a thin rod connects them. A tree without shapes gets a default appearance:
capsules along its links, and the ellipsoid of inertia around the center of mass of each body.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._core.errors import ModelError, ModelWarning
from .._core.figures import COLORS
from ..constraints.closure import ReducedModel
from ..model import Model
from ..shapes import Plane
from ..shapes.shape import Shape
from ..shapes.surfaces import ball, box, capsule
from ..simulate.systems import Simulated, tree_of


#: Thickness of default links, relative to the median length of a link.
THICKNESS = 0.07

#: Opacity of the ellipsoids of inertia.
VEIL = 0.35

#: Color of rods, and the minimum distance of a body from its joint for a rod, relative to the typical length.
ROD, AWAY = (0.55, 0.57, 0.6, 1.0), 0.15


@dataclass(frozen=True)
class Surface:
    """Triangles of one color, fixed to a body.

    - `name`: the name of the shape or of the default element.
    - `body`: the index of the body, -1 for the world.
    - `vertices`, `faces`: points (v, 3) in the frame of the body, and three indices for each triangle, counterclockwise from
      outside: (f, 3).
    - `rgba`: red, green, blue and opacity, from 0 to 1.
    - `endless`: whether it is an unbounded plane, of which the triangles are a part.
    """

    name: str
    body: int
    vertices: np.ndarray
    faces: np.ndarray
    rgba: tuple[float, float, float, float]
    endless: bool = False


@dataclass(frozen=True)
class Scene:
    """The surfaces of a model.

    - `surfaces`: the surfaces.
    - `size`: a typical length of the model, twice that of its median link, for the scale of added elements.
    """

    model: Model
    surfaces: tuple[Surface, ...]
    size: float

    @property
    def moving(self) -> tuple[Surface, ...]:
        """The surfaces on bodies."""
        return tuple(surface for surface in self.surfaces if surface.body >= 0)

    @property
    def fixed(self) -> tuple[Surface, ...]:
        """The surfaces on the world."""
        return tuple(surface for surface in self.surfaces if surface.body < 0)


def scene_of(model: Simulated) -> Scene:
    """Returns the scene of a model. A mesh that cannot be read is drawn as a box, with a `ModelWarning`."""
    tree = checked_tree(model)
    roots = _roots(tree)
    shapes: dict[int, list[Shape]] = {root: [] for root in (-1, *np.unique(roots).tolist())}
    for shape in tree.shapes:
        if isinstance(shape, Shape):
            body = _body(tree, shape)
            shapes[-1 if body < 0 else int(roots[body])].append(shape)
    size, troubles = _size(tree), []
    surfaces = []
    for root, own in shapes.items():
        looks = [shape for shape in own if shape.visual] or own
        found = [_surface_of(tree, shape, size, troubles) for shape in looks]
        surfaces += [*found, *_rods(tree, found, size)]
        if root >= 0 and not own:
            surfaces += _made_up(tree, np.flatnonzero(roots == root), size)
    if troubles:
        which = f"{len(troubles)} meshes of model {tree.name!r} cannot be read and are drawn as boxes"
        more = "; ..." if len(troubles) > 3 else ""
        warnings.warn(f"view: {which}: {'; '.join(troubles[:3])}{more}", ModelWarning, stacklevel=2)
    return Scene(tree, tuple(surfaces), size)


def checked_tree(model: Simulated) -> Model:
    """Returns the spatial model whose bodies are shown; raises an error for planar models and batches."""
    if not isinstance(model, (Model, ReducedModel)):
        raise TypeError(f"view: model is a {type(model).__name__}; it must be a Model or a ReducedModel")
    tree = tree_of(model)
    if tree.is_planar:
        raise ValueError(
            f"view: model {tree.name!r} is on planar algebra, where bodies have no shapes; show the original spatial "
            "model, which has the same q and v"
        )
    if np.ndim(tree.gravity) != 1:
        raise ValueError(
            f"view: model {tree.name!r} is a batch of {len(tree.gravity)} models; select one, "
            "jax.tree.map(lambda leaf: leaf[0], model)"
        )
    return tree


def _body(model: Model, shape: Shape) -> int:
    return -1 if shape.body == "world" else model.body_index(shape.body)


def _roots(model: Model) -> np.ndarray:
    """Returns the root body of the tree that contains each body."""
    roots = np.arange(model.nb)
    for body, parent in enumerate(model.topology.parents):
        if parent >= 0:
            roots[body] = roots[parent]
    return roots


# Shapes.


def _surface_of(model: Model, shape: Shape, size: float, troubles: list[str]) -> Surface:
    try:
        vertices, faces = shape.geometry.triangles()
    except ModelError as error:
        troubles.append(f"shape {shape.name!r}: {error}")
        vertices, faces = box(np.full(3, 0.2 * size))
    rotation = np.asarray(shape.placement.rotation, float)
    vertices = vertices @ rotation.T + np.asarray(shape.placement.position, float)
    endless = isinstance(shape.geometry, Plane) and not np.asarray(shape.geometry.half_sizes).all()
    rgba = tuple(float(x) for x in shape.rgba)
    return Surface(shape.name, _body(model, shape), vertices, np.asarray(faces), rgba, endless)  # pyright: ignore[reportArgumentType]


def _rods(model: Model, surfaces: Sequence[Surface], size: float) -> list[Surface]:
    """Returns rods from joints to shapes that are away from the joint."""
    rods = []
    for body in sorted({surface.body for surface in surfaces if surface.body >= 0}):
        points = np.concatenate([surface.vertices for surface in surfaces if surface.body == body])
        low, high = points.min(axis=0), points.max(axis=0)
        gap = np.linalg.norm(np.maximum(np.maximum(low, -high), 0))
        if gap > AWAY * size and _turns_in_place(model, body):
            rod = _link((low + high) / 2, 0.15 * THICKNESS * size)
            rods.append(Surface(f"{model.body_names[body]} rod", body, *rod, ROD))
    return rods


def _turns_in_place(model: Model, body: int) -> bool:
    """Returns whether the origin of a body is fixed in its parent for all joint positions."""
    if not 0 < model.topology.joint_nv[body] <= 3:
        return False
    joint = model.joint(body)
    return not np.abs(np.asarray(joint.motion_subspace(joint.neutral()))[3:]).max() > 1e-9


# Default appearance.


def _made_up(model: Model, bodies: np.ndarray, size: float) -> list[Surface]:
    """Returns the default surfaces of the bodies of a tree: links and ellipsoids of inertia."""
    parents = np.asarray(model.topology.parents)
    places = np.asarray(model.placements.position, float)
    radius = THICKNESS * size / 2
    branch, surfaces = branches(model), []
    for body in bodies.tolist():
        name, color = model.body_names[body], _rgb(COLORS[branch[body] % len(COLORS)])
        children = [child for child in bodies.tolist() if parents[child] == body]
        axes = ellipsoid_of_inertia(model, body)
        center = np.asarray(model.inertias.com, float)[body]
        ends = [(model.body_names[child], places[child]) for child in children] + _anchors(model, name)
        if not ends and axes is not None:
            ends = [(name, center)]
        for end, place in ends:
            if np.linalg.norm(place) > 1e-6 * size:
                surfaces.append(Surface(f"{name} to {end}", body, *_link(place, radius), (*color, 1.0)))
        if not any(np.linalg.norm(place) > 1e-6 * size for _, place in ends):
            vertices, faces = ball()
            surfaces.append(Surface(f"{name} joint", body, 1.4 * radius * vertices, faces, (*color, 1.0)))
        if axes is not None:
            vertices, faces = ball()
            surfaces.append(
                Surface(f"{name} inertia", body, vertices @ axes.T + center, faces, (*color, VEIL))
            )
    return surfaces


def _anchors(model: Model, body: str) -> list[tuple[str, np.ndarray]]:
    """Returns the points of a body at loop constraints, each with the name of the constraint."""
    found = []
    for constraint in model.constraints:
        points = np.asarray(constraint.frames.position, float).reshape(-1, 3)
        found += [(constraint.label, point) for one, point in zip(constraint.bodies, points) if one == body]
    return found


def branches(model: Model) -> np.ndarray:
    """Returns a branch number for each body; a new branch starts where a body has several children."""
    parents = np.asarray(model.topology.parents)
    count = np.bincount(parents[parents >= 0], minlength=model.nb)
    branch, last = np.zeros(model.nb, int), -1
    for body, parent in enumerate(parents):
        if parent >= 0 and count[parent] == 1:
            branch[body] = branch[parent]
        else:
            last += 1
            branch[body] = last
    return branch


def ellipsoid_of_inertia(model: Model, body: int) -> np.ndarray | None:
    """Returns the uniform ellipsoid with the inertia of a body: semiaxes as columns, in the frame of the body; None without mass.

    For principal moments `I` about the center of mass, semiaxis i is `sqrt(5 (I_j + I_k - I_i) / 2 m)`. A point mass is
    drawn as a ball of water of equal mass.
    """
    mass = float(np.asarray(model.inertias.mass)[body])
    if not (np.isfinite(mass) and mass > 0):
        return None
    moments, axes = np.linalg.eigh(np.asarray(model.inertias.rotational_com, float)[body])
    squares = 2.5 * (moments.sum() - 2 * moments) / mass
    if not np.isfinite(squares).all():
        return None
    semiaxes = np.sqrt(np.maximum(squares, 0))
    if semiaxes.max() <= 0:
        return np.eye(3) * (3 * mass / (4000 * np.pi)) ** (1 / 3)
    # Rods and plates get a visible thickness.
    return axes * np.maximum(semiaxes, 0.05 * semiaxes.max())


def _link(end: np.ndarray, radius: float):
    """Returns a capsule from the origin to a point."""
    length = float(np.linalg.norm(end))
    z = end / length
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    vertices, faces = capsule(min(radius, 0.4 * length), length / 2)
    return vertices @ np.stack([x, np.cross(z, x), z]) + end / 2, faces


def _size(model: Model) -> float:
    """Returns twice the median length of links and of distances to centers of mass; without these, a length of the inertia."""
    parents = np.asarray(model.topology.parents)
    steps = np.linalg.norm(np.asarray(model.placements.position, float)[parents >= 0], axis=1)
    lengths = np.append(steps, np.linalg.norm(np.asarray(model.inertias.com, float), axis=1))
    lengths = lengths[np.isfinite(lengths) & (lengths > 1e-6)]
    if not len(lengths):
        ellipsoids = [ellipsoid_of_inertia(model, body) for body in range(model.nb)]
        lengths = [np.linalg.norm(axes, axis=0).max() for axes in ellipsoids if axes is not None]
    return float(2 * np.median(lengths)) if len(lengths) else 1.0


def _rgb(color: str) -> tuple[float, float, float]:
    r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return r, g, b
