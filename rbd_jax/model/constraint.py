"""The constraints that a model carries along: whether they fit it, and what edits of the model do to them.

Their families are in the room `loops`, and all that is computed of them in `constraints`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import ModelError, UnknownNameError, suggest
from ..loops import Constraint
from ..spatial import Transform
from .topology import Topology


def check_constraints(topology: Topology, constraints: Iterable) -> None:
    """Refuse constraints that have no meaning in a model of this topology."""
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"{constraint!r} is a {type(constraint).__name__}, not a constraint; see rbd_jax.constraints"
            )
        label, bodies = constraint.label, constraint.bodies
        for body in bodies:
            if body != "world" and body not in topology.body_names:
                raise UnknownNameError(
                    f"{label}: there is no body {body!r}{suggest(body, [*topology.body_names, 'world'])}"
                )
        for joint in constraint.joints:
            if joint not in topology.joint_names:
                raise UnknownNameError(
                    f"{label}: there is no joint {joint!r}{suggest(joint, topology.joint_names)}"
                )
            body = topology.joint_index(joint)
            if (topology.joint_nq[body], topology.joint_nv[body]) != (1, 1):
                raise ModelError(
                    f"{label}: joint {joint!r} has {topology.joint_nv[body]} freedoms; its coordinate can be "
                    "constrained only where there is one. Constrain the bodies with a LoopJoint instead"
                )
        if len(set(bodies)) < len(bodies):
            raise ModelError(f"{label}: a body cannot be constrained against itself; name two bodies")
        carriers = {_carrier(topology, body) for body in bodies}
        if len(bodies) > 1 and len(carriers) == 1:
            raise ModelError(
                f"{label}: the bodies cannot move against each other, since they are welded together; "
                "there is nothing to constrain"
            )


def _carrier(topology: Topology, body: str) -> int:
    return -1 if body == "world" else int(topology.carriers[topology.body_index(body)])


def prefixed(constraint: Constraint, prefix: str, placement: Transform | None) -> Constraint:
    """A constraint of a model whose names get a prefix and whose world is put elsewhere."""
    bodies = [body if body == "world" else prefix + body for body in constraint.bodies]
    frames = constraint.frames
    if placement is not None:
        own = [frames[i] for i in range(len(bodies))]
        moved = [placement @ own[i] if body == "world" else own[i] for i, body in enumerate(bodies)]
        frames = _stacked(moved, frames)
    return constraint.attached(bodies, frames, [prefix + joint for joint in constraint.joints])


def reframed(constraint: Constraint, frames: Mapping[str, Transform]) -> Constraint:
    """A constraint of a model whose bodies get new frames; `frames` are the old ones there."""
    own = [constraint.frames[i] for i in range(len(constraint.bodies))]
    moved = [
        frames[body] @ given if body in frames else given
        for body, given in zip(constraint.bodies, own, strict=True)
    ]
    return constraint.attached(constraint.bodies, _stacked(moved, constraint.frames), constraint.joints)


def fused(constraint: Constraint, topology: Topology, welds: Transform) -> Constraint:
    """A constraint of a model whose welded bodies become parts of their carriers; `welds` are their frames there."""
    bodies, frames = [], []
    for i, body in enumerate(constraint.bodies):
        own = constraint.frames[i]
        if body == "world":
            bodies.append(body)
            frames.append(own)
            continue
        index = topology.body_index(body)
        carrier = topology.carriers[index]
        bodies.append("world" if carrier < 0 else topology.body_names[topology.movers[carrier]])
        frames.append(welds[index] @ own)
    return constraint.attached(bodies, _stacked(frames, constraint.frames), constraint.joints)


def _stacked(frames: list[Transform], empty: Transform) -> Transform:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *frames) if frames else empty


def grouped(constraints: tuple[Constraint, ...]) -> list[tuple[list[int], Constraint]]:
    """Constraints that differ in numbers and names alone, as one with stacked leaves, and which ones they are."""
    groups: dict[object, list[int]] = {}
    nameless = [
        one.attached(("",) * len(one.bodies), one.frames, ("",) * len(one.joints)) for one in constraints
    ]
    for index, one in enumerate(nameless):
        leaves, structure = jax.tree.flatten(one)
        key = structure, tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        groups.setdefault(key, []).append(index)
    stack = lambda *leaves: jnp.stack(leaves)
    return [
        (members, jax.tree.map(stack, *(nameless[index] for index in members))) for members in groups.values()
    ]
