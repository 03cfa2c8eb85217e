"""What can be free: kinds of numbers of a model, each with where it is, what it is called, and in which coordinates it has
no bounds.

A kind says what it frees by names with wildcards (`"link_*"`, as in a shell). It reads values of a model and writes them
into one; both are JAX, so that a model depends differentiably on them. All else (vectors, names, priors, ties) is made of
these by `Parameters`. A kind of your own is a class with `candidates`, `read` and `write`.
"""

from __future__ import annotations

import abc
import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import names
from .._array import blocks, dot, gather, is_known, matmul, matvec, transpose
from .._errors import ModelError, UnknownNameError, suggest
from ..dynamics import forward_kinematics
from ..lie import SE3
from ..model import Model
from ..spatial import Inertia, Transform


class Candidate(NamedTuple):
    """Something whose numbers may be free.

    - `name`: what patterns are compared with.
    - `place`: its index among those of its kind in the model.
    - `label`: what to call it, where that says more than the name.
    - `turns`: whether it acts by turning, and has moments for forces; it decides on units.
    """

    name: str
    place: int
    label: str
    turns: bool = True


class Kind(eqx.Module):
    """Numbers of one kind that are free, of all things whose name fits one of some patterns.

    - `patterns`: names with wildcards.
    - `bounds`: lowest and highest value, each one number or one for each component; None for those of the kind.
    - `prior`: what is known of them beforehand, as mean and standard deviation; a mean of None is the model's own value.

    A kind of your own implements `candidates`, `read` and `write`, and says what its numbers are called (`components`, each with
    its unit where it turns and where it slides). It overrides `chart` and `values` where bounds are not all that there is.
    """

    patterns: tuple[str, ...] = eqx.field(static=True)
    bounds: tuple[Any, Any] | None = None
    prior: tuple[Any, Any] | None = None

    #: What its patterns name: "body", "joint", "shape", ...
    of: ClassVar[str] = "body"
    #: The name of each number of a thing, and its unit where it turns and where it slides.
    components: ClassVar[tuple[tuple[str, str, str], ...]]
    #: Values that are possible at all.
    range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    #: A usual size, one for all or one for each component: what steps in the chart are measured by.
    size: ClassVar[float] = 1.0
    #: What of a thing it sets: two kinds that set the same of one thing are refused.
    sets: ClassVar[tuple[str, ...]] = ()
    #: Whether generalized forces are linear in its values.
    linear: ClassVar[bool] = False
    #: Whether its ten values are an inertia, which is to be that of a body that can be.
    inertial: ClassVar[bool] = False

    @abc.abstractmethod
    def candidates(self, model: Model) -> Sequence[Candidate]:
        """All things of a model that have such numbers."""

    @abc.abstractmethod
    def read(self, model: Model, places: np.ndarray, reference: Model) -> Float[Array, "n k"]:
        """The values of the things in these places. What is measured from where it was is so from `reference`."""

    @abc.abstractmethod
    def write(self, model: Model, places: np.ndarray, values: Float[Array, "n k"]) -> Model:
        """The model with these values in these places; what is measured from where it was is so from `model`."""

    def chosen(self, model: Model) -> list[Candidate]:
        """The things whose names fit, in the order of the model."""
        known = list(self.candidates(model))
        found = {}
        for pattern in self.patterns:
            fits = [one for one in known if fnmatch.fnmatchcase(one.name, pattern)]
            if not fits:
                raise UnknownNameError(
                    f"{self.owner}: no {self.of} of model {model.name!r} that has such numbers is called "
                    f"{pattern!r}{suggest(pattern, list(dict.fromkeys(one.name for one in known)))}"
                )
            found |= {one.place: one for one in fits}
        return [found[place] for place in sorted(found)]

    def bound(self, model: Model) -> Kind:
        """As it is for this model, whose numbers can be looked at here for the last time."""
        return self

    def written(self, places: Sequence[int]) -> list[int]:
        """The places that it writes to for these."""
        return list(places)

    @property
    def owner(self) -> str:
        """What it is called in messages."""
        return f"identify.{type(self).__name__}"

    def limits(self, dtype) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
        """The lowest and the highest value of each component."""
        given = self.range if self.bounds is None else self.bounds
        low, high = (jnp.broadcast_to(jnp.asarray(end, dtype), (len(self.components),)) for end in given)
        return low, high

    def chart(self, values: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """The values in coordinates without bounds. A value on a bound is taken a thousandth of its usual size inside."""
        low, high = self.limits(values.dtype)
        size = jnp.asarray(self.size, values.dtype)
        return jax.vmap(lambda row: _unbounded(row, low, high, size))(values)

    def values(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """And back."""
        low, high = self.limits(x.dtype)
        size = jnp.asarray(self.size, x.dtype)
        return jax.vmap(lambda row: _bounded(row, low, high, size))(x)


def _bounded(x, low, high, size):
    """`x size`, bent so that it stays between the bounds: by `softplus` at one, by a sigmoid between two."""
    one_sided = jax.nn.softplus(x) * size
    below, above = jnp.isfinite(low), jnp.isfinite(high)
    lowest, highest = jnp.where(below, low, 0), jnp.where(above, high, 0)
    between = lowest + (highest - lowest) * jax.nn.sigmoid(x)
    return jnp.where(
        below & above,
        between,
        jnp.where(below, lowest + one_sided, jnp.where(above, highest - one_sided, x * size)),
    )


def _unbounded(value, low, high, size):
    below, above = jnp.isfinite(low), jnp.isfinite(high)
    lowest, highest = jnp.where(below, low, 0), jnp.where(above, high, 0)
    share = jnp.clip((value - lowest) / jnp.where(below & above, highest - lowest, 1), 1e-3, 1 - 1e-3)
    away = jnp.maximum(jnp.where(below, value - lowest, highest - value) / size, 1e-3)
    # The inverse of softplus, which for large arguments is the identity.
    one_sided = away + jnp.log(-jnp.expm1(-away))
    return jnp.where(
        below & above, jnp.log(share / (1 - share)), jnp.where(below | above, one_sided, value / size)
    )


def replaced(
    rows: Float[Array, "m *k"], places: np.ndarray, values: Float[Array, "n *k"]
) -> Float[Array, "m *k"]:
    """The rows with others in some places, gathered."""
    order = np.arange(rows.shape[0])
    order[places] = rows.shape[0] + np.arange(len(places))
    return gather(jnp.concatenate([rows, values.astype(rows.dtype)]), order)


# Of bodies.


class OfBodies(Kind):
    """Numbers of bodies with mass: those without stay as they are, and patterns with wildcards pass them over."""

    def candidates(self, model):
        mass = model.inertias.mass
        heavy = np.asarray(mass) > 0 if is_known(mass) else np.ones(model.nb, bool)
        return [Candidate(name, i, name) for i, name in enumerate(model.body_names) if heavy[i]]


class Inertias(OfBodies):
    """All ten inertia parameters of bodies: mass, first moment, rotational inertia about the body's origin.

    Their chart is `Inertia.to_log_cholesky`: whatever its numbers, the body can be.

    - `spread`: the relative standard deviation of what is known beforehand, for estimators that keep bodies possible.
    """

    spread: Float[Array, ""] | float = 1.0

    components = (
        ("mass", "kg", "kg"),
        *((f"h{i}", "kg m", "kg m") for i in "xyz"),
        *((f"I{i}", "kg m²", "kg m²") for i in ("xx", "xy", "yy", "xz", "yz", "zz")),
    )
    sets = ("mass", "com", "spread")
    linear = True
    inertial = True

    def read(self, model, places, reference):
        return gather(model.inertias.parameters, places)

    def write(self, model, places, values):
        parameters = replaced(model.inertias.parameters, places, values)
        return replace(model, inertias=Inertia.from_parameters(parameters))

    def chart(self, values):
        return Inertia.from_parameters(values).to_log_cholesky()

    def values(self, x):
        return Inertia.from_log_cholesky(x).parameters


class Masses(OfBodies):
    """The mass of bodies; their density is scaled, so that the inertia goes along and the centre of mass stays."""

    components = (("mass", "kg", "kg"),)
    range = (0.0, np.inf)
    sets = ("mass",)
    linear = True

    def read(self, model, places, reference):
        return gather(model.inertias.mass, places)[:, None]

    def write(self, model, places, values):
        own = gather(model.inertias.parameters, places)
        scaled = own * (values / own[:, :1])
        return replace(
            model, inertias=Inertia.from_parameters(replaced(model.inertias.parameters, places, scaled))
        )


class CentersOfMass(OfBodies):
    """Where the centre of mass of bodies is, in their frames; mass and inertia about it stay."""

    components = (("cx", "m", "m"), ("cy", "m", "m"), ("cz", "m", "m"))
    size = 0.1
    sets = ("com",)

    def read(self, model, places, reference):
        return gather(model.inertias.com, places)

    def write(self, model, places, values):
        own = model.inertias
        mass, central = gather(own.mass, places), gather(own.rotational_com, places)
        moved = Inertia.from_mass_com(mass, values, central)
        return replace(
            model, inertias=Inertia.from_parameters(replaced(own.parameters, places, moved.parameters))
        )


class Placements(Kind):
    """Where the joint of bodies sits in their parent, as the screw `[φ; p]` that takes it there from where it was."""

    components = (*((f"r{i}", "rad", "rad") for i in "xyz"), *((f"p{i}", "m", "m") for i in "xyz"))
    sets = ("placement",)
    size = 0.01

    def candidates(self, model):
        return [Candidate(name, i, name) for i, name in enumerate(model.body_names)]

    def read(self, model, places, reference):
        return SE3.log(reference.placements.gather(places).inverse() @ model.placements.gather(places))

    def write(self, model, places, values):
        return _placed(model, places, SE3.exp(values))


def _placed(model: Model, places: np.ndarray, moves: Transform) -> Model:
    """The model with some placements moved, each in its own frame."""
    moved = model.placements.gather(places) @ moves
    placements = jax.tree.map(lambda rows, new: replaced(rows, places, new), model.placements, moved)
    return replace(model, placements=placements)


# Of joints, a row for each degree of freedom.


class OfJoints(Kind):
    """A number of each degree of freedom of joints. A joint that mimics another has none of its own.

    - `field`: what it is called in the model.
    """

    of = "joint"
    range = (0.0, np.inf)
    linear = True
    field: ClassVar[str]

    def candidates(self, model):
        return degrees_of_freedom(model)

    def read(self, model, places, reference):
        return gather(getattr(model, self.field), places)[:, None]

    def write(self, model, places, values):
        return replace(model, **{self.field: replaced(getattr(model, self.field), places, values[:, 0])})


def degrees_of_freedom(model: Model) -> list[Candidate]:
    """Each degree of freedom of a model by its joint, with a number where that has several."""
    found = []
    for body, joint in enumerate(model.joint_names):
        size = int(model.topology.joint_nv[body])
        if not size or model.topology.is_mimic[body]:
            continue
        one = model.joint(body)
        subspace = np.asarray(one.motion_subspace(one.neutral()))
        for i in range(size):
            label = joint if size == 1 else f"{joint}[{i}]"
            turns = bool(np.abs(subspace[:3, i]).max() > 1e-9)
            found.append(Candidate(joint, int(model.topology.v_offsets[body]) + i, label, turns))
    return found


class Damping(OfJoints):
    """Viscous damping: the force is `-d v`."""

    components = (("damping", "N m s/rad", "N s/m"),)
    field = "damping"
    sets = ("damping",)


class Coulomb(OfJoints):
    """Coulomb's friction: the size of a force against the motion, smoothed at rest as in `rbd.passive_force`."""

    components = (("friction", "N m", "N"),)
    field = "friction"
    sets = ("friction",)


class Armature(OfJoints):
    """Inertia that a joint has of itself: rotors behind gears."""

    components = (("armature", "kg m²", "kg"),)
    field = "armature"
    sets = ("armature",)


class Stiffness(OfJoints):
    """The stiffness of the spring at a joint; where it rests is the model's `spring_reference`."""

    components = (("stiffness", "N m/rad", "N/m"),)
    field = "stiffness"
    sets = ("stiffness",)


class JointOffsets(Kind):
    """What must be added to a measured joint coordinate: the joint's placement is moved along the joint by as much.

    For joints with one degree of freedom.
    """

    of = "joint"
    components = (("offset", "rad", "m"),)
    sets = ("placement",)
    size = 0.01

    def candidates(self, model):
        topology = model.topology
        single = {
            name
            for i, name in enumerate(model.joint_names)
            if (topology.joint_nq[i], topology.joint_nv[i]) == (1, 1)
        }
        dofs = {one.place: one for one in degrees_of_freedom(model) if one.name in single}
        return [
            Candidate(one.name, topology.joint_index(one.name), one.name, one.turns) for one in dofs.values()
        ]

    def read(self, model, places, reference):
        moved = SE3.log(reference.placements.gather(places).inverse() @ model.placements.gather(places))
        axes = self._axes(model, places)
        return (dot(axes, moved) / dot(axes, axes))[:, None]

    def write(self, model, places, values):
        return _placed(model, places, SE3.exp(values * self._axes(model, places)))

    def _axes(self, model, places):
        joints = [model.joint(int(place)) for place in places]
        return jnp.stack([joint.motion_subspace(jnp.zeros(1, model.dtype))[:, 0] for joint in joints])


# Of what a model carries, and of anything.


class Numbers(Kind):
    """Any leaf of a model: what `where(model)` says, one number or several.

    - `where`: a function of the model that returns a leaf of it.
    - `name`, `unit`: what it is called.
    """

    where: Callable[[Model], Any] = eqx.field(static=True, default=lambda model: model.gravity)
    name: str = eqx.field(static=True, default="")
    unit: str = eqx.field(static=True, default="")

    of = "number"

    @property
    def components(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return (("", self.unit, self.unit),)

    @property
    def sets(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return (f"number {self.name}",)

    def candidates(self, model):
        size = jnp.size(self.where(model))
        return [Candidate(self.name, i, f"{self.name}[{i}]" if size > 1 else self.name) for i in range(size)]

    def read(self, model, places, reference):
        return gather(jnp.ravel(self.where(model)), places)[:, None]

    def write(self, model, places, values):
        own = self.where(model)
        changed = replaced(jnp.ravel(own), places, values[:, 0]).reshape(own.shape)
        return eqx.tree_at(self.where, model, changed)


class Carried(Kind):
    """A number of things that a model carries: of force elements, actuators, shapes.

    - `role`: what the model lists them under.
    - `field`: where the number is, as in `"spring_constant"` or `"gain.value"`.
    - `entry`: which one, where that is a vector.
    """

    role: str = eqx.field(static=True, default="force")
    field: str = eqx.field(static=True, default="")
    entry: int | None = eqx.field(static=True, default=None)
    unit: str = eqx.field(static=True, default="")
    title: str = eqx.field(static=True, default="")

    @property
    def of(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.role

    @property
    def components(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        entry = "" if self.entry is None else f"[{self.entry}]"
        return ((self.title or self.field + entry, self.unit, self.unit),)

    @property
    def sets(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return (f"{self.role} {self.field} {self.entry}",)

    def candidates(self, model):
        found = []
        for place, thing in enumerate(model.attached):
            if thing.role == self.role and self._has(thing):
                found.append(Candidate(thing.name or type(thing).__name__, place, thing.name or thing.label))
        return found

    def _has(self, thing) -> bool:
        try:
            value = self._leaf(thing)
        except AttributeError:
            return False
        return value is not None and jnp.ndim(value) == (0 if self.entry is None else 1)

    def _leaf(self, thing):
        for name in self.field.split("."):
            thing = getattr(thing, name)
        return thing

    def read(self, model, places, reference):
        found = [self._leaf(model.attached[place]) for place in places]
        return jnp.stack([leaf if self.entry is None else leaf[self.entry] for leaf in found])[:, None]

    def write(self, model, places, values):
        things = list(model.attached)
        for place, (value,) in zip(places, values, strict=True):
            own = self._leaf(things[place])
            new = value.astype(own.dtype)
            if self.entry is not None:
                new = replaced(own, np.array([self.entry]), new[None])
            things[place] = eqx.tree_at(self._leaf, things[place], new)
        return replace(model, attached=tuple(things))


# Ties.


class Tied(Kind):
    """Some things take the values of others: what is written to leaders is written to their followers, too.

    - `kind`: what is free of the leaders.
    - `leader`, `follower`: patterns with one `*` each; things are a pair where the same stands for it. Both None: all that
      the kind frees is equal to the first of them.
    - `mirror`: the normal of a plane, by which followers are mirror images of their leaders in the configuration that the
      model is described in. It goes through the origin of the world, or of the first body where that floats, in those
      axes. Inertias and centres of mass are taken as they are of mirror images. None: the frames are alike, and so are the
      values.
    - `pairs`: of a model, the places of each leader and its followers.
    """

    kind: Kind | None = None
    leader: str | None = eqx.field(static=True, default=None)
    follower: str | None = eqx.field(static=True, default=None)
    mirror: tuple[float, float, float] | None = eqx.field(static=True, default=None)
    pairs: tuple[tuple[int, tuple[int, ...]], ...] = eqx.field(static=True, default=())

    @property
    def inner(self) -> Kind:
        assert self.kind is not None
        return self.kind

    # What it is like is what its kind is like.
    of = property(lambda self: self.inner.of)  # pyright: ignore
    components = property(lambda self: self.inner.components)  # pyright: ignore
    size = property(lambda self: self.inner.size)  # pyright: ignore
    sets = property(lambda self: self.inner.sets)  # pyright: ignore
    inertial = property(lambda self: self.inner.inertial)  # pyright: ignore
    spread = property(lambda self: getattr(self.inner, "spread", 1.0))

    @property
    def linear(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.linear

    def candidates(self, model):
        return self.inner.candidates(model)

    def chosen(self, model):
        return [leader for leader, _ in self._found(model)]

    def bound(self, model):
        pairs = tuple(
            (leader.place, tuple(one.place for one in found)) for leader, found in self._found(model)
        )
        return replace(self, pairs=pairs)

    def written(self, places):
        followers = dict(self.pairs)
        return [*places, *(one for place in places for one in followers[int(place)])]

    def _found(self, model: Model) -> list[tuple[Candidate, list[Candidate]]]:
        things = self.inner.chosen(model)
        if self.leader is None or self.follower is None:
            return [(things[0], things[1:])]
        before, after = self.leader.split("*")
        pairs, wanted = {}, {}
        for one in things:
            number = one.label.removeprefix(one.name)
            if fnmatch.fnmatchcase(one.name, self.leader):
                middle = one.name[len(before) : len(one.name) - len(after)]
                pairs[one.place] = (one, [])
                wanted[self.follower.replace("*", middle), number] = one.place
        known = self.inner.candidates(model)
        for one in known:
            leader = wanted.pop((one.name, one.label.removeprefix(one.name)), None)
            if leader is not None:
                pairs[leader][1].append(one)
        if wanted or not pairs:
            missing = next(iter(wanted))[0] if wanted else self.leader
            raise UnknownNameError(
                f"identify.tied: there is no {self.of} {missing!r} for the pair of {self.leader!r} and {self.follower!r}"
                f"{suggest(missing, [one.name for one in known])}"
            )
        followers = {one.place for _, found in pairs.values() for one in found}
        alone = [one for one in things if one.place not in pairs and one.place not in followers]
        return [*pairs.values(), *((one, []) for one in alone)]

    def read(self, model, places, reference):
        return self.inner.read(model, places, reference)

    def write(self, model, places, values):
        followers = dict(self.pairs)
        rows = [(row, one) for row, place in enumerate(places) for one in followers[int(place)]]
        model = self.inner.write(model, places, values)
        if not rows:
            return model
        followed, following = (np.array(side, int) for side in zip(*rows))
        taken = gather(values, followed)
        if self.mirror is not None:
            taken = self._mirrored(model, np.asarray(places)[followed], following, taken)
        return self.inner.write(model, following, taken)

    def _mirrored(self, model, leaders, followers, values):
        """The values as they are of mirror images: `x ↦ B⁻¹ M A x`, A and B the frames of leader and follower, M the mirror."""
        if not isinstance(self.inner, Inertias | CentersOfMass):
            return values
        frames = forward_kinematics(model, model.reference)
        if model.topology.joint_nv[0] == 6:
            first = frames.gather(np.zeros(len(frames.position), int))
            frames = first.inverse() @ frames
        normal = jnp.asarray(self.mirror, values.dtype)
        normal = normal / jnp.sqrt(dot(normal, normal))
        mirror = jnp.eye(3, dtype=values.dtype) - 2 * normal[:, None] * normal[None, :]
        a, b = frames.gather(leaders), frames.gather(followers).inverse()
        linear = matmul(matmul(b.rotation, mirror[None]), a.rotation)
        position = matvec(b.rotation, matvec(mirror[None], a.position)) + b.position
        if isinstance(self.inner, CentersOfMass):
            return matvec(linear, values) + position
        one = jnp.ones((len(leaders), 1, 1), values.dtype)
        moved = blocks(linear, position[..., None], jnp.zeros_like(linear[:, :1]), one)
        pseudo = Inertia.from_parameters(values).pseudo_inertia
        return Inertia.from_pseudo_inertia(matmul(matmul(moved, pseudo), transpose(moved))).parameters

    def chart(self, values):
        return self.inner.chart(values)

    def values(self, x):
        return self.inner.values(x)

    def limits(self, dtype):
        return self.inner.limits(dtype)


# As they are called.


def inertias(*bodies: str, prior=None, spread=1.0) -> Inertias:
    """Frees all ten inertia parameters of bodies, by name or pattern; all that have mass by default.

    `spread` is how far off the model's own inertia is thought to be, as a relative standard deviation: it decides where data do
    not, in estimators that keep bodies possible. A `prior` is a mean and a standard deviation of the ten numbers.
    """
    return Inertias(_patterns("inertias", bodies), None, prior, spread)


def masses(*bodies: str, bounds=None, prior=None) -> Masses:
    """Frees the masses of bodies; the inertia goes along."""
    return Masses(_patterns("masses", bodies), bounds, prior)


def centers_of_mass(*bodies: str, bounds=None, prior=None) -> CentersOfMass:
    """Frees where the centres of mass of bodies are."""
    return CentersOfMass(_patterns("centers_of_mass", bodies), bounds, prior)


def placements(*bodies: str, bounds=None, prior=None) -> Placements:
    """Frees where the joints of bodies sit in their parents: kinematic calibration."""
    return Placements(_patterns("placements", bodies), bounds, prior)


def damping(*joints: str, bounds=None, prior=None) -> Damping:
    """Frees the viscous damping of joints, by name or pattern; of all by default."""
    return Damping(_patterns("damping", joints), bounds, prior)


def coulomb(*joints: str, bounds=None, prior=None) -> Coulomb:
    """Frees the Coulomb friction of joints."""
    return Coulomb(_patterns("coulomb", joints), bounds, prior)


def armature(*joints: str, bounds=None, prior=None) -> Armature:
    """Frees the armature of joints."""
    return Armature(_patterns("armature", joints), bounds, prior)


def stiffness(*joints: str, bounds=None, prior=None) -> Stiffness:
    """Frees the stiffness of the springs at joints."""
    return Stiffness(_patterns("stiffness", joints), bounds, prior)


def joint_offsets(*joints: str, bounds=None, prior=None) -> JointOffsets:
    """Frees what must be added to measured joint coordinates."""
    return JointOffsets(_patterns("joint_offsets", joints), bounds, prior)


def friction(*shapes: str, bounds=None, prior=None) -> Carried:
    """Frees the coefficient of sliding friction of shapes."""
    limits = (0.0, np.inf) if bounds is None else bounds
    return Carried(_patterns("friction", shapes), limits, prior, "shape", "contact", 2, title="friction")


def gains(*actuators: str, bounds=None, prior=None) -> Carried:
    """Frees the gains of actuators."""
    return Carried(_patterns("gains", actuators), bounds, prior, "actuator", "gain.value", title="gain")


def gear_ratios(*actuators: str, bounds=None, prior=None) -> Carried:
    """Frees the gear ratios of actuators."""
    return Carried(_patterns("gear_ratios", actuators), bounds, prior, "actuator", "gear", 0, title="gear")


def carried(role: str, pattern: str, field: str, *, entry=None, unit="", bounds=None, prior=None) -> Carried:
    """Frees a number of things that a model carries: `carried("force", "SpringDamper", "spring_constant", unit="N/m")`.

    - `role`: "force", "actuator", "shape", ...
    - `pattern`: of their names; of their families, where they have no name.
    - `field`: which number, with a dot where it is one of a part.
    - `entry`: which one of a vector.
    """
    return Carried(_patterns("carried", (pattern,)), bounds, prior, role, field, entry, unit)


def numbers(name: str, where: Callable[[Model], Any], *, unit="", bounds=None, prior=None) -> Numbers:
    """Frees any leaf of a model: `numbers("gravity", lambda model: model.gravity, unit="m/s²")`."""
    return Numbers((name,), bounds, prior, where, name, unit)


def tied(kind: Kind, leader: str | None = None, follower: str | None = None, *, mirror=None) -> Tied:
    """What a kind frees, with fewer numbers: followers take the values of their leaders.

    `tied(inertias("left_*"), "left_*", "right_*", mirror=(0, 1, 0))` frees the inertias of the left side, and the right side has
    their mirror images across the plane with this normal. `tied(damping("leg_*"))` frees one number, that of all.
    """
    if not isinstance(kind, Kind):
        raise ModelError(f"identify.tied: kind is {kind!r}; it is what identify.inertias and others return")
    if (leader is None) != (follower is None):
        raise ModelError("identify.tied: give leader and follower, or neither")
    for pattern in (leader, follower):
        if pattern is not None and pattern.count("*") != 1:
            raise ModelError(
                f"identify.tied: {pattern!r} has {pattern.count('*')} wildcards; it has one *, which stands for the same in both"
            )
    normal = None if mirror is None else tuple(float(x) for x in mirror)
    return Tied(kind.patterns, None, kind.prior, kind, leader, follower, normal)  # pyright: ignore


def _patterns(owner: str, given: Sequence[str]) -> tuple[str, ...]:
    return names(f"identify.{owner}", "names", tuple(given)) if given else ("*",)
