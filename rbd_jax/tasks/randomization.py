"""Domain randomization: model parameters drawn for every episode."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.arguments import instance, names, number
from .._core.array import gather_or_zero, is_known, matmul, matvec
from .._core.errors import UnknownNameError, suggest
from ..lie import SO3
from ..model import Model
from ..simulate import Simulated
from ..simulate.systems import tree_of
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform


class Randomization(eqx.Module):
    """A rule that draws parameters of a model: `(key, model) -> model`, with the same structure and the same shapes.

    >>> import equinox
    >>> class OtherPlanet(rbd.tasks.Randomization):
    ...     def __call__(self, key, model):
    ...         share = jax.random.uniform(key, (), minval=0.1, maxval=1.0)
    ...         return equinox.tree_at(lambda model: model.gravity, model, share * model.gravity)
    >>> print(OtherPlanet()(jax.random.key(0), rbd.load("pendulum")).gravity.shape)
    (3,)
    """

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, model: Simulated) -> Simulated:
        """Returns the model with other parameters."""


class ByFunction(Randomization):
    """A randomization given as a function, `(key, model) -> model`."""

    function: Callable = eqx.field(static=True)

    def __call__(self, key, model):
        return self.function(key, model)


class OnTree(Randomization):
    """A randomization of the underlying tree model, also for a `rbd.ReducedModel`."""

    @abc.abstractmethod
    def drawn(self, key: PRNGKeyArray, model: Model) -> Model:
        """Returns the model with other parameters."""

    def __call__(self, key, model):
        tree = self.drawn(key, tree_of(model))
        return tree if isinstance(model, Model) else eqx.tree_at(lambda reduced: reduced.model, model, tree)


# Parameters by their path in the model.


class Varied(OnTree):
    """Parameters of a model, uniform between two bounds. `scaled`, `shifted` and `drawn` create it.

    - `places`: The paths of the parameters.
    - `of`: Patterns of the names of the bodies, joints or attachments that they belong to.
    - `how`: How the drawn value changes the parameter.
    - `together`: If True, one value is drawn for all.
    """

    places: tuple[str, ...] = eqx.field(static=True)
    of: tuple[str, ...] = eqx.field(static=True)
    how: Literal["scale", "shift", "value"] = eqx.field(static=True)
    together: bool = eqx.field(static=True)
    low: Float[Array, "..."]
    high: Float[Array, "..."]

    def __init__(
        self, owner: str, places, low, high, of, how: Literal["scale", "shift", "value"], together: bool
    ):
        self.places, self.of = names(owner, "leaf", places), names(owner, "of", of)
        self.how, self.together = how, bool(together)
        self.low, self.high = bounds(owner, low, high)

    def drawn(self, key, model):
        found = [_found(place, model, self.of) for place in self.places]
        if not any(eqx.is_inexact_array(leaf) for one in found for leaf in one.leaves(model)):
            raise ValueError(
                f"randomization: model {model.name!r} has no numbers at {', '.join(map(repr, self.places))}"
            )
        counts = {len(one.labels) for one in found}
        if len(counts) > 1:
            listed = ", ".join(f"{place!r} has {len(one.labels)}" for place, one in zip(self.places, found))
            raise ValueError(f"randomization: the same numbers are for all of its leaves, and {listed}")
        shape = self.low.shape if self.together else (counts.pop(), *self.low.shape)
        dtype = model.dtype
        numbers = jax.random.uniform(key, shape, dtype, self.low.astype(dtype), self.high.astype(dtype))
        if self.together:
            numbers = jnp.broadcast_to(numbers, (len(found[0].labels), *shape))
        for one in found:
            leaves = [
                self._changed(one, leaf, rows, numbers) for leaf, rows in zip(one.leaves(model), one.rows)
            ]
            model = eqx.tree_at(one.leaves, model, leaves)
        return model

    def _changed(self, found: _Found, leaf, rows: list[int] | int, numbers):
        """Returns a leaf with the drawn values; `rows` are the rows of the leaf, or the index of the value for all of it."""
        place, extra = found.place, numbers.shape[1:]
        own = leaf.shape if isinstance(rows, int) else leaf.shape[1:]
        if extra and extra != own:
            raise ValueError(
                f"randomization of {place!r}: the bounds have shape {extra}; they are numbers, or of shape {own} as what "
                "they are for"
            )
        numbers = numbers.reshape(*numbers.shape, *(1,) * (len(own) - len(extra))).astype(leaf.dtype)
        numbers = jnp.broadcast_to(numbers, (len(numbers), *own))
        if isinstance(rows, int):
            return self._combined(leaf, numbers[rows])
        spread = _spread(numbers, rows, len(leaf))
        return _with_rows(leaf, rows, self._combined(leaf, spread))

    def _combined(self, old, numbers):
        return {"scale": old * numbers, "shift": old + numbers, "value": numbers}[self.how]


def scaled(leaf, low, high, *, of="*", together: bool = False) -> Varied:
    """Returns a randomization that multiplies parameters by uniform random factors.

    Args:
      leaf: The path of the parameters by the field names of a `Model`: `"damping"`, `"gravity"`, `"inertias.mass"`; for
        attachments by their role, `"actuators.gain"`, `"shapes.contact"`, `"forces.friction"`, `"sites.placement.position"`. A
        field with fields of its own stands for all of them: `"inertias"` scales masses and moments alike. A list of paths
        gets the same factors: `["actuators.gain", "actuators.bias"]` are the gains of servos.
      low: The lower bound of the factors.
      high: The upper bound of the factors.
      of: Shell-style patterns, such as `"*_thigh"`, of the names of the owners: bodies, joints, or attachments. An attachment
        also matches by the bodies, joints and shapes that it is on. Each owner gets its own factor.
      together: If True, all owners get the same factor.

    >>> task = rbd.tasks.load("cartpole", randomization=rbd.tasks.scaled("inertias", 0.5, 2.0, of="pole"))
    >>> state = task.reset(jax.random.key(0))
    >>> print(task.situation(state).model.inertias.mass / task.model.inertias.mass)
    [1.    0.739]
    """
    return Varied("scaled", leaf, low, high, of, "scale", together)


def shifted(leaf, low, high, *, of="*", together: bool = False) -> Varied:
    """Returns a randomization that adds uniform random offsets. Bounds may be arrays of the shape of the parameter.

    >>> draw = rbd.tasks.shifted("gravity", [-0.5, -0.5, 0.0], [0.5, 0.5, 0.0])  # a floor that is not level
    >>> print(draw(jax.random.key(1), rbd.load("cartpole")).gravity)
    [-0.382 -0.046 -9.81 ]
    """
    return Varied("shifted", leaf, low, high, of, "shift", together)


def drawn(leaf, low, high, *, of="*", together: bool = False) -> Varied:
    """Returns a randomization that replaces parameters by uniform random values.

    >>> draw = rbd.tasks.drawn("damping", 0.0, 0.1, of="hinge")
    >>> print(draw(jax.random.key(0), rbd.load("cartpole")).damping)
    [0.    0.042]
    """
    return Varied("drawn", leaf, low, high, of, "value", together)


# Common randomizations.


def scaled_masses(low, high, *, bodies="*", together: bool = False) -> Varied:
    """Returns a randomization that multiplies mass and moments of each body by a factor.

    >>> draw = rbd.tasks.scaled_masses(0.8, 1.2, bodies=["*_thigh", "*_calf"])
    >>> print(draw(jax.random.key(0), rbd.load("quadruped")).inertias.mass[:4])
    [6.4   0.7   0.919 0.177]
    """
    bounds("scaled_masses", low, high, above=0)
    return Varied("scaled_masses", "inertias", low, high, bodies, "scale", together)


def scaled_actuators(low, high, *, actuators="*", together: bool = False) -> Varied:
    """Returns a randomization that multiplies gain and bias of each actuator by a factor.

    >>> draw = rbd.tasks.scaled_actuators(0.9, 1.1)
    >>> print(f"{draw(jax.random.key(0), rbd.load('quadruped')).actuators[0].gain.value:.1f}")  # was 80
    78.7
    """
    bounds("scaled_actuators", low, high, above=0)
    return Varied(
        "scaled_actuators", ("actuators.gain", "actuators.bias"), low, high, actuators, "scale", together
    )


class ShiftedCentersOfMass(OnTree):
    """The result of `shifted_centers_of_mass`."""

    distance: Float[Array, "..."]
    bodies: tuple[str, ...] = eqx.field(static=True)

    def drawn(self, key, model):
        if model.is_planar:
            raise ValueError(
                f"shifted_centers_of_mass: model {model.name!r} is planar; take the model from which it was made"
            )
        rows, old = _matching("body", model.body_names, self.bodies, model.name), model.inertias
        shares = jax.random.uniform(key, (len(rows), 3), model.dtype, -1, 1)
        moved = old.com + self.distance.astype(model.dtype) * _spread(shares, rows, model.nb)
        new = Inertia.from_mass_com(old.mass, moved, old.rotational_com)
        return eqx.tree_at(lambda m: m.inertias, model, _with_rows(old, rows, new))


def shifted_centers_of_mass(distance, *, bodies="*") -> ShiftedCentersOfMass:
    """Returns a randomization that shifts centers of mass by up to `distance` along each axis of their bodies.

    Masses and central moments of inertia do not change. `distance` is one number, or one per axis.

    >>> draw = rbd.tasks.shifted_centers_of_mass(0.02, bodies="trunk")
    >>> print(draw(jax.random.key(0), rbd.load("quadruped")).inertias.com[0])
    [-0.003 -0.011  0.019]
    """
    shape = np.shape(distance)
    size = number("shifted_centers_of_mass", "distance", distance, shape if shape == (3,) else (), least=0)
    return ShiftedCentersOfMass(size, names("shifted_centers_of_mass", "bodies", bodies))


class ShiftedPlacements(OnTree):
    """The result of `shifted_placements`."""

    distance: Float[Array, ""]
    angle: Float[Array, ""]
    bodies: tuple[str, ...] = eqx.field(static=True)

    def drawn(self, key, model):
        if model.is_planar:
            raise ValueError(
                f"shifted_placements: model {model.name!r} is planar; take the model from which it was made"
            )
        rows, old = _matching("body", model.body_names, self.bodies, model.name), model.placements
        shares = jax.random.uniform(key, (2, len(rows), 3), model.dtype, -1, 1)
        linear, angular = (_spread(share, rows, model.nb) for share in shares)
        turn = SO3.exp(self.angle.astype(model.dtype) * angular)
        position = old.position + matvec(old.rotation, self.distance.astype(model.dtype) * linear)
        new = Transform(matmul(old.rotation, turn), position)
        return eqx.tree_at(lambda m: m.placements, model, _with_rows(old, rows, new))


def shifted_placements(distance=0.0, angle=0.0, *, bodies="*") -> ShiftedPlacements:
    """Returns a randomization of joint frames: shifts by up to `distance` and turns by up to `angle` (rad) per axis.

    >>> draw = rbd.tasks.shifted_placements(0.002, 0.01, bodies="link*")
    >>> arm = rbd.load("arm7")
    >>> print(draw(jax.random.key(0), arm).placements.position[2] - arm.placements.position[2])
    [-0.     0.    -0.001]
    """
    owner = "shifted_placements"
    distance, angle = number(owner, "distance", distance, least=0), number(owner, "angle", angle, least=0)
    return ShiftedPlacements(distance, angle, names(owner, "bodies", bodies))


class ScaledContactFriction(OnTree):
    """The result of `scaled_contact_friction`."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    shapes: tuple[str, ...] = eqx.field(static=True)

    def drawn(self, key, model):
        factor = jax.random.uniform(
            key, (), model.dtype, self.low.astype(model.dtype), self.high.astype(model.dtype)
        )
        known = [one.name for one in model.shapes]
        rows = [i for i, one in enumerate(model.attached) if one.role == "shape"]
        chosen = [rows[i] for i in _matching("shape", known, self.shapes, model.name)]
        shapes: Any = model.attached
        scaled = [_rubbing(shapes[i].contact, factor) for i in chosen]
        model = eqx.tree_at(lambda m: [m.attached[i].contact for i in chosen], model, scaled)
        # Contact elements have their own friction, between their two shapes.
        labels = {known[i] for i in _matching("shape", known, self.shapes, model.name)}
        rubbing = [
            i
            for i, one in enumerate(model.attached)
            if one.role == "force"
            and hasattr(one, "friction")
            and labels & {refer.name for refer in one.refers}
        ]
        if not rubbing:
            return model
        shapes = model.attached
        scaled = [shapes[i].friction * factor.astype(shapes[i].friction.dtype) for i in rubbing]
        return eqx.tree_at(lambda m: [m.attached[i].friction for i in rubbing], model, scaled)


