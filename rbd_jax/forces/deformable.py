"""Deformable bodies as masses and springs, free or attached to rigid bodies (Sueda's notes, §2.7).

A free node is a point body that slides in all three directions, so that its coordinates pass through the Jacobian of eq. (2.89)
unchanged. An attached node is a point of its body: it moves at `J_am φ = R Γ φ` (2.87), its springs act there, and its mass
is a part of the body's inertia, `J_amᵀ m J_am` (2.91, 2.92). Attachments therefore cannot drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import as_array, body_name, number
from .._core.array import is_known
from .._core.jit import compiled
from ..dynamics import forward_kinematics
from ..joints import Translational
from ..model import ModelBuilder, neutral
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from ._point import WORLD, lengths_and_directions
from .spring_network import SpringNetwork, pairs, spread


def add_deformable(
    builder: ModelBuilder,
    name: str,
    positions,
    edges,
    *,
    masses,
    spring_constants,
    damping_constants: Any = 0.0,
    rest_lengths=None,
    attach: Mapping[int, str] | None = None,
    q: Float[Array, "nq"] | None = None,
) -> SpringNetwork:
    """Adds point masses joined by springs to a builder; returns the springs, for `rollout(forces=(..., springs))`.

    Free nodes become bodies with three degrees of freedom each. Their names consist of `name` and their index, such as
    `"rope 3"`. Their coordinates are displacements from the given positions. Gravity is the model's.

    Args:
      builder: The builder, with the bodies that hold attached nodes.
      name: The prefix of the names of free nodes.
      positions: Positions of the nodes in the world, (k, 3).
      edges: Pairs of node indices.
      masses: Masses of the nodes; a scalar applies to each node.
      spring_constants: In N/m, per edge or one for all.
      damping_constants: In N s/m, per edge or one for all.
      rest_lengths: Per edge or one for all. Default: all springs are at rest at the given positions.
      attach: The bodies that hold nodes, `{node: body}`; `"world"` fixes a node.
      q: The configuration of the builder's bodies in which the nodes are at `positions`. Default: neutral.

    Returns:
      A `SpringNetwork`.

    >>> builder = rbd.ModelBuilder()
    >>> nodes = jnp.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.2, 0.0, 0.0]])
    >>> rope = rbd.forces.add_deformable(
    ...     builder, "rope", nodes, [(0, 1), (1, 2)], masses=0.1, spring_constants=1000.0, attach={0: "world"}
    ... )
    >>> model = builder.build()
    >>> print(model.nv, model.body_names)
    6 ('rope 1', 'rope 2')
    """
    nodes = as_array("add_deformable", "positions", positions, "an array of points, (k, 3)")
    nodes = number("add_deformable", "positions", nodes, (nodes.shape[0] if nodes.ndim else 1, 3))
    edges = pairs("add_deformable", edges, len(nodes))
    weights = spread("add_deformable", "masses", masses, len(nodes), least=0)
    if rest_lengths is None:
        first, second = np.array(edges).T
        rest_lengths = _lengths(nodes, first, second)
    places = _rows(nodes)
    held = _attached(builder, attach or {}, places, q)
    bodies, points = [], []
    for node, mass in enumerate(_rows(weights)):
        body, point = held.get(node, (None, jnp.zeros(3, nodes.dtype)))
        if body is None:
            if is_known(mass) and not mass > 0:
                raise ValueError(
                    f"add_deformable: node {node} is free and has no mass; give it some, or attach it"
                )
            place, inertia = Transform.from_position(places[node]), _point_mass(mass, point)
            body = builder.add_body(f"{name} {node}", WORLD, Translational(), place, inertia)
        elif body != WORLD:
            index = [other.name for other in builder.bodies].index(body)
            heavier = builder.bodies[index].inertia + _point_mass(mass, point)
            builder.bodies[index] = replace(builder.bodies[index], inertia=heavier)
        bodies.append(body)
        points.append(point)
    at = jnp.asarray(np.stack(points)) if is_known(points) else jnp.stack(points)
    return SpringNetwork(bodies, at, edges, rest_lengths, spring_constants, damping_constants)


@compiled
def _lengths(nodes: Float[Array, "n 3"], first, second) -> Float[Array, "k"]:
    """Returns the distance of the nodes of each pair."""
    return lengths_and_directions(nodes[second] - nodes[first])[0]


def _attached(
    builder: ModelBuilder, attach: Mapping[int, str], places: list[Array], q
) -> dict[int, tuple[str, Float[Array, "3"]]]:
    """Returns for each attached node its body and its position on the body."""
    for node in attach:
        if not isinstance(node, int | np.integer) or not 0 <= node < len(places):
            raise ValueError(f"add_deformable: attach names node {node!r}; there are {len(places)}, from 0")
    held = {int(node): (body, places[node]) for node, body in attach.items()}
    on_bodies = {node: body for node, (body, _) in held.items() if body != WORLD}
    if on_bodies:
        model = builder.lay_out()
        frames = forward_kinematics(model, neutral(model) if q is None else q)
        for node, body in on_bodies.items():
            frame = frames[model.body_index(body_name("add_deformable", model, "attach", body))]
            held[node] = (body, frame.inverse().point(places[node]))
    return held


def _rows(x: Float[Array, "n *k"]) -> list[Array]:
    """Returns the rows of an array, by NumPy if it is known, because JAX would compile every slice."""
    return [jnp.asarray(row) for row in np.asarray(x)] if is_known(x) else list(x)


def _point_mass(mass: Float[Array, ""], at: Float[Array, "3"]) -> Inertia:
    return Inertia.from_mass_com(mass, at, jnp.zeros((3, 3), at.dtype))
