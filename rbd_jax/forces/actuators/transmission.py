"""Transmissions of actuators: lengths, their rates, and the moment arms.

All actuators of a model are computed together. A force `f` along a length acts as `Jᵀ f`; a
positive force increases the length.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._core.arguments import names, number
from ..._core.array import by_numpy, cross, dot, gather, is_known, matvec, sum_rows, vecmat, with_precision
from ..._core.errors import ModelError
from ...dynamics import Motion
from ...dynamics.sites import frames_on
from ...joints import Free, Joint, Spherical
from ...lie import SO3, quaternion
from ...model import Model
from ...spatial import Reference
from ...spatial.transform import Transform
from ..tendon import Tendons


if TYPE_CHECKING:
    from .actuator import Actuator


class Transmission(eqx.Module):
    """The object that an actuator acts on. `joints` and `refers` are the names of joints and attachments in use.

    >>> print(isinstance(rbd.actuators.OnJoint("swing"), rbd.actuators.Transmission), rbd.actuators.OnJoint("swing").joints)
    True ('swing',)
    """

    if TYPE_CHECKING:  # properties of some
        joints: tuple[str, ...]
        refers: tuple[Reference, ...]
    else:
        joints = refers = ()

    #: Number of gear values; None if it depends on the joint.
    numbers: ClassVar[int | None] = 1

    @abc.abstractmethod
    def renamed(self, joints: Sequence[str], refers: Sequence[Reference]) -> Transmission:
        """Returns the same transmission after renaming joints and attachments."""


class OnJoint(Transmission):
    """Along the coordinate of a joint with one degree of freedom: the length is `gear * q`.

    Any other joint takes a gear with one number per degree of freedom: the torque axis for a ball joint, `[torque; force]`
    for a free joint. The length is the component of the ball's rotation vector along the axis, and zero for a free joint.

    - `in_parent`: True if the torque is in the axes of the parent instead of the moving body. The force always is.

    >>> motor = rbd.actuators.Motor("motor", rbd.actuators.OnJoint("swing"), gear=2.0)
    >>> print(rbd.actuators.actuator_lengths(rbd.attach(rbd.load("pendulum"), motor), jnp.array([0.3])))
    [0.6]
    """

    numbers = None

    joint: str = eqx.field(static=True)
    in_parent: bool = eqx.field(static=True)

    def __init__(self, joint: str, in_parent: bool = False):
        (self.joint,) = names("OnJoint", "joint", joint, 1)
        self.in_parent = in_parent

    @property
    def joints(self):
        return (self.joint,)

    def renamed(self, joints, refers):
        return OnJoint(joints[0], self.in_parent)


class OnTendon(Transmission):
    """Along a tendon, by name: the length is `gear` times the tendon's.

    >>> tendon = rbd.forces.FixedTendon("tendon", {"shoulder": 0.1, "elbow": 0.2})
    >>> model = rbd.attach(rbd.load("double_pendulum"), tendon, rbd.actuators.Motor("winch", rbd.actuators.OnTendon("tendon")))
    >>> print(rbd.actuators.actuator_moments(model, jnp.zeros(2)))
    [[0.1 0.2]]
    """

    tendon: str = eqx.field(static=True)

    def __init__(self, tendon: str):
        (self.tendon,) = names("OnTendon", "tendon", tendon, 1)

    @property
    def refers(self):
        return (Reference("tendon", self.tendon),)

    def renamed(self, joints, refers):
        return OnTendon(refers[0].name)


class OnSite(Transmission):
    """A wrench `gear = [torque; force]` at a site, in its axes, such as a thruster. The length is zero.

    - `reference`: a second site. The wrench is then in the axes of this site, with the opposite wrench there, and no effect
      on a body that carries both sites. If the gear has a force, the length is the position of the first site relative to the
      second along the gear. If it has a torque, the length is the rotation vector along the gear.

    >>> thruster = rbd.actuators.Motor("thruster", rbd.actuators.OnSite("nozzle"), gear=(0, 0, 0, 1, 0, 0))
    >>> model = rbd.attach(rbd.load("pendulum"), rbd.Site("nozzle", "bob", (0.0, 0.0, -1.0)), thruster)
    >>> print(rbd.actuators.actuator_moments(model, jnp.zeros(1)))
    [[-1.]]
    """

    numbers = 6

    site: str = eqx.field(static=True)
    reference: str | None = eqx.field(static=True)

    def __init__(self, site: str, reference: str | None = None):
        (self.site,) = names("OnSite", "site", site, 1)
        self.reference = None if reference is None else names("OnSite", "reference", reference, 1)[0]

    @property
    def refers(self):
        own = (self.site,) if self.reference is None else (self.site, self.reference)
        return tuple(Reference("site", name) for name in own)

    def renamed(self, joints, refers):
        return OnSite(*(reference.name for reference in refers))


class SliderCrank(Transmission):
    """A rod from the site `crank` to a slider on the z axis of the site `slider`; the slider's position is the length.

    >>> crank, slider = rbd.Site("crank", "bob", (0.0, 0.0, -0.2)), rbd.Site("slider", "world")
    >>> drive = rbd.actuators.Motor("piston", rbd.actuators.SliderCrank("crank", "slider", rod=0.5))
    >>> model = rbd.attach(rbd.load("pendulum"), crank, slider, drive)
    >>> print(rbd.actuators.actuator_lengths(model, jnp.array([0.0])))  # the crank, and the rod below it
    [-0.7]
    """

    crank: str = eqx.field(static=True)
    slider: str = eqx.field(static=True)
    rod: Float[Array, ""]

    def __init__(self, crank: str, slider: str, rod: Any):
        (self.crank,) = names("SliderCrank", "crank", crank, 1)
        (self.slider,) = names("SliderCrank", "slider", slider, 1)
        self.rod = number("SliderCrank", "rod", rod, above=0)

    @property
    def refers(self):
        return Reference("site", self.crank), Reference("site", self.slider)

    def renamed(self, joints, refers):
        return SliderCrank(refers[0].name, refers[1].name, self.rod)


class Arms(NamedTuple):
    """Actuators at frames: their indices, their lengths, and the wrenches of unit forces.

    - `actuators`: the indices of the actuators, and `lengths` their lengths.
    - `owners`, `wrenches`: the actuator of each wrench per unit force, `[torque; force]` in the axes of its frame.
    """

    actuators: np.ndarray
    lengths: Float[Array, "k"]
    owners: np.ndarray
    wrenches: Float[Array, "r 6"]


class Transmissions:
    """The transmissions of actuators of a model in motion: lengths, rates, and the effect of efforts along the lengths."""

    def __init__(self, motion: Motion, actuators: Sequence[Actuator]):
        self.motion, self.count = motion, len(actuators)
        self.actuators = actuators
        members: dict[type, list[int]] = {}
        for index, one in enumerate(actuators):
            members.setdefault(type(one.transmission), []).append(index)
        self._scalar, self._turning = _by_size(motion.model, actuators, members.get(OnJoint, []))
        self._on_tendons = members.get(OnTendon, [])
        self._on_frames = [*members.get(OnSite, []), *members.get(SliderCrank, [])]
        dtype = motion.q.dtype
        if self._scalar:
            self._gears = self._gear(self._scalar).astype(dtype)
        if self._on_tendons:
            self._tendons = Tendons(motion)
            order = {one.name: place for place, one in enumerate(motion.model.tendons)}
            on = [actuators[i].transmission.refers[0].name for i in self._on_tendons]
            self._tendon = np.array([order[name] for name in on])
            self._tendon_gears = self._gear(self._on_tendons).astype(dtype)
        self._turns = _turning(motion, actuators, self._turning) if self._turning else None
        self._frames = _at_frames(motion, actuators, self._on_frames) if self._on_frames else None

    @property
    def scalar(self) -> tuple[list[int], Float[Array, "k"]]:
        """The actuators along joints with one degree of freedom, and their gears."""
        return self._scalar, self._gears if self._scalar else jnp.zeros(0)

    def scalar_joints(self) -> list[str]:
        """Returns the joints of the actuators in `scalar`."""
        return [self.actuators[i].joints[0] for i in self._scalar]

    @property
    def lengths(self) -> Float[Array, "n"]:
        parts = []
        if self._scalar:
            parts.append((self._scalar, self._gears * self.motion.coordinates(self.scalar_joints())))
        if self._on_tendons:
            parts.append((self._on_tendons, self._tendon_gears * gather(self._tendons.lengths, self._tendon)))
        if self._turns is not None:
            parts.append((self._turning, self._turns.lengths))
        if self._frames is not None:
            parts.append((self._frames.arms.actuators, self._frames.arms.lengths))
        return self._together(parts)

    @property
    def rates(self) -> Float[Array, "n"]:
        parts = []
        if self._scalar:
            parts.append((self._scalar, self._gears * self.motion.speeds(self.scalar_joints())))
        if self._on_tendons:
            parts.append((self._on_tendons, self._tendon_gears * gather(self._tendons.rates, self._tendon)))
        if self._turns is not None:
            parts.append((self._turns.owners, self._turns.moments * gather(self.motion.v, self._turns.dofs)))
        if self._frames is not None:
            parts.append((self._frames.arms.owners, dot(self._frames.arms.wrenches, self._frames.twists)))
        return self._together(parts)

    @property
    def circular(self) -> list[int]:
        """The actuators whose lengths may be angles of rotations: on ball joints, and on sites with a reference site."""
        model = self.motion.model
        balls = [i for i in self._turning if isinstance(_kind(model, self.actuators[i].joints[0]), Spherical)]
        seen = [
            i
            for i in self._on_frames
            if getattr(self.actuators[i].transmission, "reference", None) is not None
        ]
        return balls + seen

    def turns(self, which: Sequence[int]) -> Float[Array, "k"]:
        """Returns the change of some of these lengths per full turn; zero if the gear includes a force."""
        gears = [self.actuators[i].gear for i in which]
        torques = jnp.stack([gear[:3] for gear in gears]).astype(self.motion.q.dtype)
        forces = jnp.stack([jnp.zeros(3) if gear.size == 3 else gear[3:] for gear in gears])
        square = jnp.where(jnp.any(forces != 0, axis=1), 0, dot(torques, torques))
        return jnp.where(square > 0, 2 * jnp.pi * jnp.sqrt(jnp.where(square > 0, square, 1)), 0)

    def generalized_force(self, efforts: Float[Array, "n"]) -> Float[Array, "nv"]:
        """Returns `Jᵀ f` for an effort along each length."""
        motion = self.motion
        total = jnp.zeros_like(motion.v)
        if self._scalar:
            total = total + motion.along(
                self.scalar_joints(), self._gears * gather(efforts, np.array(self._scalar))
            )
        if self._on_tendons:
            total = total + self._tendons.generalized_force(self._along_tendons(efforts))
        if self._turns is not None:
            own = self._turns.moments * gather(efforts, self._turns.owners)
            total = total + sum_rows(own, self._turns.dofs, len(total))
        if self._frames is not None:
            arms = self._frames.arms
            own = arms.wrenches * gather(efforts, arms.owners)[:, None]
            total = total + self._frames.generalized_force(motion, own)
        return total

    def body_wrenches(self, efforts: Float[Array, "n"]) -> Float[Array, "nb 6"] | None:
        """Returns the wrenches of the driven tendons on every body, in its own frame, or None without such tendons."""
        if not self._on_tendons:
            return None
        return self._tendons.body_wrenches(self._along_tendons(efforts))

    def _along_tendons(self, efforts: Float[Array, "n"]) -> Float[Array, "t"]:
        own = self._tendon_gears * gather(efforts, np.array(self._on_tendons))
        return sum_rows(own, self._tendon, self._tendons.count)

    def _gear(self, which: Sequence[int]) -> Float[Array, "k"]:
        return jnp.concatenate([self.actuators[i].gear for i in which])

    def _together(self, parts) -> Float[Array, "n"]:
        if not parts:
            return jnp.zeros(self.count, self.motion.q.dtype)
        rows = np.concatenate([np.asarray(which, int) for which, _ in parts])
        return sum_rows(jnp.concatenate([value for _, value in parts]), rows, self.count)


def _by_size(model: Model, actuators, which: list[int]) -> tuple[list[int], list[int]]:
    """Splits actuators on joints into those with one degree of freedom and others."""
    scalar, turning = [], []
    for i in which:
        body = model.topology.joint_index(actuators[i].joints[0])
        (scalar if model.topology.joint_nv[body] == 1 else turning).append(i)
    return scalar, turning


def _kind(model: Model, joint: str) -> Joint:
    """Returns the group of joints that contains a joint."""
    return model.joints[model.topology.kind_of[model.topology.joint_index(joint)][0]]


class _Turns(NamedTuple):
    """Actuators on ball and free joints: their lengths, and one row per entry of their moment arms."""

    lengths: Float[Array, "k"]
    owners: np.ndarray
    dofs: np.ndarray
    moments: Float[Array, "r"]


def _turning(motion: Motion, actuators, which: list[int]) -> _Turns:
    lengths, owners, dofs, moments, order = [], [], [], [], []
    model = motion.model
    q = model.joint_configurations(motion.q)
    groups: dict[tuple, list[int]] = {}
    for i in which:
        joint = _kind(model, actuators[i].joints[0])
        families = [family for family in (Spherical, Free) if isinstance(joint, family)]
        kind = families[0] if families else joint.flat
        groups.setdefault((kind, actuators[i].gear.size, actuators[i].transmission.in_parent), []).append(i)
    for (kind, _, in_parent), members in groups.items():
        joints = [model.topology.joint_index(actuators[i].joints[0]) for i in members]
        gears = jnp.stack([actuators[i].gear for i in members]).astype(q.dtype)
        places = np.stack([np.asarray(model.topology.joint_q(joint), int) for joint in joints])
        own = gather(q, places.ravel()).reshape(places.shape)
        nothing = jnp.zeros(len(members), q.dtype)
        if kind is Spherical or kind is Free:
            turned = quaternion.normalize(own[:, -4:])
            rotation = quaternion.to_matrix(turned)
            torque = vecmat(gears[:, :3], rotation) if in_parent else gears[:, :3]
        if kind is Spherical:
            lengths.append(dot(quaternion.log(turned), torque))
            moments.append(torque)
        elif kind is Free:
            lengths.append(nothing)
            moments.append(jnp.concatenate([torque, vecmat(gears[:, 3:], rotation)], axis=1))
        else:
            lengths.append(dot(own, gears) if kind else nothing)
            moments.append(gears)
        places = np.stack([np.asarray(model.topology.joint_v(joint), int) for joint in joints])
        dofs.append(places.ravel())
        owners.append(np.repeat(members, places.shape[1]))
        order += members
    return _Turns(
        gather(jnp.concatenate(lengths), np.argsort(order)),
        np.concatenate(owners),
        np.concatenate(dofs),
        jnp.concatenate([x.reshape(-1) for x in moments]),
    )


class _Frames(NamedTuple):
    """Actuators at sites: their arms, and the frames of the wrenches, one per wrench."""

    arms: Arms
    twists: Float[Array, "r 6"]
    bodies: list[str]
    placements: Transform

    def generalized_force(self, motion: Motion, wrenches: Float[Array, "r 6"]) -> Float[Array, "nv"]:
        rows = np.array([row for row, body in enumerate(self.bodies) if body != "world"], int)
        if not len(rows):
            return jnp.zeros_like(motion.v)
        own = self.placements.gather(rows).force(gather(wrenches, rows))
        index = motion.model.topology.body_index
        return motion.generalized_force([index(self.bodies[row]) for row in rows], own)


def _at_frames(motion: Motion, actuators, which: list[int]) -> _Frames:
    model = motion.model
    sites = list(dict.fromkeys(one.name for i in which for one in actuators[i].transmission.refers))
    things = [model.named("site", name) for name in sites]
    bodies = [body for thing in things for body in thing.bodies]
    placements = jax.tree.map(lambda *x: jnp.concatenate(x), *(thing.frames for thing in things))
    pairs = [i for i in which if getattr(actuators[i].transmission, "reference", None) is not None]
    shared = {
        i: _carrying(model, *(bodies[sites.index(one.name)] for one in actuators[i].transmission.refers))
        for i in pairs
    }
    carriers = list(dict.fromkeys(body for body in shared.values() if body != "world"))
    bodies += carriers
    unit = Transform(jnp.broadcast_to(jnp.eye(3), (len(carriers), 3, 3)), jnp.zeros((len(carriers), 3)))
    placements = jax.tree.map(
        lambda *x: jnp.concatenate(x), *with_precision((placements, unit), motion.q.dtype)
    )
    at = frames_on(motion, bodies, placements)
    place = {name: row for row, name in enumerate(sites)} | {
        ("body", body): len(sites) + row for row, body in enumerate(carriers)
    }
    lengths, owners, rows, wrenches = [], [], [], []

    def act(i, row, torque, force):
        """Adds a wrench of an actuator at a frame, given in the world's axes."""
        own = jnp.concatenate([torque, force])
        turn = at.frames.rotation[row]
        wrenches.append(jnp.concatenate([vecmat(own[:3], turn), vecmat(own[3:], turn)]))
        owners.append(i)
        rows.append(row)

    nothing = jnp.zeros(3, motion.q.dtype)
    for i in which:
        transmission, gear = actuators[i].transmission, actuators[i].gear.astype(motion.q.dtype)
        if isinstance(transmission, SliderCrank):
            crank, slider = place[transmission.crank], place[transmission.slider]
            axis = at.frames.rotation[slider][:, 2]
            apart = at.frames.position[crank] - at.frames.position[slider]
            rod = transmission.rod.astype(motion.q.dtype)
            length, (by_apart, by_axis) = jax.value_and_grad(_crank_length, (0, 1))(apart, axis, rod)
            lengths.append(gear[0] * length)
            act(i, crank, nothing, gear[0] * by_apart)
            act(i, slider, gear[0] * cross(axis, by_axis), -gear[0] * by_apart)
            continue
        here = place[transmission.site]
        if transmission.reference is None:
            turn = at.frames.rotation[here]
            lengths.append(jnp.zeros((), motion.q.dtype))
            act(i, here, matvec(turn, gear[:3]), matvec(turn, gear[3:]))
            continue
        other = place[transmission.reference]
        turn = at.frames.rotation[other]
        apart = at.frames.position[here] - at.frames.position[other]
        seen = Transform(turn, at.frames.position[other]).inverse() @ Transform(
            at.frames.rotation[here], at.frames.position[here]
        )
        lengths.append(dot(SO3.log(seen.rotation), gear[:3]) + dot(vecmat(apart, turn), gear[3:]))
        torque, force = matvec(turn, gear[:3]), matvec(turn, gear[3:])
        act(i, here, torque, force)
        act(i, other, -torque, -force)
        if shared[i] != "world":  # cancels the effect on a body that carries both
            act(i, place["body", shared[i]], -cross(apart, force), nothing)
    order = np.array(rows)
    return _Frames(
        Arms(np.array(which), jnp.stack(lengths), np.array(owners), jnp.stack(wrenches)),
        gather(at.twists, order),
        [bodies[row] for row in rows],
        placements.gather(order),
    )


