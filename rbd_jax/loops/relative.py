"""Constraints between two frames: functions of the placement of the second frame relative to the first.

This module has the common base class and three parts of residuals.
"""

from __future__ import annotations

import abc
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import as_array, number
from .._core.array import by_numpy, cross, matvec, vecmat
from .._core.errors import ModelError
from ..joints.planar import plane
from ..lie import SO3
from ..spatial.transform import Transform, rigid_fault
from .constraint import Constraint


class RelativeConstraint(Constraint):
    """A constraint on `frame_b` of `body_b` relative to `frame_a` of `body_a`.

    If the frames' origins must coincide, the residual has their difference in axes that do not rotate. Between the steps of an
    integrator, velocities violate constraints slightly. In the axes of a spinning body this adds Coriolis terms to the
    acceleration, and the energy error of a double pendulum is forty times as large.

    >>> class Level(rbd.constraints.RelativeConstraint):
    ...     rows = 1
    ...     def __init__(self, body_a, body_b):
    ...         self.attach(body_a, None, body_b, None)
    ...     def deviation(self, frame):
    ...         return frame.position[2:]
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), Level("world", "lower"))
    >>> print(rbd.constraint_residual(model, jnp.zeros(2)))
    [-1.]
    """

    #: If True, the residual has all three components of the position.
    meets: ClassVar[bool] = False

    def attach(self, body_a: str, frame_a, body_b: str, frame_b) -> None:
        """Sets the bodies and frames, for use in `__init__`. A frame is a `Transform`, a point, or None for the body's frame."""
        kind = type(self).__name__
        ends = [frame_on(kind, name, frame) for name, frame in (("a", frame_a), ("b", frame_b))]
        dtype = jnp.result_type(*(end.position for end in ends))
        self.bodies = (body_a, body_b)
        self.joints = ()
        both = lambda xp, *x: xp.stack([leaf.astype(dtype) for leaf in x])
        self.frames = jax.tree.map(functools.partial(by_numpy, both), *ends)

    @abc.abstractmethod
    def deviation(self, relative: Transform) -> Float[Array, "rows"]:
        """Returns the residual for the second frame placed in the first; if `meets`, the position is in non-rotating axes."""

    def residual(self, placements, coordinates):
        first, second = placements[0], placements[1]
        relative = first.inverse() @ second
        if self.meets:
            relative = Transform(relative.rotation, second.position - first.position)
        return self.deviation(relative)


def frame_on(kind: str, end: str, given) -> Transform:
    """Returns a frame on a body from a `Transform`, a point, or None."""
    if given is None:
        return Transform.identity(jnp.result_type(float))
    if isinstance(given, Transform):
        fault = rigid_fault(given)
        if fault is not None:
            raise ModelError(f"{kind}: frame_{end}: {fault}")
        rotation = number(kind, f"frame_{end}: its rotation", given.rotation, (3, 3))
        return Transform(
            rotation, number(kind, f"frame_{end}: its position", given.position, (3,), dtype=rotation.dtype)
        )
    try:
        given = as_array(kind, f"the frame on body {end}", given, "a Transform, a point or None")
    except ValueError as error:
        raise ModelError(str(error)) from None
    return Transform.from_position(number(kind, f"point_{end}", given, (3,)))


def misplaced(relative: Transform) -> Float[Array, "6"]:
    """Returns the rotation vector and the position: zero only if the frames coincide."""
    return jnp.concatenate([SO3.log(relative.rotation), relative.position])


def tilt(relative: Transform, axis: Float[Array, "3"]) -> Float[Array, "2"]:
    """Returns `a × R a` in the plane across the unit vector a: zero if the axes are parallel or opposite."""
    return vecmat(cross(axis, matvec(relative.rotation, axis)), plane(axis))


def across(vector: Float[Array, "3"], axis: Float[Array, "3"]) -> Float[Array, "2"]:
    """Returns the components of a vector across a unit vector."""
    return vecmat(vector, plane(axis))


def along_turn(slide, relative: Transform, axis: Float[Array, "3"], pitch) -> Float[Array, "1"]:
    """Returns `slide - pitch θ`, with θ the angle about the axis plus the number of full turns that fits best."""
    across_axis = plane(axis)
    turned = vecmat(matvec(relative.rotation, across_axis[:, 0]), across_axis)
    angle = jnp.arctan2(turned[1], turned[0])
    straight = pitch == 0
    ideal = slide / jnp.where(straight, 1, pitch)
    turns = jnp.where(straight, 0, jnp.round(jax.lax.stop_gradient(ideal - angle) / (2 * jnp.pi)))
    return (slide - pitch * (angle + 2 * jnp.pi * turns))[None]
