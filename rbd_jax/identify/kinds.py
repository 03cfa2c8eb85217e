"""What can be free: kinds of numbers of bodies, of joints and of what a model carries, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names
from .._core.array import blocks, by_numpy, dot, gather, is_known, matmul, matvec, pick, transpose
from ..joints import Joint
from ..lie import SE3
from ..model import Model
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .kind import Candidate, Kind, column, replaced


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

    def mirrored(self, values, linear, shift):
        one = jnp.ones((len(values), 1, 1), values.dtype)
        moved = blocks(linear, shift[..., None], jnp.zeros_like(linear[:, :1]), one)
        pseudo = Inertia.from_parameters(values).pseudo_inertia
        return Inertia.from_pseudo_inertia(matmul(matmul(moved, pseudo), transpose(moved))).parameters


class Masses(OfBodies):
    """The mass of bodies; their density is scaled, so that the inertia goes along and the centre of mass stays."""

    components = (("mass", "kg", "kg"),)
    range = (0.0, np.inf)
    sets = ("mass",)
    linear = True

    def read(self, model, places, reference):
        return column(model.inertias.mass, places)

    def write(self, model, places, values):
        own = gather(model.inertias.parameters, places)
        scaled = by_numpy(lambda _, own, values: own * (values / own[:, :1]), own, values)
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

    def mirrored(self, values, linear, shift):
        return matvec(linear, values) + shift


class Placements(Kind):
    """Where the joint of bodies sits in their parent, as the screw `[φ; p]` that takes it there from where it was."""

    components = (*((f"r{i}", "rad", "rad") for i in "xyz"), *((f"p{i}", "m", "m") for i in "xyz"))
    sets = ("placement",)
    size = 0.01
    has_mirror_images = False

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
        return column(getattr(model, self.field), places)

    def write(self, model, places, values):
        return replace(
            model,
            **{self.field: replaced(getattr(model, self.field), places, pick(values, (slice(None), 0)))},
        )


def degrees_of_freedom(model: Model) -> list[Candidate]:
    """Each degree of freedom of a model by its joint, with a number where that has several."""
    found = []
    for body, joint in enumerate(model.joint_names):
        size = int(model.topology.joint_nv[body])
        if not size or model.topology.is_mimic[body]:
            continue
        subspace = np.asarray(_subspace(model.joint(body)))
        for i in range(size):
            label = joint if size == 1 else f"{joint}[{i}]"
            turns = bool(np.abs(subspace[:3, i]).max() > 1e-9)
            found.append(Candidate(joint, int(model.topology.v_offsets[body]) + i, label, turns))
    return found


@jax.jit
def _subspace(joint: Joint) -> Float[Array, "6 nv"]:
    return joint.motion_subspace(joint.neutral())


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


class Friction(OfJoints):
    """Both of the friction of joints: viscous damping and Coulomb's friction."""

    components = (*Damping.components, *Coulomb.components)
    sets = (*Damping.sets, *Coulomb.sets)

    def read(self, model, places, reference):
        both = gather(model.damping, places), gather(model.friction, places)
        return by_numpy(lambda xp, *columns: xp.stack(columns, axis=1), *both)

    def write(self, model, places, values):
        return replace(
            model,
            damping=replaced(model.damping, places, values[:, 0]),
            friction=replaced(model.friction, places, values[:, 1]),
        )


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
    has_mirror_images = False

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

    - `role`: what the model lists them under; of several roles, with "or" between them.
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
        return tuple(f"{role} {self.field} {self.entry}" for role in self._roles)

    @property
    def _roles(self) -> list[str]:
        return self.role.split(" or ")

    def candidates(self, model):
        found = []
        for place, thing in enumerate(model.attached):
            if thing.role in self._roles and self._has(thing):
                found.append(Candidate(thing.name or type(thing).__name__, place, thing.name or thing.label))
        names = [one.name for one in found]  # which are unique in each role
        return [
            one._replace(label=f"{model.attached[one.place].role} {one.label}")
            if len(self._roles) > 1 and names.count(one.name) > 1
            else one
            for one in found
        ]

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


# As they are called.


