"""The friction inside joints and what they transmit, which depend on each other (Sueda's algorithm 8).

What a joint transmits is what its body lacks for its motion: `f_α = M (q̇_con - q̇_unc) / h`, handed out from the leaves to the
root (eqs. 2.115 to 2.117), with what loops and contacts do counted among the forces (eqs. 2.119, 2.120). So no system of
constraint forces is solved: the accelerations of the tree give the reactions by one recursion,
`constraints.reactions.transmitted`. They say how much each bearing can hold, friction of that size gives new accelerations,
and so on until the sizes change no more.
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


#: So many rounds at most; a few are enough where friction makes a small share of the loads.
ROUNDS = 100

#: How much longer than to what is borne a round may step, and how much shorter.
STRIDES = 0.1, 20.0


def friction_under_load(
    bearings: Sequence[Bearing],
    motion: Motion,
    wrenches: Callable[[Float[Array, "nv"]], Float[Array, "nb 6"]],
) -> Float[Array, "nv"]:
    """The dry friction along each degree of freedom, with that of the bearings; NaN where there is none that fits its loads.

    - `wrenches`: what the joints transmit under a dry friction of that size.

    Its derivative is that of the equation, with what sticks and slides as it does.
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
    """Where nothing is missing: staggered, what is borne for the friction of the round before.

    Near singular positions, and where it jams, friction makes most of the load, and what is missing gets less by little. So each
    step is longer or shorter by what the last one has shown (Irons and Tuck, 1969), within bounds.
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

    # The first evaluation is within the loop as well, so that it is compiled once.
    start = limits, jnp.zeros_like(limits), jnp.ones((), limits.dtype), jnp.int32(0)
    limits, left, _, _ = lax.while_loop(goes_on, another, start)
    return jnp.where(share(left, limits) <= eps**0.5, limits, jnp.nan)


def _solve(derivative, change):
    columns = jax.vmap(derivative, out_axes=1)(jnp.eye(change.size, dtype=change.dtype))
    return jnp.linalg.solve(columns, change)
