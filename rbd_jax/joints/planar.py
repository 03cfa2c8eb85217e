"""The planar joint: free motion in a plane (book table 4.1; without the turn, Sueda eqs. 2.25, 2.26).

The position is in the predecessor frame and the velocity in the successor frame, as in the book's example 4.5. With
these the motion subspace is constant and `θ̇ = ω`, `d/dt (x, y) = R(θ) (v_x, v_y)`. The book's own relation, and the one
implied by its table 4.1, have additional terms in ω, which are wrong.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import direction
from .._core.array import blocks, cross, dot, matrix, matvec, vecmat
from ..lie import SE3, SO3
from ..spatial import planar
from ..spatial.transform import Transform
from ._joint import ConstantSubspaceJoint
from .revolute import turn


class Planar(ConstantSubspaceJoint):
    """Motion in the plane orthogonal to `normal`, and rotation about the normal.

    `q = (θ, x, y)`: the angle, and the position in the predecessor frame along two fixed directions of the plane (the
    x and y axes if the normal is z). `v = (ω, v_x, v_y)`: the turn rate, and the velocity along the same directions of
    the successor. At a constant velocity the body moves on a circle.

    >>> joint = rbd.joints.Planar()
    >>> q = jnp.array([jnp.pi / 2, 1.0, 0.0])
    >>> print(joint.integrate(q, jnp.array([0.0, 0.5, 0.0])))  # forwards, where the body looks: along y
    [1.571 1.    0.5  ]
    """

    normal: Float[Array, "3"]

    nv = 3

    def __init__(self, normal=(0.0, 0.0, 1.0)):
        self.normal = direction("Planar", normal, "normal")

    def transform(self, q):
        return Transform(turn(self.normal, q[0]), matvec(plane(self.normal), q[1:]))

    def in_plane(self, q, axes):
        angle = dot(cross(axes[0], axes[1]), self.normal) * q[0]
        return planar.Transform.from_angle(angle, matvec(axes, matvec(plane(self.normal), q[1:])))

    def columns(self):
        directions, normal = plane(self.normal), self.normal[:, None]
        return blocks(normal, jnp.zeros_like(directions), jnp.zeros_like(normal), directions)

    def integrate(self, q, dv):
        step = matvec(SO3.dexp_left(_about_z(dv[0]))[:2, :2], dv[1:])
        return jnp.concatenate([q[:1] + dv[:1], q[1:] + matvec(_rotation(q[0]), step)])

    def difference(self, q0, q1):
        """Returns the velocity; the angle counts full turns. After exact full turns, only the start point is reachable."""
        angle = q1[0] - q0[0]
        step = vecmat(q1[1:] - q0[1:], _rotation(q0[0]))
        return jnp.concatenate([angle[None], matvec(SO3.dexp_left_inverse(_about_z(angle))[:2, :2], step)])

    def chart_velocity(self, q, dv, rate):
        return matvec(SE3.dexp_right(_twist(dv))[2:5, 2:5], rate)

    def chart_rate(self, q, dv, v):
        return matvec(SE3.dexp_right_inverse(_twist(dv))[2:5, 2:5], v)

    def random(self, key):
        return jax.random.uniform(key, (3,), minval=-1.0, maxval=1.0) * jnp.array([jnp.pi, 1.0, 1.0])


def plane(normal: Float[Array, "3"]) -> Float[Array, "3 2"]:
    """Returns two unit vectors that complete `normal` to a right-handed frame; x and y for z (Duff et al. 2017)."""
    x, y, z = normal
    side = jnp.where(z < 0, -1, 1).astype(normal.dtype)
    a = -1 / (side + z)
    b = x * y * a
    return matrix([[1 + side * x * x * a, b], [side * b, side + y * y * a], [-side * x, -y]])


def _rotation(angle):
    c, s = jnp.cos(angle), jnp.sin(angle)
    return matrix([[c, -s], [s, c]])


def _about_z(angle):
    return jnp.stack([jnp.zeros_like(angle), jnp.zeros_like(angle), angle])


def _twist(dv):
    """Returns the planar motion as a spatial twist: the group is the part of SE(3) with these three entries."""
    return jnp.pad(dv, (2, 1))
