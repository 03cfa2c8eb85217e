"""Construction of a model body by body, and the reverse.

A `Body` describes one body and the joint that attaches it. A `ModelBuilder` collects bodies, and `build` validates them and
creates a `Model`. The loaders and all functions that edit a model use this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .._core.arguments import UNIT, a_model, number, plain_vector
from .._core.array import from_numpy, is_known, with_numpy_leaves
from .._core.errors import ModelError, ModelWarning, is_plain, suggest
from ..joints import Fixed, Joint
from ..loops import Constraint
from ..spatial.attached import Attached
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform, rigid_fault
from . import faults
from .attachments import attachable, attached_to, constraints_of, told
from .mimic import Mimic, absorbed, array_module, numbers_of, ratios
from .model import Model
from .settings import Settings
from .topology import JointKind, Topology
from .tree import Traversal, Tree


@dataclass(frozen=True)
class Body:
    """One body, the joint that attaches it to its parent, and the coefficients along that joint.

    The coefficients are scalars or arrays of the joint's `nv` (`spring_reference`, `lower`, `upper` and `reference`: `nq`).

    >>> hinge, ball = rbd.joints.Revolute(axis=(0, 1, 0)), rbd.Inertia.sphere(1.0, 0.1)
    >>> arm = rbd.Body("arm", "world", hinge, rbd.Transform.identity(), ball, joint_name="shoulder", damping=0.2)
    >>> builder = rbd.ModelBuilder()
    >>> builder.add(arm)
    >>> print(builder.build().joint_names)
    ('shoulder',)
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
    reference: Any = None
    velocity_limit: Any = np.inf
    effort_limit: Any = np.inf
    mimic: Mimic | None = None


#: The fields of a `Body` with one value per degree of freedom, and the fields with one value per coordinate.
PER_DOF = ("armature", "damping", "friction", "stiffness", "velocity_limit", "effort_limit")
PER_COORDINATE = ("spring_reference", "lower", "upper", "reference")
ALONG_JOINT = (*PER_DOF, *PER_COORDINATE)
#: The default values of these fields.
DEFAULTS = {field.name: field.default for field in fields(Body) if field.name in ALONG_JOINT}


