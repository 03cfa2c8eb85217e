"""Tendons: lengths that depend on several joints, and the forces along them.

A tendon is a linear combination of coordinates, or a string through points of bodies, over pulleys and around spheres and
cylinders. It has an optional spring and damper. Actuators act on tendons, and sensors measure them. All tendons of a model are
computed together: their lengths, and the moment arms `J`, with which a tension `f` acts as `-Jᵀ f`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import configuration, names, number, takes, vector, velocity
from .._core.array import beyond, by_numpy, cross, dot, gather, is_known, matvec, sum_rows, transpose, vecmat
from .._core.errors import ModelError
from ..dynamics import Motion
from ..dynamics.sites import body_wrenches_at, fixed_frames, generalized_force_at
from ..model import Model
from ..spatial import Reference, no_frames
from ..spatial.transform import Transform
from ._point import lengths_and_directions
from .force import Force
from .wrapping import wrapped


class Tendon(Force):
    """A named length of a model, and the forces along it.

    - `spring_constant`, `rest_length`: the spring pulls beyond `rest_length[1]` and pushes below `rest_length[0]`; a single
      number sets both. Units are N/m and m; for sums of angles Nm and rad.
    - `damping_constant`: N s/m.
    - `limits`: the minimum and maximum length; `friction`: the dry friction against a change of the length, in N. Both act
      under a contact model, such as `rbd.contact.Soft`.

    Without these, a tendon has no force of its own.

    >>> rope = rbd.forces.FixedTendon("rope", {"elbow": 0.2})
    >>> print(isinstance(rope, rbd.forces.Tendon), rope.name)
    True rope
    """

    name: str = eqx.field(static=True)
    spring_constant: Float[Array, ""] | None
    rest_length: Float[Array, "2"]
    damping_constant: Float[Array, ""] | None
    limits: Float[Array, "2"] | None
    friction: Float[Array, ""] | None

    role = "tendon"

    def _act(self, name: str, spring_constant, rest_length, damping_constant, limits, friction):
        family = type(self).__name__
        (self.name,) = names(family, "name", name, 1)
        owner = f"{family} {name!r}"
        self.spring_constant = (
            None if spring_constant is None else number(owner, "spring_constant", spring_constant, least=0)
        )
        self.damping_constant = (
            None if damping_constant is None else number(owner, "damping_constant", damping_constant, least=0)
        )
        rest = rest_length
        if np.shape(rest_length) == ():
            rest = by_numpy(lambda xp, length: xp.broadcast_to(xp.asarray(length), (2,)), rest_length)
        self.rest_length = number(owner, "rest_length", rest, (2,))
        self.limits = None if limits is None else number(owner, "limits", limits, (2,))
        for what, ends in (("rest_length", self.rest_length), ("limits", self.limits)):
            if ends is not None and is_known(ends) and np.greater(*np.asarray(ends)):
                raise ModelError(
                    f"{owner}: {what} is {ends.tolist()}; exchange the two, from the shorter to the longer"
                )
        self.friction = None if friction is None else number(owner, "friction", friction, least=0)

    def called(self, name, refers):
        return self.changed(name=name)

    @property
    def acts(self) -> bool:
        """True if the tendon has a spring or a damper."""
        return self.spring_constant is not None or self.damping_constant is not None

    @property
    def held(self) -> bool:
        """True if the tendon has limits or dry friction."""
        return self.limits is not None or self.friction is not None

    def generalized_force(self, motion):
        return TendonForces((self,)).generalized_force(motion)

    def body_wrenches_in(self, motion):
        return TendonForces((self,)).body_wrenches_in(motion)

    def stored_energy(self, motion):
        return TendonForces((self,)).stored_energy(motion)


class FixedTendon(Tendon):
    """A linear combination `Σ c_j q_j` of coordinates of joints with one degree of freedom, without a path in space.

    `coefficients` maps the names of joints to numbers.

    >>> tendon = rbd.forces.FixedTendon("tendon", {"shoulder": 0.1, "elbow": 0.2}, spring_constant=100.0)
    >>> model = rbd.attach(rbd.load("double_pendulum"), tendon)
    >>> print(rbd.forces.tendon_lengths(model, jnp.array([1.0, 2.0])))
    [0.5]
    >>> print(tendon(model, jnp.array([1.0, 2.0]), jnp.zeros(2)))
    [ -5. -10.]
    """

    joints: tuple[str, ...] = eqx.field(static=True)
    coefficients: Float[Array, "k"]

    def __init__(
        self,
        name,
        coefficients: Mapping[str, object],
        spring_constant=None,
        rest_length=0.0,
        damping_constant=None,
        limits=None,
        friction=None,
    ):
        self._act(name, spring_constant, rest_length, damping_constant, limits, friction)
        if not isinstance(coefficients, Mapping) or not coefficients:
            raise ModelError(
                f"FixedTendon {name!r}: coefficients is {coefficients!r}; it takes {{joint: number}}"
            )
        self.joints = tuple(coefficients)
        given = list(coefficients.values())
        stacked = by_numpy(lambda xp, *values: xp.stack([xp.asarray(value) for value in values]), *given)
        self.coefficients = number(f"FixedTendon {name!r}", "coefficients", stacked, (len(given),))

    def attached(self, bodies, frames, joints):
        return self.changed(joints=tuple(joints))

    def locked(self, joints):
        """Returns the tendon without the constant contributions of locked joints."""
        left = [i for i, joint in enumerate(self.joints) if joint not in joints]
        if not left:
            return None
        kept = tuple(self.joints[i] for i in left)
        return self.changed(joints=kept, coefficients=self.coefficients[np.array(left)])


class Pulley(eqx.Module):
    """The start of another string of a spatial tendon, which has the tension divided by `divisor`.

    >>> path = [("world", (0, 0, 1)), ("upper", (0, 0, -1)), rbd.forces.Pulley(2.0), ("upper", (0, 0, -1)), ("lower", (0, 0, -1))]
    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.forces.SpatialTendon("rope", path))
    >>> print(rbd.forces.tendon_lengths(model, jnp.zeros(2)))  # 2 m, and half of 1 m
    [2.5]
    """

    divisor: Float[Array, ""]

    def __init__(self, divisor):
        self.divisor = number("Pulley", "divisor", divisor, above=0)


class Around(eqx.Module):
    """A sphere, or a cylinder along the z axis of its frame, that a tendon may wrap around between two points.

    - `body`, `placement`: the body of the surface, and the frame on the body or the position of its center.
    - `side`: a point `(body, position)` or the name of a site on the side of the string; inside of
      the surface if the string is inside.

    >>> knob = rbd.forces.Around("world", (0.0, 0.0, 0.0), radius=0.2, side=("world", (0.3, 0.0, 0.0)))
    >>> path = [("world", (0, 0, 1)), knob, ("upper", (0, 0, -1))]
    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.forces.SpatialTendon("rope", path))
    >>> print(rbd.forces.tendon_lengths(model, jnp.zeros(2)))
    [2.04]
    """

    body: str = eqx.field(static=True)
    placement: Transform
    radius: Float[Array, ""]
    kind: str = eqx.field(static=True)
    side: Any

    def __init__(self, body: str, placement, radius, kind: str = "sphere", side=None):
        (self.body,) = names("Around", "body", body, 1)
        if kind not in ("sphere", "cylinder"):
            raise ModelError(f"Around: kind is {kind!r}; it must be 'sphere' or 'cylinder'")
        if not isinstance(placement, Transform):
            placement = Transform.from_position(vector("Around", "placement", placement))
        self.placement, self.radius, self.kind = placement, number("Around", "radius", radius, least=0), kind
        self.side = side


class SpatialTendon(Tendon):
    """The length of a string from point to point, straight or wrapped around surfaces.

    `path` lists points `(body, position)` and names of sites. An `Around` may stand between two points, and a `Pulley` starts
    another string. A string has two points or more, and ends in a point.

    >>> rope = rbd.forces.SpatialTendon("rope", [("world", (0, 0, 1)), ("upper", (0.1, 0, 0)), ("lower", (0, 0, -1))])
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope)
    >>> print(rbd.forces.tendon_lengths(model, jnp.zeros(2)))
    [3.007]
    """

    own_bodies: tuple[str, ...] = eqx.field(static=True)
    placements: Transform
    sites: tuple[str, ...] = eqx.field(static=True)
    pieces: tuple[_Piece, ...] = eqx.field(static=True)
    divisors: Float[Array, "pieces"]
    radii: Float[Array, "pieces"]

    def __init__(
        self,
        name,
        path: Sequence,
        spring_constant=None,
        rest_length=0.0,
        damping_constant=None,
        limits=None,
        friction=None,
    ):
        self._act(name, spring_constant, rest_length, damping_constant, limits, friction)
        self._lay(f"SpatialTendon {name!r}", path)

    def _lay(self, owner: str, path: Sequence) -> None:
        bodies: list[str] = []
        frames: list[Transform] = []
        sites: list[str] = []
        pieces: list[_Piece] = []
        divisors, radii = [], []

        def place(body, placement) -> int:
            bodies.append(body)
            frames.append(placement)
            return len(bodies) - 1

        def point(item) -> int:
            if isinstance(item, str):
                if item not in sites:
                    sites.append(item)
                return -1 - sites.index(item)
            try:
                body, position = item
                (body,) = names(owner, "body", body, 1)
            except (TypeError, ValueError):
                raise ModelError(
                    f"{owner}: its path has {item!r}; it takes points (body, position), names of sites, Around and Pulley"
                ) from None
            return place(body, Transform.from_position(number(owner, f"point on {body!r}", position, (3,))))

        last, around, divisor, points = None, None, jnp.ones(()), 0
        for item in [*path, None]:
            if item is None or isinstance(item, Pulley):
                if around is not None or points == 1 or (item is None and not points):
                    ends = ", and then an Around" if around else ""
                    raise ModelError(
                        f"{owner}: a string of its path has {points} points{ends}; it must have two or more, and end in one"
                    )
                last, points = None, 0
                divisor = divisor if item is None else item.divisor
                continue
            if isinstance(item, Around):
                if last is None or around is not None:
                    raise ModelError(f"{owner}: an Around of its path must stand between two points")
                around = item
                continue
            here = point(item)
            if last is not None:
                surface = side = None
                if around is not None:
                    surface = place(around.body, around.placement)
                    side = None if around.side is None else point(around.side)
                pieces.append(
                    _Piece(last, here, surface, side, around is not None and around.kind == "sphere")
                )
                divisors.append(divisor)
                radii.append(jnp.zeros(()) if around is None else around.radius)
            last, around, points = here, None, points + 1
        self.own_bodies, self.sites, self.pieces = tuple(bodies), tuple(sites), tuple(pieces)
        self.placements = jax.tree.map(lambda *x: jnp.stack(x), *frames) if frames else no_frames()
        self.divisors, self.radii = jnp.stack(divisors), jnp.stack(radii)

    @property
    def bodies(self):
        return self.own_bodies

    @property
    def frames(self):
        return self.placements

    @property
    def refers(self):
        return tuple(Reference("site", name) for name in self.sites)

    def called(self, name, refers):
        return self.changed(name=name, sites=tuple(one.name for one in refers))

    def attached(self, bodies, frames, joints):
        return self.changed(own_bodies=tuple(bodies), placements=frames)


class _Piece(NamedTuple):
    """A piece of a string: its ends, its surface and a point of the side, as indices of the tendon's own frames.

    Indices -1, -2, ... are its sites.
    """

    start: int
    end: int
    surface: int | None
    side: int | None
    is_sphere: bool


class Tendons:
    """Tendons of a model in motion, by default all of them: their lengths and rates, and the effect of efforts along them."""

    def __init__(self, motion: Motion, some: Sequence[Tendon] | None = None):
        tendons = tendons_of(motion.model) if some is None else some
        self.motion, self.count = motion, len(tendons)
        fixed = [(i, one) for i, one in enumerate(tendons) if isinstance(one, FixedTendon)]
        self.joints = [joint for _, one in fixed for joint in one.joints]
        self.of_joint = np.array([i for i, one in fixed for _ in one.joints], int)
        self.factors = jnp.concatenate([one.coefficients for _, one in fixed]) if fixed else None
        self.layout = _Layout.of(motion.model, tendons) if len(fixed) < len(tendons) else None
        layout = self.layout
        if layout is None:
            self.strings = None
        else:
            known = motion.known("tendons") if some is None else None
            self.strings = _strings(motion, layout) if known is None else known

    @property
    def lengths(self) -> Float[Array, "t"]:
        total = jnp.zeros(self.count, self.motion.q.dtype)
        if self.factors is not None:
            total = total + sum_rows(
                self.factors * self.motion.coordinates(self.joints), self.of_joint, self.count
            )
        return total if self.strings is None else total + self.strings.lengths

    @property
    def rates(self) -> Float[Array, "t"]:
        total = jnp.zeros(self.count, self.motion.q.dtype)
        if self.factors is not None:
            total = total + sum_rows(
                self.factors * self.motion.speeds(self.joints), self.of_joint, self.count
            )
        return total if self.strings is None else total + self.strings.rates

    @property
    def moments(self) -> Float[Array, "t nv"]:
        """The moment arms J."""
        return jax.vmap(self.generalized_force)(jnp.eye(self.count, dtype=self.motion.q.dtype))

    def generalized_force(self, efforts: Float[Array, "t"]) -> Float[Array, "nv"]:
        """Returns `Jᵀ f` for an effort along each length; positive efforts lengthen a tendon."""
        total = jnp.zeros_like(self.motion.v)
        if self.factors is not None:
            total = total + self.motion.along(self.joints, self.factors * gather(efforts, self.of_joint))
        if self.layout is None:
            return total
        return total + generalized_force_at(self.motion, self.layout.things, self._pulls(efforts))

    def body_wrenches(self, efforts: Float[Array, "t"]) -> Float[Array, "nb 6"]:
        """Returns the wrenches of the strings on every body, in its own frame."""
        if self.layout is None:
            return jnp.zeros((self.motion.model.nb, 6), self.motion.q.dtype)
        return body_wrenches_at(self.motion, self.layout.things, self._pulls(efforts))

    def _pulls(self, efforts: Float[Array, "t"]) -> Float[Array, "f 6"]:
        """Returns the wrench at each frame of the layout."""
        strings, layout = self.strings, self.layout
        assert strings is not None and layout is not None
        forces = strings.pulls * gather(efforts, layout.owners)[:, None]
        wrenches = jnp.concatenate([cross(strings.arms, forces), forces], axis=-1)
        return sum_rows(wrenches, layout.rows, layout.size)


def with_tendons(motion: Motion) -> Motion:
    """Returns the motion with the paths of the spatial tendons of its model stored."""
    tendons = tendons_of(motion.model)
    if not any(isinstance(one, SpatialTendon) for one in tendons):
        return motion
    layout = _Layout.of(motion.model, tendons)
    return motion.knowing("tendons", lambda motion: _strings(motion, layout), velocity=True)


class _Layout(NamedTuple):
    """The frames of the pieces of all strings, independent of numeric values.

    - `things`: the sites and tendons that own the frames, `size` frames in total.
    - `starts`, `ends`, `surfaces`, `sides`: the frames of each piece, -1 if absent; `spheres` is True for spherical surfaces.
    - `owner`: the tendon of each piece; `around`: the pieces with a surface.
    - `rows`, `owners`: the frame and the tendon of each force: at the start and the end of each piece, then
      at the two points of each surface.
    - `strings`: the spatial tendons.
    """

    things: tuple
    size: int
    starts: np.ndarray
    ends: np.ndarray
    surfaces: np.ndarray
    sides: np.ndarray
    spheres: np.ndarray
    owner: np.ndarray
    around: np.ndarray
    rows: np.ndarray
    owners: np.ndarray
    strings: tuple[SpatialTendon, ...]
    count: int

    @staticmethod
    def of(model: Model, tendons: Sequence[Tendon]) -> _Layout:
        chosen = [(i, one) for i, one in enumerate(tendons) if isinstance(one, SpatialTendon)]
        sites = list(dict.fromkeys(name for _, one in chosen for name in one.sites))
        things = (*(model.named("site", name) for name in sites), *(one for _, one in chosen))
        offset, table = len(sites), []
        for i, one in chosen:
            for piece in one.pieces:
                places = [-1 if place is None else _row(place, one, offset, sites) for place in piece[:4]]
                table.append([*places, piece.is_sphere, i])
            offset += len(one.own_bodies)
        starts, ends, surfaces, sides, spheres, owner = np.array(table, int).T
        around = np.flatnonzero(surfaces >= 0)
        rows = np.concatenate([starts, ends, surfaces[around], surfaces[around]])
        owners = np.concatenate([owner, owner, owner[around], owner[around]])
        places = starts, ends, surfaces, sides, spheres > 0, owner, around, rows, owners
        return _Layout(things, offset, *places, tuple(one for _, one in chosen), len(tendons))


class _Strings(NamedTuple):
    """The strings of a model in motion.

    `arms` are the positions of the forces, and `pulls` the forces for a unit effort, in the axes of their frames.
    """

    lengths: Float[Array, "t"]
    rates: Float[Array, "t"]
    arms: Float[Array, "p 3"]
    pulls: Float[Array, "p 3"]


def _strings(motion: Motion, layout: _Layout) -> _Strings:
    at = fixed_frames(motion, layout.things)
    divisors = jnp.concatenate([one.divisors for one in layout.strings])
    a, b = gather(at.frames.position, layout.starts), gather(at.frames.position, layout.ends)
    lengths, direction = lengths_and_directions(b - a)
    points, pulls, shares = [a, b], [-direction, direction], [1 / divisors, 1 / divisors]
    around = layout.around
    if len(around):
        radii = gather(jnp.concatenate([one.radii for one in layout.strings]), around)
        near, far, straight = gather(a, around), gather(b, around), gather(direction, around)
        centre, first, second, wrap = _around(at.frames, layout, near, far, radii)
        before, to = lengths_and_directions(first - near)
        after, away = lengths_and_directions(far - second)
        wraps = wrap.wraps[:, None]
        # For pieces with a surface: those that touch it are wrapped.
        place = np.full(len(layout.starts), -1)
        place[around] = np.arange(len(around))
        has = place >= 0
        bent = jnp.where(wrap.wraps, before + wrap.length + after, gather(lengths, around))
        lengths = jnp.where(has, gather(bent, place), lengths)
        spread = lambda own: jnp.where(
            has[:, None], gather(jnp.where(wraps, own, straight), place), direction
        )
        pulls = [-spread(to), spread(away), jnp.where(wraps, to, 0), jnp.where(wraps, -away, 0)]
        points += [jnp.where(wraps, first, centre), jnp.where(wraps, second, centre)]
        shares += [gather(1 / divisors, around)] * 2
    frames = at.frames.gather(layout.rows)
    arms = vecmat(jnp.concatenate(points) - frames.position, frames.rotation)
    own = vecmat(jnp.concatenate(pulls) * jnp.concatenate(shares)[:, None], frames.rotation)
    twists = gather(at.twists, layout.rows)
    speeds = dot(own, twists[:, 3:] + cross(twists[:, :3], arms))
    return _Strings(
        sum_rows(lengths / divisors, layout.owner, layout.count),
        sum_rows(speeds, layout.owners, layout.count),
        arms,
        own,
    )


def _around(frames: Transform, layout: _Layout, near, far, radii):
    """Returns the centers of the surfaces, the points where the strings from near to far touch them, and the wraps."""
    around = layout.around
    surface, has_side = frames.gather(layout.surfaces[around]), layout.sides[around] >= 0
    into = lambda points: vecmat(points - surface.position, surface.rotation)
    out = lambda points: matvec(surface.rotation, points) + surface.position
    side = into(gather(frames.position, np.where(has_side, layout.sides[around], 0)))
    sphere = jnp.asarray(layout.spheres[around])
    wrap = jax.vmap(wrapped)(into(near), into(far), radii, sphere, side, jnp.asarray(has_side))
    return surface.position, out(wrap.first), out(wrap.second), wrap


def _row(place: int, tendon: SpatialTendon, offset: int, sites: list[str]) -> int:
    return offset + place if place >= 0 else sites.index(tendon.sites[-1 - place])


class TendonForces(Force):
    """The springs and dampers of several tendons, computed together."""

    tendons: tuple[Tendon, ...]

    def __init__(self, tendons: Sequence[Tendon]):
        self.tendons = tuple(tendons)

    def generalized_force(self, motion):
        known = Tendons(motion, self.tendons)
        return known.generalized_force(self._efforts(known))

    def body_wrenches_in(self, motion):
        known = Tendons(motion, self.tendons)
        return known.body_wrenches(self._efforts(known))

    def velocity_response(self, motion):
        damped = [one for one in self.tendons if one.damping_constant is not None]
        if not damped:
            return None
        moments = Tendons(motion, damped).moments
        damping = TendonForces(damped)._of("damping_constant")
        return transpose(moments), -damping[:, None] * moments

    def stored_energy(self, motion):
        return 0.5 * jnp.sum(self._of("spring_constant") * self._beyond(Tendons(motion, self.tendons)) ** 2)

    def _efforts(self, known: Tendons) -> Float[Array, "t"]:
        return -self._of("spring_constant") * self._beyond(known) - self._of("damping_constant") * known.rates

    def _of(self, name: str) -> Float[Array, "t"]:
        given = [getattr(one, name) for one in self.tendons]
        return jnp.stack([jnp.zeros(()) if value is None else value for value in given])

    def _beyond(self, known: Tendons) -> Float[Array, "t"]:
        """Returns the elongation of each spring, negative for compression."""
        low, high = jnp.stack([one.rest_length for one in self.tendons]).T
        return beyond(known.lengths, low, high)


def tendons_of(model: Model) -> tuple[Tendon, ...]:
    """Returns the tendons of a model, in their order."""
    return model.tendons  # pyright: ignore[reportReturnType]


@takes(q=configuration)
def tendon_lengths(model: Model, q: Float[Array, "nq"]) -> Float[Array, "t"]:
    """Returns the length of every tendon, in the order of `model.tendons`.

    >>> rope = rbd.forces.SpatialTendon("rope", [("world", (0, 0, 1)), ("lower", (0, 0, -1))])
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope)
    >>> print(rbd.forces.tendon_lengths(model, jnp.array([0.5, 1.0])))
    [2.445]
    """
    return Tendons(Motion(model, q)).lengths


@takes(q=configuration, v=velocity)
def tendon_velocities(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "t"]:
    """Returns the rate of the length of every tendon.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> rope = rbd.forces.SpatialTendon("rope", [("world", (0, 0, 1)), ("lower", (0, 0, -1))])
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope)
    >>> print(rbd.forces.tendon_velocities(model, jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])))
    [-2.108]
    """
    return Tendons(Motion(model, q, v)).rates


@takes(q=configuration)
def tendon_moments(model: Model, q: Float[Array, "nq"]) -> Float[Array, "t nv"]:
    """Returns the moment arms J of all tendons: `J v` are the rates of their lengths, `-Jᵀ f` the effect of tensions f.

    >>> rope = rbd.forces.SpatialTendon("rope", [("world", (0, 0, 1)), ("lower", (0, 0, -1))])
    >>> model = rbd.attach(rbd.load("double_pendulum"), rope)
    >>> print(rbd.forces.tendon_moments(model, jnp.array([0.5, 1.0])))
    [[-0.604 -0.752]]
    """
    return Tendons(Motion(model, q)).moments
