"""Shared (tied) parameters: mirror symmetry, identical motors."""

from __future__ import annotations

import fnmatch
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._core.array import dot, gather, matmul, matvec
from .._core.errors import ModelError, UnknownNameError, suggest
from ..dynamics import forward_kinematics
from ..model import Model
from .kind import Candidate, Kind


class Tied(Kind):
    """A group in which some objects share the values of others: values of leaders also apply to their followers.

    - `kind`: the parameter group of the leaders.
    - `leader`, `follower`: patterns with one `*` each; two objects are a pair if `*` matches the same text. If both are
      None, all objects of the group share the values of the first.
    - `mirror`: the normal of a plane; followers are mirror images of their leaders in the reference configuration. The
      plane contains the world origin; for a floating base, it contains the origin of the first body, in that body's axes.
      Inertias and centers of mass are reflected. If None, frames and values are the same.
    - `pairs`: for a specific model, the places of each leader and its followers.
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

    # Delegate all properties to the inner group.
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
        """Returns the values of mirror images.

        The map is `x ↦ B⁻¹ M A x` with the frames A and B of leader and follower and the reflection M.
        """
        frames = forward_kinematics(model, model.reference)
        if model.topology.joint_nv[0] == 6:
            first = frames.gather(np.zeros(len(frames.position), int))
            frames = first.inverse() @ frames
        normal = jnp.asarray(self.mirror, values.dtype)
        normal = normal / jnp.sqrt(dot(normal, normal))
        mirror = jnp.eye(3, dtype=values.dtype) - 2 * normal[:, None] * normal[None, :]
        a, b = frames.gather(leaders), frames.gather(followers).inverse()
        linear = matmul(matmul(b.rotation, mirror[None]), a.rotation)
        return self.inner.mirrored(
            values, linear, matvec(b.rotation, matvec(mirror[None], a.position)) + b.position
        )

    def chart(self, values):
        return self.inner.chart(values)

    def values(self, x):
        return self.inner.values(x)

    def limits(self, dtype):
        return self.inner.limits(dtype)


def tied(kind: Kind, leader: str | None = None, follower: str | None = None, *, mirror=None) -> Tied:
    """Returns a parameter group with shared values: followers have the values of their leaders.

    `tied(inertias("left_*"), "left_*", "right_*", mirror=(0, 1, 0))` estimates the inertias of the left side; the right
    side has their mirror images across the plane with this normal. `tied(damping("leg_*"))` estimates one parameter for all
    of these joints.

    Args:
      kind: The parameter group.
      leader: Pattern of the leaders, with one `*`.
      follower: Pattern of the followers, with one `*`.
      mirror: Normal of the mirror plane; None if there is no reflection.

    Raises:
      ModelError: If the arguments are inconsistent, or the group does not support mirror images.

    >>> free = rbd.identify.tied(rbd.identify.damping("*_thigh"))  # one number for four joints
    >>> print(len(rbd.identify.Parameters(rbd.load("quadruped"), free).names))
    1
    """
    if not isinstance(kind, Kind):
        raise ModelError(f"identify.tied: kind is {kind!r}; pass a group such as identify.inertias()")
    if mirror is not None and not kind.has_mirror_images:
        raise ModelError(
            f"identify.tied: mirror images of {type(kind).__name__} are not supported. Omit mirror, or estimate both sides."
        )
    if (leader is None) != (follower is None):
        raise ModelError("identify.tied: give leader and follower, or neither.")
    for pattern in (leader, follower):
        if pattern is not None and pattern.count("*") != 1:
            raise ModelError(
                f"identify.tied: {pattern!r} has {pattern.count('*')} wildcards; it must have one *, with the same match in both."
            )
    normal = None if mirror is None else tuple(float(x) for x in mirror)
    return Tied(kind.patterns, None, kind.prior, kind, leader, follower, normal)  # pyright: ignore
