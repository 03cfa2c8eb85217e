"""A configuration near a given one in which nothing overlaps."""

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


#: So many times the contacts are looked for and taken for flat.
ROUNDS = 8

#: Two shapes may overlap by so much of the radius of the smaller one before the direction in which they part is a guess.
DEEP = 0.25

#: How much harder it is to overlap than to move.
HARD = 1e6


@takes(q=configuration)
def separated(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nq"]:
    """The configuration moved the least way, in the metric of M, by which no shapes that may touch overlap.

    Where they do not, it is q itself. Each of a few rounds takes contacts for planes, at the distances φ, and solves
    `min ½ |δ - δ₀|²_M, J δ ≥ -φ` with δ₀ the way back to q; what is left after the last is the curvature, and shapes that are
    caught in others.

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
        # Of the least inertia that each contact can meet, so that units do not matter.
        size = jnp.sum(rows**2 / jnp.diagonal(inertia)[None, :], axis=1)
        hard = HARD if q.dtype == jnp.float64 else HARD**0.5
        stiffness = jnp.where(size > 0, hard / jnp.where(size > 0, size, 1), 0)
        term = Rows.one_sided(rows, jnp.where(near, -found.distance, 0), stiffness)
        back = difference(model, at, q)
        moved = solve_soft(Problem(inertia, times(inertia, back), (term,)), back).acceleration
        return integrate(model, at, moved)

    return lax.fori_loop(0, ROUNDS, step, q)


def allowed_overlaps(model: Model) -> Float[Array, "pairs"]:
    """By how much each pair of shapes that may touch may overlap, so that there is no doubt in which direction they part."""
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    pairs = touching(model)
    used = sorted({end for pair in pairs for end in pair[:2]})
    radii = {end: bounding_sphere(shapes[end].geometry)[1] for end in used}
    least = [jnp.minimum(radii[pair.first], radii[pair.second]) for pair in pairs]
    return DEEP * (jnp.stack(least).astype(model.dtype) if least else jnp.zeros(0, model.dtype))


def overlapping(motion: Motion, allowed: Float[Array, "pairs"]) -> Bool[Array, ""]:
    """Whether shapes of a model in motion overlap by more than is allowed."""
    found = contacts_of(motion)
    if not found.shapes:
        return jnp.zeros((), bool)
    return jnp.any(found.distance < -of_pairs(found, allowed).astype(motion.q.dtype))
