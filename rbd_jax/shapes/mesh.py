"""Triangle meshes: given, or in a file that is read on first use.

The vertices and faces of a mesh are static, like the names of bodies: they are large, and a batch of models shares them. The
scale is a leaf.
"""

from __future__ import annotations

import abc
import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import is_known, outer, with_precision
from .._core.errors import ModelError
from .._core.jit import compiled
from ..spatial.inertia import Inertia, triangle
from . import rays
from .geometry import Geometry
from .surfaces import Triangles


#: Maximum file size, in bytes.
LARGEST = 512 * 2**20


class MeshSource(abc.ABC):
    """A source of the triangles of a mesh."""

    #: The file, or empty.
    file: str

    #: True for a source that is a file with unchanged content.
    is_file: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def triangles(self) -> Triangles: ...

    @property
    def label(self) -> str:
        return f"mesh {self.file!r}" if self.file else "a mesh"

    @cached_property
    def unit(self) -> Inertia:
        """The inertia at unit density."""
        vertices, faces = _joined(*self.triangles)
        try:
            with jax.ensure_compile_time_eval():  # the result is cached, also while a function is traced
                return Inertia.from_mesh(vertices, faces, density=1.0)
        except ModelError as error:
            fault = str(error).removeprefix("Inertia.from_mesh: ")
            raise ModelError(f"{self.label} has no inertia: {fault}. Its convex_hull() has one") from None

    @cached_property
    def hull(self) -> GivenMesh:
        """The convex hull."""
        from scipy.spatial import ConvexHull, QhullError

        vertices, _ = self.triangles
        try:
            hull = ConvexHull(vertices)
        except (QhullError, ValueError):
            raise ModelError(
                f"{self.label} has no convex hull: its {len(vertices)} vertices are in one plane"
            ) from None
        a, b, c = (vertices[hull.simplices[:, i]] for i in range(3))
        inward = np.einsum("ni,ni->n", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
        faces = np.where(inward[:, None], hull.simplices[:, ::-1], hull.simplices)
        used, faces = np.unique(faces, return_inverse=True)
        return GivenMesh(vertices[used], faces.reshape(-1, 3), self.file)


class GivenMesh(MeshSource):
    """Triangles given as arrays. Sources with equal arrays compare equal."""

    def __init__(self, vertices: np.ndarray, faces: np.ndarray, file: str = ""):
        self._triangles = np.array(vertices, float), np.array(faces, int)
        for part in self._triangles:
            part.flags.writeable = False
        self.file = file

    @property
    def triangles(self):
        return self._triangles

    @cached_property
    def _key(self) -> tuple:
        vertices, faces = self._triangles
        digest = hashlib.sha256(vertices.tobytes() + faces.tobytes()).digest()
        return vertices.shape, faces.shape, digest, self.file

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, GivenMesh) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{len(self._triangles[0])} vertices, {len(self._triangles[1])} faces"


class MeshFile(MeshSource):
    """The triangles in a file, read once. `wanted` is the name used in messages, if it differs from the path."""

    is_file = True

    def __init__(self, file: str | Path, wanted: str = ""):
        self.file, self.wanted = str(file), wanted or str(file)

    @cached_property
    def triangles(self):
        return _read(Path(self.file), self.wanted)

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, MeshFile) and self.file == other.file)

    def __hash__(self) -> int:
        return hash(self.file)

    def __repr__(self) -> str:
        return repr(self.file)


class Mesh(Geometry):
    """Triangles, given or in a file.

    - `vertices`: Points (v, 3).
    - `faces`: Three vertex indices per triangle, counterclockwise as viewed from outside: (f, 3).
    - `scale`: The factors of all vertices along the three axes.
    - `file`: The name of the file that they come from, if any.

    >>> corners = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> tetrahedron = rbd.shapes.Mesh(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> print(tetrahedron.inertia(1.0).com)
    [0.25 0.25 0.25]
    """

    source: MeshSource = eqx.field(static=True)
    scale: Float[Array, "3"]

    def __init__(self, vertices: Any, faces: Any, scale: Any = (1.0, 1.0, 1.0), file: str = ""):
        self.source = GivenMesh(*_checked(vertices, faces), file)
        self.scale = _scale(scale)

    @staticmethod
    def from_file(file: str | Path, scale: Any = (1.0, 1.0, 1.0)) -> Mesh:
        """Returns the mesh in a file (STL, OBJ, ...), which `trimesh` reads on first use."""
        return Mesh.of(MeshFile(file), scale)

    @staticmethod
    def of(source: MeshSource, scale: Any = (1.0, 1.0, 1.0)) -> Mesh:
        """Returns a mesh with the triangles of an existing source."""
        mesh = object.__new__(Mesh)
        object.__setattr__(mesh, "source", source)
        object.__setattr__(mesh, "scale", _scale(scale))
        return mesh

    @property
    def file(self) -> str:
        """The file of the mesh, or empty."""
        return self.source.file

    def inertia(self, density):
        """Returns the exact inertia of the body that the mesh bounds; an open mesh raises an error.

        With the scale S: `m' = |det S| m`, `m' c' = |det S| m S c`, and the dyads `∫ x xᵀ` become `D' = |det S| S D S`.
        """
        return _stretched(with_precision(self.source.unit, self.scale.dtype), self.scale, density)

    def triangles(self):
        vertices, faces = self.source.triangles
        scale = np.asarray(self.scale)
        return vertices * scale, faces[:, ::-1] if np.prod(scale) < 0 else faces

    def ray(self, origin, direction):
        # Scaling space changes neither t nor the stored triangles.
        vertices, faces = self.source.triangles
        corners = jnp.asarray(vertices[faces], self.scale.dtype)
        return rays.triangles(origin / self.scale, direction / self.scale, corners)

    def convex_hull(self) -> Mesh:
        """Returns the convex hull as a mesh; contact uses it."""
        return Mesh.of(self.source.hull, self.scale)

    def __repr__(self) -> str:
        return f"Mesh({self.source!r})"


