"""Building a model body by body, and taking one apart again.

A `Body` is the description of one body and of the joint that attaches it; a `ModelBuilder` gathers them and `build` checks
and lays them out as a `Model`. The loaders, and every function that edits a model, go through here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._arguments import as_array, vector
from .._array import floating, is_known
from .._errors import ModelError, ModelWarning, suggest
from ..joints import Fixed, Joint
from ..loops import Constraint
from ..spatial import Attached, Inertia, Transform
from ..spatial.transform import rigid_fault
from .attachments import attach, attachable, constraints_of
from .model import Model
from .topology import JointKind, Topology
from .tree import Traversal


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: `q = multiplier q_leader + offset`."""

    leader: str
    multiplier: Any = 1.0
    offset: Any = 0.0


@dataclass(frozen=True)
class Body:
    """One body, the joint that attaches it to its parent, and what acts along that joint.

    The per-dof numbers are scalars or arrays of the joint's `nv` (`spring_reference`, `lower` and `upper`: `nq`).
    """

    name: str
    parent: str
    joint: Joint
    placement: Transform
    inertia: Inertia
    joint_name: str
    armature: Any = 0.0
    damping: Any = 0.0
    friction: Any = 0.0
    stiffness: Any = 0.0
    spring_reference: Any = None
    lower: Any = -np.inf
    upper: Any = np.inf
    velocity_limit: Any = np.inf
    effort_limit: Any = np.inf
    mimic: Mimic | None = None


#: The fields of a `Body` with one number for each degree of freedom, and those with one for each coordinate.
PER_DOF = ("armature", "damping", "friction", "stiffness", "velocity_limit", "effort_limit")
PER_COORDINATE = ("spring_reference", "lower", "upper")
ALONG_JOINT = (*PER_DOF, *PER_COORDINATE)


