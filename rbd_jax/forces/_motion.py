"""A model in motion, worked out once for all the forces that act on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import dot, gather, sum_rows
from ..dynamics._frame import CommonFrame, body_frames, from_columns, to_columns
from ..lie import SE3
from ..model import Model
from ..spatial import Transform


#: Wrenches are handed to the freedoms through a mask of up to so many entries, and by a walk of the tree beyond.
MASKED = 2048


class Bodies(eqx.Module):
    """Some bodies in maximal coordinates: where each is and how it moves.

    - `frames`: in the world's axes, about `origin`: a point near by, so that distances between bodies keep their digits
      far from the world's origin.
    - `twists`: the spatial velocity `[ω; v]` of each, in its own frame.
    - `origin`: that point, in the world.
    """

    frames: Transform
    twists: Float[Array, "n 6"]
    origin: Float[Array, "3"]

    @property
    def world_frames(self) -> Transform:
        """In the world."""
        return Transform(self.frames.rotation, self.frames.position + self.origin[None])

    def moved(self, steps: Float[Array, "n 6"]) -> Bodies:
        """Each body moved by a twist in its own frame: `E exp(δ)`; twists and origin stay."""
        return Bodies(self.frames @ SE3.exp(steps), self.twists, self.origin)

    def with_world(self) -> Bodies:
        """The world as one more body, the last."""
        axes = jnp.eye(3, dtype=self.origin.dtype)[None]
        frames = Transform(
            jnp.concatenate([self.frames.rotation, axes]),
            jnp.concatenate([self.frames.position, -self.origin[None]]),
        )
        return Bodies(frames, _padded(self.twists), self.origin)


@dataclass(frozen=True)
class Motion:
    """A model in a state. What a force asks for is computed when it is first asked for, and kept for the next."""

    model: Model
    q: Float[Array, "nq"]
    v: Float[Array, "nv"]

    @cached_property
    def common(self) -> CommonFrame:
        return CommonFrame.at(self.model, self.q)

    @cached_property
    def frames(self) -> Transform:
        """The frame of every body, in the common frame of its tree."""
        return body_frames(self.model, self.common.placements, Transform.identity(self.q.dtype))

    @cached_property
    def velocities(self) -> Float[Array, "m 6"]:
        """The velocity of every mover, in the common frame."""
        columns = self.common.column_velocities(self.model, to_columns(self.model, self.v))
        return gather(columns, self.model.topology.last_column)

    def bodies(self, indices: Sequence[int]) -> Bodies:
        """Some of the bodies, about the origin of the first one's tree."""
        carriers = self.model.topology.carriers[list(indices)]
        frames = self.frames.gather(np.array(indices))
        twists = frames.inverse_motion(gather(_padded(self.velocities), carriers))
        origins = gather(_padded(self.common.origins), carriers)
        position = frames.position + (origins - origins[:1])
        return Bodies(Transform(frames.rotation, position), twists, origins[0])

    def generalized_force(self, indices: Sequence[int], wrenches: Float[Array, "n 6"]) -> Float[Array, "nv"]:
        """`Σ Jᵀ f` of wrenches on some of the bodies, each in its body's own frame."""
        topology = self.model.topology
        forces = self.frames.gather(np.array(indices)).force(wrenches)
        carriers = topology.carriers[list(indices)]
        tree, columns = topology.tree, np.where(carriers >= 0, topology.last_column[carriers], -1)
        if tree.size * len(columns) > MASKED:
            transmitted = tree.subtree_sum(sum_rows(forces, columns, tree.size))
        else:
            moves = (tree.supports[columns] & (columns >= 0)[:, None]).T
            transmitted = jnp.sum(jnp.where(moves[:, :, None], forces[None], 0), axis=1)
        return from_columns(self.model, dot(self.common.subspace, transmitted))


def _padded(rows: Float[Array, "n k"]) -> Float[Array, "m k"]:
    """With a row of zeros at the end, which index -1 stands for: the world's."""
    return jnp.concatenate([rows, jnp.zeros((1, rows.shape[1]), rows.dtype)])