def _crank_length(apart, axis, rod):
    """Returns the position of the slider along the axis; if the rod is too short, the point nearest to the crank."""
    along = dot(apart, axis)
    square = along * along + rod * rod - dot(apart, apart)
    reaches = square > 0
    return along - jnp.where(reaches, jnp.sqrt(jnp.where(reaches, square, 1)), 0)


def _carrying(model: Model, first: str, second: str) -> str:
    """Returns the nearest common ancestor of two bodies, or the world."""
    topology = model.topology
    ways = []
    for body in (first, second):
        way, index = [], -1 if body == "world" else topology.body_index(body)
        while index >= 0:
            way.append(index)
            index = int(topology.parents[index])
        ways.append(way)
    common = [index for index in ways[0] if index in ways[1]]
    return topology.body_names[common[0]] if common else "world"


def checked_gear(owner: str, gear) -> Float[Array, "k"]:
    """Checks a gear: one number, or one per degree of freedom of the object that it acts on."""
    shape = np.shape(gear)
    if len(shape) > 1 or shape == (0,):
        raise ModelError(
            f"{owner}: gear has shape {shape}; it must be one number, or one for each degree of freedom"
        )
    gear = by_numpy(lambda _, gear: gear.reshape(-1), number(owner, "gear", gear, shape))
    if is_known(gear) and not np.any(np.asarray(gear)):
        raise ModelError(f"{owner}: gear is zero, so it would do nothing; give the ratio, or leave it out")
    return gear
