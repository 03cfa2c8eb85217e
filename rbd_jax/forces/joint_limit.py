"""Soft position limits of joints."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import gather_or_zero
from ..model import configuration_rate
from ._one_sided import compression, engagement, work
from .force import Force


class JointLimit(Force):
    """One-sided springs and dampers at the model's `lower` and `upper` limits.

    A coordinate beyond its limit by x is driven back with `k c(x) + d c'(x) ẋ`. c is `max(x, 0)` with its corner
    rounded over `transition`, so that the force is C¹. The damper acts in both directions: it slightly pulls back
    a joint that leaves its limit fast.

    - `spring_constant` k, `damping_constant` d, `transition`: in the units of the joint. Use separate `JointLimit` objects for
      revolute and for prismatic joints.
    - `joints`: the names of the joints; by default all. Coordinates without a finite limit have no force.

    The limits are the model's, and results can be differentiated with respect to them.

    >>> from dataclasses import replace
    >>> model = replace(rbd.load("pendulum"), upper=jnp.array([1.0]))
    >>> stop = rbd.forces.JointLimit(100.0)
    >>> print(stop(model, jnp.array([0.5]), jnp.zeros(1)), stop(model, jnp.array([1.2]), jnp.zeros(1)))
    [0.] [-19.5]
    """

    spring_constant: Float[Array, ""]
    damping_constant: Float[Array, ""]
    transition: Float[Array, ""]
    joints: tuple[str, ...] = eqx.field(static=True)

    scalar_joints = False

    def __init__(
        self,
        spring_constant,
        damping_constant=0.0,
        transition=0.01,
        joints: str | Sequence[str] | None = None,
    ):
        self.spring_constant = number("JointLimit", "spring_constant", spring_constant, least=0)
        self.damping_constant = number("JointLimit", "damping_constant", damping_constant, least=0)
        self.transition = number("JointLimit", "transition", transition, above=0)
        self.joints = () if joints is None else names("JointLimit", "joints", joints)

    def bound(self, bodies, joints):
        return self if self.joints else self.changed(joints=tuple(joints))

    def attached(self, bodies, frames, joints):
        return self.changed(joints=tuple(joints))

    def locked(self, joints):
        left = tuple(joint for joint in self.joints if joint not in joints)
        return self.changed(joints=left) if left else None

    def generalized_force(self, motion):
        model, depths = motion.model, list(self._depths(motion))
        # The forces act on the coordinates. The transpose of q̇ = N v maps them to the velocity variables.
        rate, transpose = jax.vjp(lambda v: configuration_rate(model, motion.q, v), motion.v)
        force = jnp.zeros_like(motion.q)
        for side, depth in depths:
            spring = self.spring_constant * compression(depth, self.transition)
            damper = self.damping_constant * engagement(depth, self.transition) * rate
            force = force - side * spring - damper
        return transpose(force)[0]

    def joint_resistance(self, motion):
        # In coordinates, for joints whose coordinates change at the rates of the velocity variables.
        above, below = (engagement(depth, self.transition) for _, depth in self._depths(motion))
        topology = motion.model.topology
        own = np.flatnonzero((topology.joint_nq == 1) & (topology.joint_nv == 1) & ~topology.is_mimic)
        entries = np.full(motion.model.nv, -1)
        entries[topology.v_offsets[own]] = topology.q_offsets[own]
        engaged = gather_or_zero(above + below, entries)
        return self.damping_constant * engaged, self.spring_constant * engaged

    def stored_energy(self, motion):
        each = [work(depth, self.transition) for _, depth in self._depths(motion)]
        return self.spring_constant * jnp.sum(jnp.stack(each))

    def _depths(self, motion):
        """Yields the depth of each coordinate beyond its limit, above and below; negative for coordinates without limit."""
        model = motion.model
        chosen = np.full(model.nq, not self.joints)
        for joint in self.joints:
            chosen[model.q_slice(joint)] = True
        for side, limit in ((1, model.upper), (-1, model.lower)):
            stops = chosen & jnp.isfinite(limit)
            yield side, jnp.where(stops, side * (motion.q - jnp.where(stops, limit, 0)), -self.transition)
