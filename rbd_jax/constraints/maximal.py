"""Maximal coordinates: every body free, and the joints of the tree as constraints (book §3.6, §3.7, §8.13).

See also Müller & Terze 2013, and Sueda eqs. 1.69 to 1.74.

The mechanism and its accelerations are the same. There are six degrees of freedom per body and a multiplier for every
direction in which a joint does not move. The equations are the book's (3.74), for one body (3.60), and those of Müller &
Terze 2013, eqs. 1 to 3. The joint of a body to the world determines the group of its pose: SE(3) for `Free`, SO(3) × R³ for
`Free3D`. The group determines which constraints a Lie-group integrator preserves.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import choice, configuration, instance, velocity
from .._core.array import gather, is_known, matvec
from .._core.deprecation import deprecated
from .._core.errors import ModelError, UnknownNameError, suggest
from ..dynamics import body_velocities, forward_kinematics
from ..joints import Free, Joint, Offset, Reversed
from ..lie import quaternion
from ..loops import LoopJoint
from ..loops.closest import closest
from ..loops.loop_joint import off_joint
from ..model import Model, ModelBuilder
from ..model.attachments import reframed
from ..spatial.transform import Transform
from ._factors import pseudo_inverse


#: The location of the frames of free bodies: as in the tree, or at the centers of mass.
Frame: TypeAlias = Literal["body", "com"]
FRAMES = get_args(Frame)
Free6: TypeAlias = Joint | Callable[[], Joint]


def maximal_coordinates(
    model: Model, joint: Free6 | Mapping[str, Free6] = Free, frame: Frame = "body"
) -> Model:
    """Returns the same mechanism with every body attached to the world, and a `LoopJoint` for each joint of the tree.

    Constraints and forces between bodies are preserved.

    Effects along joints have no counterpart here. A model with armature, damping, friction, springs, or mimic joints raises an
    error, as does one with massless bodies (`rbd.fuse_fixed` removes welded ones).

    Args:
      model: The model.
      joint: The joint that attaches the bodies: `rbd.joints.Free` or `rbd.joints.Free3D`; or a mapping from names of bodies to
        these, with `Free` for the other bodies.
      frame: The location of the frames of the free bodies, whose origins are the positions in q: `"body"`, as in the tree,
        with the origin at the joint; or `"com"`, at the center of mass, as in Müller & Terze 2013. `to_maximal` and
        `from_maximal` require the same value. With `Free` it has no other effect. With `Free3D` the origin of the frame
        moves on a straight line in a step of a Lie-group integrator. The choice determines which joints such a step opens:
        never one on the ground about a frame's origin that rests there.

    Returns:
      The model in maximal coordinates.

    >>> rbd.maximal_coordinates(rbd.load("double_pendulum"))
    double_pendulum, maximal: 2 bodies, nq = 14, nv = 12
    ├─ upper  Free v[0:6], 1 kg
    └─ lower  Free v[6:12], 1 kg
    ╌╌ LoopJoint('world', 'upper', Revolute), 5 rows
    ╌╌ LoopJoint('upper', 'lower', Revolute), 5 rows
    """
    instance("maximal_coordinates", "model", model, Model, "a Model")
    choice("maximal_coordinates", "frame", frame, FRAMES)
    _check(model)
    chosen = joint if isinstance(joint, Mapping) else dict.fromkeys(model.body_names, joint)
    for body in chosen:
        if body not in model.body_names:
            raise UnknownNameError(
                f"maximal_coordinates: there is no body {body!r}{suggest(body, model.body_names)}"
            )
    builder = ModelBuilder(model.gravity, f"{model.name}, maximal", model.topology.traversal)
    own_frames = _own_frames(model, frame)
    for index, name in enumerate(model.body_names):
        placement = Transform.identity(model.dtype)
        inertia = model.inertias[index].placed(own_frames[index])
        builder.add_body(name, "world", _free(name, chosen.get(name, Free)), placement, inertia)
    for index, parent in enumerate(model.topology.parents):
        own = model.joint(index)
        above = model.body_names[parent] if parent >= 0 else "world"
        if own.nv < 6:
            builder.add_constraint(_as_loop(above, model.placements[index], model.body_names[index], own))
    builder.attached += list(model.attached)
    moved = {name: own_frames[index] for index, name in enumerate(model.body_names)}
    builder.attached = [reframed(thing, moved) for thing in builder.attached]
    return builder.lay_out()


def _as_loop(above: str, placement: Transform, body: str, joint: Joint) -> LoopJoint:
    """Returns a joint of the tree as a loop joint, with its frames and its polarity."""
    frame = None
    if isinstance(joint, Offset):
        joint, frame = joint.joint, joint.frame.inverse()
    if isinstance(joint, Reversed):
        return LoopJoint(body, frame, above, placement, joint.joint)
    return LoopJoint(above, placement, body, frame, joint)


def _free(body: str, joint) -> Joint:
    """Returns the joint that attaches a body, from an instance or a factory."""
    makes = not isinstance(joint, type) or issubclass(joint, Joint)
    free = joint() if callable(joint) and makes else joint
    if not isinstance(free, Joint):
        raise ModelError(
            f"maximal_coordinates: joint is {reprlib.repr(joint)}; it takes rbd.joints.Free or rbd.joints.Free3D, or a "
            "mapping from names of bodies to these"
        )
    if (free.nq, free.nv) != (7, 6):
        raise ModelError(
            f"maximal_coordinates: body {body!r} is attached by a {type(free).__name__} with nq = {free.nq}, nv = "
            f"{free.nv}; it is Free or Free3D"
        )
    return free


def _own_frames(model: Model, frame: Frame) -> Transform:
    """Returns the frames of the tree's bodies, placed in those of the free bodies: (nb,)."""
    centres = model.inertias.com
    return Transform.from_position(-centres if frame == "com" else jnp.zeros_like(centres))


