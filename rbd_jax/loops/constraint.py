"""What a constraint is: equations between frames on bodies and coordinates of joints."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import matmul, matvec, skew
from ..spatial import Transform


class Constraint(eqx.Module):
    """`rows` equations `residual = 0` between frames on some bodies and the coordinates of some joints.

    A new family sets `bodies`, `frames` and `joints`, and implements `rows` and `residual`. The rates of the residual come by
    automatic differentiation along the motion of the frames.

    - `bodies`: the names of the bodies, or "world".
    - `frames`: a frame on each of them, (k,).
    - `joints`: the names of joints with one freedom.
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    frames: Transform
    joints: tuple[str, ...] = eqx.field(static=True)

    #: Whether the constraint changes by itself as time passes. Such a constraint has a `time`.
    rheonomic: ClassVar[bool] = False

    if TYPE_CHECKING:  # a family may give a plain number, which is no error
        rows: ClassVar[int]
    else:

        @property
        @abc.abstractmethod
        def rows(self) -> int:
            """The number of equations."""

    @abc.abstractmethod
    def residual(self, placements: Transform, coordinates: Float[Array, "j"]) -> Float[Array, "rows"]:
        """How much the equations are broken.

        **Arguments**

        - `placements`: of the frames, in the world's axes, from an origin that must not matter.
        - `coordinates`: of the joints.
        """

    def at_time(self, time: Float[Array, ""]) -> Constraint:
        """The constraint as it is at that time; itself unless it is `rheonomic`."""
        return self

    def rate(
        self, placements: Transform, coordinates, twists: Float[Array, "k 6"], speeds: Float[Array, "j"]
    ) -> Float[Array, "rows"]:
        """The rate of the residual, while the frames move at `twists`, each in its own axes, and the coordinates at `speeds`."""
        moving = moving_frames(placements, twists)
        if not self.rheonomic:
            return jax.jvp(self.residual, (placements, coordinates), (moving, speeds))[1]

        def at(time, placements, coordinates):
            return self.at_time(time).residual(placements, coordinates)

        time = self.time  # pyright: ignore[reportAttributeAccessIssue]
        return jax.jvp(at, (time, placements, coordinates), (jnp.ones_like(time), moving, speeds))[1]

    def jacobian(self, placements: Transform, coordinates) -> tuple[Array, Array]:
        """The derivatives of `rate` by `twists`, (rows, k, 6), and by `speeds`, (rows, j)."""
        still = jnp.zeros((placements.position.shape[0], 6), placements.position.dtype)
        rates = jax.jacfwd(lambda *motion: self.rate(placements, coordinates, *motion), (0, 1))
        return rates(still, jnp.zeros_like(coordinates))

    def bias(self, placements: Transform, coordinates, twists, speeds, accelerations) -> Float[Array, "rows"]:
        """The second rate of the residual with the twists changing at `accelerations`, and the speeds not at all."""
        moving, still = moving_frames(placements, twists), jnp.zeros_like(speeds)
        motion, change = (placements, coordinates, twists, speeds), (moving, speeds, accelerations, still)
        if not self.rheonomic:
            return jax.jvp(self.rate, motion, change)[1]

        def at(time, *motion):
            return self.at_time(time).rate(*motion)

        time = self.time  # pyright: ignore[reportAttributeAccessIssue]
        return jax.jvp(at, (time, *motion), (jnp.ones_like(time), *change))[1]

    @property
    def label(self) -> str:
        """The family and what it is attached to."""
        return f"{type(self).__name__}({', '.join(map(repr, (*self.bodies, *self.joints)))})"

    def attached(self, bodies: Iterable[str], frames: Transform, joints: Iterable[str]) -> Constraint:
        """The same constraint on other bodies and joints, or other frames of them."""
        return self.changed(bodies=tuple(bodies), frames=frames, joints=tuple(joints))

    def changed(self, **fields) -> Constraint:
        """The same constraint with other values in some fields."""
        other = copy.copy(self)
        for name, value in fields.items():
            object.__setattr__(other, name, value)  # a family's own __init__ asks for other things
        return other


def moving_frames(placements: Transform, twists) -> Transform:
    """The rates of rotations and positions of frames that move at `twists`, in their own axes."""
    turning = matmul(placements.rotation, skew(twists[..., :3]))
    return Transform(turning, matvec(placements.rotation, twists[..., 3:]))
