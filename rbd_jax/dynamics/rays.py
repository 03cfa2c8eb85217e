"""Ray casting: distances along rays to the nearest shape of a model."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.arguments import as_array, configuration, takes
from .._core.array import gather, vecmat, with_precision
from ..model import Model
from ..shapes.geometry import Geometry
from ..shapes.shape import Shape
from .motion import Motion
from .sites import fixed_frames


def rays_of_a_model(function: str, model, name: str, value) -> Array:
    """Checks points or directions, one row per ray."""
    array = as_array(function, name, value, "an array of vectors, one row per ray")
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"{function}: {name} has shape {array.shape}, but k rays require (k, 3)")
    return array


@takes(q=configuration, origins=rays_of_a_model, directions=rays_of_a_model)
def ray_distances(
    model: Model, q: Float[Array, "nq"], origins: Float[Array, "k 3"], directions: Float[Array, "n 3"]
) -> Float[Array, "k"]:
    """Returns the distance along each world ray to the nearest visible shape, infinite for a ray without intersection.

    Shapes with an opacity of zero are invisible. Planes are visible from above only. A ray that starts inside a shape
    hits the shape where it leaves it.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      origins: Start points of the rays in the world, shape (k, 3).
      directions: Directions of the rays in the world, of any nonzero length, shape (k, 3).

    Returns:
      The distances, shape (k,).

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Shape("floor", "world", rbd.shapes.Plane()))
    >>> print(rbd.ray_distances(model, jnp.zeros(2), jnp.array([[3.0, 0.0, 1.0]]), jnp.array([[0.0, 0.6, -0.8]])))
    [1.25]
    """
    if origins.shape != directions.shape:
        raise ValueError(
            f"ray_distances: origins has shape {origins.shape} and directions {directions.shape}; pass one of each per ray"
        )
    square = jnp.sum(directions**2, axis=1, keepdims=True)
    unit = directions / jnp.sqrt(jnp.where(square > 0, square, 1))
    shapes = shapes_of(model)
    seen = np.tile(np.array([shape.rgba[3] > 0 for shape in shapes], bool), (len(origins), 1))
    return nearest_shapes(Motion(model, q), origins, unit, seen)


def shapes_of(model: Model) -> tuple[Shape, ...]:
    """Returns the shapes of a model, in their order."""
    return model.shapes  # pyright: ignore[reportReturnType]


def nearest_shapes(
    motion: Motion,
    origins: Float[Array, "k 3"],
    directions: Float[Array, "k 3"],
    seen: Bool[np.ndarray, "k shapes"],
) -> Float[Array, "k"]:
    """Returns the distance along each world ray to the nearest shape that is visible to this ray.

    All rays are intersected with all shapes of the same kind in one expression.
    """
    shapes = shapes_of(motion.model)
    frames = fixed_frames(motion, shapes).world_frames
    found = [jnp.full((len(origins), 1), jnp.inf, motion.q.dtype)]
    for rows, geometries in _of_one_kind(shapes, np.flatnonzero(seen.any(axis=0))):
        rotation, position = gather(frames.rotation, rows), gather(frames.position, rows)
        starts = vecmat(origins[:, None] - position[None], rotation[None])
        along = vecmat(directions[:, None], rotation[None])
        geometries = with_precision(geometries, motion.q.dtype)
        meet = jax.vmap(jax.vmap(lambda one, o, d: one.ray(o, d)), in_axes=(None, 0, 0))
        found.append(jnp.where(seen[:, rows], meet(geometries, starts, along), jnp.inf))
    return jnp.min(jnp.concatenate(found, axis=1), axis=1)


def _of_one_kind(shapes: Sequence[Shape], rows: np.ndarray) -> list[tuple[list[int], Geometry]]:
    """Groups shapes by the kind of their geometry, and stacks the geometries of each group."""
    kinds: dict[object, list[int]] = {}
    for row in rows.tolist():
        leaves, structure = jax.tree.flatten(shapes[row].geometry)
        kinds.setdefault((structure, *(np.shape(leaf) for leaf in leaves)), []).append(row)
    return [
        (own, jax.tree.map(lambda *leaves: jnp.stack(leaves), *(shapes[row].geometry for row in own)))
        for own in kinds.values()
    ]
