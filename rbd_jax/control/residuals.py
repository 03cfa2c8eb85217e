"""Common residuals of a robot: postures, efforts, positions and orientations, center of mass, clearance.

Errors of frames are in the axes of the target; velocities and momenta in the world's. All can be part of costs, constraints,
inverse kinematics and controllers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import direction, instance, names, rotation, vector
from .._core.array import floating, gather, matmul, matvec, skew, transpose
from ..contact.apart import distances
from ..contact.pairs import Touching, between, touching
from ..dynamics import Motion
from ..dynamics.centroidal import center_of, momentum_about_center
from ..lie import SE3, SO3
from ..spatial.transform import Transform
from .places import Located, Place
from .residual import Residual


class Posture(Residual):
    """The difference of the joints from a configuration: `q ⊖ target`, of all joints or some.

    - `target`: a configuration, by default the neutral one.
    - `joints`: by name; by default all.

    >>> rest = 1e-2 * rbd.control.Posture(joints=["joint1", "joint2"])
    """

    target: Float[Array, "*knots nq"] | None
    joints: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, target: Any = None, joints: str | Sequence[str] | None = None):
        self.target = None if target is None else floating(target)
        self.joints = None if joints is None else names("control.Posture", "joints", joints)

    def __call__(self, knot):
        q = knot.state.q
        target = _target("control.Posture", self.target, knot.neutral, "of the model's configurations")
        return knot.of_joints(knot.system.difference(target, q), self.joints)

    def jacobian(self, knot):
        if not knot.flat:
            return super().jacobian(knot)
        eye = jnp.eye(knot.state.v.size, dtype=knot.state.q.dtype)
        return eye if self.joints is None else gather(eye, knot.system.dof(self.joints))


class Velocity(Residual):
    """The velocity of the joints less a target, of all joints or some.

    - `target`: by default zero.
    - `joints`: by name; by default all.

    >>> model = rbd.load("double_pendulum")
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(2)), rbd.State(jnp.zeros(2), jnp.array([1.0, 2.0]))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.Velocity()(knot), rbd.control.Velocity(joints="elbow")(knot))
    [1. 2.] [2.]
    """

    target: Float[Array, "*knots nv"] | None
    joints: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, target: Any = None, joints: str | Sequence[str] | None = None):
        self.target = None if target is None else floating(target)
        self.joints = None if joints is None else names("control.Velocity", "joints", joints)

    def __call__(self, knot):
        v = knot.of_joints(knot.state.v, self.joints)
        return v - _target("control.Velocity", self.target, jnp.zeros_like(v), "of the velocities")


class Effort(Residual):
    """The control, less a target.

    - `target`: by default zero.

    >>> system = rbd.simulate.system_of(rbd.load("pendulum"), jnp.zeros(1))
    >>> state = rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, jnp.array([3.0]))
    >>> print(rbd.control.Effort(target=jnp.array([1.0]))(knot))
    [2.]
    """

    target: Float[Array, "*knots nu"] | None

    def __init__(self, target: Any = None):
        self.target = None if target is None else floating(target)

    def __call__(self, knot):
        u = knot.control
        return u - _target("control.Effort", self.target, jnp.zeros_like(u), "of the control")


class Position(Residual):
    """The position of a place of the robot in the world less a target: 3 numbers in m.

    - `place`: the name of a site or a body, or `rbd.sensors.OnBody(body, placement)`.
    - `target`: a point, by default the world's origin.

    >>> reach = rbd.control.Position("tool", jnp.array([0.4, 0.0, 0.5]))
    """

    place: Located
    target: Float[Array, "*knots 3"]

    def __init__(self, place: Place, target: Any = (0.0, 0.0, 0.0)):
        self.place, self.target = Located("control.Position", place), _points("control.Position", target)

    def __call__(self, knot):
        position = self.place.frame(knot.motion).position
        return position - _target("control.Position", self.target, position, "of a point")

    def jacobian(self, knot):
        return knot.along(self.place.jacobian(knot.motion))[3:]


class Orientation(Residual):
    """The orientation of a place of the robot relative to a target: `log(Rᵀ_target R)`, 3 numbers in rad.

    - `place`: the name of a site or a body, or `rbd.sensors.OnBody(body, placement)`.
    - `target`: a rotation matrix, or a `Transform` whose rotation counts.

    >>> model = rbd.load("pendulum")
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(1)), rbd.State(jnp.array([0.3]), jnp.zeros(1))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.Orientation("bob", jnp.eye(3))(knot))
    [0.  0.3 0. ]
    """

    place: Located
    target: Float[Array, "*knots 3 3"]

    def __init__(self, place: Place, target: Any):
        target = target.rotation if isinstance(target, Transform) else target
        self.place = Located("control.Orientation", place)
        self.target = (
            floating(target) if np.ndim(target) != 2 else rotation("control.Orientation", "target", target)
        )

    def __call__(self, knot):
        frame = self.place.frame(knot.motion)
        target = _target("control.Orientation", self.target, frame.rotation, "of a rotation matrix")
        return SO3.log(matmul(transpose(target), frame.rotation))

    def jacobian(self, knot):
        turning = matmul(
            SO3.dexp_right_inverse(self(knot)), transpose(self.place.frame(knot.motion).rotation)
        )
        return matmul(turning, knot.along(self.place.jacobian(knot.motion))[:3])


class Pose(Residual):
    """The pose of a place of the robot relative to a target: the twist `log(T⁻¹_target T)`, 6 numbers in rad and m.

    - `place`: the name of a site or a body, or `rbd.sensors.OnBody(body, placement)`.
    - `target`: a `Transform`.

    The angles come first.

    >>> model = rbd.load("arm7")
    >>> there = rbd.forward_kinematics(model, rbd.neutral(model))[model.body_index("tool")]
    >>> reach = rbd.control.Pose("tool", there)
    """

    place: Located
    target: Transform

    def __init__(self, place: Place, target: Transform):
        instance("control.Pose", "target", target, Transform, "a Transform")
        self.place, self.target = Located("control.Pose", place), target

    def __call__(self, knot):
        frame = self.place.frame(knot.motion)
        rotation = _target("control.Pose", self.target.rotation, frame.rotation, "of a rotation matrix")
        position = _target("control.Pose", self.target.position, frame.position, "of a point")
        return SE3.log(Transform(rotation, position).inverse() @ frame)

    def jacobian(self, knot):
        rotation = transpose(self.place.frame(knot.motion).rotation)
        own = Transform(rotation, jnp.zeros(3, rotation.dtype)).motion_matrix
        return matmul(
            SE3.dexp_right_inverse(self(knot)), matmul(own, knot.along(self.place.jacobian(knot.motion)))
        )


class Pointing(Residual):
    """The direction of an axis of a place less a target: 3 numbers, the difference of unit vectors.

    - `axis`: in the axes of the place.
    - `target`: a direction in the world.

    >>> level = rbd.control.Pointing("trunk", axis=(0, 0, 1), target=(0, 0, 1))
    """

    place: Located
    axis: Float[Array, "3"]
    target: Float[Array, "3"]

    def __init__(self, place: Place, axis: Any, target: Any):
        self.place = Located("control.Pointing", place)
        self.axis = direction("control.Pointing", axis)
        self.target = direction("control.Pointing", target, "target")

    def __call__(self, knot):
        frame = self.place.frame(knot.motion)
        dtype = frame.rotation.dtype
        return matvec(frame.rotation, self.axis.astype(dtype)) - self.target.astype(dtype)

    def jacobian(self, knot):
        rotation = self.place.frame(knot.motion).rotation
        axis = matvec(rotation, self.axis.astype(rotation.dtype))
        return -matmul(skew(axis), knot.along(self.place.jacobian(knot.motion))[:3])


class Twist(Residual):
    """The velocity `[ω; v]` of a place about its origin, in the world's axes, less a target: 6 numbers.

    - `target`: by default zero.

    >>> model = rbd.load("double_pendulum")
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(2)), rbd.State(jnp.zeros(2), jnp.array([1.0, 0.0]))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.Twist("lower")(knot))
    [ 0.  1.  0. -1.  0.  0.]
    """

    place: Located
    target: Float[Array, "*knots 6"]

    def __init__(self, place: Place, target: Any = (0.0,) * 6):
        self.place, self.target = Located("control.Twist", place), floating(target)

    def __call__(self, knot):
        velocity = self.place.velocity(knot.motion)
        return velocity - _target("control.Twist", self.target, velocity, "of a twist")


class CenterOfMass(Residual):
    """The position of the center of mass of all bodies in the world less a target: 3 numbers in m.

    - `target`: a point, by default the world's origin.

    >>> model = rbd.load("double_pendulum")
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(2)), rbd.State(jnp.zeros(2), jnp.zeros(2))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.CenterOfMass(target=(0.0, 0.0, -1.0))(knot))
    [ 0.   0.  -0.5]
    """

    target: Float[Array, "*knots 3"]

    def __init__(self, target: Any = (0.0, 0.0, 0.0)):
        self.target = _points("control.CenterOfMass", target)

    def __call__(self, knot):
        center = center_of(knot.motion)
        return center - _target("control.CenterOfMass", self.target, center, "of a point")


class Momentum(Residual):
    """The momentum `[k; l]` of all bodies about their center of mass less a target: 6 numbers.

    - `target`: by default zero.

    >>> model = rbd.load("double_pendulum")
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(2)), rbd.State(jnp.zeros(2), jnp.array([1.0, 0.0]))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.Momentum()(knot))
    [ 0.     0.502  0.    -3.     0.     0.   ]
    """

    target: Float[Array, "*knots 6"]

    def __init__(self, target: Any = (0.0,) * 6):
        self.target = floating(target)

    def __call__(self, knot):
        momentum = momentum_about_center(knot.motion)
        return momentum - _target("control.Momentum", self.target, momentum, "of a momentum")


class Clearance(Residual):
    """The distances between shapes, in m; negative for overlaps. As a constraint: `Constraint(Clearance(), lower=0.01)`.

    - `pairs`: pairs of names of shapes; by default all pairs that can be in contact.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0.0, 0.0, -1.0))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1.0, 1.0)), (0.5, 0.0, -1.0))
    >>> model = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(1)), rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.Clearance([("ball", "wall")])(knot))
    [0.3]
    """

    pairs: tuple[tuple[str, str], ...] | None = eqx.field(static=True)

    def __init__(self, pairs: Sequence[tuple[str, str]] | None = None):
        self.pairs = (
            None if pairs is None else tuple(names("control.Clearance", "pairs", pair, 2) for pair in pairs)  # pyright: ignore[reportAttributeAccessIssue]
        )

    def __call__(self, knot):
        return distances(knot.motion, self._pairs(knot.motion))

    def _pairs(self, motion: Motion) -> Sequence[Touching]:
        if self.pairs is None:
            return touching(motion.model)
        return [between(motion.model, *pair, owner="control.Clearance") for pair in self.pairs]


def _points(owner: str, target: Any) -> Array:
    return floating(target) if np.ndim(target) == 2 else vector(owner, "target", target)


def _target(owner: str, target: Array | None, like: Array, what: str) -> Array:
    """Returns a target in the precision of the value that it is for, after a check of its shape."""
    if target is None:
        return like
    if target.shape != like.shape:
        raise ValueError(
            f"{owner}: target has shape {target.shape}; the shape {what} is {like.shape}. For targets that change from "
            "knot to knot, use control.Along(residual)."
        )
    return target.astype(like.dtype)
