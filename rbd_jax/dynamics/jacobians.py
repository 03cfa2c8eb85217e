"""Body Jacobians and their time derivatives (book §2.7, §2.11, §4.1.4), as array expressions over the columns."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import body_name, configuration, frame_name, space_point, takes, velocity
from .._core.array import cross, transpose
from ..model import Model
from ..spatial import cross_motion, motion_shift
from ..spatial.transform import Transform
from .columns import from_columns
from .kinematics import Frame
from .motion import Motion


@takes(q=configuration, body=body_name, point=space_point, frame=frame_name)
def jacobian(
    model: Model,
    q: Float[Array, "nq"],
    body: str | int,
    point: Float[Array, "3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "6 nv"]:
    """Returns the Jacobian J of a body: `J v` is its spatial velocity `[ω; v]` (eqs. 2.18, 4.6).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      body: Name or index of the body.
      point: The point of the linear velocity, in the body's frame. Default: the body's origin; for `"world"`, the point of the
        body at the world's origin.
      frame: `"world"` and `"world_aligned"` for the world's axes, `"body"` for the body's.

    Returns:
      The Jacobian, shape (6, nv).

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> tip = jnp.array([0.0, 0.0, -1.0])
    >>> print(rbd.jacobian(model, q, "lower", tip)[3:])  # of the velocity of a point
    [[-0.948 -0.071]
     [ 0.     0.   ]
     [ 1.477  0.997]]
    """
    return body_jacobian(Motion(model, q), body, point, frame)


@takes(q=configuration, v=velocity, body=body_name, point=space_point, frame=frame_name)
def jacobian_derivative(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    body: str | int,
    point: Float[Array, "3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "6 nv"]:
    """Returns the time derivative of `jacobian(model, q, body, point, frame)` at the velocity `v` (eqs. 2.57, 5.5).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      body: Name or index of the body.
      point: As for `jacobian`.
      frame: As for `jacobian`.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> tip = jnp.array([0.0, 0.0, -1.0])
    >>> print(rbd.jacobian_derivative(model, q, v, "lower", tip)[3:])
    [[3.472 2.992]
     [0.    0.   ]
     [1.09  0.212]]
    """
    return body_jacobian_derivative(Motion(model, q, v), body, point, frame)


def body_jacobian(
    motion: Motion, body: str | int, point=None, frame: Frame = "world"
) -> Float[Array, "6 nv"]:
    """Computes `jacobian` for a model in motion."""
    columns = jnp.where(_supports(motion.model, body)[:, None], motion.common.subspace, 0)
    reference = _reference(motion, body, point, frame)
    return transpose(from_columns(motion.model, reference.inverse_motion(columns)))


def body_jacobian_derivative(
    motion: Motion, body: str | int, point=None, frame: Frame = "world"
) -> Float[Array, "6 nv"]:
    """Computes `jacobian_derivative` for a model in motion."""
    model = motion.model
    supports = _supports(model, body)[:, None]
    columns = jnp.where(supports, motion.common.subspace, 0)
    rates = jnp.where(supports, motion.subspace_rates, 0)
    carrier = model.topology.carriers[model.body_index(body)]
    velocity = motion.velocities[carrier] if carrier >= 0 else jnp.zeros(6, motion.q.dtype)
    reference = _reference(motion, body, point, frame)
    if frame == "body":
        rates = rates - cross_motion(velocity, columns)
    elif not (frame == "world" and point is None):
        # The reference point moves with the body; the axes are constant.
        moving = motion_shift(velocity, reference.position)[3:]
        rates = rates.at[:, 3:].add(-cross(moving, columns[:, :3]))
    return transpose(from_columns(model, reference.inverse_motion(rates)))


def _supports(model: Model, body) -> jnp.ndarray:
    """Returns which columns move the body: (n,)."""
    topology = model.topology
    carrier = topology.carriers[model.body_index(body)]
    if carrier < 0:
        return jnp.zeros(topology.tree.size, bool)
    return jnp.asarray(topology.tree.supports[topology.last_column[carrier]])


def _reference(motion: Motion, body, point, frame: Frame) -> Transform:
    """Returns the axes and the reference point of the Jacobian, in the common frame of the body's tree."""
    index = motion.model.body_index(body)
    placement = motion.frames[index]
    axes = placement.rotation if frame == "body" else jnp.eye(3, dtype=placement.rotation.dtype)
    if point is not None:
        return Transform(axes, placement.point(point))
    if frame == "world":
        carrier = motion.model.topology.carriers[index]
        origin = motion.common.origins[carrier] if carrier >= 0 else jnp.zeros(3, axes.dtype)
        return Transform(axes, -origin)
    return Transform(axes, placement.position)