def checked_name(what: str, name: str) -> None:
    """Raises an error if the name of a body, a joint or a parent is invalid."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"the name of a {what} is {name!r}; it must be a nonempty string")
    if not is_plain(name):
        raise ModelError(
            f"the name of a {what} is {name!r}, with characters that are not printable; remove them"
        )


class ModelBuilder:
    """Collects bodies, parents first, and their attachments, and builds a `Model`.

    >>> builder = rbd.ModelBuilder(name="swing")
    >>> rod = rbd.Inertia.capsule(2.0, 0.05, 1.0)
    >>> hinge = rbd.joints.Revolute(axis=(0, 1, 0))
    >>> arm = builder.add_body("arm", joint=hinge, placement=(0.0, 0.0, 2.0), inertia=rod, damping=0.1)
    >>> model = builder.build()
    >>> print(model.body_names, model.nv, model.damping)
    ('arm',) 1 [0.1]
    """

    def __init__(
        self,
        gravity=(0.0, 0.0, -9.81),
        name: str = "model",
        traversal: Traversal = "auto",
        settings: Settings | None = None,
    ):
        try:
            self.gravity = number("ModelBuilder", "gravity", gravity, (3,))
        except ValueError as error:
            raise ModelError(str(error)) from None
        self.name = name
        self.traversal: Traversal = Tree((), traversal).traversal  # validates the traversal
        self.settings = settings or Settings()
        self.attached: list[Attached] = []
        self.bodies: list[Body] = []
        self._named: tuple[list[Body], set[str], set[str]] = self.bodies, set(), set()

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
        """Adds a body on an existing parent or on the world, and returns its name.

        Args:
          name: Name of the body.
          parent: Name of the parent, or "world".
          joint: The joint that attaches the body. Default: a weld.
          placement: The joint frame in the parent's frame, or the position of its origin. Default: the parent's frame.
          inertia: The inertia in the body's frame. Default: zero.
          joint_name: Name of the joint. Default: the body's name.
          **along_joint: `armature`, `damping`, `friction`, `stiffness`, `spring_reference`, `lower`, `upper`, `reference`,
            `velocity_limit`, `effort_limit`, each a scalar or one value per degree of freedom, and `mimic`, a `Mimic`.
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
            with_numpy_leaves(Inertia.zero, 0.0, np.zeros(3), np.zeros(6)) if inertia is None else inertia,
            name if joint_name is None else joint_name,
            **along_joint,
        )
        self.add(body)
        return name

    def add(self, body: Body) -> None:
        """Adds a body from its description."""
        for what, name in (("body", body.name), ("joint", body.joint_name), ("parent", body.parent)):
            checked_name(what, name)
        known, joints = self._names()
        if body.name == "world" or body.name in known:
            raise ModelError(f"body {body.name!r}: the name is taken; every body needs a name of its own")
        if body.joint_name in joints:
            raise ModelError(
                f"joint {body.joint_name!r} (of body {body.name!r}): the name is taken; every joint needs its own"
            )
        if body.parent != "world" and body.parent not in known:
            order = "A parent must be added before its children, and the root is attached to 'world'"
            raise ModelError(
                f"body {body.name!r}: no body {body.parent!r} to attach it to{suggest(body.parent, known, order)}"
            )
        _check(body, self.gravity.dtype)
        self.bodies.append(body)
        known.add(body.name)
        joints.add(body.joint_name)

    def _names(self) -> tuple[set[str], set[str]]:
        """Returns the names of the bodies and joints so far, cached while bodies are only added by `add`."""
        bodies, known, joints = self._named
        if bodies is not self.bodies or len(known) != len(bodies):
            known, joints = {body.name for body in self.bodies}, {body.joint_name for body in self.bodies}
            self._named = self.bodies, known, joints
        return known, joints

    def attach(self, *things: Attached) -> None:
        """Adds attachments to bodies or joints that exist when the model is built: shapes, sites, actuators, sensors, ..."""
        self.attached += attachable(*things)

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint between bodies or joints that exist when the model is built (see `rbd_jax.constraints`)."""
        self.attached += constraints_of(constraint)

    def add_force(self, force: Attached) -> None:
        """Adds a force element that acts in every rollout of the model (see `rbd_jax.forces`)."""
        self.attach(force)

    def build(self, strict: bool = False) -> Model:
        """Returns the model; physically impossible inertias raise one warning that names the bodies, or an error if `strict`."""
        report_inertias(self.name, self.bodies, strict)
        return told(self.lay_out(), self.attached)

    def lay_out(self) -> Model:
        """Returns the model as `build` does, without checking the inertias."""
        dtype = jnp.result_type(self.gravity)
        bodies = self.bodies
        ratio_of = ratios(bodies, dtype)
        groups: dict[Any, list[int]] = {}
        for index, body in enumerate(bodies):
            leaves, structure = jax.tree.flatten(body.joint)
            groups.setdefault((structure, tuple(map(np.shape, leaves))), []).append(index)
        names = {body.name: index for index, body in enumerate(bodies)}
        joint_names = {body.joint_name: index for index, body in enumerate(bodies)}
        for what, own in (("body", names), ("joint", joint_names)):
            if len(own) < len(bodies):
                raise ModelError(f"model {self.name!r}: two of its {len(bodies)} {what} names are the same")
        topology = Topology(
            name=self.name,
            body_names=tuple(names),
            joint_names=tuple(joint_names),
            parents=tuple(names.get(body.parent, -1) for body in bodies),
            kinds=tuple(_kind(bodies[members[0]].joint, members) for members in groups.values()),
            leaders=tuple(
                joint_names[ratio_of[body.joint_name].leader] if body.mimic else -1 for body in bodies
            ),
            traversal=self.traversal,
        )
        own, mimics = (np.flatnonzero(topology.is_mimic == mimic).tolist() for mimic in (False, True))
        along, theirs = (
            {name: _all_along(bodies, some, name, topology, dtype) for name in ALONG_JOINT}
            for some in (own, mimics)
        )
        multiplier, offset = (
            _concatenate([getattr(ratio_of[bodies[index].joint_name], name)[None] for index in mimics], dtype)
            for name in ("multiplier", "offset")
        )
        if mimics:
            at = {name: topology.leader_v if name in PER_DOF else topology.leader_q for name in ALONG_JOINT}
            along = absorbed(
                along, theirs, multiplier, offset, at, [bodies[index].joint_name for index in mimics]
            )
        model = Model(
            gravity=self.gravity,
            placements=_stack([body.placement for body in bodies], Transform.identity(), dtype),
            inertias=_stack([body.inertia for body in bodies], Inertia.zero(), dtype),
            joints=tuple(
                _stack([bodies[index].joint for index in members], None, dtype) for members in groups.values()
            ),
            mimic_multiplier=from_numpy(multiplier),
            mimic_offset=from_numpy(offset),
            topology=topology,
            settings=self.settings,
            **{name: from_numpy(x) for name, x in along.items()},  # pyright: ignore[reportArgumentType]
        )
        return attached_to(model, self.attached, "build")

    @staticmethod
    def from_model(model: Model) -> ModelBuilder:
        """Returns a builder with the descriptions of the bodies of `model`."""
        a_model("ModelBuilder.from_model", model)
        builder = ModelBuilder(model.gravity, model.name, model.topology.traversal, model.settings)
        builder.bodies, builder.attached = describe(model), list(model.attached)
        return builder


def describe(model: Model) -> list[Body]:
    """Returns the descriptions of the bodies of a model: the inverse of `ModelBuilder.build`."""
    topology, bodies = model.topology, []
    places = {body: place for place, body in enumerate(topology.mimic_joints.tolist())}
    # Known values become NumPy arrays, because JAX would compile every slice.
    along_joints = {name: getattr(model, name) for name in ALONG_JOINT}
    along_joints = {name: np.asarray(x) if is_known(x) else x for name, x in along_joints.items()}
    for index in range(model.nb):
        along: dict[str, Any] = {}
        if topology.is_mimic[index]:
            ratio = model.mimic_multiplier[places[index]], model.mimic_offset[places[index]]
            along["mimic"] = Mimic(model.joint_names[topology.leaders[index]], *ratio)
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
    """Warns once (or raises an error, if `strict`) about all bodies with physically impossible inertias, with the reasons."""
    known = [body for body in bodies if is_known(body.inertia)]
    found = faults.of_inertias(_stacked([body.inertia for body in known], np.asarray)) if known else ()
    listed = [f"{known[i].name!r}: {fault}" for i, fault in found]
    if not listed:
        return
    message = f"model {name!r} has inertias that are not physical: {'; '.join(listed)}"
    if strict:
        raise ModelError(f"{message}. Correct them, or load with strict=False to use them unchanged")
    warnings.warn(f"{message}. They are used unchanged", ModelWarning, stacklevel=3)


def _placement(body: str, given) -> Transform:
    if isinstance(given, Transform):
        return given
    expected = "it takes a Transform, or a point, of shape (3,)"
    try:
        position = (
            np.zeros(3) if given is None else plain_vector(f"body {body!r}", "placement", given, 3, expected)
        )
    except ValueError as error:
        raise ModelError(str(error)) from None
    if isinstance(position, np.ndarray):
        return with_numpy_leaves(Transform.identity, UNIT, position)
    return Transform.from_position(position)


def _check(body: Body, dtype) -> None:
    """Raises an error if parameters of a body are invalid."""
    owner = f"body {body.name!r}"
    largest = float(np.finfo(dtype).max)
    # A fast check of all numbers at once, sufficient for most bodies. It also detects NaN.
    numbers = _known_numbers((body.placement, body.inertia, body.joint))
    if not np.abs(numbers).max(initial=0) <= largest:
        for name, value in (("placement", body.placement), ("inertia", body.inertia), ("joint", body.joint)):
            if (numbers := _known_numbers(value)).size:
                _refuse(owner, faults.of_numbers(name, [numbers[None]]))
                _refuse_lost(f"{owner}: its {name}", numbers, dtype)
    fault = rigid_fault(body.placement)
    if fault is not None:
        raise ModelError(f"{owner}: placement: {fault}")
    if is_known(body.inertia.mass):
        _refuse(owner, faults.of_masses(np.asarray(body.inertia.mass)[None]))
    given = {name: value for name in ALONG_JOINT if (value := getattr(body, name)) is not DEFAULTS[name]}
    if not _plainly_fine(given, largest):
        _check_along(body, list(given), dtype)


def _known_numbers(value) -> np.ndarray:
    """Returns all concrete numbers of a PyTree in one vector."""
    known = [leaf for leaf in jax.tree.leaves(value) if not isinstance(leaf, Tracer)]
    return np.concatenate(known, axis=None) if known else np.zeros(0)


def _plainly_fine(along: Mapping[str, Any], largest: float) -> bool:
    """Returns whether all coefficients along a joint are valid floats, as in a file; 50 times as fast as with arrays."""
    for name, value in along.items():
        least = 0.0 if name in PER_DOF else -largest
        if not isinstance(value, float) or not (
            least <= value <= largest or name.endswith("limit") and value == np.inf
        ):
            return False
    return along.get("lower", -np.inf) <= along.get("upper", np.inf)


def _check_along(body: Body, names: Sequence[str], dtype) -> None:
    """Raises an error if coefficients along the joint are invalid."""
    joint = f"joint {body.joint_name!r}"
    given = {name: _spread(body, name) for name in names}
    known = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    for name, value in known.items():
        if name in PER_DOF:
            _refuse(joint, faults.of_coefficients(name, value))
        _refuse_lost(f"{joint}: its {name}", value, dtype)
    if known.keys() & {"lower", "upper"}:
        limits = [given.get(name, np.asarray([DEFAULTS[name]])) for name in ("lower", "upper")]
        if is_known(limits):
            _refuse(joint, faults.of_limits(*np.broadcast_arrays(*limits)))


def _refuse(owner: str, found: faults.Faults) -> None:
    """Raises the first fault, if any."""
    for _, fault in found:
        raise ModelError(f"{owner}: {fault}")


def _refuse_lost(what: str, numbers: np.ndarray, dtype) -> None:
    """Raises an error for finite numbers that overflow in the model's precision."""
    large = np.abs(numbers) > np.finfo(dtype).max
    if large.any() and (lost := numbers[large & np.isfinite(numbers)]).size:
        raise ModelError(f"{what} has the number {lost[0]:g}, which is too large for {dtype}")


