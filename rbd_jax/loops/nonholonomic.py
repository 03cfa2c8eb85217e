"""Velocity constraints that no position constraint implies (book §3.4, eq. 3.29).

Equations `A(q, t) v + b(q, t) = 0` restrict the motion of a mechanism but not the positions that it can reach: a rolling
sphere has three velocities and can reach every point of the plane in every orientation.
Their multipliers are forces that do no work if b is zero.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import cross, vecmat
from ..spatial.transform import Transform
from .relative import RelativeConstraint


class NonholonomicConstraint(RelativeConstraint):
    """A constraint on the velocity of `frame_b` of `body_b` relative to `frame_a` of `body_a`.

    A new type implements `rows` and `slip`. Rows that also constrain a position are marked in `holonomic`, and `deviation`
    returns that position; the slip of such a row must be its rate.

    >>> class Fin(rbd.constraints.NonholonomicConstraint):
    ...     rows = 1
    ...     def __init__(self, body):
    ...         self.attach("world", None, body, None)
    ...     def slip(self, relative, twist):
    ...         return relative.rotation[:, 2] @ twist[3:, None]  # it does not move along its own z axis
    >>> builder = rbd.ModelBuilder()
    >>> fish = builder.add_body("fish", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.5, 0.1, 0.2)))
    >>> model = rbd.add_constraints(builder.build(), Fin("fish"))
    >>> print(rbd.constraint_velocity(model, rbd.neutral(model), jnp.array([0.0, 0.0, 0.5, 1.0, 0.0, 0.2])))
    [0.2]
    """

    if not TYPE_CHECKING:  # a subclass may use plain values, which is not an error

        @property
        def holonomic(self):
            return (False,) * self.rows

    @abc.abstractmethod
    def slip(self, relative: Transform, twist: Float[Array, "6"]) -> Float[Array, "rows"]:
        """Returns the expression that vanishes, linear or affine in the twist.

        Args:
          relative: The second frame placed in the first.
          twist: Its velocity `[ω; v]` in the first frame's axes; v is the velocity of the second frame's origin.
        """

    def deviation(self, relative):
        return jnp.zeros(self.rows, relative.position.dtype)

    def rate(self, placements, coordinates, twists, speeds):
        first, second = placements[0], placements[1]
        turning, velocity = _in_common_axes(first, twists[0])
        own_turning, own_velocity = _in_common_axes(second, twists[1])
        carried = velocity + cross(turning, second.position - first.position)
        angular = vecmat(own_turning - turning, first.rotation)
        linear = vecmat(own_velocity - carried, first.rotation)
        return self.slip(first.inverse() @ second, jnp.concatenate([angular, linear]))


def _in_common_axes(frame: Transform, twist):
    """Returns the angular and the linear velocity of a frame in common axes, from its twist in its own axes."""
    return tuple(vecmat(part, frame.rotation.T) for part in (twist[:3], twist[3:]))