def inertias(*bodies: str, prior=None, spread=1.0) -> Inertias:
    """Frees all ten inertia parameters of bodies, by name or pattern; all that have mass by default.

    `spread` is how far off the model's own inertia is thought to be, as a relative standard deviation: it decides where data do
    not, in estimators that keep bodies possible. A `prior` is a mean and a standard deviation of the ten numbers.

    >>> parameters = rbd.identify.Parameters(rbd.load("arm7"), rbd.identify.inertias("hand"))
    >>> print(parameters.names[:4])
    ('hand mass', 'hand hx', 'hand hy', 'hand hz')
    """
    return Inertias(_patterns("inertias", bodies), None, prior, spread)


def masses(*bodies: str, bounds=None, prior=None) -> Masses:
    """Frees the masses of bodies; the inertia goes along.

    >>> parameters = rbd.identify.Parameters(rbd.load("arm7"), rbd.identify.masses("link[123]", prior=(None, 0.1)))
    >>> print(parameters.names)
    ('link1 mass', 'link2 mass', 'link3 mass')
    """
    return Masses(_patterns("masses", bodies), bounds, prior)


def centers_of_mass(*bodies: str, bounds=None, prior=None) -> CentersOfMass:
    """Frees where the centres of mass of bodies are.

    >>> model = rbd.load("pendulum")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.centers_of_mass())
    >>> print(parameters.names, parameters.values_of(model))
    ('bob cx', 'bob cy', 'bob cz') [ 0.  0. -1.]
    """
    return CentersOfMass(_patterns("centers_of_mass", bodies), bounds, prior)


def placements(*bodies: str, bounds=None, prior=None) -> Placements:
    """Frees where the joints of bodies sit in their parents: kinematic calibration.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.placements("bob"))
    >>> print(parameters.names)
    ('bob rx', 'bob ry', 'bob rz', 'bob px', 'bob py', 'bob pz')
    """
    return Placements(_patterns("placements", bodies), bounds, prior)


def damping(*joints: str, bounds=None, prior=None) -> Damping:
    """Frees the viscous damping of joints, by name or pattern; of all by default.

    >>> parameters = rbd.identify.Parameters(rbd.load("double_pendulum"), rbd.identify.damping())
    >>> print(parameters.names)
    ('shoulder damping', 'elbow damping')
    """
    return Damping(_patterns("damping", joints), bounds, prior)


def coulomb(*joints: str, bounds=None, prior=None) -> Coulomb:
    """Frees the Coulomb friction of joints.

    >>> parameters = rbd.identify.Parameters(rbd.load("double_pendulum"), rbd.identify.coulomb("elbow"))
    >>> print(parameters.names, parameters.units)
    ('elbow friction',) ('N m',)
    """
    return Coulomb(_patterns("coulomb", joints), bounds, prior)


def friction(*joints: str, bounds=None, prior=None) -> Friction:
    """Frees the friction of joints, both that which grows with the speed (`damping`) and that which does not (`coulomb`).

    Bounds and priors are of both, or of each: `friction(prior=([0.5, 0.2], [0.1, 0.1]))`, damping first.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.friction())
    >>> print(parameters.names)
    ('swing damping', 'swing friction')
    """
    return Friction(_patterns("friction", joints), bounds, prior)


def armature(*joints: str, bounds=None, prior=None) -> Armature:
    """Frees the armature of joints.

    >>> model = rbd.load("arm7")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.armature("joint1"))
    >>> print(parameters.names, parameters.values_of(model))
    ('joint1 armature',) [0.2]
    """
    return Armature(_patterns("armature", joints), bounds, prior)


def stiffness(*joints: str, bounds=None, prior=None) -> Stiffness:
    """Frees the stiffness of the springs at joints.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.stiffness())
    >>> print(parameters.names, parameters.units)
    ('swing stiffness',) ('N m/rad',)
    """
    return Stiffness(_patterns("stiffness", joints), bounds, prior)


def joint_offsets(*joints: str, bounds=None, prior=None) -> JointOffsets:
    """Frees what must be added to measured joint coordinates.

    >>> parameters = rbd.identify.Parameters(rbd.load("double_pendulum"), rbd.identify.joint_offsets("elbow"))
    >>> print(parameters.names, parameters.units)
    ('elbow offset',) ('rad',)
    """
    return JointOffsets(_patterns("joint_offsets", joints), bounds, prior)