def _check(model: Model) -> None:
    if len(model.topology.mimic_joints):
        names = [model.joint_names[body] for body in model.topology.mimic_joints]
        raise ModelError(f"maximal_coordinates: mimic joints are not supported here: {names}")
    for thing in model.attached:
        if thing.joints:
            raise ModelError(
                f"maximal_coordinates: {thing.label} is on coordinates of joints, which are no coordinates here"
            )
    for name in ("armature", "damping", "friction", "stiffness"):
        value = getattr(model, name)
        if is_known(value) and np.any(np.asarray(value)):
            raise ModelError(
                f"maximal_coordinates: the model has {name} at its joints, which has no place here; set it to zero "
                "first with equinox.tree_at"
            )
    mass = model.inertias.mass
    if is_known(mass) and not np.all(np.asarray(mass) > 0):
        names = [name for name, own in zip(model.body_names, np.asarray(mass)) if not own > 0]
        raise ModelError(f"maximal_coordinates: massless bodies cannot float on their own: {names}")


def _check_pair(call: str, model: Model, maximal: Model, frame: Frame) -> str:
    """Raises an error if `maximal` does not consist of the free bodies of `model` with frames as `frame` specifies.

    `call` has the function's name and parameters for messages, because its two models are easily swapped. Returns the name.
    """
    function = call.partition("(")[0]
    for name, value in (("model", model), ("maximal", maximal)):
        instance(function, name, value, Model, f"a Model; the arguments are {call}")
    choice(function, "frame", frame, FRAMES)
    own, names = model.body_names, maximal.body_names
    if own != names:
        apart = [f"{only!r} is in {where} only" for where, only in _unshared(own, names)]
        raise ModelError(
            f"{function}: maximal has other bodies than model {model.name!r}: "
            + ("; ".join(apart) if apart else f"they are in another order, {names} instead of {own}")
        )
    topology = maximal.topology
    for index, name in enumerate(names):
        if topology.parents[index] >= 0 or (topology.joint_nq[index], topology.joint_nv[index]) != (7, 6):
            above = names[topology.parents[index]] if topology.parents[index] >= 0 else "world"
            raise ModelError(
                f"{function}: maximal is not made of free bodies: {name!r} is attached to {above!r} by a "
                f"{type(maximal.joint(index)).__name__}; make it with maximal_coordinates(model)"
            )
    if is_known((model.inertias, maximal.inertias)):
        # NumPy keeps known values concrete while a function is traced.
        bodies = model.inertias, maximal.inertias
        here, there = (np.asarray(own.first_moment) / np.asarray(own.mass)[:, None] for own in bodies)
        centred, same = np.allclose(there, 0, atol=1e-5), np.allclose(there, here, atol=1e-5)
        if centred != same and (frame == "com") == same:
            made = "com" if centred else "body"
            raise ModelError(f"{function}: frame is {frame!r}, but maximal was made with frame={made!r}")
    return function


