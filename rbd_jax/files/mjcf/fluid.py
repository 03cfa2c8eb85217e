"""Reads the fluid around the bodies of an MJCF file."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...forces import BoxDrag, EllipsoidDrag, FluidForce
from ...spatial.transform import Transform
from .compiled import body_names, carrier_of, rotation_matrix


def fluid_of(mujoco, compiled) -> list[FluidForce]:
    """Returns the drag forces: on ellipsoids for geoms that enable them, otherwise on each body's equivalent inertia box."""
    option = compiled.opt
    if not (option.density or option.viscosity):
        return []
    names, fluid = body_names(compiled), (option.density, option.viscosity, np.array(option.wind))
    moving = np.array([carrier_of(compiled, body) > 0 for body in range(compiled.nbody)])
    geoms = [
        g for g in range(compiled.ngeom) if compiled.geom_fluid[g, 0] and moving[compiled.geom_bodyid[g]]
    ]
    by_geom = {int(compiled.geom_bodyid[g]) for g in geoms}
    heavy = compiled.body_mass > mujoco.mjMINVAL
    bodies = [b for b in range(compiled.nbody) if moving[b] and heavy[b] and b not in by_geom]
    found: list[FluidForce] = []
    if bodies:
        inertia = compiled.body_inertia[bodies]
        square = (inertia.sum(axis=1, keepdims=True) - 2 * inertia).clip(mujoco.mjMINVAL)
        sides = np.sqrt(square / compiled.body_mass[bodies, None] * 6)
        frames = _frames(compiled.body_iquat[bodies], compiled.body_ipos[bodies])
        found.append(BoxDrag([names[b] for b in bodies], frames, sides, *fluid))
    if geoms:
        frames = _frames(compiled.geom_quat[geoms], compiled.geom_pos[geoms])
        semiaxes = np.array([_semiaxes(mujoco, compiled, g) for g in geoms])
        numbers = compiled.geom_fluid[geoms]
        own = [names[compiled.geom_bodyid[g]] for g in geoms]
        found.append(
            EllipsoidDrag(own, frames, semiaxes, *fluid, numbers[:, 1:6], numbers[:, 6:9], numbers[:, 9:])
        )
    return found


def _semiaxes(mujoco, compiled, geom: int) -> np.ndarray:
    """Returns the semiaxes of the ellipsoid that represents a geom."""
    size, kind = np.array(compiled.geom_size[geom]), mujoco.mjtGeom(compiled.geom_type[geom])
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return size[[0, 0, 0]]
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return np.array([size[0], size[0], size[1] + size[0]])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return size[[0, 0, 1]]
    return size


def _frames(quaternions, positions) -> Transform:
    rotations = np.array([rotation_matrix(quaternion) for quaternion in quaternions])
    return Transform(jnp.asarray(rotations), jnp.asarray(np.array(positions)))