def _rubbing(contact: Float[Array, "13"], factor: Float[Array, ""]) -> Float[Array, "13"]:
    """Returns the contact parameters of a shape with scaled friction."""
    friction = np.isin(np.arange(len(contact)), (2, 3, 4))
    return jnp.where(friction, contact * factor.astype(contact.dtype), contact)


def scaled_contact_friction(low, high, *, shapes="*") -> ScaledContactFriction:
    """Returns a randomization that multiplies the friction of shapes and of contact elements between them by one factor.

    >>> draw = rbd.tasks.scaled_contact_friction(0.5, 1.5)
    >>> print(draw(jax.random.key(0), rbd.load("quadruped")).named("shape", "floor").friction)
    [0.918 0.005 0.   ]
    """
    low, high = bounds("scaled_contact_friction", low, high, least=0)
    return ScaledContactFriction(low, high, names("scaled_contact_friction", "shapes", shapes))


def bounds(owner: str, low, high, **limits) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Returns two bounds of the same shape, the lower bound first."""
    shape = np.broadcast_shapes(np.shape(low), np.shape(high))
    low, high = (
        number(
            owner, name, value if np.shape(value) == shape else np.broadcast_to(value, shape), shape, **limits
        )
        for name, value in (("low", low), ("high", high))
    )
    if is_known((low, high)) and np.any(np.asarray(low) > np.asarray(high)):
        raise ValueError(
            f"{owner}: low is {np.asarray(low).tolist()} and high {np.asarray(high).tolist()}; low comes first"
        )
    return low, high


class _Found(NamedTuple):
    """Leaves of a model at one path.

    - `leaves`: A function that returns them, for `equinox.tree_at`.
    - `rows`: For each leaf, the rows that the values are for, in order; or the index of the value for the complete leaf.
    - `labels`: The owner of each value.
    """

    place: str
    leaves: Callable[[Model], list]
    rows: list[list[int] | int]
    labels: list[str]


#: The owner of the rows of each field of a model.
ROWS = {
    **dict.fromkeys(("placements", "inertias"), "body"),
    **dict.fromkeys(("armature", "damping", "friction", "stiffness", "velocity_limit", "effort_limit"), "v"),
    **dict.fromkeys(("spring_reference", "lower", "upper", "reference"), "q"),
    **dict.fromkeys(("mimic_multiplier", "mimic_offset"), "mimic"),
}

#: The fields of a model that have parameters, and its attachments by role.
FIELDS = (*ROWS, "gravity", "joints")
ROLES = {
    name: name[:-1]
    for name in (
        "constraints",
        "forces",
        "sites",
        "shapes",
        "tendons",
        "actuators",
        "sensors",
        "keyframes",
        "bearings",
    )
} | {"contact_law": "contact law"}


def _found(place: str, model: Model, of: tuple[str, ...]) -> _Found:
    """Returns the leaves of a model at a path, restricted to the named owners."""
    first, *path = place.split(".")
    if first in ROLES:
        return _attached(place, ROLES[first], path, model, of)
    if first == "joints":
        return _of_joints(place, path, model, of)
    if first not in FIELDS:
        raise UnknownNameError(
            f"randomization of {place!r}: a model has no numbers {first!r}{suggest(first, (*FIELDS, *ROLES))}"
        )
    leaves = lambda model: jax.tree.leaves(_at(place, model, [first, *path]))
    if first not in ROWS:
        if of != ("*",):
            raise ValueError(f"randomization of {place!r}: it belongs to no body or joint; leave `of` out")
        return _Found(place, leaves, [0] * len(leaves(model)), [first])
    kind, owners = ROWS[first], _owners(ROWS[first], model)
    chosen = _matching("body" if kind == "body" else "joint", owners, of, model.name)
    return _Found(place, leaves, [chosen] * len(leaves(model)), [owners[i] for i in chosen])


def _owners(kind: str, model: Model) -> list[str]:
    """Returns the owner's name of each row."""
    if kind == "body":
        return list(model.body_names)
    if kind == "mimic":
        return [model.joint_names[i] for i in model.topology.mimic_joints]
    offsets = model.topology.v_offsets if kind == "v" else model.topology.q_offsets
    return [
        name for name, count in zip(model.joint_names, np.diff(np.asarray(offsets))) for _ in range(count)
    ]


