"""Edges that move along their heading and not sideways: keels, blades, wheels without rolling (book §3.4)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core import arguments
from .._core.array import cross, dot, matvec
from .nonholonomic import NonholonomicConstraint


class KnifeEdge(NonholonomicConstraint):
    """`point_b` of `body_b` does not move along `across`, a direction in body b's axes, relative to `body_a`.

    One row, a velocity constraint. In the plane it models the wheel or the blade of a sleigh; in space a keel or a fin.

    >>> builder = rbd.ModelBuilder()
    >>> sleigh = builder.add_body("sleigh", joint=rbd.joints.Planar(), inertia=rbd.Inertia.box(1.0, (0.4, 0.2, 0.1)))
    >>> model = rbd.add_constraints(builder.build(), rbd.constraints.KnifeEdge("world", "sleigh", (0.0, 0.0, 0.0)))
    >>> print(rbd.constraint_velocity(model, jnp.zeros(3), jnp.array([0.0, 1.0, 0.5])))  # it slips sideways
    [0.5]
    """

    across: Float[Array, "3"]

    rows = 1

    def __init__(self, body_a: str, body_b: str, point_b, across=(0.0, 1.0, 0.0)):
        self.attach(body_a, None, body_b, point_b)
        self.across = arguments.direction("KnifeEdge", across, "across")

    def slip(self, relative, twist):
        return dot(twist[3:], matvec(relative.rotation, self.across))[None]


class Skate(NonholonomicConstraint):
    """`point_b` of `body_b` glides on a plane of `body_a`, along the `heading` of its blade and not sideways.

    The plane passes through `point_a` with the `normal`, in body a's axes; the heading is in body b's axes. Two rows: the
    point stays on the plane, and it does not move at right angles to the heading. The blade may lean and pitch.

    >>> builder = rbd.ModelBuilder()
    >>> skater = builder.add_body("skater", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.4, 0.2, 0.1)))
    >>> skate = rbd.constraints.Skate("world", (0, 0, 0), (0, 0, 1), "skater", (0, 0, 0))
    >>> model = rbd.add_constraints(builder.build(), skate)
    >>> print(rbd.mobility(model, rbd.neutral(model)))
    4
    """

    normal: Float[Array, "3"]
    heading: Float[Array, "3"]

    rows = 2
    holonomic = (True, False)

    def __init__(self, body_a: str, point_a, normal, body_b: str, point_b, heading=(1.0, 0.0, 0.0)):
        self.attach(body_a, point_a, body_b, point_b)
        self.normal = arguments.direction("Skate", normal, "normal")
        self.heading = arguments.direction("Skate", heading, "heading")

    def deviation(self, relative):
        height = dot(relative.position, self.normal)
        return jnp.stack([height, jnp.zeros_like(height)])

    def slip(self, relative, twist):
        across = cross(self.normal, matvec(relative.rotation, self.heading))
        square = dot(across, across)
        level = square > jnp.finfo(square.dtype).tiny  # a blade that stands on its tip moves freely
        across = jnp.where(level, across / jnp.sqrt(jnp.where(level, square, 1)), 0)
        return jnp.stack([dot(twist[3:], self.normal), dot(twist[3:], across)])
