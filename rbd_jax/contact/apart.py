"""Signed distances between the shapes of a model, for collision avoidance."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import gather, with_precision
from ..dynamics import Motion
from ..dynamics.sites import fixed_frames
from ..model import Model
from ..shapes.shape import Shape
from .contacts import of_one_kind
from .geometry.bounds import bounding_sphere
from .geometry.pairs import signed_distance
from .pairs import Touching


def distances(motion: Motion, pairs: Sequence[Touching]) -> Float[Array, "pairs"]:
    """Returns the signed distance of each pair of shapes, negative where they overlap.

    The distances are finite and differentiable in every configuration.
    """
    dtype = motion.q.dtype
    shapes: tuple[Shape, ...] = motion.model.shapes  # pyright: ignore[reportAssignmentType]
    if not pairs:
        return jnp.zeros(0, dtype)
    placed = fixed_frames(motion, shapes).frames
    order, found = [], []
    for members, first, second in of_one_kind(shapes, pairs):
        at = [placed.gather(np.array([pairs[k][end] for k in members])) for end in (0, 1)]
        first, second = with_precision((first, second), dtype)
        apart = jax.vmap(lambda *given: signed_distance(*given).distance)(first, at[0], second, at[1])
        order.append(members)
        found.append(apart)
    return gather(jnp.concatenate(found), np.argsort(np.concatenate(order)))


def pair_sizes(model: Model, pairs: Sequence[Touching]) -> np.ndarray:
    """Returns the bounding-sphere radius of the smaller shape of each pair."""
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    used = sorted({end for pair in pairs for end in pair[:2]})
    radii = {end: float(bounding_sphere(shapes[end].geometry)[1]) for end in used}
    return np.array([min(radii[pair.first], radii[pair.second]) for pair in pairs])
