"""Pairs of shapes that may touch each other, and their contact parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import gather
from .._core.errors import ModelError, UnknownNameError, suggest
from ..model import Model
from ..shapes.shape import Shape
from ..spatial import Reference, no_frames
from ..spatial.attached import Attached
from ..spatial.transform import Transform
from .geometry.pairs import can_touch


class ContactPair(Attached):
    """An explicit contact pair: two shapes that may touch regardless of `contype` and `conaffinity`, with its own parameters.

    - `name`: the name of the pair.
    - `first`, `second`: the names of the shapes.
    - `condim`, `margin`, `gap`, `solref`, `solimp`: as in `Shape`; by default the combined parameters of both shapes.
    - `friction`: five coefficients: sliding along both tangents, spinning, and rolling about both tangents.

    >>> slippery = rbd.contact.ContactPair("foot on ice", "foot", "ice", friction=(0.05, 0.05, 0.0, 0.0, 0.0))
    >>> print(slippery.refers)
    (Reference(role='shape', name='foot'), Reference(role='shape', name='ice'))
    """

    name: str = eqx.field(static=True)
    first: str = eqx.field(static=True)
    second: str = eqx.field(static=True)
    condim: int | None = eqx.field(static=True)
    margin: Float[Array, ""] | None
    gap: Float[Array, ""] | None
    friction: Float[Array, "5"] | None
    solref: Float[Array, "2"] | None
    solimp: Float[Array, "5"] | None

    role = "contact pair"
    bodies = ()
    joints = ()

    def __init__(
        self,
        name: str,
        first: str,
        second: str,
        *,
        condim: int | None = None,
        margin: Any = None,
        gap: Any = None,
        friction: Any = None,
        solref: Any = None,
        solimp: Any = None,
    ):
        (self.name,) = names("ContactPair", "name", name, 1)
        owner = f"ContactPair {name!r}"
        (self.first,), (self.second,) = names(owner, "first", first, 1), names(owner, "second", second, 1)
        if first == second:
            raise ModelError(f"{owner}: both shapes are {first!r}; pass two different shapes")
        if condim not in (None, 1, 3, 4, 6):
            raise ModelError(f"{owner}: condim is {condim}; it is 1, 3, 4 or 6")
        self.condim = condim
        optional = lambda what, value, *rest, **bounds: (
            None if value is None else number(owner, what, value, *rest, **bounds)
        )
        self.margin, self.gap = optional("margin", margin), optional("gap", gap)
        self.friction = optional("friction", friction, (5,), least=0)
        self.solref, self.solimp = optional("solref", solref, (2,)), optional("solimp", solimp, (5,))

    @property
    def frames(self):
        return no_frames()

    @property
    def refers(self):
        return Reference("shape", self.first), Reference("shape", self.second)

    def attached(self, bodies, frames, joints):
        return self

    def called(self, name, refers):
        return self.changed(name=name, first=refers[0].name, second=refers[1].name)


class ContactExclusion(Attached):
    """Two bodies whose shapes do not touch each other, except in a `ContactPair`.

    - `name`: the name of the exclusion.
    - `bodies`: the names of both bodies; one may be "world".

    >>> apart = rbd.contact.ContactExclusion("arm and base", ["arm", "base"])
    >>> print(apart.bodies)
    ('arm', 'base')
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, str] = eqx.field(static=True)

    role = "contact exclusion"
    joints = ()

    def __init__(self, name: str, bodies: Sequence[str]):
        (self.name,) = names("ContactExclusion", "name", name, 1)
        self.bodies = names(f"ContactExclusion {name!r}", "bodies", bodies, 2)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def frames(self):
        return Transform(jnp.broadcast_to(jnp.eye(3), (2, 3, 3)), jnp.zeros((2, 3)))

    def attached(self, bodies, frames, joints):
        return self.changed(bodies=tuple(bodies))


class Touching(NamedTuple):
    """A candidate pair: the indices of two shapes and of their `ContactPair` (or None), and the `condim` of their contacts."""

    first: int
    second: int
    by: int | None
    condim: int


def touching(model: Model) -> list[Touching]:
    """Returns the pairs of shapes of a model that may touch.

    Two shapes may touch if a bit of one's `contype` is set in the other's `conaffinity`. Excluded are shapes on bodies that are
    welded together, on a body and its parent (unless the parent is the world), and on bodies of a `ContactExclusion`. Shapes of
    a `ContactPair` always may touch.
    """
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    place = {shape.name: index for index, shape in enumerate(shapes)}
    carriers = carriers_of(model, [shape.body for shape in shapes])
    above = _above(model)
    excluded = {
        frozenset(carriers_of(model, thing.bodies)) for thing in model.attached_as("contact exclusion")
    }
    given: tuple[ContactPair, ...] = model.attached_as("contact pair")  # pyright: ignore[reportAssignmentType]
    named = [
        Touching(place[pair.first], place[pair.second], index, pair.condim or _condim(shapes, pair, place))
        for index, pair in enumerate(given)
    ]
    known = {frozenset(pair[:2]) for pair in named}
    found = []
    for i, one in enumerate(shapes):
        for j in range(i + 1, len(shapes)):
            other, ends = shapes[j], (carriers[i], carriers[j])
            if frozenset((i, j)) in known or not (one.collision and other.collision):
                continue
            if not (one.contype & other.conaffinity or other.contype & one.conaffinity):
                continue
            if ends[0] == ends[1] or frozenset(ends) in excluded:
                continue
            if -1 not in ends and (above[ends[0]] == ends[1] or above[ends[1]] == ends[0]):
                continue
            if not can_touch(type(one.geometry), type(other.geometry)):
                continue
            found.append(Touching(i, j, None, _together(one, other)))
    return named + found