def _of_joints(place: str, path: list[str], model: Model, of: tuple[str, ...]) -> _Found:
    """Finds parameters of joints, such as their axes, in the joint groups that have them."""
    having = [k for k, group in enumerate(model.joints) if path and hasattr(group, path[0])]
    if not having:
        raise UnknownNameError(
            f"randomization of {place!r}: no joint of model {model.name!r} has a parameter {'.'.join(path)!r}; name one: "
            "'joints.axis'"
        )
    owners = [[model.joint_names[body] for body in model.topology.kinds[k].bodies] for k in having]
    chosen = set(_matching("joint", [name for names in owners for name in names], of, model.name))
    kept, rows, labels, count = [], [], [], 0
    for k, group in zip(having, owners):
        picked = [i for i in range(len(group)) if count + i in chosen]
        count += len(group)
        if picked:
            kept.append(k)
            rows.append(picked)
            labels.append([group[i] for i in picked])
    if len(kept) > 1:
        raise ValueError(
            f"randomization of {place!r}: joints of several kinds have it; name those of one kind by `of`"
        )
    leaves = lambda model: [leaf for k in kept for leaf in jax.tree.leaves(_at(place, model.joints[k], path))]
    return _Found(place, leaves, rows * len(leaves(model)), labels[0])


def _attached(place: str, role: str, path: list[str], model: Model, of: tuple[str, ...]) -> _Found:
    """Finds parameters of the attachments of a role, among those that have them."""
    things = [(i, one) for i, one in enumerate(model.attached) if one.role == role]
    if not path:
        raise ValueError(
            f"randomization of {place!r}: which numbers of the {role}s? As 'actuators.gain', 'shapes.contact'"
        )
    having = [(i, one) for i, one in things if path[0] in one.__dataclass_fields__]
    if not having:
        fields = {name for _, one in things for name in one.__dataclass_fields__}
        raise UnknownNameError(
            f"randomization of {place!r}: no {role} of model {model.name!r} has {path[0]!r}{suggest(path[0], sorted(fields))}"
        )
    named = [(one.name, *one.bodies, *one.joints, *(refer.name for refer in one.refers)) for _, one in having]
    chosen = [
        i
        for i, known in enumerate(named)
        if any(fnmatchcase(name, pattern) for name in known for pattern in of)
    ]
    _refuse_idle(role, [name for known in named for name in known if name], of, model.name)
    numbers = [having[i][0] for i in chosen]

    def leaves(model):
        return [leaf for i in numbers for leaf in jax.tree.leaves(_at(place, model.attached[i], path))]

    counts = [len(jax.tree.leaves(_at(place, model.attached[i], path))) for i in numbers]
    rows: list[list[int] | int] = [order for order, count in enumerate(counts) for _ in range(count)]
    return _Found(place, leaves, rows, [having[i][1].label for i in chosen])