def _all_along(bodies: Sequence[Body], chosen: list[int], name: str, topology: Topology, dtype):
    """Concatenates a per-dof or per-coordinate field of some bodies, in NumPy if its values are known."""
    values = [getattr(bodies[index], name) for index in chosen]
    if all(value is None for value in values) and all(
        _neutral_is_zero(bodies[index].joint) for index in chosen
    ):
        values = [0.0] * len(values)
    if all(isinstance(value, float) for value in values):  # fast path for thousands of bodies
        sizes = topology.joint_nv if name in PER_DOF else topology.joint_nq
        return np.repeat(np.asarray(values, dtype), sizes[chosen])
    return _concatenate([_spread(bodies[index], name) for index in chosen], dtype)


def _spread(body: Body, name: str):
    """Returns a per-dof or per-coordinate field of a body as an array of the joint's size, in NumPy if it is known."""
    size = body.joint.nv if name in PER_DOF else body.joint.nq
    value = getattr(body, name)
    if isinstance(value, int | float):
        return np.full(size, float(value))
    if value is None:
        value = np.zeros(size) if _neutral_is_zero(body.joint) else body.joint.neutral()
    value = numbers_of(f"joint {body.joint_name!r}: {name}", value)
    if value.ndim == 0:
        return array_module(value).full(size, value)
    if value.shape != (size,):
        raise ModelError(
            f"joint {body.joint_name!r}: {name} has shape {value.shape}, but the joint has "
            f"{'nv' if name in PER_DOF else 'nq'} = {size}"
        )
    return value


