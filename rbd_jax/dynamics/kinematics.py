"""Frames, velocities and accelerations of bodies (book §4.1, §4.2, §5.2)."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, frame_name, takes, velocity
from .._core.array import gather, gather_or_zero
from ..model import Model
from ..spatial import AnyTransform, motion_shift
from .motion import Motion


#: The frame of a spatial vector: the world's axes and origin; the body's own; or the world's axes at the body's origin.
Frame = Literal["world", "body", "world_aligned"]


@takes(planar=True, q=configuration)
def forward_kinematics(model: Model, q: Float[Array, "nq"]) -> AnyTransform:
    """Returns the frame of every body in the world, as a `Transform` with a leading axis of bodies.

    Book example 4.3; Sueda eq. 2.3.

    >>> model = rbd.load("double_pendulum")
    >>> frames = rbd.forward_kinematics(model, jnp.array([0.5, 1.0]))
    >>> print(frames.position)
    [[ 0.     0.     0.   ]
     [-0.479  0.    -0.878]]
    """
    return Motion(model, q).world_frames


@takes(planar=True, q=configuration, v=velocity, frame=frame_name)
def body_velocities(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], frame: Frame = "world"
) -> Float[Array, "nb d"]:
    """Returns the spatial velocity `[ω; v]` of every body, by default in the world's axes about the world's origin.

    Book eq. 4.4.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      frame: `"world"` is in the world's axes about the world's origin: the linear part is the velocity of the body's point
        there, not that of the body's own origin. For the velocity of the body's origin use `"world_aligned"`, in the world's
        axes, or `"body"`, in the body's axes.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.body_velocities(model, q, v, frame="world_aligned")[:, 3:])  # of the bodies' origins
    [[ 0.     0.     0.   ]
     [-0.878  0.     0.479]]
    """
    motion = Motion(model, q, v)
    return express_by_body(motion, motion.velocities, frame)


@takes(planar=True, q=configuration, v=velocity, a=velocity, frame=frame_name)
def body_accelerations(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], a: Float[Array, "nv"], frame: Frame = "world"
) -> Float[Array, "nb d"]:
    """Returns the spatial acceleration `J a + J̇ v` of every body, without gravity.

    It is by default in the world's axes about the world's origin. For the classical acceleration of a body's origin, use
    `frame="world_aligned"` and `spatial.classical_acceleration` with `body_velocities` in the same frame. Spatial
    accelerations differ from it by `ω × v`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).
      frame: As for `body_velocities`.

    >>> model, q, v, a = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0]), jnp.zeros(2)
    >>> print(rbd.body_accelerations(model, q, v, a, frame="body"))
    [[ 0.     0.     0.     0.     0.     0.   ]
     [ 0.     0.     0.     1.683  0.    -1.081]]
    """
    motion = Motion(model, q, v)
    accelerations = motion.accelerations(a, jnp.zeros(model.vector_size, q.dtype))
    return express_by_body(motion, gather(accelerations, model.topology.last_column), frame)


def express_by_body(motion: Motion, motions: Float[Array, "m d"], frame: Frame) -> Float[Array, "nb d"]:
    """Converts motions of the moving bodies from the common frame to motions of all bodies in `frame`; the world's are zero."""
    if frame == "body":
        return motion.in_bodies(motions)
    carriers = motion.model.topology.carriers
    rows = gather_or_zero(motions, carriers)
    if frame == "world":
        return motion_shift(rows, -gather_or_zero(motion.common.origins, carriers))
    return motion_shift(rows, motion.frames.position)
