"""A coordinate with prescribed motion in time, whose joint remains in the model (book §9.1; Sueda §2.9)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ..spatial import no_frames
from .constraint import Constraint


class PrescribedCoordinate(Constraint):
    """`q_joint = motion(t)`, with `motion` a function of time that returns a number. The multiplier is the required effort.

    The motion may be a PyTree (an `equinox.Module` with `__call__`), whose arrays are then parameters.

    >>> crank = rbd.constraints.PrescribedCoordinate("shoulder", lambda t: 2.0 * t)
    >>> model = rbd.at_time(rbd.add_constraints(rbd.load("double_pendulum"), crank), 0.1)
    >>> print(rbd.constraint_residual(model, jnp.array([0.2, 0.5])))
    [0.]
    """

    motion: Callable
    time: Float[Array, ""]

    rows = 1
    rheonomic = True

    def __init__(self, joint: str, motion: Callable, time=0.0):
        # A bare function is a leaf that is not an array. In a Partial it is part of the structure instead.
        self.motion = jax.tree_util.Partial(motion) if jax.tree_util.all_leaves([motion]) else motion
        self.time = number("PrescribedCoordinate", "time", time)
        shape = jnp.shape(jax.eval_shape(lambda: motion(self.time)))
        if shape != ():
            raise ValueError(
                f"PrescribedCoordinate: motion returns an array of shape {shape}; expected one number"
            )
        self.bodies = ()
        self.frames = no_frames()
        self.joints = (joint,)

    def at_time(self, time):
        return self.changed(time=jnp.asarray(time, self.time.dtype))

    def residual(self, placements, coordinates):
        return coordinates - self.motion(self.time)
