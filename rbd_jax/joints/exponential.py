"""The spherical joint in exponential coordinates: the rotation vector (Sueda §2.4.8).

The coordinates are regular near zero and singular on the spheres of full turns, `|q| = 2π, 4π, ...`. `reparametrize` avoids
these singularities; rollouts call it after each step.
"""

import jax.numpy as jnp

from .._core.array import dot, matvec
from ..lie import SO3, quaternion
from ..spatial.transform import Transform
from ._joint import Joint


class SphericalExponential(Joint):
    """A ball joint. `q` is the rotation vector (axis times angle), and `v = q̇`.

    >>> ball = rbd.joints.SphericalExponential()
    >>> print(ball.transform(jnp.array([0.0, 0.0, jnp.pi / 2])).point(jnp.array([1.0, 0.0, 0.0])))
    [0. 1. 0.]
    """

    nv = 3
    charted = True

    def transform(self, q):
        return Transform.from_rotation(SO3.exp(q))

    def motion_subspace(self, q):
        """Returns the right Jacobian of the exponential map, equal to eqs. 2.43 and 2.44 but regular at zero."""
        columns = SO3.dexp_right(q)
        return jnp.concatenate([columns, jnp.zeros_like(columns)])

    def reparametrize(self, q, v, near=None):
        """Returns `(q, v)` of the same rotation and angular velocity, with `|q|` at most π (after eq. 2.47).

        `q ← (1 - 2π n / |q|) q`, where n is the integer number of turns nearest to `|q|`, or the n whose result is nearest to
        `near`, and `v ← S⁻¹ S_previous v`. While n is zero nothing changes.
        """
        square = dot(q, q)
        turned = square > 0
        angle = jnp.sqrt(jnp.where(turned, square, 1))
        ahead = angle if near is None else angle - dot(near, q) / angle
        turns = jnp.where(turned, jnp.round(ahead / (2 * jnp.pi)), 0)
        short = (1 - 2 * jnp.pi * turns / angle) * q
        moved = matvec(SO3.dexp_right_inverse(short), matvec(SO3.dexp_right(q), v))
        return jnp.where(turns == 0, q, short), jnp.where(turns == 0, v, moved)

    def random(self, key):
        """Returns a uniformly distributed rotation, `|q|` at most π."""
        return quaternion.log(quaternion.random(key))