def _at(place: str, value: Any, path: list[str]) -> Any:
    for name in path:
        if value is None:  # for example an actuator without a bias
            return None
        if name not in getattr(value, "__dataclass_fields__", {}):
            fields = getattr(value, "__dataclass_fields__", {})
            raise UnknownNameError(
                f"randomization of {place!r}: a {type(value).__name__} has no field {name!r}{suggest(name, fields)}"
            )
        value = getattr(value, name)
    return value


def _spread(numbers: Float[Array, "k *n"], rows: list[int], count: int) -> Float[Array, "count *n"]:
    """Expands values of some rows to all rows, zero elsewhere. It uses a gather, because scatters are slow in loops."""
    place = np.full(count, -1)
    place[rows] = np.arange(len(rows))
    return gather_or_zero(numbers, place)


def _with_rows(old: Any, rows: list[int], new: Any) -> Any:
    """Returns the old arrays with some rows replaced by the new ones."""

    def leaf(old, new):
        chosen = np.isin(np.arange(len(old)), rows).reshape(-1, *(1,) * (old.ndim - 1))
        return jnp.where(chosen, new, old)

    return jax.tree.map(leaf, old, new)


def _matching(what: str, known: Sequence[str], patterns: tuple[str, ...], model: str) -> list[int]:
    """Returns the indices of known names that match a pattern; every pattern must match a name."""
    _refuse_idle(what, known, patterns, model)
    return [i for i, name in enumerate(known) if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _refuse_idle(what: str, known: Sequence[str], patterns: tuple[str, ...], model: str) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known) and (known or pattern != "*"):
            raise UnknownNameError(
                f"randomization: no {what} of model {model!r} is called {pattern!r}{suggest(pattern, dict.fromkeys(known))}"
            )


