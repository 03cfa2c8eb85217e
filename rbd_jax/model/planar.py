"""Models that move in a plane, on planar algebra (book §2.16).

Motions and forces in a plane have three entries, and inertias have four parameters. All algorithms that use the operators of
the spatial algebra also run on the planar algebra, in less than half the time.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, number
from .._core.array import by_numpy, cross, dot, is_known, matvec, pick, vecmat
from .._core.errors import ModelError
from ..joints import InPlane, Joint
from ..spatial import planar as algebra
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .attachments import detach, fits_planar
from .model import Model


#: Maximum component of directions out of the plane; angles written with six digits pass.
OUT_OF_PLANE = 1e-5

#: The roles of attachments that act on a model, and cannot be left out silently.
ACTING = ("actuator", "bearing", "constraint", "contact law", "force", "tendon")


def planar(model: Model, axes=None) -> Model:
    """Returns a model that moves in a plane on planar algebra, with vectors of three entries: the same motion, in less time.

    Its `q`, `v`, `a` and `tau` equal those of the given model, joint for joint. Motion vectors are `[ω, v_x, v_y]`, forces
    (including `f_ext`) `[n, f_x, f_y]`, positions `(x, y)`, frames `rbd.spatial.planar.Transform`. The result supports
    kinematics, inverse, forward and hybrid dynamics, mass matrix, energies, momentum and `rollout`, with their derivatives.
    Other functions raise an error; they support the spatial model, in the same configuration.

    The model omits everything that has no effect on motion in the plane. This includes positions of bodies and
    centers of mass along the normal, all rotational inertias except the one about the normal, and gravity along the
    normal, which adds a constant to the potential energy. The result keeps keyframes and attachments that act along
    joints. Sites, shapes and sensors are removed. Attachments that act on bodies in other ways (constraints, contact,
    springs between points) raise an error.

    Every joint must move in the plane: revolute (and planar) joints about its normal, prismatic joints along it, and
    combinations of these. The x axis of a body is the projection of its own x axis onto the plane, or of its y axis if x is
    nearly normal to the plane.

    Args:
      model: The model.
      axes: The x and y axes of the plane, two orthonormal rows in the world. By default, the joints determine the normal, and
        y points up as far as possible. The axes are those of the world (x and y, x and z, or y and z) if the plane is one of
        these. They are required if the parameters of the model are traced.

    Returns:
      The planar model.

    >>> model = rbd.load("double_pendulum")
    >>> flat, q = rbd.planar(model), jnp.array([0.5, 1.0])
    >>> frames = rbd.forward_kinematics(flat, q)
    >>> print(frames.position)  # in x and z, the plane that it swings in
    [[ 0.     0.   ]
     [-0.479 -0.878]]
    >>> v, tau = jnp.array([1.0, 2.0]), jnp.zeros(2)
    >>> print(rbd.forward_dynamics(flat, q, v, tau) - rbd.forward_dynamics(model, q, v, tau))
    [0. 0.]
    """
    a_model("planar", model)
    model = _without_what_is_seen_only(model)
    frames = [_plane_in_world(model) if axes is None else _given_axes(axes, model)]
    # The axes of the plane in the frames of the world and of each body, and the planar frames in those of their parents.
    placed: list[algebra.Transform] = []
    for body, parent in enumerate(model.topology.parents):
        own, place = _in_plane(frames[parent + 1], model.placements[body])
        frames.append(own)
        placed.append(place)
        _refuse_leaving(model, body, own)
    stacked = functools.partial(by_numpy, lambda xp, *x: xp.stack(x))
    rows = stacked(*frames)
    world, rows = pick(rows, 0), pick(rows, slice(1, None))
    joints = tuple(
        jax.vmap(InPlane)(joints, pick(rows, np.asarray(kind.bodies, int)))
        for kind, joints in zip(model.topology.kinds, model.joints, strict=True)
    )
    gravity, inertias = _shadows(model.gravity, model.inertias, world, rows)
    return replace(
        model,
        gravity=gravity,
        placements=jax.tree.map(stacked, *placed) if placed else _nowhere(model),
        inertias=inertias,
        joints=joints,
    )


@functools.partial(jax.jit, inline=True)
def _in_plane(
    above: Float[Array, "2 3"], placement: Transform
) -> tuple[Float[Array, "2 3"], algebra.Transform]:
    """Returns the axes of the plane in the frame of a body, and its planar placement, from the axes in its parent's frame."""
    own = algebra.plane_axes(vecmat(cross(above[0], above[1]), placement.rotation))
    x = matvec(above, matvec(placement.rotation, own[0]))
    x = x / jnp.sqrt(dot(x, x))  # rounding errors out of the plane would accumulate
    return own, algebra.Transform(x, matvec(above, placement.position))


def _nowhere(model: Model) -> algebra.Transform:
    return algebra.Transform(*2 * (jnp.zeros((0, 2), model.dtype),))


@functools.partial(jax.jit, inline=True)
def _shadows(
    gravity: Float[Array, "3"],
    inertias: Inertia,
    world: Float[Array, "2 3"],
    axes: Float[Array, "nb 2 3"],
) -> tuple[Float[Array, "2"], algebra.Inertia]:
    """Projects gravity and inertias onto the plane: the moment about the normal, and the first moment in the plane."""
    normal = cross(axes[:, 0], axes[:, 1])
    about = dot(normal, matvec(inertias.rotational_matrix, normal))
    found = algebra.Inertia(inertias.mass, matvec(axes, inertias.first_moment), about)
    return matvec(world, gravity), found


