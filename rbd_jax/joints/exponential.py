"""The spherical joint in exponential coordinates: the rotation vector (Sueda §2.4.8).

The coordinates are flat near zero and singular on the spheres of whole turns, `|q| = 2π, 4π, ...`. `reparametrize`
keeps a trajectory away from there.
"""

import jax.numpy as jnp

from .._array import dot, matvec
from ..lie import SO3, quaternion
from ..spatial import Transform
from ._joint import Joint


class SphericalExponential(Joint):
    """A ball in its socket. `q` is the rotation vector (axis times angle), and `v = q̇`."""

    nv = 3

    def transform(self, q):
        return Transform.from_rotation(SO3.exp(q))

    def motion_subspace(self, q):
        """The right Jacobian of the exponential map, equal to eqs. 2.43 and 2.44 but regular at zero."""
        columns = SO3.dexp_right(q)
        return jnp.concatenate([columns, jnp.zeros_like(columns)])

    def reparametrize(self, q, v):
        """`(q, v)` of the same rotation and the same angular velocity, with `|q|` at most π (after eq. 2.47).

        `q ← (1 - 2π n / |q|) q` with the whole number n of turns nearest to `|q|`, and `v ← S⁻¹ S_previous v`. While
        `|q| ≤ π` nothing changes.
        """
        square = dot(q, q)
        far = square > jnp.pi**2
        angle = jnp.sqrt(jnp.where(far, square, 1))
        turns = jnp.where(far, jnp.round(angle / (2 * jnp.pi)), 0)
        short = (1 - 2 * jnp.pi * turns / angle) * q
        moved = matvec(SO3.dexp_right_inverse(short), matvec(SO3.dexp_right(q), v))
        return jnp.where(far, short, q), jnp.where(far, moved, v)

    def random(self, key):
        """All rotations equally likely, `|q|` at most π."""
        return quaternion.log(quaternion.random(key))
