"""The universal joint: two turns in series, bending without twisting (Sueda eqs. 2.37 to 2.40)."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import direction
from .._core.array import is_known
from ..spatial.transform import Transform
from ._joint import Joint
from ._turns import turns, turns_rate


class Universal(Joint):
    """A turn about `axis1`, fixed in the predecessor, then a turn about `axis2`, fixed in the successor.

    `q` is the two angles.

    >>> joint = rbd.joints.Universal(axis1=(1, 0, 0), axis2=(0, 1, 0))
    >>> print(joint.transform(jnp.array([jnp.pi / 2, 0.0])).rotation)
    [[ 1.  0.  0.]
     [ 0.  0. -1.]
     [ 0.  1.  0.]]
    """

    axis1: Float[Array, "3"]
    axis2: Float[Array, "3"]

    nv = 2

    def __init__(self, axis1=(1.0, 0.0, 0.0), axis2=(0.0, 1.0, 0.0)):
        self.axis1 = direction("Universal", axis1, "axis1")
        self.axis2 = direction("Universal", axis2, "axis2")
        known = is_known((self.axis1, self.axis2))
        if known and np.abs(np.cross(np.asarray(self.axis1), np.asarray(self.axis2))).max() < 1e-6:
            raise ValueError(
                f"Universal: axis1 {self.axis1.tolist()} and axis2 {self.axis2.tolist()} are parallel; "
                "give two directions, or use Revolute for one"
            )

    def transform(self, q):
        return Transform.from_rotation(turns((self.axis1, self.axis2), q)[0])

    def motion_subspace(self, q):
        return turns((self.axis1, self.axis2), q)[1]

    def subspace_rate(self, q, v):
        return turns_rate(self.motion_subspace(q), v)

    def random(self, key):
        return jax.random.uniform(key, (2,), minval=-jnp.pi, maxval=jnp.pi)
