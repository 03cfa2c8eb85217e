"""A set of bodies in maximal coordinates, the argument of forces on bodies."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import with_zero_row
from ..lie import SE3
from ..spatial.transform import Transform


class Bodies(eqx.Module):
    """The frames and velocities of a set of bodies.

    - `frames`: the frame of each body in the world's axes, relative to `origin`. With an origin near the bodies, distances
      between bodies stay accurate far from the world's origin.
    - `twists`: the spatial velocity `[ω; v]` of each body, in its own frame.
    - `origin`: the position of that reference point in the world.

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
        """The frames relative to the world's origin."""
        return Transform(self.frames.rotation, self.frames.position + self.origin[None])

    def moved(self, steps: Float[Array, "n 6"]) -> Bodies:
        """Returns the bodies moved by twists in their own frames, `E exp(δ)`; twists and origin are unchanged."""
        return Bodies(self.frames @ SE3.exp(steps), self.twists, self.origin)

    def with_world(self) -> Bodies:
        """Returns the bodies with the world added as the last body."""
        axes = jnp.eye(3, dtype=self.origin.dtype)[None]
        frames = Transform(
            jnp.concatenate([self.frames.rotation, axes]),
            jnp.concatenate([self.frames.position, -self.origin[None]]),
        )
        return Bodies(frames, with_zero_row(self.twists), self.origin)
