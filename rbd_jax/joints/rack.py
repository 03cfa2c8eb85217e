"""The rack-and-pinion joint: a wheel rolls along a rail without slipping (book example 4.6)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ..spatial.transform import Transform
from ._joint import Joint
from .revolute import turn


class RackAndPinion(Joint):
    """A pinion on the successor's z axis, rolling on a rack along the predecessor's x axis. `q` is the angle.

    One radian about z moves the pinion by `radius` along x, so the rack lies above it, at `y = radius`.

    >>> pinion = rbd.joints.RackAndPinion(radius=0.5)
    >>> print(pinion.transform(jnp.array([jnp.pi])).position)
    [1.571 0.    0.   ]
    """

    radius: Float[Array, ""]

    nv = 1

    def __init__(self, radius):
        self.radius = number("RackAndPinion", "radius", radius)

    def transform(self, q):
        o = jnp.zeros_like(q[0])
        axis = jnp.array([0, 0, 1], q.dtype)
        return Transform(turn(axis, q[0]), jnp.stack([self.radius * q[0], o, o]))

    def motion_subspace(self, q):
        """`[0, 0, 1, r c, -r s, 0]`."""
        r, c, s, o = self.radius, jnp.cos(q[0]), jnp.sin(q[0]), jnp.zeros_like(q[0])
        return jnp.stack([o, o, jnp.ones_like(o), r * c, -r * s, o])[:, None]

    def subspace_rate(self, q, v):
        """`[0, 0, 0, -r s q̇, -r c q̇, 0]`."""
        r, c, s, o = self.radius, jnp.cos(q[0]), jnp.sin(q[0]), jnp.zeros_like(q[0])
        return jnp.stack([o, o, o, -r * s * v[0], -r * c * v[0], o])[:, None]

    def random(self, key):
        return jax.random.uniform(key, (1,), minval=-jnp.pi, maxval=jnp.pi)