class ModelBuilder:
    """Collects bodies, parents first, and what is attached to them, and builds a `Model`."""

    def __init__(self, gravity=(0.0, 0.0, -9.81), name: str = "model", traversal: Traversal = "auto"):
        self.gravity = as_array("ModelBuilder", "gravity", gravity, "a vector of three components")
        if self.gravity.shape != (3,):
            raise ModelError(f"gravity has shape {self.gravity.shape}; it is a vector of three components")
        if is_known(self.gravity) and not np.isfinite(self.gravity).all():
            raise ModelError(f"gravity is {self.gravity.tolist()}, which is not finite")
        self.name = name
        self.traversal: Traversal = traversal
        self.bodies: list[Body] = []
        self.attached: list[Attached] = []

    def add_body(
        self,
        name: str,
        parent: str = "world",
        joint: Joint | None = None,
        placement: Transform | Sequence[float] | Array | None = None,
        inertia: Inertia | None = None,
        *,
        joint_name: str | None = None,
        **along_joint,
    ) -> str:
        """Attach a body to a parent that is already there, or to the world; returns its name.

        **Arguments**

        - `joint`: how it is attached; welded by default.
        - `placement`: the joint frame in the parent's frame, or where its origin is; the same frame by default.
        - `inertia`: in the body's frame; none by default.
        - `joint_name`: the body's name by default.
        - `along_joint`: `armature`, `damping`, `friction`, `stiffness`, `spring_reference`, `lower`, `upper`,
          `velocity_limit`, `effort_limit`, each a number or one for each degree of freedom, and `mimic`, a `Mimic`.
        """
        unknown = set(along_joint) - {*ALONG_JOINT, "mimic"}
        if unknown:
            word = sorted(unknown)[0]
            raise TypeError(f"add_body: unknown argument {word!r}{suggest(word, [*ALONG_JOINT, 'mimic'])}")
        joint = Fixed() if joint is None else joint
        if not isinstance(joint, Joint):
            raise ModelError(
                f"body {name!r}: joint is a {type(joint).__name__}, not an instance of rbd.joints.Joint"
            )
        body = Body(
            name,
            parent,
            joint,
            _placement(name, placement),
            Inertia.zero() if inertia is None else inertia,
            name if joint_name is None else joint_name,
            **along_joint,
        )
        self.add(body)
        return name

    def add(self, body: Body) -> None:
        """Attach a described body."""
        for what, name in (("body", body.name), ("joint", body.joint_name), ("parent", body.parent)):
            if not isinstance(name, str) or not name:
                raise ModelError(f"the name of a {what} is {name!r}; it must be text that is not empty")
        known = {other.name for other in self.bodies}
        if body.name == "world" or body.name in known:
            raise ModelError(f"body {body.name!r}: the name is taken; every body needs a name of its own")
        if body.joint_name in {other.joint_name for other in self.bodies}:
            raise ModelError(
                f"joint {body.joint_name!r} (of body {body.name!r}): the name is taken; every joint needs its own"
            )
        if body.parent != "world" and body.parent not in known:
            raise ModelError(
                f"body {body.name!r}: no body {body.parent!r} to attach it to{suggest(body.parent, known)} "
                "(a parent must be added before its children, and the root is attached to 'world')"
            )
        _check_numbers(body)
        self.bodies.append(body)

    def attach(self, thing: Attached) -> None:
        """Attach something to bodies or joints that are there when the model is built: a constraint, a force element."""
        self.attached += attachable(thing)

    def add_constraint(self, constraint: Constraint) -> None:
        """Tie bodies or joints that are there when the model is built (see `rbd_jax.constraints`)."""
        self.attached += constraints_of(constraint)

    def add_force(self, force: Attached) -> None:
        """Let a force element act in every rollout of the model (see `rbd_jax.forces`)."""
        self.attach(force)

    def build(self, strict: bool = False) -> Model:
        """The model. Inertias that no real body has give one warning that names the bodies, or an error if `strict`."""
        report_inertias(self.name, self.bodies, strict)
        return self.lay_out()

    def lay_out(self) -> Model:
        """The model, as `build` makes it, without a word about its inertias."""
        dtype = jnp.result_type(self.gravity)
        bodies = _resolve_mimics(self.bodies, dtype)
        groups: dict[Any, list[int]] = {}
        for index, body in enumerate(bodies):
            leaves, structure = jax.tree.flatten(body.joint)
            groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(index)
        names = {body.name: index for index, body in enumerate(bodies)}
        joint_names = {body.joint_name: index for index, body in enumerate(bodies)}
        topology = Topology(
            name=self.name,
            body_names=tuple(names),
            joint_names=tuple(joint_names),
            parents=tuple(names.get(body.parent, -1) for body in bodies),
            kinds=tuple(_kind(bodies[members[0]].joint, members) for members in groups.values()),
            leaders=tuple(joint_names[body.mimic.leader] if body.mimic else -1 for body in bodies),
            traversal=self.traversal,
        )
        own = [body for body in bodies if body.mimic is None]
        mimic_joints = [body.mimic for body in bodies if body.mimic is not None]
        stacked = {name: _concatenate([_spread(body, name) for body in own], dtype) for name in ALONG_JOINT}
        model = Model(
            gravity=self.gravity,
            placements=_stack([body.placement for body in bodies], Transform.identity(), dtype),
            inertias=_stack([body.inertia for body in bodies], Inertia.zero(), dtype),
            joints=tuple(
                _stack([bodies[index].joint for index in members], None, dtype) for members in groups.values()
            ),
            mimic_multiplier=_concatenate([m.multiplier[None] for m in mimic_joints], dtype),
            mimic_offset=_concatenate([m.offset[None] for m in mimic_joints], dtype),
            topology=topology,
            **stacked,  # pyright: ignore[reportArgumentType]
        )
        return attach(model, self.attached)

    @staticmethod
    def from_model(model: Model) -> ModelBuilder:
        """The descriptions that `model` was built of."""
        builder = ModelBuilder(model.gravity, model.name, model.topology.traversal)
        builder.bodies, builder.attached = describe(model), list(model.attached)
        return builder


def describe(model: Model) -> list[Body]:
    """The bodies of a model, one by one: the inverse of `ModelBuilder.build`."""
    topology, bodies = model.topology, []
    mimic_joints = topology.mimic_joints.tolist()
    # As NumPy arrays where they are known: JAX would compile every one of the slices.
    along_joints = {name: getattr(model, name) for name in ALONG_JOINT}
    along_joints = {name: np.asarray(x) if is_known(x) else x for name, x in along_joints.items()}
    for index in range(model.nb):
        along: dict[str, Any] = {}
        if topology.is_mimic[index]:
            place = mimic_joints.index(index)
            along["mimic"] = Mimic(
                model.joint_names[topology.leaders[index]],
                model.mimic_multiplier[place],
                model.mimic_offset[place],
            )
        else:
            along |= {name: along_joints[name][model.v_slice(index)] for name in PER_DOF}
            along |= {name: along_joints[name][model.q_slice(index)] for name in PER_COORDINATE}
        parent = topology.parents[index]
        bodies.append(
            Body(
                model.body_names[index],
                model.body_names[parent] if parent >= 0 else "world",
                model.joint(index),
                model.placements[index],
                model.inertias[index],
                model.joint_names[index],
                **along,
            )
        )
    return bodies


def report_inertias(name: str, bodies: Sequence[Body], strict: bool) -> None:
    """One warning (or error, if `strict`) that names the bodies whose inertia no real body can have, and why."""
    faults = {body.name: fault for body in bodies if (fault := inertia_fault(body.inertia))}
    if not faults:
        return
    listed = "; ".join(f"{body!r}: {fault}" for body, fault in faults.items())
    message = f"model {name!r} has inertias that are not physical: {listed}"
    if strict:
        raise ModelError(f"{message}. Correct them, or load with strict=False to take them as they are")
    warnings.warn(f"{message}. They are used as they are", ModelWarning, stacklevel=3)


