"""Maximal coordinates: every body free, and the joints of the tree as constraints (Müller & Terze 2013; Sueda §1.10).

The same mechanism and the same accelerations: six freedoms a body and a multiplier for every direction in which a
joint does not move. The group that a pose belongs to is that of the body's joint to the world: SE(3) for `Free`, SO(3) × R³ for
`Free3D`. It decides which constraints a Lie-group integrator preserves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import is_known, matvec
from .._errors import ModelError, UnknownNameError, suggest
from ..dynamics import body_velocities, forward_kinematics
from ..joints import Free, Joint
from ..lie import quaternion
from ..loops import LoopJoint
from ..loops._closest import closest
from ..loops.loop_joint import off_joint
from ..model import Model, ModelBuilder
from ..model._arguments import takes_sample
from ..spatial import Transform
from .consistency import _pseudo_inverse


def maximal_coordinates(
    model: Model, joint: Callable[[], Joint] | Mapping[str, Callable[[], Joint]] = Free
) -> Model:
    """The same mechanism with every body on the world, and a `LoopJoint` for each joint of the tree; other constraints stay.

    **Arguments**

    - `joint`: what hangs the bodies: `rbd.joints.Free` or `rbd.joints.Free3D`; or a mapping from names of bodies to these,
      `Free` for the bodies that it does not name.

    What acts along joints has no place here: a model with armature, damping, friction, springs, or joints that mimic
    others is refused, and so is one with massless bodies (`rbd.fuse_fixed` removes welded ones).
    """
    _check(model)
    chosen = dict.fromkeys(model.body_names, joint) if callable(joint) else dict(joint)
    for body in chosen:
        if body not in model.body_names:
            raise UnknownNameError(
                f"maximal_coordinates: there is no body {body!r}{suggest(body, model.body_names)}"
            )
    builder = ModelBuilder(model.gravity, f"{model.name}, maximal", model.topology.walk)
    for index, name in enumerate(model.body_names):
        free = chosen.get(name, Free)()
        if (free.nq, free.nv) != (7, 6):
            raise ModelError(
                f"maximal_coordinates: body {name!r} is hung by a {type(free).__name__} with nq = {free.nq}, nv = "
                f"{free.nv}; it is Free or Free3D"
            )
        placement = Transform.identity(model.dtype)
        builder.add_body(name, "world", free, placement, model.inertias[index])
    for index, parent in enumerate(model.topology.parents):
        own = model.joint(index)
        above = model.body_names[parent] if parent >= 0 else "world"
        if own.nv < 6:
            builder.add_constraint(
                LoopJoint(above, model.placements[index], model.body_names[index], None, own)
            )
    builder.constraints += list(model.constraints)
    return builder.lay_out()


def _check(model: Model) -> None:
    if len(model.topology.followers):
        names = [model.joint_names[body] for body in model.topology.followers]
        raise ModelError(f"maximal_coordinates: joints that mimic others have no place here: {names}")
    for constraint in model.constraints:
        if constraint.joints:
            raise ModelError(
                f"maximal_coordinates: {constraint.label} is on coordinates of joints, which are no coordinates here"
            )
    for name in ("armature", "damping", "friction", "stiffness"):
        value = getattr(model, name)
        if is_known(value) and np.any(value):
            raise ModelError(
                f"maximal_coordinates: the model has {name} at its joints, which has no place here; set it to zero "
                "first with equinox.tree_at"
            )
    mass = model.inertias.mass
    if is_known(mass) and not np.all(np.asarray(mass) > 0):
        names = [name for name, own in zip(model.body_names, np.asarray(mass)) if not own > 0]
        raise ModelError(f"maximal_coordinates: massless bodies cannot float by themselves: {names}")


@takes_sample
def to_maximal(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], maximal: Model
) -> tuple[Float[Array, "nq_max"], Float[Array, "nv_max"]]:
    """The state of `model` as one of `maximal`, its `maximal_coordinates`."""
    frames, twists = forward_kinematics(model, q), body_velocities(model, q, v, "body")
    configurations, velocities = [], []
    for index in range(model.nb):
        own = frames[index]
        configurations.append(jnp.concatenate([own.position, quaternion.from_matrix(own.rotation)]))
        subspace = maximal.joint(index).motion_subspace(configurations[-1])
        velocities.append(jnp.linalg.solve(subspace, twists[index]))
    return jnp.concatenate(configurations), jnp.concatenate(velocities)


def from_maximal(
    model: Model, maximal: Model, q: Float[Array, "nq_max"], v: Float[Array, "nv_max"]
) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
    """The state of `model` nearest to one of its `maximal_coordinates`: joint by joint the configuration that fits best.

    What a state breaks of the constraints is lost. A joint that turns many times comes back within its own first turn.
    """
    frames, twists = forward_kinematics(maximal, q), body_velocities(maximal, q, v, "body")
    world = Transform.identity(q.dtype)
    configurations, velocities = [jnp.zeros(0, q.dtype)], [jnp.zeros(0, q.dtype)]
    for index, parent in enumerate(model.topology.parents):
        joint = model.joint(index)
        above = frames[parent] if parent >= 0 else world
        carried = twists[parent] if parent >= 0 else jnp.zeros(6, q.dtype)
        relative = (above @ model.placements[index]).inverse() @ frames[index]
        own = closest(off_joint, joint, relative) if joint.nv else joint.neutral().astype(q.dtype)
        arrived = model.placements[index] @ joint.transform(own)
        motion = twists[index] - arrived.inverse_motion(carried) - joint.drift(own)
        configurations.append(own)
        velocities.append(matvec(_pseudo_inverse(joint.motion_subspace(own)), motion))
    return jnp.concatenate(configurations), jnp.concatenate(velocities)