def between(model: Model, first: str, second: str, owner: str) -> Touching:
    """Returns the pair of two shapes given by name, even if they may not touch."""
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    place = {shape.name: index for index, shape in enumerate(shapes)}
    for name in (first, second):
        if name not in place:
            raise UnknownNameError(
                f"{owner}: model {model.name!r} has no shape {name!r}{suggest(name, place)}"
            )
    one, other = shapes[place[first]], shapes[place[second]]
    if not can_touch(type(one.geometry), type(other.geometry)):
        raise ValueError(f"{owner}: {first!r} and {second!r} have no distance: both are unbounded ground")
    return Touching(place[first], place[second], None, _together(one, other))


def _together(one: Shape, other: Shape) -> int:
    """Returns the `condim` of a contact: that of the shape with higher priority, or else the larger."""
    if one.priority != other.priority:
        return max(one, other, key=lambda shape: shape.priority).condim
    return max(one.condim, other.condim)


def _condim(shapes, pair: ContactPair, place: dict[str, int]) -> int:
    return _together(shapes[place[pair.first]], shapes[place[pair.second]])


def carriers_of(model: Model, bodies: Sequence[str]) -> list[int]:
    """Returns the index of the moving body that each body is part of, -1 for the world."""
    topology = model.topology
    return [-1 if body == "world" else int(topology.carriers[topology.body_index(body)]) for body in bodies]


def _above(model: Model) -> dict[int, int]:
    """Returns the moving parent body of each moving body, -1 for the world."""
    topology = model.topology
    above = {}
    for moving, body in enumerate(topology.moving_bodies):
        parent = int(topology.parents[body])
        above[moving] = -1 if parent < 0 else int(topology.carriers[parent])
    return above


class Numbers(NamedTuple):
    """Contact parameters of pairs of shapes.

    - `margin`, `gap`: shape (n,).
    - `friction`: sliding along both tangents, spinning, rolling about both tangents, shape (n, 5).
    - `solref`, `solimp`: shapes (n, 2) and (n, 5).
    """

    margin: Float[Array, "n"]
    gap: Float[Array, "n"]
    friction: Float[Array, "n 5"]
    solref: Float[Array, "n 2"]
    solimp: Float[Array, "n 5"]


def numbers(model: Model, pairs: Sequence[Touching], dtype) -> Numbers:
    """Returns the contact parameters of pairs, combined as in MuJoCo.

    Margins and gaps of both shapes are added. The other parameters are those of the shape with higher priority. With equal
    priority, friction is the larger of both, and the others are means with the weights `solmix`. If the first entry of one
    `solref` is not positive, the element-wise minimum of both is used.
    """
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    table = jnp.stack([shape.contact for shape in shapes]).astype(dtype)
    first, second = (np.array([pair[k] for pair in pairs], int) for k in (0, 1))
    a, b = gather(table, first), gather(table, second)
    rank = np.array([shape.priority for shape in shapes])
    prior = np.sign(rank[first] - rank[second])[:, None]
    weights, total = (a[:, 12:], b[:, 12:]), a[:, 12:] + b[:, 12:]
    share = jnp.where(total > 0, weights[0] / jnp.where(total > 0, total, 1), 0.5)
    mean = share * a + (1 - share) * b
    direct = (a[:, 5:6] <= 0) | (b[:, 5:6] <= 0)
    solref = jnp.where(direct, jnp.minimum(a[:, 5:7], b[:, 5:7]), mean[:, 5:7])
    alike = jnp.concatenate([jnp.maximum(a, b)[:, 2:5], solref, mean[:, 7:12]], axis=1)
    rest = jnp.where(prior == 0, alike, jnp.where(prior > 0, a, b)[:, 2:12])
    slide, spin, roll = (rest[:, k : k + 1] for k in (0, 1, 2))
    found = Numbers(
        a[:, 0] + b[:, 0],
        a[:, 1] + b[:, 1],
        jnp.concatenate([slide, slide, spin, roll, roll], axis=1),
        rest[:, 3:5],
        rest[:, 5:],
    )
    return _named(model, pairs, found)


def _named(model: Model, pairs: Sequence[Touching], found: Numbers) -> Numbers:
    """Returns the parameters with those of each `ContactPair` in place of the combined ones."""
    things = model.attached_as("contact pair")
    own = [things[pair.by] if pair.by is not None else None for pair in pairs]

    def said(field: str, otherwise: Array) -> Array:
        given = [None if thing is None else getattr(thing, field) for thing in own]
        if all(value is None for value in given):
            return otherwise
        rows = [
            otherwise[k] if value is None else value.astype(otherwise.dtype) for k, value in enumerate(given)
        ]
        return jnp.stack(rows)

    return Numbers(*(said(field, value) for field, value in zip(Numbers._fields, found)))
