"""Projection of a configuration to one without overlaps."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.arguments import configuration, takes
from .._core.array import times
from ..dynamics import Motion
from ..dynamics.mass_matrix import composite_rigid_body
from ..model import Model, difference, integrate
from ..shapes.shape import Shape
from .contacts import contact_jacobian, contacts_of, of_pairs
from .geometry.bounds import bounding_sphere
from .pairs import touching
from .solvers.soft import Problem, solve_soft
from .solvers.terms import Rows


#: Number of iterations, each with linearized contacts.
ROUNDS = 8

#: Maximum overlap, relative to the radius of the smaller shape, at which the direction of separation is reliable.
DEEP = 0.25

#: Ratio of the cost of an overlap to the cost of motion.
HARD = 1e6


@takes(q=configuration)
def separated(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nq"]:
    """Returns the nearest configuration, in the metric of M, in which no shapes that may touch overlap.

    Without overlaps this is q itself. Each of 8 iterations linearizes the contacts at their distances φ and solves
    `min ½ |δ - δ₀|²_M, J δ ≥ -φ`, where δ₀ is the displacement back to q. Overlaps may remain from the curvature of contacts,
    and from shapes that enclose each other.

    >>> robot = rbd.load("quadruped")
    >>> sunk = robot.reference.at[2].add(-0.1)
    >>> print(rbd.contacts(robot, sunk).distance.min())  # by as much it overlaps with the floor
    -0.1
    >>> raised = rbd.contact.separated(robot, sunk)
    >>> print(raised[2].round(3), bool(rbd.contacts(robot, raised).distance.min() > -1e-6))
    -0.093 True
    """

    def step(_, at):
        motion = Motion(model, at)
        found = contacts_of(motion)
        near = jnp.isfinite(found.distance)
        rows = jnp.where(near[:, None], contact_jacobian(motion, found, 1)[:, 0], 0)
        inertia = composite_rigid_body(motion)
        # Stiffness is relative to an estimate of each contact's mobility, so that units do not matter.
        size = jnp.sum(rows**2 / jnp.diagonal(inertia)[None, :], axis=1)
        hard = HARD if q.dtype == jnp.float64 else HARD**0.5
        stiffness = jnp.where(size > 0, hard / jnp.where(size > 0, size, 1), 0)
        term = Rows.one_sided(rows, jnp.where(near, -found.distance, 0), stiffness)
        back = difference(model, at, q)
        moved = solve_soft(Problem(inertia, times(inertia, back), (term,)), back).acceleration
        return integrate(model, at, moved)

    return lax.fori_loop(0, ROUNDS, step, q)


def allowed_overlaps(model: Model) -> Float[Array, "pairs"]:
    """Returns the maximum overlap of each pair of shapes at which the direction of separation is reliable."""
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    pairs = touching(model)
    used = sorted({end for pair in pairs for end in pair[:2]})
    radii = {end: bounding_sphere(shapes[end].geometry)[1] for end in used}
    least = [jnp.minimum(radii[pair.first], radii[pair.second]) for pair in pairs]
    return DEEP * (jnp.stack(least).astype(model.dtype) if least else jnp.zeros(0, model.dtype))


def overlapping(motion: Motion, allowed: Float[Array, "pairs"]) -> Bool[Array, ""]:
    """Returns True if any shapes of a model in motion overlap by more than is allowed."""
    found = contacts_of(motion)
    if not found.shapes:
        return jnp.zeros((), bool)
    return jnp.any(found.distance < -of_pairs(found, allowed).astype(motion.q.dtype))
