"""The spherical joint: all rotations about a point, stored as a quaternion (book table 4.1, eqs. 4.10 to 4.13)."""

from .._core.array import by_numpy, matvec
from ..lie import SO3, quaternion
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint


class Spherical(ConstantSubspaceJoint):
    """A ball joint. `q` is a quaternion `(w, x, y, z)`, `v` the angular velocity in the successor frame.

    The length of `q` does not matter; `integrate` returns unit length.

    >>> ball = rbd.joints.Spherical()
    >>> q = ball.integrate(ball.neutral(), jnp.array([0.0, 0.0, jnp.pi / 2]))
    >>> print(q, ball.transform(q).point(jnp.array([1.0, 0.0, 0.0])))
    [0.707 0.    0.    0.707] [0. 1. 0.]
    """

    nv = 3
    nq = 4
    quaternion = slice(0, 4)

    def transform(self, q):
        return Transform.from_rotation(quaternion.to_matrix(q))

    def columns(self):
        return by_numpy(lambda xp: xp.concatenate([xp.eye(3), xp.zeros((3, 3))]))

    def neutral(self):
        return by_numpy(lambda xp: xp.array([1.0, 0.0, 0.0, 0.0]))

    def integrate(self, q, dv):
        return quaternion.normalize(quaternion.multiply(q, quaternion.exp(dv)))

    def difference(self, q0, q1):
        return quaternion.log(quaternion.multiply(quaternion.conjugate(q0), q1))

    def configuration_velocity(self, q, rate):
        return quaternion.angular_velocity(q, rate)

    def configuration_rate(self, q, v):
        return quaternion.derivative(q, v)

    def chart_velocity(self, q, dv, rate):
        return matvec(SO3.dexp_right(dv), rate)

    def chart_rate(self, q, dv, v):
        return matvec(SO3.dexp_right_inverse(dv), v)

    def random(self, key):
        return quaternion.random(key)