def sliding_friction(*shapes: str, bounds=None, prior=None) -> Carried:
    """Frees the coefficient of sliding friction of shapes, where they touch others.

    >>> model = rbd.load("quadruped")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.sliding_friction("floor"))
    >>> print(parameters.names, parameters.values_of(model))
    ('floor sliding friction',) [1.]
    """
    limits = (0.0, np.inf) if bounds is None else bounds
    patterns = _patterns("sliding_friction", shapes)
    return Carried(patterns, limits, prior, "shape", "contact", 2, title="sliding friction")


def gains(*actuators: str, bounds=None, prior=None) -> Carried:
    """Frees the gains of actuators.

    >>> model = rbd.load("cartpole")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.gains("motor"))
    >>> print(parameters.names, parameters.values_of(model))
    ('motor gain',) [1.]
    """
    return Carried(_patterns("gains", actuators), bounds, prior, "actuator", "gain.value", title="gain")


def gear_ratios(*actuators: str, bounds=None, prior=None) -> Carried:
    """Frees the gear ratios of actuators.

    >>> model = rbd.load("cartpole")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.gear_ratios("motor"))
    >>> print(parameters.names, parameters.values_of(model))
    ('motor gear',) [1.]
    """
    return Carried(_patterns("gear_ratios", actuators), bounds, prior, "actuator", "gear", 0, title="gear")


def delays(*things: str, bounds=None, prior=None) -> Carried:
    """Frees the delays of sensors and of actuators, of those that have one: what is late by nobody knows how much is given a
    delay of zero.

    They are seen by `identify.OutputError`, from readings between which the motion goes on, and from controls that change. A
    delay that is found more than a few samples away from where it was is found better from a model that has it; that of
    an actuator may be found up to a window longer than it was.

    >>> late = rbd.sensors.JointPosition("encoder", "swing", delay=0.0)
    >>> parameters = rbd.identify.Parameters(rbd.attach(rbd.load("pendulum"), late), rbd.identify.delays())
    >>> print(parameters.names, parameters.units)
    ('encoder delay',) ('s',)
    """
    limits = (0.0, np.inf) if bounds is None else bounds
    return Carried(_patterns("delays", things), limits, prior, "sensor or actuator", "delay", unit="s")


def carried(role: str, pattern: str, field: str, *, entry=None, unit="", bounds=None, prior=None) -> Carried:
    """Frees a number of things that a model carries: `carried("force", "SpringDamper", "spring_constant", unit="N/m")`.

    - `role`: "force", "actuator", "shape", ...
    - `pattern`: of their names; of their families, where they have no name.
    - `field`: which number, with a dot where it is one of a part.
    - `entry`: which one of a vector.

    >>> spring = rbd.forces.SpringDamper(["world", "bob"], [(1.0, 0.0, -1.0), (0.0, 0.0, -1.0)], 0.5, 10.0)
    >>> model = rbd.add_forces(rbd.load("pendulum"), spring)
    >>> free = rbd.identify.carried("force", "SpringDamper", "spring_constant", unit="N/m")
    >>> print(rbd.identify.Parameters(model, free).values_of(model))
    [10.]
    """
    return Carried(_patterns("carried", (pattern,)), bounds, prior, role, field, entry, unit)


def numbers(name: str, where: Callable[[Model], Any], *, unit="", bounds=None, prior=None) -> Numbers:
    """Frees any leaf of a model: `numbers("gravity", lambda model: model.gravity, unit="m/s²")`.

    >>> free = rbd.identify.numbers("gravity", lambda model: model.gravity, unit="m/s²")
    >>> model = rbd.load("pendulum")
    >>> parameters = rbd.identify.Parameters(model, free)
    >>> print(parameters.names, parameters.values_of(model))
    ('gravity[0]', 'gravity[1]', 'gravity[2]') [ 0.    0.   -9.81]
    """
    return Numbers((name,), bounds, prior, where, name, unit)


def _patterns(owner: str, given: Sequence[str]) -> tuple[str, ...]:
    return names(f"identify.{owner}", "names", tuple(given)) if given else ("*",)
