"""Parameter groups of bodies, joints and attachments, and the functions that create them."""

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


# Parameters of bodies.


class OfBodies(Kind):
    """Parameters of bodies with mass. Massless bodies stay unchanged, and wildcard patterns skip them."""

    def candidates(self, model):
        mass = model.inertias.mass
        heavy = np.asarray(mass) > 0 if is_known(mass) else np.ones(model.nb, bool)
        return [Candidate(name, i, name) for i, name in enumerate(model.body_names) if heavy[i]]


class Inertias(OfBodies):
    """All ten inertia parameters of bodies: mass, first moment, rotational inertia about the body's origin.

    The unconstrained coordinates are `Inertia.to_log_cholesky`: all of their values are physically consistent inertias.

    - `spread`: the relative standard deviation of the prior, for estimators that keep inertias physically consistent.
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
    """Masses of bodies. The density is scaled: the inertia is proportional to the mass, and the center of mass is fixed."""

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
    """Centers of mass of bodies in their own frames; mass and central inertia are fixed."""

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
    """Joint placements in the parent body, as the screw `[φ; p]` of the displacement from the reference placement."""

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
    """Returns the model with some placements displaced, each in its own frame."""
    moved = model.placements.gather(places) @ moves
    placements = jax.tree.map(lambda rows, new: replaced(rows, places, new), model.placements, moved)
    return replace(model, placements=placements)


# Parameters of joints, a row for each degree of freedom.


class OfJoints(Kind):
    """A parameter of each degree of freedom of joints; mimic joints have none.

    - `field`: the name of the parameter's field in the model.
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
    """Returns the degrees of freedom of a model, labeled by their joint, with an index if the joint has several."""
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
    """Coulomb friction: the magnitude of a force against the motion, smoothed at rest as in `rbd.passive_force`."""

    components = (("friction", "N m", "N"),)
    field = "friction"
    sets = ("friction",)


class Friction(OfJoints):
    """Viscous damping and Coulomb friction of joints."""

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
    """Joint-space inertia of joints: rotors behind gears."""

    components = (("armature", "kg m²", "kg"),)
    field = "armature"
    sets = ("armature",)


class Stiffness(OfJoints):
    """Stiffness of joint springs; the rest position is the model's `spring_reference`."""

    components = (("stiffness", "N m/rad", "N/m"),)
    field = "stiffness"
    sets = ("stiffness",)


