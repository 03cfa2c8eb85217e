"""Bounded friction along joints over one time step, as a function of the velocity at the end of the step."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.array import clamped, gather, sum_rows
from ..dynamics import Motion


class JointFriction(eqx.Module):
    """Friction along degrees of freedom over a step: `-(offset + clip(bias + slope v⁺, -limit, limit))` along each.

    v⁺ is the velocity at the end of the step. A force returns one from `Force.joint_friction`. Schemes with
    Coulomb's law for dry friction then solve for v⁺ and for the sticking (friction below its limit) and sliding
    entries, so the slope may have any size.

    - `dofs`: the degree of freedom that each entry acts along. Several entries may act along the same one.
    - `bias`, `slope`: the friction at `v⁺ = 0`, and its rate with v⁺; the slope is positive if the limit is.
    - `limit`: zero or more.
    - `offset`: the part that the limit does not bound.
    - `slack`: the margin below the speed at which the limit is reached, within which an entry may count as sliding.

    >>> model = rbd.load("pendulum")
    >>> friction = rbd.forces.JointFriction.along(
    ...     rbd.Motion(model, jnp.zeros(1)), ("swing",), bias=0.0, slope=100.0, limit=2.0
    ... )
    >>> print(friction.force(jnp.array([0.01])), friction.force(jnp.array([5.0])))
    [-1.] [-2.]
    """

    dofs: tuple[int, ...] = eqx.field(static=True)
    bias: Float[Array, "n"]
    slope: Float[Array, "n"]
    limit: Float[Array, "n"]
    offset: Float[Array, "n"]
    slack: Float[Array, "n"]

    @staticmethod
    def along(
        motion: Motion,
        joints: Sequence[str],
        bias: ArrayLike = 0.0,
        slope: ArrayLike = 0.0,
        limit: ArrayLike = 0.0,
        offset: ArrayLike = 0.0,
    ) -> JointFriction:
        """Returns the friction of joints with one degree of freedom each, by their own speeds; mimic joints included.

        Each argument is one value per joint, or one for all.
        """
        places, ratios = motion.leading(joints)
        each = lambda x: jnp.broadcast_to(jnp.asarray(x, motion.q.dtype), (len(places),))
        bias, slope, limit, offset = map(each, (bias, slope, limit, offset))
        reached = limit / jnp.where(slope > 0, slope, 1)
        ratio = jnp.abs(ratios)
        slack = jnp.sqrt(jnp.finfo(limit.dtype).eps) * reached / jnp.where(ratio > 0, ratio, 1)
        return JointFriction(
            tuple(places.tolist()),
            ratios * bias,
            ratios**2 * slope,
            ratio * limit,
            ratios * offset,
            slack,
        )

    @staticmethod
    def dry(sizes: Float[Array, "nv"], speed: float) -> JointFriction:
        """Returns Coulomb friction of given magnitudes along all degrees of freedom.

        A damper with the coefficient magnitude / `speed` acts on sticking entries.
        """
        none = jnp.zeros_like(sizes)
        slack = jnp.full_like(sizes, speed)
        return JointFriction(tuple(range(len(sizes))), none, sizes / speed, sizes, none, slack)

    @staticmethod
    def joined(parts: Sequence[JointFriction]) -> JointFriction:
        """Concatenates several friction objects, and returns a single one unchanged."""
        if len(parts) == 1:
            return parts[0]
        names = ("bias", "slope", "limit", "offset", "slack")
        together = {name: jnp.concatenate([getattr(part, name) for part in parts]) for name in names}
        return JointFriction(sum((part.dofs for part in parts), ()), **together)

    def at(self, v: Float[Array, "nv"]) -> Float[Array, "n"]:
        """Returns the entries of a vector over the degrees of freedom that this friction acts along."""
        return gather(v, np.array(self.dofs, int))

    def onto(self, x: Float[Array, "n"], count: int) -> Float[Array, "nv"]:
        """Sums the entries along each of `count` degrees of freedom."""
        if self.dofs == tuple(range(count)):
            return x
        return sum_rows(x, np.array(self.dofs, int), count)

    def force(self, v: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """Returns the generalized force for a velocity at the end of the step."""
        friction = self.offset + clamped(self.bias + self.slope * self.at(v), -self.limit, self.limit)
        return self.onto(-friction, v.size)