def inertia_fault(inertia: Inertia) -> str | None:
    """Why no real body can have this inertia, or None. Massless and traced ones are let pass."""
    if not is_known(inertia):
        return None
    # In NumPy, since a loader asks this of every body: JAX takes a hundred times as long for a few numbers.
    mass, first = float(inertia.mass), np.asarray(inertia.first_moment, float)
    xx, xy, yy, xz, yz, zz = np.asarray(inertia.rotational, float)
    about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if mass == 0:
        size = np.abs(about_origin).max()
        return f"rotational inertia {size:.3g} without mass" if size > 0 else None
    moments = np.linalg.eigvalsh(about_origin - (first @ first * np.eye(3) - np.outer(first, first)) / mass)
    # What the shift to the centre of mass loses by rounding is no fault of the body.
    rounding = 8 * float(jnp.finfo(jnp.result_type(inertia.rotational)).eps) * np.abs(about_origin).max()
    slack = 1e-6 * np.abs(moments).max() + rounding
    if moments[0] < -slack:
        return f"the rotational inertia has the negative principal moment {moments[0]:.3g}"
    return triangle_fault(moments, slack)


def triangle_fault(moments: np.ndarray, slack: float) -> str | None:
    """Why no real body can have these principal moments, smallest first, or None."""
    a, b, c = moments
    if c > a + b + slack:
        return f"the principal moments {a:.3g}, {b:.3g}, {c:.3g} break the triangle inequality"
    return None


def _placement(body: str, given) -> Transform:
    if given is None:
        return Transform.identity()
    if isinstance(given, Transform):
        return given
    expected = "it takes a Transform, or a point, of shape (3,)"
    try:
        return Transform.from_position(vector(f"body {body!r}", "placement", given, 3, expected))
    except ValueError as error:
        raise ModelError(str(error)) from None


def _check_numbers(body: Body) -> None:
    numbers: dict[str, Any] = {"placement": body.placement, "inertia": body.inertia, "joint": body.joint}
    along = {name: _spread(body, name) for name in ALONG_JOINT}
    numbers |= {name: along[name] for name in PER_DOF if "limit" not in name}
    for name, value in numbers.items():
        leaves = [leaf for leaf in jax.tree.leaves(value) if is_known(leaf)]
        if not all(np.isfinite(np.asarray(leaf)).all() for leaf in leaves):
            raise ModelError(f"body {body.name!r}: its {name} has a number that is not finite")
    fault = rigid_fault(body.placement)
    if fault is not None:
        raise ModelError(f"body {body.name!r}: placement: {fault}")
    if is_known(body.inertia) and float(body.inertia.mass) < 0:
        raise ModelError(
            f"body {body.name!r}: its mass is {float(body.inertia.mass):g}; a mass is positive or zero"
        )
    known = {name: value for name, value in along.items() if is_known(value)}
    for name, value in known.items():
        if np.isnan(value).any():
            raise ModelError(f"body {body.name!r}: its {name} is not a number")
        if name in PER_DOF and (value < 0).any():
            raise ModelError(f"body {body.name!r}: its {name} is {value.tolist()}; it cannot be negative")
    if known.keys() >= {"lower", "upper"} and (known["lower"] > known["upper"]).any():
        raise ModelError(
            f"body {body.name!r}: its lower limit {known['lower'].tolist()} is above its upper limit {known['upper'].tolist()}"
        )


def _spread(body: Body, name: str):
    """A per-dof or per-coordinate field of a body as an array of the joint's size, in NumPy where it is known."""
    size = body.joint.nv if name in PER_DOF else body.joint.nq
    value = getattr(body, name)
    value = _numbers(f"joint {body.joint_name!r}: {name}", body.joint.neutral() if value is None else value)
    if value.ndim == 0:
        return _module(value).full(size, value)
    if value.shape != (size,):
        raise ModelError(
            f"joint {body.joint_name!r}: {name} has shape {value.shape}, but the joint has "
            f"{'nv' if name in PER_DOF else 'nq'} = {size}"
        )
    return value


def _numbers(what: str, value):
    """As an array of floats: a tracer as it is, all else in NumPy."""
    if not is_known(value):
        return floating(value)
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} is {value!r}, which is not a number or an array of numbers") from None