def _unshared(own, names):
    return [("model", one) for one in own if one not in names] + [
        ("maximal", one) for one in names if one not in own
    ]


def to_maximal(
    model: Model, maximal: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], frame: Frame = "body"
) -> tuple[Float[Array, "nq_max"], Float[Array, "nv_max"]]:
    """Returns the state of `model` as a state of `maximal`, its `maximal_coordinates` with the same `frame`.

    >>> model = rbd.load("pendulum")
    >>> q, v = rbd.to_maximal(model, rbd.maximal_coordinates(model), jnp.array([0.5]), jnp.array([1.0]))
    >>> print(q, v)
    [0.    0.    0.    0.969 0.    0.247 0.   ] [0. 1. 0. 0. 0. 0.]
    """
    if isinstance(v, Model):
        deprecated("to_maximal(model, q, v, maximal)", "to_maximal(model, maximal, q, v)", removed_in="0.3")
        maximal, q, v = v, maximal, q  # pyright: ignore
    function = _check_pair("to_maximal(model, maximal, q, v, frame)", model, maximal, frame)
    q, v = configuration(function, model, "q", q), velocity(function, model, "v", v)
    own_frames = _own_frames(model, frame)
    frames = forward_kinematics(model, q) @ own_frames.inverse()
    twists = own_frames.motion(body_velocities(model, q, v, "body"))
    configurations, velocities = [], []
    for index in range(model.nb):
        own = frames[index]
        configurations.append(jnp.concatenate([own.position, quaternion.from_matrix(own.rotation)]))
        subspace = maximal.joint(index).motion_subspace(configurations[-1])
        velocities.append(jnp.linalg.solve(subspace, twists[index]))
    return jnp.concatenate(configurations), jnp.concatenate(velocities)


def from_maximal(
    model: Model, maximal: Model, q: Float[Array, "nq_max"], v: Float[Array, "nv_max"], frame: Frame = "body"
) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
    """Returns the state of `model` nearest to a state of its `maximal_coordinates` with the same `frame`.

    Each joint gets the best-fitting configuration; the part of the state that violates the constraints is discarded. If the
    displacement determines the number of turns of a joint, as with `Helical` and `RackAndPinion`, all turns are included;
    other angles are in (-π, π].

    >>> model = rbd.load("pendulum")
    >>> free = rbd.maximal_coordinates(model)
    >>> q, v = rbd.from_maximal(model, free, *rbd.to_maximal(model, free, jnp.array([0.5]), jnp.array([1.0])))
    >>> print(q, v)
    [0.5] [1.]
    """
    function = _check_pair("from_maximal(model, maximal, q, v, frame)", model, maximal, frame)
    q, v = configuration(function, maximal, "q", q), velocity(function, maximal, "v", v)
    own_frames = _own_frames(model, frame)
    frames = forward_kinematics(maximal, q) @ own_frames
    twists = own_frames.inverse_motion(body_velocities(maximal, q, v, "body"))
    return _fitting(model, frames, twists, {})


