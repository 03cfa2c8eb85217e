"""Loop joints: any joint, closing a loop (book §8.2, §8.3).

The constraint requires a relative placement of two frames that the joint can produce. For the joints of table 4.1 the
residual is known (table 8.1, with the sine of an angle replaced by the angle if all rotation is fixed). For any other
joint the closest configuration is computed, and the residual is the remaining difference in the directions in which the joint
does not move.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import joints
from .._core.arguments import instance, number
from .._core.array import complement, dot, matmul, matvec, transpose, unskew, vecmat
from ..joints import ConstantSubspaceJoint, Joint
from ..lie import SO3
from ..spatial.transform import Transform
from .closest import closest
from .relative import RelativeConstraint, across, along_turn, misplaced, tilt


class LoopJoint(RelativeConstraint):
    """`frame_b` of `body_b` moves relative to `frame_a` of `body_a` as `joint` allows: `6 - nv` rows.

    `frame_a` is the joint's predecessor, `frame_b` its successor. The joint has no coordinates in the model.

    >>> frame = rbd.Transform.from_position
    >>> slot = rbd.constraints.LoopJoint(
    ...     "world", frame(jnp.array([0.0, 0.0, -1.5])), "lower", frame(jnp.array([0.0, 0.0, -1.0])), rbd.joints.Planar()
    ... )
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slot)
    >>> print(rbd.constraint_residual(model, jnp.array([0.0, 0.0])))  # three rows: two turns and the height
    [ 0.   0.  -0.5]
    """

    joint: Joint
    time: Float[Array, ""]

    def __init__(self, body_a: str, frame_a, body_b: str, frame_b, joint: Joint):
        instance("LoopJoint", "joint", joint, Joint, "an instance of rbd.joints.Joint")
        self.attach(body_a, frame_a, body_b, frame_b)
        self.joint = joint
        self.time = number("LoopJoint", "time", 0.0, dtype=self.frames.position.dtype)

    @property
    def rows(self):
        return 6 - self.joint.nv

    @property
    def angles(self):
        angles = ANGLES.get(type(self.joint), ()) if self.joint.nv else TURNS
        return tuple(row in angles for row in range(self.rows))

    @property
    def meets(self):
        return isinstance(self.joint, MEETING)

    @property
    def rheonomic(self):
        return self.joint.rheonomic

    def at_time(self, time):
        if not self.rheonomic:
            return self
        return self.changed(joint=self.joint.at_time(time), time=jnp.asarray(time, self.time.dtype))

    def deviation(self, relative):
        return deviation(self.joint, relative)

    def configuration(self, relative: Transform) -> Float[Array, "nq"]:
        """Returns the coordinates of the joint for this placement of its successor; the nearest if none matches."""
        if self.joint.nv == 0:
            return self.joint.neutral().astype(relative.position.dtype)
        return closest(off_joint, self.joint, relative)

    def active_forces(self, relative: Transform) -> Float[Array, "6 nv"]:
        """Returns `T_a`, wrenches on the successor, in its frame: unit forces along the joint, `T_aᵀ S = 1` (eq. 3.35).

        The choice is `S (Sᵀ S)⁻¹`. Another choice would change the bearing forces of the joint, but not the motion.
        """
        # If S is constant, the coordinates, which require a search, do not matter.
        known = isinstance(self.joint, ConstantSubspaceJoint)
        at = self.joint.neutral().astype(relative.position.dtype) if known else self.configuration(relative)
        subspace = self.joint.motion_subspace(at)
        return matmul(subspace, jnp.linalg.inv(matmul(transpose(subspace), subspace)))

    @property
    def label(self):
        return f"LoopJoint({', '.join(map(repr, self.bodies))}, {type(self.joint).__name__})"


#: Joints that keep the origins of their frames together.
MEETING = (
    joints.Fixed,
    joints.Revolute,
    joints.Spherical,
    joints.SphericalEuler,
    joints.SphericalExponential,
    joints.Universal,
)

#: The rows that are angles: the first three for a joint that fixes everything, and these for the others. Rows from the closest
#: configuration mix both and count as lengths.
TURNS = (0, 1, 2)
ANGLES = {
    **dict.fromkeys((joints.Prismatic, joints.Translational), TURNS),
    **dict.fromkeys((joints.Revolute, joints.Cylindrical, joints.Helical, joints.RackAndPinion), (0, 1)),
    joints.Planar: (0, 1),
    joints.Universal: (3,),
}


@functools.singledispatch
def deviation(joint: Joint, relative: Transform) -> Float[Array, "rows"]:
    """Returns the difference between a placement and those that the joint can produce: `6 - nv` numbers.

    For joints in `MEETING` the position may be in any axes.
    """
    dtype = relative.position.dtype
    if joint.nv == 0:
        return misplaced(joint.transform(joint.neutral().astype(dtype)).inverse() @ relative)
    if joint.nv == 6:
        return jnp.zeros(0, dtype)
    d, directions, _ = off_joint(joint, closest(off_joint, joint, relative), relative)
    return vecmat(d, complement(directions))


def off_joint(joint: Joint, q, relative: Transform):
    """Returns the difference of a placement from the joint's at q, the joint's directions, and the squared distance."""
    left = joint.transform(q).inverse() @ relative
    # The sine of the angle, since splines are slow to differentiate, and with a logarithm twice as slow.
    d = jnp.concatenate([unskew(left.rotation), left.position])
    lost = 0.5 * (3 - jnp.trace(left.rotation))  # 1 - cos of the angle
    return d, joint.motion_subspace(q), jnp.sum(d**2) + lost**2


@deviation.register
def _(joint: joints.Fixed, relative):
    return misplaced(relative)


@deviation.register
def _(joint: joints.Revolute, relative):
    return jnp.concatenate([tilt(relative, joint.axis), relative.position])


@deviation.register
def _(joint: joints.Prismatic, relative):
    return jnp.concatenate([SO3.log(relative.rotation), across(relative.position, joint.axis)])


@deviation.register
def _(joint: joints.Helical, relative):
    slide = dot(relative.position, joint.axis)
    rest = tilt(relative, joint.axis), across(relative.position, joint.axis)
    return jnp.concatenate([*rest, along_turn(slide, relative, joint.axis, joint.pitch)])


@deviation.register
def _(joint: joints.Cylindrical, relative):
    return jnp.concatenate([tilt(relative, joint.axis), across(relative.position, joint.axis)])


@deviation.register
def _(joint: joints.Planar, relative):
    return jnp.concatenate([tilt(relative, joint.normal), dot(relative.position, joint.normal)[None]])


@deviation.register
def _(joint: joints.Translational, relative):
    return SO3.log(relative.rotation)


@deviation.register(joints.Spherical)
@deviation.register(joints.SphericalEuler)
@deviation.register(joints.SphericalExponential)
def _(joint, relative):
    return relative.position


@deviation.register
def _(joint: joints.Universal, relative):
    between = dot(joint.axis1, matvec(relative.rotation, joint.axis2)) - dot(joint.axis1, joint.axis2)
    return jnp.concatenate([relative.position, between[None]])


@deviation.register
def _(joint: joints.RackAndPinion, relative):
    axis = jnp.array([0, 0, 1], relative.position.dtype)
    rolled = along_turn(relative.position[0], relative, axis, joint.radius)
    return jnp.concatenate([tilt(relative, axis), relative.position[1:], rolled])
