"""Active forces at loop joints: springs, dampers and motors where a loop is closed (book §8.4, §8.6).

A loop joint transmits `T_a τ + T λ`. The constraint determines λ, and this module handles τ. Its generalized force on the
tree, `τ^a`, is added to `tau` of any algorithm, because for the tree it is an external force (eq. 8.28, table 8.3).
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import anything, configuration, takes, velocity
from .._core.array import matvec, vecmat
from ..dynamics import Motion
from ..loops import LoopJoint
from ..model import Model
from ..spatial.transform import Transform


@takes(q=configuration, efforts=anything)
def loop_joint_force(
    model: Model, q: Float[Array, "nq"], efforts: Mapping[int, Float[Array, "k"]]
) -> Float[Array, "nv"]:
    """Returns `τ^a`, the generalized force of efforts along loop joints, to be added to `tau` (book eq. 8.28, table 8.3).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      efforts: A mapping `{number: effort}` by the number of the loop joint in `model.constraints`; an effort has one entry for
        each degree of freedom of the joint. Efforts act on `body_b`, and with the opposite sign on `body_a`.

    >>> loop = rbd.constraints.LoopJoint("world", (1, 0, -1), "lower", (0, 0, -1), rbd.joints.Revolute((0, 1, 0)))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), loop)
    >>> print(rbd.constraints.loop_joint_force(model, jnp.array([0.0, -jnp.pi / 2]), {0: jnp.array([2.0])}))
    [2. 2.]
    """
    motion, total = Motion(model, q), jnp.zeros(model.nv, q.dtype)
    for number, effort in efforts.items():
        loop = _loop_joint("loop_joint_force", model, number)
        if jnp.shape(effort) != (loop.joint.nv,):
            raise ValueError(
                f"loop_joint_force: efforts[{number}] has shape {jnp.shape(effort)}; {loop.label} has {loop.joint.nv} degrees of "
                f"freedom, so it must be ({loop.joint.nv},)"
            )
        relative, _ = _relative(motion, loop)
        wrench = matvec(loop.active_forces(relative), jnp.asarray(effort, q.dtype))
        wrenches = jnp.stack([-loop.frames[0].force(relative.force(wrench)), loop.frames[1].force(wrench)])
        ends = [i for i, body in enumerate(loop.bodies) if body != "world"]
        bodies = [model.body_index(loop.bodies[i]) for i in ends]
        total = total + motion.generalized_force(bodies, wrenches[np.array(ends)])
    return total


@takes(q=configuration, v=velocity, constraint=anything)
def loop_joint_state(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], constraint: int
) -> tuple[Float[Array, "nq_k"], Float[Array, "nv_k"]]:
    """Returns the coordinates and the velocity of a loop joint, as needed for springs and dampers.

    The model does not contain these coordinates. If the state violates the constraint, they are the best fit.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      constraint: The number of the loop joint in `model.constraints`.

    Returns:
      The coordinates and the velocity of the loop joint.

    >>> loop = rbd.constraints.LoopJoint("world", (1, 0, -1), "lower", (0, 0, -1), rbd.joints.Revolute((0, 1, 0)))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), loop)
    >>> angle, speed = rbd.constraints.loop_joint_state(model, jnp.array([0.0, -jnp.pi / 2]), jnp.array([1.0, -1.0]), 0)
    >>> print(angle, speed)
    [-1.571] [0.]
    """
    loop = _loop_joint("loop_joint_state", model, constraint)
    relative, twist = _relative(Motion(model, q, v), loop)
    coordinates = loop.configuration(relative)
    own = twist - loop.joint.drift(coordinates) if loop.rheonomic else twist
    return coordinates, vecmat(own, loop.active_forces(relative))


def _loop_joint(function: str, model: Model, number: int) -> LoopJoint:
    if not isinstance(number, int | np.integer) or not 0 <= number < len(model.constraints):
        raise ValueError(
            f"{function}: there is no constraint number {number!r} in model {model.name!r}: it has {len(model.constraints)}, "
            "from 0"
        )
    constraint = model.constraints[number]
    if not isinstance(constraint, LoopJoint):
        raise ValueError(
            f"{function}: constraint number {number} of model {model.name!r} is a {type(constraint).__name__}; only a LoopJoint "
            "has a joint to drive"
        )
    return constraint


def _relative(motion: Motion, loop: LoopJoint) -> tuple[Transform, Float[Array, "6"]]:
    """Returns the placement of the successor frame in the predecessor frame, and its relative velocity in successor axes."""
    model = motion.model
    named = [body for body in loop.bodies if body != "world"]
    bodies = motion.bodies([model.body_index(body) for body in named]).with_world()
    order = np.array([named.index(body) if body != "world" else len(named) for body in loop.bodies])
    ends = bodies.frames.gather(order) @ loop.frames
    twists = loop.frames.inverse_motion(bodies.twists[order])
    relative = ends[0].inverse() @ ends[1]
    return relative, twists[1] - relative.inverse_motion(twists[0])