def transfer_state(
    model: Model, other: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> tuple[Float[Array, "nq_other"], Float[Array, "nv_other"]]:
    """Returns the state of `model` as a state of `other`: the same mechanism on another tree, with the same names of bodies.

    Joints in both models keep their coordinates, including full turns, in either direction of the joint. The configurations of
    other joints (a free joint of another root, a joint that closed a loop) are the best fit, as in `from_maximal`.

    >>> builder = rbd.ModelBuilder(name="robot")
    >>> for name, parent, joint in [("base", "world", rbd.joints.Free()), ("hand", "base", rbd.joints.Revolute())]:
    ...     _ = builder.add_body(name, parent, joint, (0.3, 0.0, 0.0), rbd.Inertia.sphere(1.0, 0.1))
    >>> model = builder.build()
    >>> by_hand, q = rbd.reroot(model, "hand"), rbd.neutral(model)
    >>> there = rbd.transfer_state(model, by_hand, q, jnp.array([0, 0, 1.0, 0, 0, 0, 2.0]))
    >>> print(*there)
    [0.3 0.  0.  1.  0.  0.  0.  0. ] [0.  0.  3.  0.  0.3 0.  2. ]
    """
    call = "transfer_state"
    for name, given in (("model", model), ("other", other)):
        instance(call, name, given, Model, "a Model")
    for body in other.body_names:
        if body not in model.body_names:
            raise UnknownNameError(
                f"{call}: model {model.name!r} has no body {body!r}, which {other.name!r} has"
            )
    q, v = configuration(call, model, "q", q), velocity(call, model, "v", v)
    order = np.array([model.body_index(body) for body in other.body_names], int)
    frames, twists = forward_kinematics(model, q), body_velocities(model, q, v, "body")
    shared = {}
    for index in range(other.nb):
        mine = _shared_joint(model, other, index)
        if mine is not None:
            shared[index] = q[model.q_slice(mine)], v[model.v_slice(mine)]
    return _fitting(other, frames.gather(order), gather(twists, order), shared)


def _shared_joint(model: Model, other: Model, index: int) -> int | None:
    """Returns the body of `model` whose joint is that of body `index` of the other model, or None."""
    name = other.joint_names[index]
    if name not in model.joint_names or other.topology.is_mimic[index]:
        return None
    mine = model.topology.joint_index(name)
    ends = [
        {it.body_names[body], it.body_names[above] if (above := it.topology.parents[body]) >= 0 else "world"}
        for it, body in ((model, mine), (other, index))
    ]
    kinds = [_within(it.joint(body)) for it, body in ((model, mine), (other, index))]
    return mine if ends[0] == ends[1] and kinds[0] == kinds[1] and not model.topology.is_mimic[mine] else None


def _within(joint: Joint) -> type:
    while isinstance(joint, Offset | Reversed):
        joint = joint.joint
    return type(joint)


def _fitting(model: Model, frames: Transform, twists, known: dict):
    """Returns the state that best fits these frames and twists of bodies; `known` has the states of some joints."""
    dtype = frames.position.dtype
    world = Transform.identity(dtype)
    configurations, velocities = [jnp.zeros(0, dtype)], [jnp.zeros(0, dtype)]
    for index, parent in enumerate(model.topology.parents):
        if model.topology.is_mimic[index]:
            continue
        if index in known:
            own, speed = known[index]
            configurations.append(own)
            velocities.append(speed)
            continue
        joint = model.joint(index)
        above = frames[parent] if parent >= 0 else world
        carried = twists[parent] if parent >= 0 else jnp.zeros(6, dtype)
        relative = (above @ model.placements[index]).inverse() @ frames[index]
        if isinstance(joint, Free):
            own = jnp.concatenate([relative.position, quaternion.from_matrix(relative.rotation)])
        else:
            own = closest(off_joint, joint, relative) if joint.nv else joint.neutral().astype(dtype)
        arrived = model.placements[index] @ joint.transform(own)
        motion = twists[index] - arrived.inverse_motion(carried) - joint.drift(own)
        configurations.append(own)
        velocities.append(matvec(pseudo_inverse(joint.motion_subspace(own)), motion))
    return jnp.concatenate(configurations), jnp.concatenate(velocities)
