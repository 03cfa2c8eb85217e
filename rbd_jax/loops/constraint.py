"""Base class of constraints: equations between frames on bodies and coordinates of joints."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import matmul, matvec, skew
from ..spatial.attached import Attached
from ..spatial.transform import Transform


class Constraint(Attached):
    """`rows` equations `residual = 0` between frames on some bodies and the coordinates of some joints.

    A new type sets `bodies`, `frames` and `joints`, and implements `rows` and `residual`. The rates of the residual follow by
    automatic differentiation along the motion of the frames.

    - `bodies`: The names of the bodies, or "world".
    - `frames`: A frame on each of them, (k,).
    - `joints`: The names of joints with one degree of freedom.

    A `rheonomic` constraint also has a `time`.

    >>> pin = rbd.constraints.Connect("world", (0.0, 0.0, -2.0), "lower", (0.0, 0.0, -1.0))
    >>> print(isinstance(pin, rbd.constraints.Constraint), pin.rows, pin.bodies)
    True 3 ('world', 'lower')
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    frames: Transform
    joints: tuple[str, ...] = eqx.field(static=True)

    role = "constraint"

    if TYPE_CHECKING:  # a subclass may use a plain number, which is not an error
        rows: ClassVar[int]
    else:

        @property
        @abc.abstractmethod
        def rows(self) -> int:
            """The number of equations."""

    if TYPE_CHECKING:
        angles: ClassVar[tuple[bool, ...]]
    else:

        @property
        def angles(self) -> tuple[bool, ...]:
            """A flag per equation: True for an angle or a joint coordinate, False for a length.

            By default all equations are of lengths, or of coordinates if the constraint has no bodies.
            """
            return (not self.bodies,) * self.rows

    if TYPE_CHECKING:
        holonomic: ClassVar[tuple[bool, ...]]
    else:

        @property
        def holonomic(self) -> tuple[bool, ...]:
            """A flag per equation: True for a position constraint, False for a constraint on velocities alone.

            Velocity constraints are given by `rate` and have a residual of zero. By default all are position constraints.
            """
            return (True,) * self.rows

    @abc.abstractmethod
    def residual(self, placements: Transform, coordinates: Float[Array, "j"]) -> Float[Array, "rows"]:
        """Returns the residual of the equations; zero for constraints on velocities alone.

        Args:
          placements: The frames, in the world's axes, from an origin that must not matter.
          coordinates: The coordinates of the joints.
        """

    def rate(
        self, placements: Transform, coordinates, twists: Float[Array, "k 6"], speeds: Float[Array, "j"]
    ) -> Float[Array, "rows"]:
        """Returns the rate of the residual; for velocity constraints, the expression that vanishes.

        The expression must be linear or affine in the velocities.

        Args:
          placements: The frames, as for `residual`.
          coordinates: The coordinates of the joints.
          twists: The velocities of the frames, each in its own axes.
          speeds: The rates of the coordinates.
        """
        moving = moving_frames(placements, twists)
        if not self.rheonomic:
            return jax.jvp(self.residual, (placements, coordinates), (moving, speeds))[1]

        def at(time, placements, coordinates):
            return self.at_time(time).residual(placements, coordinates)

        time = self.time  # pyright: ignore[reportAttributeAccessIssue]
        return jax.jvp(at, (time, placements, coordinates), (jnp.ones_like(time), moving, speeds))[1]

    def jacobian(self, placements: Transform, coordinates) -> tuple[Array, Array]:
        """Returns the derivatives of `rate` by `twists`, (rows, k, 6), and by `speeds`, (rows, j)."""
        still = jnp.zeros((placements.position.shape[0], 6), placements.position.dtype)
        rates = jax.jacfwd(lambda *motion: self.rate(placements, coordinates, *motion), (0, 1))
        return rates(still, jnp.zeros_like(coordinates))

    def bias(self, placements: Transform, coordinates, twists, speeds, accelerations) -> Float[Array, "rows"]:
        """Returns the rate of `rate` for twists that change at `accelerations` and constant speeds."""
        moving, still = moving_frames(placements, twists), jnp.zeros_like(speeds)
        motion, change = (placements, coordinates, twists, speeds), (moving, speeds, accelerations, still)
        if not self.rheonomic:
            return jax.jvp(self.rate, motion, change)[1]

        def at(time, *motion):
            return self.at_time(time).rate(*motion)

        time = self.time  # pyright: ignore[reportAttributeAccessIssue]
        return jax.jvp(at, (time, *motion), (jnp.ones_like(time), *change))[1]

    def fault(self, carriers: Sequence[int]) -> str | None:
        if len(set(self.bodies)) < len(self.bodies):
            return "a body cannot be constrained against itself; name two bodies"
        if len(self.bodies) > 1 and len(set(carriers)) == 1:
            return "the bodies cannot move against each other, since they are welded together; there is nothing to constrain"
        return None


def moving_frames(placements: Transform, twists) -> Transform:
    """Returns the rates of rotations and positions of frames that move at `twists`, in their own axes."""
    turning = matmul(placements.rotation, skew(twists[..., :3]))
    return Transform(turning, matvec(placements.rotation, twists[..., 3:]))
