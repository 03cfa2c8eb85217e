"""The free joint: no constraint, as for a floating body (book table 4.1, there "6-DoF").

The position is in the predecessor frame and the velocity in the body frame: `ṙ = R v`, `ṗ = ½ p ∘ (0, ω)`. The
table stores the position in body coordinates, for which its constant S does not match the rate of the position.
"""

import jax
import jax.numpy as jnp

from .._core.array import by_numpy, matvec, vecmat
from ..lie import SE3, SO3, quaternion
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint


class Free(ConstantSubspaceJoint):
    """Six degrees of freedom. `q = [x y z, w x y z]` places the body, `v = [ω; v]` is its spatial velocity in its own frame.

    A constant velocity is a screw motion, and `integrate` follows it exactly: `X ⊕ v = X exp(v)` on SE(3).

    >>> free = rbd.joints.Free()
    >>> q = free.neutral()
    >>> print(free.integrate(q, jnp.array([0.0, 0.0, jnp.pi / 2, jnp.pi / 2, 0.0, 0.0])))  # a quarter of a circle of radius 1
    [1.    1.    0.    0.707 0.    0.    0.707]
    """

    nv = 6
    nq = 7
    quaternion = slice(3, 7)

    def transform(self, q):
        return Transform(quaternion.to_matrix(q[3:]), q[:3])

    def columns(self):
        return by_numpy(lambda xp: xp.eye(6))

    def neutral(self):
        return by_numpy(lambda xp: xp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]))

    def integrate(self, q, dv):
        turn = quaternion.normalize(quaternion.multiply(q[3:], quaternion.exp(dv[:3])))
        step = matvec(SO3.dexp_left(dv[:3]), dv[3:])
        return jnp.concatenate([q[:3] + quaternion.rotate(q[3:], step), turn])

    def difference(self, q0, q1):
        angular = quaternion.log(quaternion.multiply(quaternion.conjugate(q0[3:]), q1[3:]))
        step = vecmat(q1[:3] - q0[:3], quaternion.to_matrix(q0[3:]))
        return jnp.concatenate([angular, matvec(SO3.dexp_left_inverse(angular), step)])

    def configuration_velocity(self, q, rate):
        linear = vecmat(rate[:3], quaternion.to_matrix(q[3:]))
        return jnp.concatenate([quaternion.angular_velocity(q[3:], rate[3:]), linear])

    def configuration_rate(self, q, v):
        return jnp.concatenate([quaternion.rotate(q[3:], v[3:]), quaternion.derivative(q[3:], v[:3])])

    def chart_velocity(self, q, dv, rate):
        return matvec(SE3.dexp_right(dv), rate)

    def chart_rate(self, q, dv, v):
        return matvec(SE3.dexp_right_inverse(dv), v)

    def random(self, key):
        place, turn = jax.random.split(key)
        return jnp.concatenate(
            [jax.random.uniform(place, (3,), minval=-1.0, maxval=1.0), quaternion.random(turn)]
        )
