"""The spherical joint in Euler angles: three turns in series (book eqs. 4.7 to 4.9; Sueda eqs. 2.29 to 2.36).

Three angles cannot cover all rotations without a singularity. It occurs where the first and the third axis coincide:
at a second angle of ±90° for orders of three different letters, and of 0° or 180° for orders like "zxz".
`Spherical` has no singularity.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._core.arguments import choice
from ..spatial.transform import Transform
from ._joint import Joint
from ._turns import turns, turns_rate


ORDERS = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx", "xyx", "xzx", "yxy", "yzy", "zxz", "zyz")


class SphericalEuler(Joint):
    """A ball joint. `q` is three angles, in the order in which they are applied, and `v = q̇`.

    Each letter of `order` is the axis of one turn, carried by the previous turns (intrinsic angles): "zyx" is
    yaw, pitch, roll.

    >>> ball = rbd.joints.SphericalEuler("zyx")
    >>> print(ball.transform(jnp.array([jnp.pi / 2, 0.0, 0.0])).point(jnp.array([1.0, 0.0, 0.0])))  # yaw
    [0. 1. 0.]
    """

    order: str = eqx.field(static=True)

    nv = 3

    def __init__(self, order: str = "zyx"):
        self.order = choice("SphericalEuler", "order", order, ORDERS)

    def _turns(self, q):
        return turns(tuple(jnp.eye(3, dtype=q.dtype)["xyz".index(letter)] for letter in self.order), q)

    def transform(self, q):
        return Transform.from_rotation(self._turns(q)[0])

    def motion_subspace(self, q):
        return self._turns(q)[1]

    def subspace_rate(self, q, v):
        return turns_rate(self.motion_subspace(q), v)

    def random(self, key):
        """Returns angles that cover all rotations once: first and third in (-π, π), second between singularities."""
        angles = jax.random.uniform(key, (3,), minval=-1.0, maxval=1.0) * jnp.array(
            [jnp.pi, jnp.pi / 2, jnp.pi]
        )
        proper = self.order[0] == self.order[2]
        return angles + jnp.array([0.0, jnp.pi / 2 if proper else 0.0, 0.0])