# Composition of rules.


def randomizations(given: Any) -> tuple[Randomization, ...]:
    """Returns a tuple of randomizations, in the order of application, from one or several objects or functions."""
    listed = given if isinstance(given, Sequence) else () if given is None else (given,)
    for index, one in enumerate(listed):
        if isinstance(one, type) or not callable(one):
            instance(
                "Task",
                f"randomization[{index}]",
                one,
                Randomization,
                "a function (key, model) -> model, or a Randomization as rbd.tasks.scaled_masses(0.8, 1.2)",
            )
    return tuple(one if isinstance(one, Randomization) else ByFunction(one) for one in listed)


def randomized(rules: tuple[Randomization, ...], key: PRNGKeyArray, model: Simulated) -> Any:
    """Returns the drawn parameters as a PyTree like the model, with None for unchanged leaves."""
    if not rules:
        return jax.tree.map(lambda leaf: None, model)
    drawn = _apply(rules, key, model)
    same = _untouched(rules, key, model)
    return jax.tree.unflatten(
        jax.tree.structure(model),
        [None if kept else leaf for leaf, kept in zip(jax.tree.leaves(drawn), same)],
    )


def _apply(rules: tuple[Randomization, ...], key: PRNGKeyArray, model: Simulated) -> Simulated:
    """Returns the model after applying all rules in order, each with its own key."""
    for index, rule in enumerate(rules):
        new = rule(jax.random.fold_in(key, index), model)
        _refuse_other(f"randomization[{index}]", model, new)
        model = new
    return model


