"""Chains by Denavit–Hartenberg parameters, in both conventions (book §4.3).

A chain has n + 2 axes: the z axis of the base, the axes of the n joints, and the z axis of the end frame. Consecutive axes are
connected by their common perpendicular. The transform from the base to the end is therefore a screw along z_0, one along x_0,
one along z_1, ..., and a last one along z_{n+1}: 2 (n + 2) + 2 (n + 1) = 4 n + 6 parameters. The conventions differ in the
grouping into rows. A row of the modified convention has a screw along x and the next one along z. A row of the standard
convention has a screw along z and the next one along x.
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, choice, configuration, instance, number
from .._core.array import cross, dot, matvec
from .._core.errors import ModelError
from ..joints import Cylindrical, Fixed, Helical, Joint, Prismatic, Revolute
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .builder import ModelBuilder
from .model import Model


#: The supported joint types with an axis.
WITH_AXIS = (Revolute, Prismatic, Helical, Cylindrical)
Convention = Literal["modified", "standard"]
CONVENTIONS = ("modified", "standard")

#: Sine of the maximum angle between parallel axes, and maximum distance of intersecting axes as a fraction of the chain's length.
TOLERANCE = 1e-9


class DenavitHartenberg(eqx.Module):
    """The parameters of a chain of n joints with one axis each, in the configuration that corresponds to zero `q`.

    - `theta`, `d`: angle about and distance along each z axis; the first is the base's, the last the end frame's: (n + 2,).
    - `alpha`, `a`: angle about and distance along each x axis: (n + 1,).
    - `joints`: the joints, with z as their axes.

    >>> parameters = rbd.denavit_hartenberg(rbd.load("arm7"))
    >>> print(parameters.table()[:2])
    [[ 0.     0.     0.35   3.142]
     [ 0.     1.571  0.    -2.642]]
    """

    theta: Float[Array, "axes"]
    d: Float[Array, "axes"]
    alpha: Float[Array, "links"]
    a: Float[Array, "links"]
    joints: tuple[Joint, ...]

    def table(self, convention: Convention = "modified") -> Float[Array, "links 4"]:
        """Returns the parameters in rows `(a, α, d, θ)`.

        In the modified convention, row i is the transform from the frame of link i - 1 to the frame of link i. The base frame
        is first moved by `theta[0]`, `d[0]` along its z axis, and the last row leads to the end frame. In the standard
        convention, the first row leads from the base to the frame whose z axis is that of joint 1, and the next row contains
        joint 1. After the last row, `theta[-1]`, `d[-1]` lead to the end frame.

        Args:
          convention: "modified" or "standard".

        Returns:
          An array of shape (n + 1, 4).
        """
        choice("DenavitHartenberg.table", "convention", convention, CONVENTIONS)
        own = slice(1, None) if convention == "modified" else slice(None, -1)
        return jnp.stack([self.a, self.alpha, self.d[own], self.theta[own]], axis=1)

    @staticmethod
    def from_table(
        table, joints=None, start=(0.0, 0.0), end=(0.0, 0.0), convention: Convention = "modified"
    ) -> DenavitHartenberg:
        """Creates the parameters from rows `(a, α, d, θ)`, where θ and d define the zero of each joint.

        Args:
          table: One row per joint and one more: in the modified convention the last row, to the end frame, in the standard
            convention the first row, from the base. With n rows for n joints, that row is zero.
          joints: "R" for a revolute joint, "P" for a prismatic one, or joints about their z axis. Default: all revolute.
          start: `(d, θ)` along the z axis of the base, in the modified convention.
          end: `(d, θ)` along the z axis of the end, in the standard convention.
          convention: "modified" or "standard".
        """
        owner = "DenavitHartenberg.from_table"
        choice(owner, "convention", convention, CONVENTIONS)
        rows = jnp.asarray(table, float)
        if rows.ndim != 2 or rows.shape[1] != 4:
            raise ValueError(
                f"{owner}: table has shape {rows.shape}; it must have one row (a, α, d, θ) per joint"
            )
        kinds = ["R"] * len(rows) if joints is None else list(joints)
        about = {"R": Revolute, "P": Prismatic}
        made = []
        for index, kind in enumerate(kinds):
            if not isinstance(kind, Joint) and kind not in about:
                raise ValueError(
                    f"{owner}: joints[{index}] is {kind!r}; it must be 'R', 'P', or a joint about its z axis"
                )
            made.append(about[kind]() if isinstance(kind, str) else kind)
            _check_joint(owner, f"joints[{index}]", made[-1])
        if len(rows) not in (len(made), len(made) + 1):
            raise ValueError(
                f"{owner}: table has {len(rows)} rows for {len(made)} joints; it must have one per joint, and optionally one "
                f"more for the {'end frame' if convention == 'modified' else 'base'}"
            )
        modified = convention == "modified"
        other = jnp.zeros((1, 4)) if len(rows) == len(made) else jnp.zeros((0, 4))
        rows = jnp.concatenate([rows, other] if modified else [other, rows])
        extra = number(owner, "start" if modified else "end", start if modified else end, (2,))
        put = (lambda one, x: jnp.append(one, x)) if modified else (lambda one, x: jnp.append(x, one))
        d, theta = put(extra[:1], rows[:, 2]), put(extra[1:], rows[:, 3])
        return DenavitHartenberg(theta, d, rows[:, 1], rows[:, 0], tuple(made))

    @property
    def placements(self) -> Transform:
        """The joint frame of each link in the frame of the previous link, at zero: (n,)."""
        link = Transform.from_dh(self.a[:-1], self.alpha[:-1], self.d[1:-1], self.theta[1:-1])
        if not len(self.joints):
            return link
        none = jnp.zeros_like(self.d[:1])
        base = Transform.from_dh(none, none, self.d[:1], self.theta[:1])
        first = jax.tree.map(lambda x: x[:1], link)
        rest = jax.tree.map(lambda x: x[1:], link)
        return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), base @ first, rest)

    @property
    def end(self) -> Transform:
        """The end frame, in the frame of the last link."""
        return Transform.from_dh(self.a[-1], self.alpha[-1], self.d[-1], self.theta[-1])

    def end_frame(self, q: Float[Array, "nq"]) -> Transform:
        """Returns the pose of the end frame in the base at the configuration q."""
        placed, start = Transform.identity(q.dtype), 0
        if not self.joints:
            placed = Transform.from_dh(0.0, 0.0, self.d[0], self.theta[0])
        for index, joint in enumerate(self.joints):
            placed = placed @ self.placements[index] @ joint.transform(q[start : start + joint.nq])
            start += joint.nq
        return placed @ self.end

    def model(self, inertias=None, name: str = "chain", gravity=(0.0, 0.0, -9.81)) -> Model:
        """Returns the chain as a model, with bodies "link 1", ... in the frames of the modified convention.

        Args:
          inertias: The inertia of each link, in its frame. Default: zero.
          name: Name of the model.
          gravity: Acceleration of gravity.
        """
        own = [Inertia.zero()] * len(self.joints) if inertias is None else list(inertias)
        if len(own) != len(self.joints):
            raise ModelError(
                f"DenavitHartenberg.model: there are {len(own)} inertias for {len(self.joints)} links"
            )
        builder, parent = ModelBuilder(gravity, name), "world"
        for index, (joint, inertia) in enumerate(zip(self.joints, own)):
            parent = builder.add_body(f"link {index + 1}", parent, joint, self.placements[index], inertia)
        return builder.build()


def denavit_hartenberg(
    model: Model,
    body: str | None = None,
    end: Transform | None = None,
    q: Float[Array, "nq"] | None = None,
) -> DenavitHartenberg:
    """Returns the Denavit–Hartenberg parameters of the chain from the world to a body.

    All joints of the chain must be revolute, prismatic, helical, cylindrical or fixed. Consecutive axes are connected by common
    perpendiculars, so `a` is not negative. Between parallel axes, the common perpendicular intersects the previous one. Between
    intersecting axes, x is along z_i × z_{i+1}. The axis of a prismatic joint passes through the origin of its joint frame.

    Args:
      model: The model.
      body: Name of the body. Default: the last one.
      end: The end frame on the body. Default: the body's own frame.
      q: The configuration of the parameters, which is the zero of the resulting joints. Default: `neutral`.

    >>> chain = rbd.denavit_hartenberg(rbd.load("arm7"))
    >>> chain.table().shape, chain.table("standard").shape
    ((8, 4), (8, 4))
    """
    owner = "denavit_hartenberg"
    a_model(owner, model)
    topology = model.topology
    last = topology.nb - 1 if body is None else topology.body_index(body)
    at = model.reference if q is None else configuration(owner, model, "q", q)
    if end is not None:
        instance(owner, "end", end, Transform, "a Transform")
    way = [last]
    while topology.parents[way[-1]] >= 0:
        way.append(topology.parents[way[-1]])
    frame = Transform.identity(model.dtype)
    points, directions, joints = [frame.position], [frame.rotation[:, 2]], []
    coordinates = model.joint_configurations(at)
    for index in reversed(way):
        frame, joint = frame @ model.placements[index], model.joint(index)
        if not isinstance(joint, Fixed):
            _check_joint(owner, f"joint {model.joint_names[index]!r}", joint, any_axis=True)
            points.append(frame.position)
            directions.append(matvec(frame.rotation, joint.axis))  # pyright: ignore[reportAttributeAccessIssue]
            joints.append(_about_z(joint))
            own = jnp.stack([coordinates[int(entry)] for entry in topology.joint_q(index)])
            frame = frame @ joint.transform(own)
    frame = frame if end is None else frame @ end
    return _between(points, directions, frame, tuple(joints))


def _between(points, directions, end: Transform, joints: tuple[Joint, ...]) -> DenavitHartenberg:
    """Returns the parameters of the screws from the world to the end frame along axes through the given points."""
    points, directions = [*points, end.position], [*directions, end.rotation[:, 2]]
    dtype = end.position.dtype
    size = sum(jnp.linalg.norm(b - a) for a, b in zip(points, points[1:])) + 1
    tolerance = jnp.maximum(TOLERANCE, 100 * jnp.finfo(dtype).eps)
    x, foot = jnp.array([1, 0, 0], dtype), points[0]
    screws_z, screws_x = [], []
    for i in range(len(points) - 1):
        z, to = directions[i], directions[i + 1]
        normal = cross(z, to)
        square = dot(normal, normal)
        parallel = square <= tolerance**2
        safe = jnp.where(parallel, 1, square)
        between = points[i + 1] - points[i]
        # The feet of the common perpendicular on this axis and on the next one.
        here = points[i] + dot(cross(between, to), normal) / safe * z
        there = points[i + 1] + dot(cross(between, z), normal) / safe * to
        away = points[i + 1] - foot
        here = jnp.where(parallel, foot, here)
        there = jnp.where(parallel, points[i + 1] - dot(away, to) * to, there)
        gap = there - here
        far = dot(gap, gap) > (tolerance * size) ** 2
        length = jnp.sqrt(jnp.where(far, dot(gap, gap), 1))
        meeting = jnp.where(parallel, x, normal / jnp.sqrt(safe))
        new = jnp.where(far, gap / length, meeting)
        there = jnp.where(far, there, here)
        screws_z.append((_angle(x, new, z), dot(here - foot, z)))
        screws_x.append((_angle(z, to, new), jnp.where(far, length, 0)))
        x, foot = new, there
    last = directions[-1]
    screws_z.append((_angle(x, end.rotation[:, 0], last), dot(end.position - foot, last)))
    theta, d = (jnp.stack(column) for column in zip(*screws_z))
    alpha, a = (jnp.stack(column) for column in zip(*screws_x))
    return DenavitHartenberg(theta, d, alpha, a, joints)


def _angle(start, end, axis):
    """Returns the angle from one unit vector to another, about an axis that is orthogonal to both."""
    return jnp.arctan2(dot(cross(start, end), axis), dot(start, end))


def _check_joint(owner: str, what: str, joint: Joint, any_axis: bool = False) -> None:
    if not isinstance(joint, WITH_AXIS):
        raise ModelError(
            f"{owner}: {what} is a {type(joint).__name__}, which has no single axis; Denavit–Hartenberg parameters support "
            "revolute, prismatic, helical and cylindrical joints"
        )
    if not any_axis and not np.allclose(joint.axis, [0, 0, 1]):  # pyright: ignore[reportArgumentType]
        raise ModelError(
            f"{owner}: {what} has the axis {np.asarray(joint.axis).tolist()}; it must be about z"
        )


def _about_z(joint: Joint) -> Joint:
    z = (0.0, 0.0, 1.0)
    return Helical(z, joint.pitch) if isinstance(joint, Helical) else type(joint)(z)  # pyright: ignore