class JointOffsets(Kind):
    """Offsets to add to measured joint coordinates: the joint placement is moved along the joint by this amount.

    Only joints with one degree of freedom have offsets.
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


# Parameters of attachments, and any other leaf.


class Numbers(Kind):
    """Any leaf of a model: the array that `where(model)` returns, with one number or several.

    - `where`: a function that returns a leaf of the model.
    - `name`, `unit`: the name and the unit of the parameter.
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
    """A parameter of attachments of a model: force elements, actuators, shapes.

    - `role`: the role of the attachments; several roles are separated by "or".
    - `field`: the field of the parameter, such as `"spring_constant"` or `"gain.value"`.
    - `entry`: the index, if the field is a vector.
    - `unit`: the unit of the parameter.
    - `title`: the name of the parameter in results; by default the field.
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


# The functions that create groups.


def inertias(*bodies: str, prior=None, spread=1.0) -> Inertias:
    """Estimates all ten inertia parameters of bodies, by name or pattern; by default of all bodies with mass.

    Args:
      *bodies: Names or patterns of bodies.
      prior: Mean and standard deviation of the ten parameters.
      spread: Relative standard deviation of the model's own inertia. Estimators that keep inertias physically consistent
        use it where the data do not determine the inertia.

    >>> parameters = rbd.identify.Parameters(rbd.load("arm7"), rbd.identify.inertias("hand"))
    >>> print(parameters.names[:4])
    ('hand mass', 'hand hx', 'hand hy', 'hand hz')
    """
    return Inertias(_patterns("inertias", bodies), None, prior, spread)


def masses(*bodies: str, bounds=None, prior=None) -> Masses:
    """Estimates the masses of bodies; the inertia is proportional to the mass.

    Args:
      *bodies: Names or patterns of bodies; by default all bodies with mass.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("arm7"), rbd.identify.masses("link[123]", prior=(None, 0.1)))
    >>> print(parameters.names)
    ('link1 mass', 'link2 mass', 'link3 mass')
    """
    return Masses(_patterns("masses", bodies), bounds, prior)


def centers_of_mass(*bodies: str, bounds=None, prior=None) -> CentersOfMass:
    """Estimates the centers of mass of bodies.

    Args:
      *bodies: Names or patterns of bodies; by default all bodies with mass.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> model = rbd.load("pendulum")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.centers_of_mass())
    >>> print(parameters.names, parameters.values_of(model))
    ('bob cx', 'bob cy', 'bob cz') [ 0.  0. -1.]
    """
    return CentersOfMass(_patterns("centers_of_mass", bodies), bounds, prior)


def placements(*bodies: str, bounds=None, prior=None) -> Placements:
    """Estimates the joint placements of bodies in their parents: kinematic calibration.

    Args:
      *bodies: Names or patterns of bodies; by default all bodies.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.placements("bob"))
    >>> print(parameters.names)
    ('bob rx', 'bob ry', 'bob rz', 'bob px', 'bob py', 'bob pz')
    """
    return Placements(_patterns("placements", bodies), bounds, prior)


def damping(*joints: str, bounds=None, prior=None) -> Damping:
    """Estimates the viscous damping of joints.

    Args:
      *joints: Names or patterns of joints; by default all joints.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("double_pendulum"), rbd.identify.damping())
    >>> print(parameters.names)
    ('shoulder damping', 'elbow damping')
    """
    return Damping(_patterns("damping", joints), bounds, prior)


def coulomb(*joints: str, bounds=None, prior=None) -> Coulomb:
    """Estimates the Coulomb friction of joints.

    Args:
      *joints: Names or patterns of joints; by default all joints.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("double_pendulum"), rbd.identify.coulomb("elbow"))
    >>> print(parameters.names, parameters.units)
    ('elbow friction',) ('N m',)
    """
    return Coulomb(_patterns("coulomb", joints), bounds, prior)


def friction(*joints: str, bounds=None, prior=None) -> Friction:
    """Estimates viscous damping (`damping`) and Coulomb friction (`coulomb`) of joints.

    Bounds and priors apply to both, or separately to each, with damping first: `friction(prior=([0.5, 0.2], [0.1, 0.1]))`.

    Args:
      *joints: Names or patterns of joints; by default all joints.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.friction())
    >>> print(parameters.names)
    ('swing damping', 'swing friction')
    """
    return Friction(_patterns("friction", joints), bounds, prior)


def armature(*joints: str, bounds=None, prior=None) -> Armature:
    """Estimates the armature of joints.

    Args:
      *joints: Names or patterns of joints; by default all joints.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> model = rbd.load("arm7")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.armature("joint1"))
    >>> print(parameters.names, parameters.values_of(model))
    ('joint1 armature',) [0.2]
    """
    return Armature(_patterns("armature", joints), bounds, prior)


def stiffness(*joints: str, bounds=None, prior=None) -> Stiffness:
    """Estimates the stiffness of joint springs.

    Args:
      *joints: Names or patterns of joints; by default all joints.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("pendulum"), rbd.identify.stiffness())
    >>> print(parameters.names, parameters.units)
    ('swing stiffness',) ('N m/rad',)
    """
    return Stiffness(_patterns("stiffness", joints), bounds, prior)


def joint_offsets(*joints: str, bounds=None, prior=None) -> JointOffsets:
    """Estimates offsets to add to measured joint coordinates.

    Args:
      *joints: Names or patterns of joints; by default all joints with one degree of freedom.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> parameters = rbd.identify.Parameters(rbd.load("double_pendulum"), rbd.identify.joint_offsets("elbow"))
    >>> print(parameters.names, parameters.units)
    ('elbow offset',) ('rad',)
    """
    return JointOffsets(_patterns("joint_offsets", joints), bounds, prior)


def sliding_friction(*shapes: str, bounds=None, prior=None) -> Carried:
    """Estimates the coefficient of sliding friction of shapes in contact.

    Args:
      *shapes: Names or patterns of shapes; by default all shapes.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> model = rbd.load("quadruped")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.sliding_friction("floor"))
    >>> print(parameters.names, parameters.values_of(model))
    ('floor sliding friction',) [1.]
    """
    limits = (0.0, np.inf) if bounds is None else bounds
    patterns = _patterns("sliding_friction", shapes)
    return Carried(patterns, limits, prior, "shape", "contact", 2, title="sliding friction")


def gains(*actuators: str, bounds=None, prior=None) -> Carried:
    """Estimates the gains of actuators.

    Args:
      *actuators: Names or patterns of actuators; by default all actuators.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> model = rbd.load("cartpole")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.gains("motor"))
    >>> print(parameters.names, parameters.values_of(model))
    ('motor gain',) [1.]
    """
    return Carried(_patterns("gains", actuators), bounds, prior, "actuator", "gain.value", title="gain")


def gear_ratios(*actuators: str, bounds=None, prior=None) -> Carried:
    """Estimates the gear ratios of actuators.

    Args:
      *actuators: Names or patterns of actuators; by default all actuators.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> model = rbd.load("cartpole")
    >>> parameters = rbd.identify.Parameters(model, rbd.identify.gear_ratios("motor"))
    >>> print(parameters.names, parameters.values_of(model))
    ('motor gear',) [1.]
    """
    return Carried(_patterns("gear_ratios", actuators), bounds, prior, "actuator", "gear", 0, title="gear")


def delays(*things: str, bounds=None, prior=None) -> Carried:
    """Estimates the delays of sensors and actuators that have one.

    To estimate an unknown delay, set it to zero in the model. `identify.OutputError` observes delays: of sensors if the
    motion continues between readings, and of actuators if the controls change. If an estimated delay differs from its
    initial value by more than a few samples, estimate again with the updated model. The delay of an actuator can increase
    by at most one window.

    Args:
      *things: Names or patterns of sensors and actuators; by default all that have a delay.
      bounds: Lower and upper bound, each a number or one number per component.
      prior: Mean and standard deviation of the prior; a mean of None is the model's own value.

    >>> late = rbd.sensors.JointPosition("encoder", "swing", delay=0.0)
    >>> parameters = rbd.identify.Parameters(rbd.attach(rbd.load("pendulum"), late), rbd.identify.delays())
    >>> print(parameters.names, parameters.units)
    ('encoder delay',) ('s',)
    """
    limits = (0.0, np.inf) if bounds is None else bounds
    return Carried(_patterns("delays", things), limits, prior, "sensor or actuator", "delay", unit="s")


def carried(role: str, pattern: str, field: str, *, entry=None, unit="", bounds=None, prior=None) -> Carried:
    """Estimates a parameter of attachments: `carried("force", "SpringDamper", "spring_constant", unit="N/m")`.

    Args:
      role: "force", "actuator", "shape", ...
      pattern: Pattern of their names, or of their class names if they have no name.
      field: The field of the parameter; a dot separates the fields of a part.
      entry: The index, if the field is a vector.
      unit: The unit of the parameter.
      bounds: Lower and upper bound.
      prior: Mean and standard deviation of the prior.

    >>> spring = rbd.forces.SpringDamper(["world", "bob"], [(1.0, 0.0, -1.0), (0.0, 0.0, -1.0)], 0.5, 10.0)
    >>> model = rbd.add_forces(rbd.load("pendulum"), spring)
    >>> free = rbd.identify.carried("force", "SpringDamper", "spring_constant", unit="N/m")
    >>> print(rbd.identify.Parameters(model, free).values_of(model))
    [10.]
    """
    return Carried(_patterns("carried", (pattern,)), bounds, prior, role, field, entry, unit)


def numbers(name: str, where: Callable[[Model], Any], *, unit="", bounds=None, prior=None) -> Numbers:
    """Estimates any leaf of a model: `numbers("gravity", lambda model: model.gravity, unit="m/s²")`.

    Args:
      name: The name of the parameter.
      where: A function that returns a leaf of the model.
      unit: The unit of the parameter.
      bounds: Lower and upper bound.
      prior: Mean and standard deviation of the prior.

    >>> free = rbd.identify.numbers("gravity", lambda model: model.gravity, unit="m/s²")
    >>> model = rbd.load("pendulum")
    >>> parameters = rbd.identify.Parameters(model, free)
    >>> print(parameters.names, parameters.values_of(model))
    ('gravity[0]', 'gravity[1]', 'gravity[2]') [ 0.    0.   -9.81]
    """
    return Numbers((name,), bounds, prior, where, name, unit)


def _patterns(owner: str, given: Sequence[str]) -> tuple[str, ...]:
    return names(f"identify.{owner}", "names", tuple(given)) if given else ("*",)
