"""What there is to see of a model: triangles fixed to its bodies, in NumPy. All that draws, draws this.

A tree of bodies is seen by the shapes that its model carries: those to be seen, or, where it has none of them, those to touch
with; a body whose shapes are away from the joint that it turns about hangs there on a thin rod. A tree without any shape gets a
look made up from its numbers: capsules along its links, and around the centre of mass of each body the ellipsoid that has its
inertia.
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


#: How thick made-up links are, of the median length of a link.
THICKNESS = 0.07

#: How opaque the ellipsoids of inertia are.
VEIL = 0.35

#: The colour of rods, and how far from its joint a body must be to get one, of the typical length.
ROD, AWAY = (0.55, 0.57, 0.6, 1.0), 0.15


@dataclass(frozen=True)
class Surface:
    """Triangles of one colour, fixed to a body.

    - `name`: of the shape, or of what was made up.
    - `body`: the number of the body, -1 for the world.
    - `vertices`, `faces`: points (v, 3) in the frame of the body, and three numbers of them for each triangle, outside
      counterclockwise: (f, 3).
    - `rgba`: red, green, blue and opacity, from 0 to 1.
    - `endless`: a plane without bounds, of which the triangles are a part.
    """

    name: str
    body: int
    vertices: np.ndarray
    faces: np.ndarray
    rgba: tuple[float, float, float, float]
    endless: bool = False


@dataclass(frozen=True)
class Scene:
    """A model to be seen.

    - `surfaces`: what is drawn of it.
    - `size`: a length that is typical of it, twice that of its median link: for the thickness of what is added to it.
    """

    model: Model
    surfaces: tuple[Surface, ...]
    size: float

    @property
    def moving(self) -> tuple[Surface, ...]:
        """Those on bodies."""
        return tuple(surface for surface in self.surfaces if surface.body >= 0)

    @property
    def fixed(self) -> tuple[Surface, ...]:
        """Those on the world."""
        return tuple(surface for surface in self.surfaces if surface.body < 0)


def scene_of(model: Simulated) -> Scene:
    """What there is to see of a model. A mesh that cannot be read is drawn as a box, and a `ModelWarning` says why."""
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
    """The one model in space whose bodies are to be seen."""
    if not isinstance(model, (Model, ReducedModel)):
        raise TypeError(f"view: model is a {type(model).__name__}; it takes a Model, or a ReducedModel")
    tree = tree_of(model)
    if tree.is_planar:
        raise ValueError(
            f"view: model {tree.name!r} is on planar algebra, where bodies have no looks; show the model that it was "
            "made of, which has the same q and v"
        )
    if np.ndim(tree.gravity) != 1:
        raise ValueError(
            f"view: model {tree.name!r} is a batch of {len(tree.gravity)} models; take one, "
            "jax.tree.map(lambda leaf: leaf[0], model)"
        )
    return tree


def _body(model: Model, shape: Shape) -> int:
    return -1 if shape.body == "world" else model.body_index(shape.body)


def _roots(model: Model) -> np.ndarray:
    """The root of the tree that each body is in."""
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
    """From the joints that bodies turn about to their shapes, where these are away from there."""
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
    """Whether the origin of a body stays where it is in its parent, whatever its joint does."""
    if not 0 < model.topology.joint_nv[body] <= 3:
        return False
    joint = model.joint(body)
    return not np.abs(np.asarray(joint.motion_subspace(joint.neutral()))[3:]).max() > 1e-9


# Looks that are made up.


def _made_up(model: Model, bodies: np.ndarray, size: float) -> list[Surface]:
    """A look for the bodies of a tree: its links, and the inertias of its bodies."""
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
    """The points of a body that loops hold, each with the name of the constraint."""
    found = []
    for constraint in model.constraints:
        points = np.asarray(constraint.frames.position, float).reshape(-1, 3)
        found += [(constraint.label, point) for one, point in zip(constraint.bodies, points) if one == body]
    return found


def branches(model: Model) -> np.ndarray:
    """A number for each body, equal along a limb: a new one starts where a body has several children."""
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
    """The uniform ellipsoid with the inertia of a body: its semiaxes as columns, in the frame of the body. None without mass.

    Of principal moments `I` about the centre of mass, semiaxis i is `sqrt(5 (I_j + I_k - I_i) / 2 m)`. A point mass is
    drawn as the ball of water that weighs as much.
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
    # Rods and plates have a thickness that is seen.
    return axes * np.maximum(semiaxes, 0.05 * semiaxes.max())


def _link(end: np.ndarray, radius: float):
    """A capsule from the origin to a point."""
    length = float(np.linalg.norm(end))
    z = end / length
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    vertices, faces = capsule(min(radius, 0.4 * length), length / 2)
    return vertices @ np.stack([x, np.cross(z, x), z]) + end / 2, faces


def _size(model: Model) -> float:
    """Twice the median of its links and of the arms of its centres of mass; of bodies that have neither, of their inertia."""
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
