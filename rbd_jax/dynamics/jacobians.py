"""Body Jacobians and their rates (book eqs. 2.18 and 4.6): plain array expressions over the columns."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import cross, transpose
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import Transform, cross_motion
from ._frame import CommonFrame, body_frames, from_columns, motion_shift, to_columns
from .kinematics import Frame


@takes_sample
def jacobian(
    model: Model,
    q: Float[Array, "nq"],
    body: str | int,
    point: Float[Array, "3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "6 nv"]:
    """J with `J v` the spatial velocity `[ω; v]` of a body.

    **Arguments**

    - `body`: its name or index.
    - `point`: the point of the body, in the body's frame, whose velocity the linear part is. By default the body's
      origin; for `"world"`, the body's point that passes the world's origin.
    - `frame`: `"world"` and `"world_aligned"` for the world's axes, `"body"` for the body's.
    """
    common = CommonFrame.at(model, q)
    columns = jnp.where(_supports(model, body)[:, None], common.subspace, 0)
    reference = _reference(model, common, body, point, frame)
    columns = reference.inverse_motion(columns)
    return transpose(from_columns(model, columns))


@takes_sample
def jacobian_derivative(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    body: str | int,
    point: Float[Array, "3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "6 nv"]:
    """The rate of `jacobian(model, q, body, point, frame)` while the model moves at `v`."""
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    supports = _supports(model, body)[:, None]
    columns = jnp.where(supports, common.subspace, 0)
    rates = jnp.where(supports, common.subspace_rates(model, q, v, velocities), 0)
    carrier = model.topology.carriers[model.body_index(body)]
    velocity = velocities[model.topology.last_column[carrier]] if carrier >= 0 else jnp.zeros(6, q.dtype)
    reference = _reference(model, common, body, point, frame)
    if frame == "body":
        rates = rates - cross_motion(velocity, columns)
    elif not (frame == "world" and point is None):
        # The reference point moves with the body while the axes stay.
        moving = motion_shift(velocity, reference.position)[3:]
        rates = rates.at[:, 3:].add(-cross(moving, columns[:, :3]))
    return transpose(from_columns(model, reference.inverse_motion(rates)))


def _supports(model: Model, body) -> jnp.ndarray:
    """Which columns move the body: (n,)."""
    topology = model.topology
    carrier = topology.carriers[model.body_index(body)]
    if carrier < 0:
        return jnp.zeros(topology.tree.size, bool)
    return jnp.asarray(topology.tree.supports[topology.last_column[carrier]])


def _reference(model: Model, common: CommonFrame, body, point, frame: Frame) -> Transform:
    """The axes and the point that the Jacobian is for, in the common frame of the body's tree."""
    index = model.body_index(body)
    placement = body_frames(model, common.placements, Transform.identity(common.subspace.dtype))[index]
    axes = placement.rotation if frame == "body" else jnp.eye(3, dtype=placement.rotation.dtype)
    if point is not None:
        return Transform(axes, placement.point(point))
    if frame == "world":
        carrier = model.topology.carriers[index]
        origin = common.origins[carrier] if carrier >= 0 else jnp.zeros(3, axes.dtype)
        return Transform(axes, -origin)
    return Transform(axes, placement.position)