def _without_what_is_seen_only(model: Model) -> Model:
    strange = [thing for thing in model.attached if not fits_planar(thing)]
    for thing in strange:
        if thing.role in ACTING:
            raise ModelError(
                f"planar: model {model.name!r} carries the {thing.role} {thing.label}, which planar models do not support; they "
                "support attachments along joints only. Remove it with rbd.detach, or simulate the model in space"
            )
    return detach(model, *strange)


def _given_axes(axes, model: Model) -> Float[Array, "2 3"]:
    axes = number("planar", "axes", axes, (2, 3), dtype=model.dtype)
    if is_known(axes):
        seen = np.asarray(axes)
        if np.abs(seen @ seen.T - np.eye(2)).max() > OUT_OF_PLANE:
            raise ModelError(
                f"planar: axes are {seen.tolist()}; they must be two unit vectors at a right angle, the x and y axes of the plane"
            )
    return axes


_plane_axes = jax.jit(algebra.plane_axes)


def _plane_in_world(model: Model) -> Float[Array, "2 3"]:
    """Returns the plane of the first joints: normal to a revolute joint, or spanned by two directions of translation."""
    if not is_known((model.placements, model.joints, model.gravity)):
        raise ModelError(
            f"planar: the numbers of model {model.name!r} are traced, so its plane cannot be found; give its axes"
        )
    normal, along = None, []
    for motion in _motions_in_world(model):
        turning, moving = motion[:3], motion[3:]
        if np.linalg.norm(turning) > OUT_OF_PLANE:
            normal = turning
            break
        along.append(moving)
    gravity = np.asarray(model.gravity, float)
    for direction in () if normal is not None else (*along[1:], gravity):
        if along and np.linalg.norm(across := np.cross(along[0], direction)) > OUT_OF_PLANE:
            normal = across
            break
    if normal is None:
        raise ModelError(
            f"planar: the joints of model {model.name!r} do not determine in which plane it moves; give the axes of the plane"
        )
    axes = np.asarray(_plane_axes((normal / np.linalg.norm(normal)).astype(model.dtype)))
    up = axes[1][np.abs(axes[1]) > OUT_OF_PLANE][-1]
    return jnp.asarray(axes * np.array([[1.0], [np.sign(up)]]), model.dtype)


def _motions_in_world(model: Model):
    """Yields the direction of each degree of freedom in the axes of the world, from the root to the leaves."""
    rotations = {-1: np.eye(3)}
    for body, parent in enumerate(model.topology.parents):
        joint = model.joint(body)
        frame, subspace = _at_rest(joint, model.dtype)
        before = rotations[parent] @ np.asarray(model.placements.rotation)[body]
        rotations[body] = before @ np.asarray(frame.rotation)
        for column in np.asarray(subspace).T:
            yield np.concatenate([rotations[body] @ column[:3], rotations[body] @ column[3:]])


@functools.partial(jax.jit, static_argnames="dtype")
def _at_rest(joint: Joint, dtype) -> tuple[Transform, Float[Array, "6 nv"]]:
    q = joint.neutral().astype(dtype)
    return joint.transform(q), joint.motion_subspace(q)


@functools.partial(jax.jit, static_argnames="dtype")
def _motions(joint: Joint, dtype) -> tuple[Float[Array, "4 3 3"], Float[Array, "4 6 n"]]:
    """Returns rotations of a joint in some configurations, and its motions in these."""
    found = []
    for q in [joint.neutral(), *map(joint.random, jax.random.split(jax.random.key(0), 3))]:
        q = q.astype(dtype)
        moves = jnp.concatenate([joint.motion_subspace(q), joint.drift(q)[:, None]], axis=1)
        found.append((joint.transform(q).rotation, moves))
    rotations, moves = zip(*found)
    return jnp.stack(rotations), jnp.stack(moves)


def _refuse_leaving(model: Model, body: int, axes: Float[Array, "2 3"]) -> None:
    """Raises an error if a motion of a joint in some configurations leads out of the plane, for known parameters."""
    joint = model.joint(body)
    if not joint.nv and not joint.rheonomic or not is_known((axes, joint)):
        return
    normal = np.cross(*np.asarray(axes))
    place = f"planar: joint {model.joint_names[body]!r} of model {model.name!r}"
    remedy = (
        "planar models have revolute joints about the normal of their plane and prismatic joints along it; simulate this one in "
        "space, lock the joint by rbd.lock_joints, or give other axes"
    )
    for rotation, subspace in zip(*map(np.asarray, _motions(joint, model.dtype)), strict=True):
        for turning, moving in zip(subspace[:3].T, subspace[3:].T, strict=True):
            if np.abs(turning - (turning @ normal) * normal).max() > OUT_OF_PLANE * max(
                1, np.abs(turning).max()
            ):
                raise ModelError(
                    f"{place} turns about {_short(turning)} in the frame of its body, where the normal of the plane is "
                    f"{_short(normal)}; {remedy}"
                )
            if abs(moving @ normal) > OUT_OF_PLANE * max(1, np.abs(moving).max()):
                raise ModelError(
                    f"{place} moves along {_short(moving)} in the frame of its body, out of the plane with the normal "
                    f"{_short(normal)}; {remedy}"
                )
        if np.abs(rotation @ normal - normal).max() > OUT_OF_PLANE:
            raise ModelError(
                f"{place} turns its body out of the plane with the normal {_short(normal)}; {remedy}"
            )


def _short(x: np.ndarray) -> str:
    return f"({', '.join(f'{value:.3g}' for value in x + 0.0)})"