@compiled
def _stretched(unit: Inertia, scale: Float[Array, "3"], density) -> Inertia:
    """Returns the inertia of a mesh at this scale and density, from its inertia at scale one and density one."""
    stretch = density * jnp.abs(jnp.prod(scale))
    rotational = unit.rotational_matrix
    dyad = 0.5 * jnp.trace(rotational) * jnp.eye(3, dtype=rotational.dtype) - rotational
    dyad = stretch * outer(scale, scale) * dyad
    about = jnp.trace(dyad) * jnp.eye(3, dtype=dyad.dtype) - dyad
    return Inertia(stretch * unit.mass, stretch * scale * unit.first_moment, triangle(about))


def _scale(scale: Any) -> Array:
    array = number("Mesh", "scale", scale, (3,))
    if is_known(scale) and not np.all(np.asarray(array)):
        raise ValueError(f"Mesh: scale is {np.asarray(array).tolist()}; none of its three numbers is zero")
    return array


def _checked(vertices: Any, faces: Any) -> Triangles:
    vertices, faces = np.asarray(vertices), np.asarray(faces)
    if vertices.ndim != 2 or vertices.shape[1] != 3 or vertices.dtype.kind not in "iuf":
        raise ValueError(f"Mesh: vertices has shape {vertices.shape}; points have shape (v, 3)")
    if not np.isfinite(vertices).all():
        raise ValueError("Mesh: vertices has numbers that are not finite")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise ValueError(
            f"Mesh: faces has shape {faces.shape} and type {faces.dtype}; triangles are integers of shape (f, 3)"
        )
    if not faces.size or faces.min() < 0 or faces.max() >= len(vertices):
        raise ValueError(
            f"Mesh: faces names vertices of which there are {len(vertices)}, from 0, three for each face"
        )
    return vertices, faces


def _joined(vertices: np.ndarray, faces: np.ndarray) -> Triangles:
    """Merges vertices at the same point, as files of separate triangles require, and removes triangles without area."""
    points, place = np.unique(vertices, axis=0, return_inverse=True)
    faces = place.reshape(-1)[faces]
    a, b, c = faces.T
    return points, faces[(a != b) & (b != c) & (c != a)]


def _read(path: Path, wanted: str) -> Triangles:
    if not path.is_file():
        remedy = "" if wanted == str(path) else ", or pass its folder: load_urdf(..., package_dirs=[...])"
        raise ModelError(f"mesh {wanted!r}: there is no file {str(path)!r}; put it there{remedy}")
    size = path.stat().st_size
    if size > LARGEST:
        raise ModelError(
            f"mesh {wanted!r} has {size / 2**20:.0f} MB, and files of up to {LARGEST / 2**20:.0f} MB are read; simplify it"
        )
    try:
        import trimesh
    except ImportError as error:
        raise ImportError(
            f"mesh {wanted!r} is read with trimesh, which is not installed: pip install 'rbd_jax[meshes]'"
        ) from error
    try:
        found = trimesh.load_mesh(path)
        vertices, faces = np.asarray(found.vertices), np.asarray(found.faces)
    except ImportError as error:
        raise ImportError(f"mesh {wanted!r} needs more than trimesh to be read: {error}") from error
    except Exception as error:  # parsers raise many types of errors for invalid files
        raise ModelError(f"mesh {wanted!r} cannot be read from {str(path)!r}: {error}") from error
    if not len(faces) or not np.isfinite(vertices).all():
        raise ModelError(f"mesh {wanted!r}: {str(path)!r} has no triangles that can be used")
    return vertices, faces