def _resolve_mimics(bodies: list[Body], dtype) -> list[Body]:
    """Let every mimic joint follow a joint that leads, and hand what acts along it over to its leader.

    Damping, armature and stiffness act on the leader through the multiplier squared, Coulomb friction through its size.
    The leader's limits shrink to what the mimic joint's allow.
    """
    by_joint = {body.joint_name: index for index, body in enumerate(bodies)}
    resolved = list(bodies)
    for index, body in enumerate(bodies):
        if body.mimic is None:
            continue
        (leader, factor, offset), seen = _ratio(body, dtype), {body.joint_name}
        while True:
            if leader not in by_joint:
                raise ModelError(
                    f"joint {body.joint_name!r} mimics {leader!r}, which is no joint{suggest(leader, by_joint)}"
                )
            if leader in seen:
                raise ModelError(f"joint {body.joint_name!r} mimics itself, by way of {leader!r}")
            above = bodies[by_joint[leader]]
            if above.mimic is None:
                break
            seen.add(leader)
            leader, multiplier, shift = _ratio(above, dtype)
            factor, offset = factor * multiplier, factor * shift + offset
        for end in (body, bodies[by_joint[leader]]):
            if (end.joint.nq, end.joint.nv) != (1, 1):
                raise ModelError(
                    f"joint {body.joint_name!r} mimics {leader!r}, but joint {end.joint_name!r} has "
                    f"{end.joint.nv} degrees of freedom; only joints with one can be coupled"
                )
        resolved[index] = replace(body, mimic=Mimic(leader, factor, offset))
        resolved[by_joint[leader]] = _absorb(resolved[by_joint[leader]], body, factor, offset)
    return resolved


def _ratio(body: Body, dtype):
    """The leader that a mimic joint names, multiplier and offset."""
    assert body.mimic is not None
    numbers = []
    for name in ("multiplier", "offset"):
        value = _numbers(f"joint {body.joint_name!r}: its mimic's {name}", getattr(body.mimic, name))
        if value.shape != () or (is_known(value) and not np.isfinite(value)):
            raise ModelError(
                f"joint {body.joint_name!r}: its mimic's {name} is {value}; it is one finite number"
            )
        numbers.append(_module(value).asarray(value, dtype))
    return body.mimic.leader, numbers[0], numbers[1]


def _absorb(leader: Body, mimic_joint: Body, factor, offset) -> Body:
    xp = _module(
        [factor, offset, *[getattr(end, name) for end in (leader, mimic_joint) for name in ALONG_JOINT]]
    )

    def first(body, name):
        return xp.asarray(_spread(body, name)[0], factor.dtype)

    square = factor * factor
    limits = xp.stack([first(mimic_joint, "lower"), first(mimic_joint, "upper")])
    # Infinite limits are kept out of the division, which would differentiate to 0 * inf.
    finite = xp.isfinite(limits) & (factor != 0)
    ends = (xp.where(finite, limits, 0) - offset) / xp.where(factor == 0, 1, factor)
    free = xp.asarray([-np.inf, np.inf], factor.dtype)
    ends = xp.where(finite, ends, xp.where(factor < 0, free[::-1], free))
    stiffness = first(leader, "stiffness") + square * first(mimic_joint, "stiffness")
    rest = (first(mimic_joint, "spring_reference") - offset) * factor
    pull = (
        first(leader, "stiffness") * first(leader, "spring_reference")
        + first(mimic_joint, "stiffness") * rest
    )
    reference = xp.where(
        stiffness > 0, pull / xp.where(stiffness > 0, stiffness, 1), first(leader, "spring_reference")
    )
    return replace(
        leader,
        armature=first(leader, "armature") + square * first(mimic_joint, "armature"),
        damping=first(leader, "damping") + square * first(mimic_joint, "damping"),
        friction=first(leader, "friction") + xp.abs(factor) * first(mimic_joint, "friction"),
        stiffness=stiffness,
        spring_reference=reference,
        lower=xp.maximum(first(leader, "lower"), xp.min(ends)),
        upper=xp.minimum(first(leader, "upper"), xp.max(ends)),
    )


def _kind(joint: Joint, members: list[int]) -> JointKind:
    return JointKind(joint.nq, joint.nv, isinstance(joint, Fixed), joint.rheonomic, tuple(members))


def _stack(items: list, empty, dtype):
    """Equal PyTrees as one with a leading axis, in the model's precision."""
    if not items:
        return jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape), dtype), empty)

    def stack(*leaves):
        # In NumPy where all is known: JAX would compile a concatenation of as many arrays as there are bodies.
        if not is_known(leaves):
            return jnp.stack([jnp.asarray(leaf, dtype) for leaf in leaves])
        return jnp.asarray(np.stack([np.asarray(leaf, dtype) for leaf in leaves]))

    return jax.tree.map(stack, *items)


def _concatenate(parts: list, dtype):
    xp = _module(parts)
    return jnp.asarray(xp.concatenate([xp.zeros(0, dtype), *[xp.asarray(part, dtype) for part in parts]]))


def _module(tree):
    """NumPy for known numbers, which spares compiling each small operation, and JAX for traced ones."""
    return np if is_known(tree) else jnp
