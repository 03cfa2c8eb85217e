"""Some bodies in maximal coordinates: what a force on bodies is a function of."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import with_zero_row
from ..lie import SE3
from ..spatial.transform import Transform


class Bodies(eqx.Module):
    """Where each of some bodies is and how it moves.

    - `frames`: in the world's axes, about `origin`: a point near by, so that distances between bodies keep their digits
      far from the world's origin.
    - `twists`: the spatial velocity `[ω; v]` of each, in its own frame.
    - `origin`: that point, in the world.

    >>> at = rbd.Transform.from_position(jnp.array([[1.0, 0.0, 0.5]]))
    >>> bodies = rbd.dynamics.Bodies(at, jnp.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]), origin=jnp.array([1000.0, 0.0, 0.0]))
    >>> print(bodies.frames.position[0] + bodies.origin, bodies.twists[0])
    [1001.     0.     0.5] [0. 0. 1. 0. 0. 0.]
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
        return Bodies(frames, with_zero_row(self.twists), self.origin)
