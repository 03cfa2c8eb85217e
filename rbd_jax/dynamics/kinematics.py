"""Where the bodies are and how they move (book §4.1, §5.2)."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import gather
from ..model import Model
from ..model._arguments import takes_sample
from ..spatial import Transform
from ._frame import CommonFrame, base_acceleration, body_frames, motion_shift, to_columns


#: What a spatial vector is expressed in: the world's axes and origin; the body's own; or the world's axes at the body's origin.
Frame = Literal["world", "body", "world_aligned"]


@takes_sample
def forward_kinematics(model: Model, q: Float[Array, "nq"]) -> Transform:
    """The frame of every body, in the world: a `Transform` with a leading axis of bodies."""
    frame = CommonFrame.at(model, q)
    placements = Transform(frame.placements.rotation, frame.placements.position + frame.origins)
    return body_frames(model, placements, Transform.identity(q.dtype))


@takes_sample
def body_velocities(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], frame: Frame = "world"
) -> Float[Array, "nb 6"]:
    """The spatial velocity `[ω; v]` of every body."""
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    return express_by_body(model, common, gather(velocities, model.topology.last_column), frame)


@takes_sample
def body_accelerations(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], a: Float[Array, "nv"], frame: Frame = "world"
) -> Float[Array, "nb 6"]:
    """The spatial acceleration `J a + J̇ v` of every body, gravity not mixed in.

    For the acceleration of a body's origin, as an accelerometer there would have it, take `frame="world_aligned"` and
    `spatial.classical_acceleration`.
    """
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    accelerations = column_accelerations(model, common, q, v, a, velocities, jnp.zeros(6, q.dtype))
    return express_by_body(model, common, gather(accelerations, model.topology.last_column), frame)


def column_accelerations(model: Model, common: CommonFrame, q, v, a, velocities, base) -> Float[Array, "n 6"]:
    """The acceleration of what each column moves: `a_λ + S q̈ + c_J + v × v_J` (eq. 5.15), from `base` on."""
    own = common.subspace * to_columns(model, a)[:, None]
    return base[None] + model.topology.tree.path_sum(own + common.velocity_products(model, q, v, velocities))


def biased_accelerations(model: Model, common: CommonFrame, q, v, a, velocities) -> Float[Array, "n 6"]:
    """`column_accelerations` with gravity mixed in as an acceleration of the world (book §5.3)."""
    return column_accelerations(model, common, q, v, a, velocities, base_acceleration(model))


def express_by_body(model: Model, common: CommonFrame, motions: Float[Array, "m 6"], frame: Frame):
    """Motions of the movers in the common frame as those of all bodies, in the frame asked for. The world has none."""
    topology = model.topology
    rows = gather(jnp.concatenate([motions, jnp.zeros((1, 6), motions.dtype)]), topology.carriers)
    if frame == "world":
        origins = gather(
            jnp.concatenate([common.origins, jnp.zeros((1, 3), motions.dtype)]), topology.carriers
        )
        return motion_shift(rows, -origins)
    bodies = body_frames(model, common.placements, Transform.identity(motions.dtype))
    return bodies.inverse_motion(rows) if frame == "body" else motion_shift(rows, bodies.position)
