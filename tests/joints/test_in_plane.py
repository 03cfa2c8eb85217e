"""Joints in the plane that they move in: what families override equals what the protocol does by default."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_each_close, quotient

from rbd_jax import joints
from rbd_jax.joints import Joint
from rbd_jax.spatial.planar import plane_axes


NORMAL = np.array([2.0, -1.0, 2.0]) / 3
AXES = np.asarray(plane_axes(jnp.asarray(NORMAL)))
ALONG = AXES.T @ np.array([0.6, -0.8])

FAMILIES = {
    "revolute": (joints.Revolute(NORMAL), AXES),
    "reversed axis": (joints.Revolute(-NORMAL), AXES),
    "prismatic": (joints.Prismatic(ALONG), AXES),
    "planar": (joints.Planar(-NORMAL), AXES),
    "rack": (joints.RackAndPinion(0.3), np.eye(3)[:2]),
    "composite": (joints.Composite([joints.Prismatic(ALONG), joints.Revolute(NORMAL)]), AXES),
}


@pytest.mark.parametrize("angle", [0.0, 0.7, np.pi])
@pytest.mark.parametrize("name", FAMILIES)
def test_placements_and_motions(name, angle):
    joint, axes = FAMILIES[name]
    flat = joints.InPlane(joint, jnp.asarray(axes))
    q, v = jnp.full(joint.nq, angle), jnp.linspace(0.5, -0.8, joint.nv)
    assert flat.constant_subspace == joint.constant_subspace
    assert_each_close(flat.transform(q), Joint.in_plane(joint, q, flat.axes))

    def moved(time):
        return flat.transform(flat.integrate(q, time * v))

    # `[ω; v]` in the successor's own axes, from the rate of its placement.
    rate = jax.jvp(moved, (jnp.array(0.0),), (jnp.array(1.0),))[1]
    differences = quotient(lambda h: moved(jnp.array(h)))
    assert_each_close(rate, differences, 1e-8)
    here = flat.transform(q)
    c, s = np.asarray(here.direction)
    turning = np.array([-s, c]) @ np.asarray(rate.direction)
    moving = np.array([[c, s], [-s, c]]) @ np.asarray(rate.position)
    velocity = flat.motion_subspace(q) @ v
    assert_each_close(velocity, np.concatenate([turning[None], moving]))
    slope = quotient(lambda h: np.asarray(flat.motion_subspace(flat.integrate(q, h * v)) @ v))
    assert_each_close(flat.velocity_product(q, v), slope, 1e-8)
    assert_each_close(flat.subspace_rate(q, v) @ v, slope, 1e-8)


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0, -1, 0), (0.6, 0, 0.8), (-1, 0, 0)])
def test_axes_of_planes(normal):
    x, y = np.asarray(plane_axes(jnp.array(normal, float)))
    assert_each_close(np.cross(x, y), np.array(normal, float))
    assert_each_close(np.array([x @ x, y @ y, x @ y]), np.array([1.0, 1.0, 0.0]))
