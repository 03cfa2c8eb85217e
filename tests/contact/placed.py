"""Pairs of geometries in random placements, and MuJoCo's results for them."""

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from rbd_jax import Transform
from rbd_jax.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Sphere


#: A convex body with fourteen corners. Its numbers are exact in single precision, because MuJoCo stores meshes in it.
CORNERS = np.random.default_rng(0).normal(size=(14, 3))
CORNERS *= np.array([0.3, 0.5, 0.4]) / np.linalg.norm(CORNERS, axis=1, keepdims=True)
CORNERS = CORNERS.astype(np.float32).astype(float)

HILLS = np.array([[0.0, 0.3, 0.1, 0.2], [0.5, 0.4, 0.0, 0.7], [0.2, 0.6, 0.1, 0.3]])

GEOMETRIES = {
    "plane": Plane(),
    "sphere": Sphere(0.4),
    "capsule": Capsule(0.2, 0.4),
    "ellipsoid": Ellipsoid((0.3, 0.5, 0.2)),
    "cylinder": Cylinder(0.3, 0.4),
    "box": Box((0.3, 0.2, 0.5)),
    "mesh": Mesh(CORNERS, np.arange(12).reshape(4, 3)).convex_hull(),
    "hfield": HeightField(HILLS, (1.0, 0.7), 0.2),
}

#: Margin within which MuJoCo detects contacts.
MARGIN = 0.1


def placements(seed: int, count: int, reach: float = 0.42):
    """Returns two batches of placements: rotations (count, 3, 3) and positions (count, 3)."""
    random = np.random.default_rng(seed)
    quaternions = random.normal(size=(2, count, 4))
    rotations = np.zeros((2, count, 9))
    for i in range(2):
        for quaternion, matrix in zip(quaternions[i], rotations[i]):
            mujoco.mju_quat2Mat(matrix, quaternion / np.linalg.norm(quaternion))
    positions = reach * random.normal(size=(2, count, 3))
    (r, s), (p, q) = rotations.reshape(2, count, 3, 3), positions
    return Transform(jnp.asarray(r), jnp.asarray(p)), Transform(jnp.asarray(s), jnp.asarray(q))


@functools.cache
def batched(function, a, b):
    """Returns a compiled, batched function of the placements of two geometries."""
    one = lambda at_a, at_b: function(GEOMETRIES[a], at_a, GEOMETRIES[b], at_b)
    return jax.jit(jax.vmap(one))


class Scene:
    """A pair of MuJoCo geoms, the second of which can move."""

    def __init__(self, a: str, b: str):
        heights = " ".join(map(str, HILLS[::-1].ravel()))  # the first row in a file is the far one
        corners = " ".join(map(str, CORNERS.ravel()))
        asset = f'<mesh name="mesh" vertex="{corners}" inertia="convex"/>'
        asset += f'<hfield name="hfield" nrow="3" ncol="4" size="1 .7 .7 .2" elevation="{heights}"/>'
        self.model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option ccd_tolerance="1e-12" ccd_iterations="200"/><asset>{asset}</asset><worldbody>'
            f'<body mocap="true">{self._geom(a)}</body><body><freejoint/>'
            f'<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{self._geom(b)}</body></worldbody></mujoco>'
        )
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)

    @staticmethod
    def _geom(name: str) -> str:
        margin = f'margin="{MARGIN / 2}"'  # MuJoCo adds both margins
        if name in ("mesh", "hfield"):
            return f'<geom type="{name}" {name}="{name}" {margin}/>'
        sizes = " ".join(str(x) for leaf in jax.tree.leaves(GEOMETRIES[name]) for x in np.ravel(leaf))
        return f'<geom type="{name}" size="{sizes}{" 1" * (name == "plane")}" {margin}/>'

    def place(self, *placed):
        """Places both geoms at (rotation, position) pairs.

        MuJoCo has moved the frame of a mesh to its center, which this corrects.
        """
        for i, (rotation, position) in enumerate(placed):
            if self.model.geom_type[i] == mujoco.mjtGeom.mjGEOM_MESH:
                own = np.zeros(9)
                mujoco.mju_quat2Mat(own, self.model.mesh_quat[0])
                position = rotation @ self.model.mesh_pos[0] + position
                rotation = rotation @ own.reshape(3, 3)
            self.data.geom_xpos[i], self.data.geom_xmat[i] = position, np.ravel(rotation)

    def distances(self, at_a, at_b):
        """Returns distances of `mj_geomDistance` and its nearest points."""
        found, points = [], np.zeros((len(at_a.position), 6))
        for k, ends in enumerate(points):
            self.place(*((np.asarray(at.rotation[k]), np.asarray(at.position[k])) for at in (at_a, at_b)))
            found.append(mujoco.mj_geomDistance(self.model, self.data, 0, 1, 100.0, ends))
        return np.array(found), points.reshape(-1, 2, 3)

    def contacts(self, at_a, at_b):
        """Returns contacts of `mj_collision`.

        Each placement has a list of distances, positions and frames with axes as columns.
        """
        found = []
        for k in range(len(at_a.position)):
            self.place(*((np.asarray(at.rotation[k]), np.asarray(at.position[k])) for at in (at_a, at_b)))
            mujoco.mj_collision(self.model, self.data)
            contacts = self.data.contact[: self.data.ncon]
            found.append([(c.dist, np.array(c.pos), np.array(c.frame).reshape(3, 3).T) for c in contacts])
        return found
