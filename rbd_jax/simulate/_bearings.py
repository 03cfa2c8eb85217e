"""Joint friction from bearings and the wrenches that joints transmit, which depend on each other (Sueda's algorithm 8).

A joint transmits the wrench that its body lacks for its motion, `f_α = M (q̇_con - q̇_unc) / h`, accumulated from the leaves to
the root (eqs. 2.115 to 2.117). Loops and contacts count among the forces (eqs. 2.119, 2.120). This needs no solution of a system
of constraint forces: one recursion, `constraints.reactions.transmitted`, computes the reactions from the accelerations of the
tree. The reactions determine the friction limit of each bearing, this friction gives new accelerations, and the iteration
repeats until the limits converge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.array import dot, with_precision
from ..dynamics import Motion
from ..forces.bearing import Bearing


#: Maximum number of iterations; a few suffice if friction is a small share of the loads.
ROUNDS = 100

#: Bounds of the relaxation factor of an iteration.
STRIDES = 0.1, 20.0


def friction_under_load(
    bearings: Sequence[Bearing],
    motion: Motion,
    wrenches: Callable[[Float[Array, "nv"]], Float[Array, "nb 6"]],
) -> Float[Array, "nv"]:
    """Returns the dry friction along each degree of freedom, including the friction of bearings; NaN without convergence.

    Its derivative is the derivative of the equation, with the stick and slip state fixed.

    Args:
      bearings: The bearings.
      motion: The model in motion.
      wrenches: Returns the wrenches that the joints transmit, given the dry friction.
    """
    bearings = with_precision(tuple(bearings), motion.q.dtype)
    joints = [joint for bearing in bearings for joint in bearing.joints]
    friction = motion.model.friction

    def rubbing(limits):
        return friction + motion.resistance_along(joints, limits, power=1)

    def missing(limits):
        borne = wrenches(rubbing(limits))
        return jnp.concatenate([bearing.limits(motion, borne) for bearing in bearings]) - limits

    none = jnp.zeros(len(joints), motion.q.dtype)
    return rubbing(lax.custom_root(missing, none, _by_rounds, _solve))


def _by_rounds(missing, limits):
    """Finds a root by staggered iteration: each iteration uses the loads for the friction of the previous one.

    Near singular positions, and where the mechanism jams, friction makes most of the load and the iteration converges slowly.
    Therefore each step is scaled by a factor from the last two residuals (Irons and Tuck, 1969), within bounds.
    """
    eps = float(np.finfo(limits.dtype).eps)
    least, most = STRIDES

    def share(left, limits):
        largest = jnp.max(limits)
        return jnp.max(jnp.abs(left)) / jnp.where(largest > 0, largest, 1)

    def goes_on(at):
        limits, left, _, count = at
        return (count == 0) | (share(left, limits) > eps ** (2 / 3)) & (count < ROUNDS)

    def another(at):
        limits, left, stride, count = at
        limits = jnp.maximum(limits + stride * left, 0)
        new = missing(limits)
        change = new - left
        square = dot(change, change)
        shown = -stride * dot(left, change) / jnp.where(square > 0, square, 1)
        shown = jnp.where((square > 0) & (shown > 0), shown, most)
        return limits, new, jnp.where(count == 0, 1, jnp.clip(shown, least, most)), count + 1

    # The loop includes the first evaluation, so that the function is compiled once.
    start = limits, jnp.zeros_like(limits), jnp.ones((), limits.dtype), jnp.int32(0)
    limits, left, _, _ = lax.while_loop(goes_on, another, start)
    return jnp.where(share(left, limits) <= eps**0.5, limits, jnp.nan)


def _solve(derivative, change):
    columns = jax.vmap(derivative, out_axes=1)(jnp.eye(change.size, dtype=change.dtype))
    return jnp.linalg.solve(columns, change)
