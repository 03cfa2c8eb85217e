"""A point of one body on a curve or a surface of another.

Curve and surface are the paths of the origin of a spline joint; its rotations are ignored. The residual is the vector from the
closest point, along the normals there.
"""

from __future__ import annotations

import abc

import jax.numpy as jnp

from .._core.array import complement, matmul, vecmat
from ..joints import Joint
from .closest import closest
from .relative import RelativeConstraint


class _PointOn(RelativeConstraint):
    @property
    @abc.abstractmethod
    def locus(self) -> Joint:
        """The joint along which the point may move."""

    def deviation(self, relative):
        d, tangents, _ = _off(self.locus, closest(_off, self.locus, relative), relative)
        return vecmat(d, complement(tangents))


def _off(joint: Joint, q, relative):
    placed = joint.transform(q)
    d = relative.position - placed.position
    return d, matmul(placed.rotation, joint.motion_subspace(q)[3:]), jnp.sum(d**2)


class PointOnCurve(_PointOn):
    """`point_b` of `body_b` stays on a `curve` in `frame_a` of `body_a`: a joint with one degree of freedom, as `SplineCurve`.

    >>> corners = jnp.array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, -1.0], [0.0, 0.0, -2.0]])
    >>> track = rbd.joints.SplineCurve(rbd.Transform.from_position(corners))
    >>> bead = rbd.constraints.PointOnCurve("world", rbd.Transform.identity(), track, "lower", (0.0, 0.0, -1.0))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), bead)
    >>> print(rbd.constraint_residual(model, jnp.zeros(2)))
    [ 0.    -0.333]
    """

    curve: Joint

    rows = 2

    def __init__(self, body_a: str, frame_a, curve: Joint, body_b: str, point_b):
        self.attach(body_a, frame_a, body_b, point_b)
        self.curve = _locus(curve, 1, "PointOnCurve", "curve")

    @property
    def locus(self):
        return self.curve


class PointOnSurface(_PointOn):
    """`point_b` of `body_b` stays on a `surface` in `frame_a` of `body_a`: a joint with two degrees of freedom.

    >>> x, y = jnp.meshgrid(jnp.linspace(-2.0, 2.0, 4), jnp.linspace(-2.0, 2.0, 4), indexing="ij")
    >>> sheet = rbd.joints.SplineSurface(jnp.stack([x, y, -1.5 + 0 * x, 0 * x, 0 * x, 0 * x], axis=-1))
    >>> slide = rbd.constraints.PointOnSurface("world", rbd.Transform.identity(), sheet, "lower", (0.0, 0.0, -1.0))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slide)
    >>> print(jnp.abs(rbd.constraint_residual(model, jnp.zeros(2))))
    [0.5]
    """

    surface: Joint

    rows = 1

    def __init__(self, body_a: str, frame_a, surface: Joint, body_b: str, point_b):
        self.attach(body_a, frame_a, body_b, point_b)
        self.surface = _locus(surface, 2, "PointOnSurface", "surface")

    @property
    def locus(self):
        return self.surface


def _locus(joint, dofs: int, kind: str, name: str) -> Joint:
    if not isinstance(joint, Joint) or joint.nv != dofs or joint.rheonomic:
        raise ValueError(
            f"{kind}: {name} is {joint!r}; it is a joint with {dofs} degree(s) of freedom and without prescribed motion"
        )
    return joint