def _refuse_other(owner: str, model: Simulated, new: Any) -> None:
    """Raises an error if a rule returns anything but the model with other parameters."""
    if jax.tree.structure(new) != jax.tree.structure(model):
        what = "a model of another structure" if isinstance(new, type(model)) else f"a {type(new).__name__}"
        raise ValueError(
            f"Task: {owner} returned {what}; it must return the given model with other numbers, for example by "
            "equinox.tree_at. A change of the tree or of the attachments requires another model, and so another task"
        )
    for (path, old), leaf in zip(jax.tree_util.tree_leaves_with_path(model), jax.tree.leaves(new)):
        before, after = (np.shape(old), old.dtype), (np.shape(leaf), jnp.result_type(leaf))
        if before != after:
            place = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ValueError(
                f"Task: {owner} returned {place} as {after[1]}{list(after[0])}; it was {before[1]}{list(before[0])}"
            )


def _untouched(rules: tuple[Randomization, ...], key: PRNGKeyArray, model: Simulated) -> list[bool]:
    """Returns which leaves the rules leave unchanged, as read from the traced program, so that the answer is always the same."""
    leaves, structure = jax.tree.flatten(model)

    def run(key, leaves):
        return jax.tree.leaves(_apply(rules, key, jax.tree.unflatten(structure, leaves)))

    program = jax.make_jaxpr(run)(key, leaves).jaxpr
    return [out is given for out, given in zip(program.outvars, program.invars[-len(leaves) :])]