def _neutral_is_zero(joint: Joint) -> bool:
    return type(joint).neutral is Joint.neutral


def _kind(joint: Joint, members: list[int]) -> JointKind:
    return JointKind(joint.nq, joint.nv, isinstance(joint, Fixed), joint.rheonomic, tuple(members))


def _stack(items: list, empty, dtype):
    """Stacks equal PyTrees along a leading axis, in the model's precision."""
    if not items:
        return jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape), dtype), empty)

    def stack(leaves):
        # In NumPy if all is known, because JAX would compile a concatenation of one array per body.
        if not is_known(leaves):
            return jnp.stack([jnp.asarray(leaf, dtype) for leaf in leaves])
        return from_numpy(np.asarray([np.asarray(leaf, dtype) for leaf in leaves]))

    return _stacked(items, stack)


def _stacked(items: list, stack):
    """Combines equal PyTrees leaf by leaf with `stack`. (`jax.tree.map` is slow for thousands of arguments.)"""
    leaves = zip(*map(jax.tree.leaves, items), strict=True)
    return jax.tree.unflatten(jax.tree.structure(items[0]), list(map(stack, leaves)))


def _concatenate(parts: list, dtype):
    xp = array_module(parts)
    return xp.concatenate([xp.zeros(0, dtype), *[xp.asarray(part, dtype) for part in parts]])
