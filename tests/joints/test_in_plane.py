"""Planar joints: methods that families override equal the defaults of the protocol."""

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
    q, v = jax.device_put(np.full(joint.nq, angle)), jax.device_put(np.linspace(0.5, -0.8, joint.nv))
    assert flat.constant_subspace == joint.constant_subspace

    @jax.jit
    def at(time):
        """Returns placement and velocity after a time, and the rate of the placement."""
        there = flat.integrate(q, time * v)
        moved = lambda time: flat.transform(flat.integrate(q, time * v))
        placed, rate = jax.jvp(moved, (time,), (jnp.ones_like(time),))
        return placed, flat.motion_subspace(there) @ v, rate

    @jax.jit
    def second():
        by_placement = Joint.in_plane(joint, q, flat.axes)
        return by_placement, flat.velocity_product(q, v), flat.subspace_rate(q, v) @ v

    # `[ω; v]` in the successor's own axes, from the rate of its placement.
    here, velocity, rate = at(0.0)
    placed, product, subspace_rate = second()
    assert_each_close(here, placed)
    assert_each_close(rate, quotient(lambda h: jax.tree.map(np.asarray, at(h)[0])), 1e-8)
    c, s = np.asarray(here.direction)
    turning = np.array([-s, c]) @ np.asarray(rate.direction)
    moving = np.array([[c, s], [-s, c]]) @ np.asarray(rate.position)
    assert_each_close(velocity, np.concatenate([turning[None], moving]))
    slope = quotient(lambda h: np.asarray(at(h)[1]))
    assert_each_close(product, slope, 1e-8)
    assert_each_close(subspace_rate, slope, 1e-8)


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0, -1, 0), (0.6, 0, 0.8), (-1, 0, 0)])
def test_axes_of_planes(normal):
    x, y = np.asarray(plane_axes(jnp.array(normal, float)))
    assert_each_close(np.cross(x, y), np.array(normal, float))
    assert_each_close(np.array([x @ x, y @ y, x @ y]), np.array([1.0, 1.0, 0.0]))
