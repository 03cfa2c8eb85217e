"""Attachments of a model: validation, and the effect of model edits on them.

Everything that is attached to bodies or joints is an `Attached`. The functions here handle all kinds of attachments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model
from .._core.array import is_known, with_precision
from .._core.errors import ModelError, ModelWarning, UnknownNameError, suggest
from ..joints import Joint
from ..loops import Constraint
from ..spatial import Reference
from ..spatial.attached import Attached
from ..spatial.transform import Transform
from .model import Model
from .topology import Topology


A = TypeVar("A", bound=Attached)


def attach(model: Model, *things: Attached) -> Model:
    """Returns the model with attachments added, in its precision: sites, shapes, actuators, sensors, ...

    Constraints and force elements are supported too. Attachments may refer to others by name in any
    order: a sensor may precede its site.

    Args:
      model: The model.
      *things: The attachments; they follow the existing ones.

    Returns:
      The new model.

    >>> site = rbd.Site("tip", "lower", (0, 0, -1))
    >>> rbd.attach(rbd.load("double_pendulum"), site).sites
    (Site('tip', on 'lower'),)
    """
    return told(attached_to(model, things, "attach"), things)


def attached_to(model: Model, things: Iterable[Attached], owner: str) -> Model:
    """Returns `attach(model, *things)`, with errors in the name of `owner`."""
    a_model(owner, model, planar=True)
    coordinates = [name for name, size in zip(model.joint_names, model.topology.joint_nv) if size]
    bound = [thing.bound(model.body_names, coordinates) for thing in attachable(*things)]
    for thing in bound if model.is_planar else ():
        if not fits_planar(thing):
            raise ModelError(
                f"{owner}: model {model.name!r} is planar and supports attachments along joints only, not the {thing.role} "
                f"{thing.label}; use the spatial model that was passed to `rbd.planar`"
            )
    check_attached(model.topology, bound, model.attached)
    return replace(model, attached=(*model.attached, *with_precision(bound, model.dtype)))


def fits_planar(thing: Attached) -> bool:
    """Returns whether planar models support the attachment: it and its references act along joints only."""
    roles = ("actuator", "force", "keyframe", "tendon")
    return thing.role in roles and not thing.bodies and all(other.role in roles for other in thing.refers)


def told(model: Model, things: Iterable[Attached]) -> Model:
    """Returns the model after warning about attachments that are probably mistakes, if all values are concrete."""
    things = tuple(things)
    for thing in things if is_known((model, things)) else ():
        if doubt := thing.doubt(lambda thing=thing: _loop(model, thing)):
            warnings.warn(f"{thing.label}: {doubt}", ModelWarning, stacklevel=3)
    return model


@jax.jit
def _rotation(joint: Joint, q: Float[Array, "nq"]) -> Float[Array, "3 3"]:
    return joint.transform(q).rotation


def _loop(model: Model, thing: Attached) -> list[tuple[Joint, np.ndarray]]:
    """Returns the joints between the two bodies of an attachment, each with a rotation.

    It is the rotation of the joint's successor frame relative to the attachment's first frame, in the reference configuration.
    """
    topology = model.topology
    ways, rotations, q = [], {-1: np.eye(3)}, np.asarray(model.joint_configurations(model.reference))
    for body in thing.bodies:
        way, index = [], -1 if body == "world" else topology.body_index(body)
        while index >= 0:
            way.append(index)
            index = topology.parents[index]
        ways.append(way)
    for index in sorted({index for way in ways for index in way}):
        joint = model.joint(index)
        turned = _rotation(joint, q[np.asarray(topology.joint_q(index), int)])
        own = np.asarray(model.placements[index].rotation) @ np.asarray(turned)
        rotations[index] = rotations[topology.parents[index]] @ own
    first = rotations[ways[0][0] if ways[0] else -1] @ np.asarray(thing.frames[0].rotation)
    return [(model.joint(index), first.T @ rotations[index]) for index in sorted(set(ways[0]) ^ set(ways[1]))]


def without(model: Model, role: str) -> Model:
    """Returns the model without its attachments of one role."""
    return replace(model, attached=tuple(thing for thing in model.attached if thing.role != role))


#: The roles of the attachments in this library.
ROLES = (
    "actuator",
    "bearing",
    "constraint",
    "contact exclusion",
    "contact law",
    "contact pair",
    "force",
    "keyframe",
    "massless centers",
    "sensor",
    "shape",
    "site",
    "softness",
    "tendon",
)


def detach(model: Model, *what: str | Attached) -> Model:
    """Returns the model without some attachments, and without attachments that depend on these, such as a sensor at a site.

    Args:
      model: The model.
      *what: Attachments of the model, or roles. A role stands for all attachments of this role: "actuator", "bearing",
        "constraint", "contact exclusion", "contact law", "contact pair", "force", "keyframe", "sensor", "shape", "site",
        "softness", "tendon".

    >>> cartpole = rbd.load("cartpole")
    >>> cartpole.nu, rbd.detach(cartpole, "actuator").nu
    (1, 0)
    """
    a_model("detach", model, planar=True)
    roles, known = (
        {one for one in what if isinstance(one, str)},
        {*ROLES, *(one.role for one in model.attached)},
    )
    for role in sorted(roles - known):
        raise ModelError(f"detach: models carry nothing as {role!r}{suggest(role, sorted(known))}")
    things = [one for one in what if not isinstance(one, str)]
    for thing in things:
        if not any(thing is one for one in model.attached):
            raise ModelError(
                f"detach: model {model.name!r} does not carry {thing!r}; give a role, or one of model.attached"
            )
    gone = [one for one in model.attached if one.role in roles or any(one is thing for thing in things)]
    left = [one for one in model.attached if not any(one is thing for thing in gone)]
    return replace(model, attached=tuple(_after_loss(left, gone)))


def add_constraints(model: Model, *constraints: Constraint) -> Model:
    """Returns the model with constraints added after its existing ones.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> rbd.add_constraints(rbd.load("double_pendulum"), slider)
    double_pendulum: 2 bodies, nq = 2, nv = 2
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Revolute v[1:2], 1 kg
    ╌╌ PointOnPlane('world', 'lower'), 1 rows
    """
    return told(attached_to(model, constraints_of(*constraints), "add_constraints"), constraints)


def without_constraints(model: Model) -> Model:
    """Returns the model without constraints, with the forces that act on it.

    >>> pin = rbd.constraints.Connect("world", (0.0, 0.0, -2.0), "lower", (0.0, 0.0, -1.0))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), pin)
    >>> print(len(model.constraints), len(rbd.constraints.without_constraints(model).constraints))
    1 0
    """
    return without(model, "constraint")


def attachable(*things: Attached) -> tuple[Attached, ...]:
    """Checks that all objects can be attached to a model, and returns them as a tuple."""
    return all_of(Attached, "something that can be attached to a model", things)


def constraints_of(*things: Constraint) -> tuple[Constraint, ...]:
    """Checks that all objects are constraints, and returns them as a tuple."""
    return all_of(Constraint, "a constraint; see rbd_jax.constraints", things)


def all_of(kind: type[A], wanted: str, things: Iterable) -> tuple[A, ...]:
    """Checks that all objects are instances of `kind`, and returns them as a tuple."""
    things = tuple(things)
    for thing in things:
        if not isinstance(thing, kind):
            raise ModelError(f"{thing!r} is a {type(thing).__name__}, not {wanted}")
    return things


def check_attached(topology: Topology, things: Sequence[Attached], carried: Sequence[Attached] = ()) -> None:
    """Raises an error if new attachments are invalid in a model of this topology with the attachments `carried`."""
    known: dict[str, set[str]] = {}
    for thing in carried:
        known.setdefault(thing.role, set()).add(thing.name)
    for thing in things:
        own = known.setdefault(thing.role, set())
        if thing.name and thing.name in own:
            raise ModelError(
                f"two {thing.role}s are called {thing.name!r}; every {thing.role} needs its own name"
            )
        own.add(thing.name)
    for thing in things:
        if thing.single and sum(one.role == thing.role for one in (*carried, *things)) > 1:
            raise ModelError(
                f"{thing.label}: a model can have only one {thing.role}, and it already has one. Detach it first: "
                f"rbd.detach(model, {thing.role!r})"
            )
        label = thing.label
        for role, name in thing.refers:
            if name not in (names := known.get(role, set())):
                raise UnknownNameError(
                    f"{label}: there is no {role} {name!r}{suggest(name, sorted(names - {''}))}"
                )
        for body in thing.bodies:
            if body != "world" and body not in topology.body_names:
                raise UnknownNameError(
                    f"{label}: there is no body {body!r}{suggest(body, [*topology.body_names, 'world'])}"
                )
        for joint in thing.joints:
            if joint not in topology.joint_names:
                raise UnknownNameError(
                    f"{label}: there is no joint {joint!r}{suggest(joint, topology.joint_names)}"
                )
            body = topology.joint_index(joint)
            fault = thing.joint_fault(joint, int(topology.joint_nq[body]), int(topology.joint_nv[body]))
            if fault is not None:
                raise ModelError(f"{label}: {fault}")
        fault = thing.fault([_carrier(topology, body) for body in thing.bodies])
        if fault is not None:
            raise ModelError(f"{label}: {fault}")


def _carrier(topology: Topology, body: str) -> int:
    return -1 if body == "world" else int(topology.carriers[topology.body_index(body)])


# Effects of edits.


def without_repeated(things: Iterable[Attached]) -> list[Attached]:
    """Returns the attachments of several models without equal copies of single ones, such as a shared contact model."""
    kept: list[Attached] = []
    for thing in things:
        if not (thing.single and any(_are_same(thing, one) for one in kept)):
            kept.append(thing)
    return kept


def _are_same(one: Attached, other: Attached) -> bool:
    (numbers, structure), (others, same) = jax.tree.flatten(one), jax.tree.flatten(other)
    if structure != same:
        return False
    return all(a is b or (is_known((a, b)) and np.array_equal(a, b)) for a, b in zip(numbers, others))


def renamed(
    thing: A, bodies: Callable[[str], str], joints: Callable[[str], str], others: Callable[[Reference], str]
) -> A:
    """Returns an attachment after renaming bodies, joints and other attachments of its model."""
    own = [body if body == "world" else bodies(body) for body in thing.bodies]
    moved = thing.attached(own, thing.frames, [joints(joint) for joint in thing.joints])
    name = others(Reference(thing.role, thing.name)) if thing.name else ""
    return moved.called(name, tuple(Reference(one.role, others(one)) for one in thing.refers))


def reframed(thing: A, frames: Mapping[str, Transform]) -> A:
    """Returns an attachment after bodies (or the world) got new frames; `frames` are the old frames in the new ones."""
    own = [thing.frames[i] for i in range(len(thing.bodies))]
    moved = [
        frames[body] @ given if body in frames else given
        for body, given in zip(thing.bodies, own, strict=True)
    ]
    return thing.attached(thing.bodies, _stacked(moved, thing.frames), thing.joints)


def fused(thing: A, topology: Topology, welds: Transform) -> A:
    """Returns an attachment after merging welded bodies into their carriers; `welds` are the frames in the carriers."""
    bodies, frames = [], []
    for i, body in enumerate(thing.bodies):
        own = thing.frames[i]
        if body == "world":
            bodies.append(body)
            frames.append(own)
            continue
        index = topology.body_index(body)
        carrier = topology.carriers[index]
        bodies.append("world" if carrier < 0 else topology.body_names[topology.moving_bodies[carrier]])
        frames.append(welds[index] @ own)
    return thing.attached(bodies, _stacked(frames, thing.frames), thing.joints)


def cut_bodies(model: Model) -> list[int]:
    """Returns the bodies that some attachment needs as separate bodies, not merged with the body that they are welded to."""
    known = {Reference(thing.role, thing.name): thing.bodies for thing in model.attached if thing.name}
    bodies: list[str] = []
    for thing in model.attached:
        for place in thing.cuts:
            bodies += [place.name] if place.role == "body" else known[place]
    return [model.topology.body_index(body) for body in dict.fromkeys(bodies) if body != "world"]


def after_locking(things: Iterable[Attached], joints: Collection[str]) -> list[Attached]:
    """Returns the attachments after locking joints, without attachments that the locking removes, and updates references."""
    left, gone = [], []
    for thing in things:
        own = [joint for joint in thing.joints if joint in joints]
        kept = thing.locked(own) if own else thing
        left += [] if kept is None else [kept]
        gone += [thing] if kept is None else []
    return _after_loss(left, gone)


def _after_loss(left: list[Attached], gone: list[Attached]) -> list[Attached]:
    """Returns the remaining attachments after a removal; attachments with references to removed ones adapt or are removed."""
    while gone:
        lost = {Reference(thing.role, thing.name) for thing in gone if thing.name}
        things, left, gone = left, [], []
        for thing in things:
            kept = thing.without(lost) if lost & set(thing.refers) else thing
            left += [] if kept is None else [kept]
            gone += [thing] if kept is None else []
    return left


def _stacked(frames: list[Transform], empty: Transform) -> Transform:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *frames) if frames else empty


def grouped(constraints: tuple[Constraint, ...]) -> list[tuple[list[int], Constraint]]:
    """Groups constraints that differ only in parameters and names; returns indices and stacked constraints per group."""
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
