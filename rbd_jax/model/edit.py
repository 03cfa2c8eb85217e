"""Functions that derive models from other models: locked joints, merged welds, several models in one world, other precision.

All are pure functions. They can be called under `jit` and differentiated with respect to the parameters of the given
models. Their decisions about the tree depend on its topology and on names only.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import a_model, as_array
from .._core.array import is_known, with_precision
from .._core.errors import ModelError, UnknownNameError, suggest
from ..joints import Fixed
from ..spatial import Reference
from ..spatial.transform import Transform
from .attachments import after_locking, check_attached, cut_bodies, fused, reframed, renamed, without_repeated
from .builder import Body, ModelBuilder, checked_name, describe
from .lumping import moving_inertias, moving_placements, weld_frames
from .model import Model
from .settings import Settings
from .topology import JointKind, Topology
from .tree import Traversal, Tree


#: The joints to lock: one name, several, or `{name: configuration}`, where None stands for the joint's own zero.
Locks = str | Iterable[str] | Mapping[str, Any]


def lock_joints(model: Model, joints: Locks) -> Model:
    """Returns the model with some of its joints welded in one configuration.

    A locked joint becomes a `Fixed` joint of the same name, with the body's placement at `q`. Its limits, damping and other
    coefficients are removed. A rheonomic joint is fixed at its current position. Joints that mimic a locked joint are locked at
    the corresponding position. A mimic joint cannot be locked alone: lock its leader. Attachments remain: a force along several
    joints omits the locked ones, and a constraint on the coordinate of a locked joint raises an error. Actuators of locked
    joints and their sensors are removed.

    Args:
      model: The model.
      joints: Names of joints, which are locked at zero, or `{name: q}` with the joint's own configuration: a scalar for a joint
        with one degree of freedom, otherwise an array of length nq.

    >>> model = rbd.load("double_pendulum")
    >>> rbd.lock_joints(model, {"elbow": 0.5})
    double_pendulum: 2 bodies, nq = 1, nv = 1
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Fixed, 1 kg
    """
    a_model("lock_joints", model)
    builder = ModelBuilder.from_model(model)
    before = builder.bodies
    builder.bodies = locked(before, joints)
    gone = {new.joint_name for old, new in zip(before, builder.bodies, strict=True) if new is not old}
    builder.attached = after_locking(builder.attached, gone)
    return builder.lay_out()


def locked(bodies: list[Body], joints: Locks | None) -> list[Body]:
    """Returns the body descriptions with some of their joints welded; see `lock_joints`."""
    if joints is None:
        return bodies
    if isinstance(joints, Mapping):
        wanted = dict(joints)
    else:
        wanted = dict.fromkeys([joints] if isinstance(joints, str) else joints)
    by_joint = {body.joint_name: body for body in bodies}
    at: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in by_joint:
            raise UnknownNameError(f"there is no joint {name!r} to lock{suggest(name, by_joint)}")
        body = by_joint[name]
        if body.mimic is not None:
            leader = _first_leader(name, by_joint)
            raise ModelError(
                f"joint {name!r} cannot be locked, since it mimics {leader!r}; lock {leader!r}, and {name!r} is "
                "locked with it"
            )
        at[name] = _configuration(body, value)
    # Repeat until no more mimic joints are found, for mimic joints of mimic joints.
    found = True
    while found:
        found = False
        for body in bodies:
            if body.mimic is None or body.joint_name in at or body.mimic.leader not in at:
                continue
            leader = at[body.mimic.leader]
            if leader.shape == (1,) and body.joint.nq == 1:  # otherwise the builder raises an error
                factor, offset = (
                    jnp.asarray(x, leader.dtype) for x in (body.mimic.multiplier, body.mimic.offset)
                )
                at[body.joint_name] = factor * leader + offset
                found = True
    return [_welded(body, at[body.joint_name]) if body.joint_name in at else body for body in bodies]


def _first_leader(name: str, by_joint: Mapping[str, Body]) -> str:
    seen = {name}
    while (
        (mimic := by_joint[name].mimic) is not None and mimic.leader in by_joint and mimic.leader not in seen
    ):
        name = mimic.leader
        seen.add(name)
    return name


def _configuration(body: Body, value):
    """Returns the configuration of a locked joint as an array of length nq, in the precision of its placement."""
    dtype, size = body.placement.rotation.dtype, body.joint.nq
    if value is None:
        return body.joint.neutral().astype(dtype)
    if not isinstance(value, jax.Array):
        try:
            value = np.asarray(value, float)
        except (TypeError, ValueError):
            raise ModelError(
                f"joint {body.joint_name!r} cannot be locked at {value!r}; its configuration is "
                + ("a number" if size == 1 else f"an array of {size} numbers")
            ) from None
    shape = np.shape(value)
    if shape != (size,) and not (shape == () and size == 1):
        raise ModelError(
            f"joint {body.joint_name!r} cannot be locked at a configuration of shape {shape}; it has nq = {size}"
        )
    if is_known(value) and not np.isfinite(np.asarray(value)).all():
        raise ModelError(
            f"joint {body.joint_name!r} cannot be locked at {value}; a configuration must be finite"
        )
    return jnp.asarray(value, dtype).reshape(size)


def _welded(body: Body, q) -> Body:
    # A new body without coefficients, since a weld has none.
    placement, joint = jax.tree.map(jnp.asarray, (body.placement, body.joint))
    placement = placement @ joint.transform(q)
    return Body(body.name, body.parent, Fixed(), placement, body.inertia, body.joint_name)


def fuse_fixed(model: Model) -> Model:
    """Returns the model with each welded body merged into the body that carries it.

    The inertia of a welded body is added to its carrier, and its attachments move to the carrier. Bodies welded to the world
    are removed, and their attachments move to the world. Moving joints keep their names, order and coordinates, so the dynamics
    are the same. The names of welded bodies are removed, and so is the constant potential energy of bodies welded to the world.
    Welds needed for measurements remain: welds with a force sensor, and welds at the root of a measured subtree.

    >>> model = rbd.lock_joints(rbd.load("double_pendulum"), "elbow")
    >>> rbd.fuse_fixed(model)
    double_pendulum: 1 bodies, nq = 1, nv = 1
    └─ upper (shoulder)  Revolute v[0:1], 2 kg
    """
    a_model("fuse_fixed", model)
    whole, model = model, _parted(model)
    old = model.topology
    if not old.fixed.any():
        return whole
    place = {int(body): moving_body for moving_body, body in enumerate(old.moving_bodies)}
    kept = [index for index, kind in enumerate(old.kinds) if not kind.fixed]
    topology = Topology(
        name=old.name,
        body_names=tuple(old.body_names[body] for body in old.moving_bodies),
        joint_names=tuple(old.joint_names[body] for body in old.moving_bodies),
        parents=old.moving_tree.parents,
        kinds=tuple(
            replace(
                old.kinds[index],
                bodies=tuple(place[body] for body in old.kinds[index].bodies),
                fixed=all(whole.topology.fixed[body] for body in old.kinds[index].bodies),
            )
            for index in kept
        ),
        leaders=tuple(place.get(old.leaders[body], -1) for body in old.moving_bodies),
        traversal=old.traversal,
    )
    placements, inertias, welds = _lumped(model)
    return replace(
        model,
        placements=placements,
        inertias=inertias,
        joints=tuple(model.joints[index] for index in kept),
        topology=topology,
        attached=tuple(fused(thing, old, welds) for thing in model.attached),
    )


def _parted(model: Model) -> Model:
    """Returns the model with the welds that must remain as a group of joints that is not fixed."""
    topology = model.topology
    welds = [body for body in cut_bodies(model) if topology.fixed[body]]
    if not welds:
        return model
    kinds, groups = list(topology.kinds), list(model.joints)
    for index, kind in enumerate(topology.kinds):
        own = [body in welds for body in kind.bodies]
        for which, moves in (([not one for one in own], False), (own, True)):
            part = np.flatnonzero(which)
            if kind.fixed and any(own):
                group = jax.tree.map(lambda leaf, part=part: leaf[part], model.joints[index])
                bodies = tuple(kind.bodies[place] for place in part)
                at = len(kinds) if moves else index
                kinds[at : at + 1] = [replace(kind, bodies=bodies, fixed=not moves)]
                groups[at : at + 1] = [group]
    return replace(model, topology=replace(topology, kinds=tuple(kinds)), joints=tuple(groups))


@jax.jit  # one program is 10 times as fast as its separate operations
def _lumped(model: Model):
    return moving_placements(model), moving_inertias(model), weld_frames(model)


def concatenate(
    *models: Model,
    names: Sequence[str | None] | None = None,
    placements: Sequence[Transform | None] | None = None,
) -> Model:
    """Returns several mechanisms in one world, with bodies and coordinates in the order of the models (book eq. 3.10).

    Args:
      *models: Models of the same precision and gravity.
      names: A prefix for the bodies and joints of each model, which are then called `prefix/name`, or None. Prefixes are
        required if the models share names.
      placements: The placement of each model's world, or None. Default: all at the same place. Attachments fixed to the world
        move with it; vectors in the world's axes (gravity, a `DirectionalForce`, a `GravityField`) do not.

    >>> model = rbd.load("pendulum")
    >>> rbd.concatenate(model, model, names=["left", "right"])
    pendulum + pendulum: 2 bodies, nq = 2, nv = 2
    ├─ left/bob (left/swing)  Revolute v[0:1], 1 kg
    └─ right/bob (right/swing)  Revolute v[1:2], 1 kg
    """
    if not models:
        raise ModelError("concatenate: there is no model; pass at least one")
    for what, given in (("names", names), ("placements", placements)):
        if given is not None and (isinstance(given, str) or len(given) != len(models)):
            raise ModelError(
                f"concatenate: {what} has {len(given)} entries for {len(models)} models; it must have one per model"
            )
    for model in models:
        a_model("concatenate", model)
    first = models[0]
    for model in models[1:]:
        if model.dtype != first.dtype:
            raise ModelError(
                f"concatenate: model {first.name!r} is of type {first.dtype} and {model.name!r} of {model.dtype}; "
                "cast one with astype"
            )
        known = is_known((first.gravity, model.gravity))
        if known and not np.array_equal(first.gravity, model.gravity):
            raise ModelError(
                f"concatenate: model {first.name!r} has gravity {first.gravity.tolist()} and {model.name!r} has "
                f"{model.gravity.tolist()}; one world has one gravity"
            )
    prefixes = [f"{name}/" if name else "" for name in names or [None] * len(models)]
    _check_clashes(models, prefixes)
    traversal = (
        first.topology.traversal if len({model.topology.traversal for model in models}) == 1 else "auto"
    )
    settings = Settings.together([model.settings for model in models], prefixes)
    builder = ModelBuilder(first.gravity, " + ".join(model.name for model in models), traversal, settings)
    for model, prefix, placement in zip(models, prefixes, placements or [None] * len(models), strict=True):
        builder.bodies += [_moved(body, prefix, placement) for body in describe(model)]
        named = lambda name, prefix=prefix: prefix + name
        things = [
            renamed(one, named, named, lambda other, named=named: named(other.name)) for one in model.attached
        ]
        builder.attached += (
            things if placement is None else [reframed(one, {"world": placement}) for one in things]
        )
    builder.attached = without_repeated(builder.attached)
    return builder.lay_out()


def _check_clashes(models: Sequence[Model], prefixes: Sequence[str]) -> None:
    for what in ("body", "joint"):
        owner: dict[str, str] = {}
        for model, prefix in zip(models, prefixes, strict=True):
            for name in getattr(model, f"{what}_names"):
                if prefix + name in owner:
                    raise ModelError(
                        f"concatenate: models {owner[prefix + name]!r} and {model.name!r} both have a {what} "
                        f"{prefix + name!r}; distinguish them with names=(...), a prefix for each model"
                    )
            owner |= {prefix + name: model.name for name in getattr(model, f"{what}_names")}


def _moved(body: Body, prefix: str, placement: Transform | None) -> Body:
    """Returns a body with a prefix on its names and with the world of its model moved."""
    root = body.parent == "world"
    return replace(
        body,
        name=prefix + body.name,
        parent="world" if root else prefix + body.parent,
        joint_name=prefix + body.joint_name,
        placement=placement @ body.placement if root and placement is not None else body.placement,
        mimic=body.mimic and replace(body.mimic, leader=prefix + body.mimic.leader),
    )


def rename(
    model: Model,
    bodies: Mapping[str, str] | None = None,
    joints: Mapping[str, str] | None = None,
    attached: Mapping[tuple[str, str], str] | None = None,
) -> Model:
    """Returns the model with other names for some of its bodies and joints; attachments remain attached.

    Args:
      model: The model.
      bodies: `{name: new name}` for bodies.
      joints: `{name: new name}` for joints.
      attached: `{("site", name): new name}` for attachments, by role and name.

    >>> rbd.rename(rbd.load("pendulum"), joints={"swing": "hinge"}).joint_names
    ('hinge',)
    """
    a_model("rename", model)
    for what, given in (("bodies", bodies), ("joints", joints), ("attached", attached)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"rename: {what} is {reprlib.repr(given)}; it must be {{name: new name}}")
    new = {"body": dict(bodies or {}), "joint": dict(joints or {})}
    for what, names in (("body", model.body_names), ("joint", model.joint_names)):
        for name in new[what]:
            if name not in names:
                raise UnknownNameError(f"rename: there is no {what} {name!r}{suggest(name, names)}")
            checked_name(what, new[what][name])
        given = [new[what].get(name, name) for name in names]
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice or (what == "body" and "world" in given):
            raise ModelError(
                f"rename: the {what} name {(twice or ['world'])[0]!r} is taken; every {what} needs its own"
            )
    body, joint = (lambda name, own=own: own.get(name, name) for own in (new["body"], new["joint"]))
    topology = replace(
        model.topology,
        body_names=tuple(map(body, model.body_names)),
        joint_names=tuple(map(joint, model.joint_names)),
    )
    others = {Reference(*known): new for known, new in (attached or {}).items()}
    for role, name in others:
        model.named(role, name)
    things = [
        renamed(one, body, joint, lambda other: others.get(other, other.name)) for one in model.attached
    ]
    check_attached(topology, things)
    return replace(model, topology=topology, attached=tuple(things))


def with_traversal(model: Model, traversal: Traversal) -> Model:
    """Returns the same model with another traversal of its tree.

    Args:
      model: The model.
      traversal: `"scan"`, `"levels"`, `"doubling"` or `"auto"` (see `Tree`).

    >>> rbd.with_traversal(rbd.load("double_pendulum"), "levels").topology.traversal
    'levels'
    """
    a_model("with_traversal", model, planar=True)
    Tree((), traversal)  # validates the traversal
    return replace(model, topology=replace(model.topology, traversal=traversal))


def astype(model: Model, dtype) -> Model:
    """Returns the model with all parameters in another precision.

    Args:
      model: The model.
      dtype: `jnp.float32` or `jnp.float64`.

    >>> rbd.astype(rbd.load("pendulum"), jnp.float32).dtype
    dtype('float32')
    """
    a_model("astype", model, planar=True)
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ModelError(
            f"astype: {dtype!r} is not a floating-point type; give jnp.float32 or jnp.float64"
        ) from None
    if not jnp.issubdtype(kind, jnp.floating):
        raise ModelError(f"astype: the type of a model's numbers must be floating-point, got {kind}")
    if jax.dtypes.canonicalize_dtype(kind) != kind:
        raise ModelError(f"astype: {kind} is not enabled; set the JAX option jax_enable_x64")
    cast = with_precision(model, kind)
    for (path, before), after in zip(jax.tree.leaves_with_path(model), jax.tree.leaves(cast), strict=True):
        seen = eqx.is_array(before) and is_known((before, after))
        if seen and np.any(np.isfinite(before) & ~np.isfinite(after)):
            raise ModelError(
                f"astype: a number of model {model.name!r} is too large for {kind}: {jax.tree_util.keystr(path)}"
            )
    return cast


def at_time(model: Model, time) -> Model:
    """Returns the model at a time, with rheonomic joints and attachments at their positions at that time.

    Args:
      model: The model.
      time: The time, a scalar.

    >>> builder = rbd.ModelBuilder()
    >>> _ = builder.add_body("wheel", joint=rbd.joints.ConstantVelocity(rbd.joints.Prismatic((1, 0, 0)), [2.0]))
    >>> model = rbd.at_time(builder.build(), 0.5)
    >>> print(rbd.forward_kinematics(model, rbd.neutral(model)).position)
    [[1. 0. 0.]]
    """
    a_model("at_time", model, planar=True)
    if not (model.topology.rheonomic or any(thing.rheonomic for thing in model.attached)):
        return model
    now = as_array("at_time", "time", time, "one number").astype(model.dtype)
    if now.shape != ():
        raise ValueError(
            f"at_time: time has shape {now.shape}; it must be one number, so batch with jax.vmap"
        )

    def moved(kind: JointKind, joints):
        return jax.vmap(lambda joint: joint.at_time(now))(joints) if kind.rheonomic else joints

    joints = tuple(map(moved, model.topology.kinds, model.joints))
    return replace(model, joints=joints, attached=tuple(thing.at_time(now) for thing in model.attached))
