"""Frames of sites and shapes on bodies: positions, velocities, and the effect of forces at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import choice, configuration, takes, velocity
from .._core.array import gather, sum_rows, with_precision
from .._core.errors import UnknownNameError
from ..model import Model
from ..spatial import no_frames
from ..spatial.attached import Attached
from ..spatial.transform import Transform
from .bodies import Bodies
from .jacobians import body_jacobian
from .motion import Motion


#: The axes of a vector at a site: the site's own axes, or the world's; about the site's origin in both cases.
SiteFrame = Literal["world_aligned", "site"]


def site_frame(function: str, model, name: str, value) -> str:
    """Checks the name of a frame for vectors at sites."""
    return choice(function, name, value, ("world_aligned", "site"))


def site_name(function: str, model, name: str, value) -> str:
    """Checks the name of a site of the model."""
    try:
        return model.named("site", value).name
    except (UnknownNameError, TypeError) as error:
        raise UnknownNameError(f"{function}: {name}: {error}") from None


@takes(q=configuration)
def site_frames(model: Model, q: Float[Array, "nq"]) -> Transform:
    """Returns the world frame of every site, in the order of `model.sites`, as a `Transform` with a leading axis.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Site("tip", "lower", (0, 0, -1)))
    >>> print(rbd.site_frames(model, jnp.array([0.5, 1.0])).position)
    [[-1.477  0.    -0.948]]
    """
    return fixed_frames(Motion(model, q), model.sites).world_frames


@takes(q=configuration)
def shape_frames(model: Model, q: Float[Array, "nq"]) -> Transform:
    """Returns the world frame of every shape, in the order of `model.shapes`, as a `Transform` with a leading axis.

    >>> ball = rbd.Shape("bob", "lower", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> model = rbd.attach(rbd.load("double_pendulum"), ball)
    >>> print(rbd.shape_frames(model, jnp.array([0.5, 1.0])).position[-1])
    [-1.477  0.    -0.948]
    """
    return fixed_frames(Motion(model, q), model.shapes).world_frames


@takes(q=configuration, v=velocity, frame=site_frame)
def site_velocities(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], frame: SiteFrame = "world_aligned"
) -> Float[Array, "sites 6"]:
    """Returns the spatial velocity `[ω; v]` of every site about its own origin.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      frame: `"world_aligned"` for the world's axes, `"site"` for the site's own.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Site("tip", "lower", (0, 0, -1)))
    >>> print(rbd.site_velocities(model, jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])))
    [[ 0.     3.     0.    -1.09   0.     3.472]]
    """
    sites = fixed_frames(Motion(model, q, v), model.sites)
    return sites.twists if frame == "site" else _world_aligned(sites.frames).motion(sites.twists)


@takes(q=configuration, site=site_name, frame=site_frame)
def site_jacobian(
    model: Model, q: Float[Array, "nq"], site: str, frame: SiteFrame = "world_aligned"
) -> Float[Array, "6 nv"]:
    """Returns J with `J v` the velocity of a site, as in `site_velocities`; `Jᵀ` maps a force at the site to joint forces.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      site: Name of the site.
      frame: `"world_aligned"` for the world's axes, `"site"` for the site's own.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Site("tip", "lower", (0, 0, -1)))
    >>> print(rbd.site_jacobian(model, jnp.array([0.5, 1.0]), "tip")[3:])
    [[-0.948 -0.071]
     [ 0.     0.   ]
     [ 1.477  0.997]]
    """
    own = model.named("site", site)
    (body,), placement = own.bodies, own.frames[0]
    if body == "world":
        return jnp.zeros((6, model.nv), q.dtype)
    motion = Motion(model, q)
    if frame == "site":
        columns = body_jacobian(motion, body, None, "body")
        return jax.vmap(placement.inverse_motion, 1, 1)(columns)
    return body_jacobian(motion, body, placement.position, "world_aligned")


def fixed_frames(motion: Motion, things: Sequence[Attached]) -> Bodies:
    """Returns the frames that objects have on bodies as moving bodies, in order, with one row per frame.

    Twists are in the axes of the frame, about its origin. Frames on the world are constant.
    """
    bodies = [body for thing in things for body in thing.bodies]
    placements = [thing.frames for thing in things if thing.bodies]
    placed = jax.tree.map(lambda *x: jnp.concatenate(x), *placements) if placements else no_frames()
    return frames_on(motion, bodies, placed)


def frames_on(motion: Motion, bodies: Sequence[str], placements: Transform) -> Bodies:
    """Returns frames placed on bodies or on the world as moving bodies, with one row per frame (see `fixed_frames`)."""
    carriers = list(dict.fromkeys(body for body in bodies if body != "world"))
    known = (
        motion.bodies([motion.model.topology.body_index(body) for body in carriers])
        if carriers
        else _none(motion)
    )
    if not bodies:
        return known
    rows = np.array([carriers.index(body) if body != "world" else -1 for body in bodies])
    known = known.with_world() if (rows < 0).any() else known
    frames = known.frames.gather(rows)
    placed = with_precision(placements, motion.q.dtype)
    return Bodies(frames @ placed, placed.inverse_motion(gather(known.twists, rows)), known.origin)


def generalized_force_at(
    motion: Motion, things: Sequence[Attached], wrenches: Float[Array, "k 6"]
) -> Float[Array, "nv"]:
    """Returns `Σ Jᵀ f` for a wrench at each of the frames that objects have on bodies, in the axes of that frame."""
    indices, own = _on_bodies(motion.model, things, wrenches)
    return motion.generalized_force(indices, own) if indices else jnp.zeros_like(motion.v)


def body_wrenches_at(
    motion: Motion, things: Sequence[Attached], wrenches: Float[Array, "k 6"]
) -> Float[Array, "nb 6"]:
    """Sums wrenches at the frames that objects have on bodies to one wrench per body, in the body's own frame."""
    indices, own = _on_bodies(motion.model, things, wrenches)
    if not indices:
        return jnp.zeros((motion.model.nb, 6), motion.q.dtype)
    return sum_rows(own, np.array(indices), motion.model.nb)


def _on_bodies(model: Model, things: Sequence[Attached], wrenches: Float[Array, "k 6"]):
    """Returns the bodies of the wrenches, without the world, and the wrenches in the frames of these bodies."""
    bodies = [body for thing in things for body in thing.bodies]
    rows = np.array([row for row, body in enumerate(bodies) if body != "world"], int)
    if not len(rows):
        return [], wrenches
    placement = jax.tree.map(
        lambda *x: jnp.concatenate(x), *(thing.frames for thing in things if thing.bodies)
    )
    own = placement.gather(rows).force(gather(wrenches, rows))
    return [model.topology.body_index(bodies[row]) for row in rows], own


def _none(motion: Motion) -> Bodies:
    zeros = lambda *shape: jnp.zeros(shape, motion.q.dtype)
    return Bodies(Transform(zeros(0, 3, 3), zeros(0, 3)), zeros(0, 6), zeros(3))


def _world_aligned(frames: Transform) -> Transform:
    """Returns the axes of frames, without their positions."""
    return Transform(frames.rotation, jnp.zeros_like(frames.position))
