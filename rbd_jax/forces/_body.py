"""Forces on bodies, defined in maximal coordinates and converted to generalized coordinates.

A family computes the wrench on each body, in the body's own frame, from the frames and twists of the bodies (Sueda's notes,
§1.9). All other results follow: generalized forces, wrenches in the world, and stiffness and damping matrices in body twists
for implicit schemes in maximal coordinates (eq. 1.30).
"""

from __future__ import annotations

import abc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import gather_or_zero, sum_rows
from ..dynamics import Bodies
from ..model import Model
from .force import Force


class BodyForce(Force):
    """A force on bodies. A family implements `acts_on`, `body_wrenches` and `body_energy`.

    >>> print(isinstance(rbd.forces.ViscousDamping("bob", 0.5), rbd.forces.BodyForce))
    True
    """

    @abc.abstractmethod
    def acts_on(self, model: Model) -> list[int]:
        """Returns the indices of the bodies with forces, each once, in the order of the rows below."""

    @abc.abstractmethod
    def body_wrenches(self, model: Model, bodies: Bodies) -> Float[Array, "n 6"]:
        """Returns the wrench `[n; f]` on each of these bodies, in its own frame."""

    @abc.abstractmethod
    def body_energy(self, model: Model, bodies: Bodies) -> Float[Array, ""]:
        """Returns the stored energy for the frames of these bodies."""

    def generalized_force(self, motion):
        indices = self.acts_on(motion.model)
        if not indices:  # an edit has welded all its bodies to the world
            return jnp.zeros_like(motion.v)
        wrenches = self.body_wrenches(motion.model, motion.bodies(indices))
        return motion.generalized_force(indices, wrenches)

    def body_wrenches_in(self, motion):
        indices = self.acts_on(motion.model)
        if not indices:
            return None
        wrenches = self.body_wrenches(motion.model, motion.bodies(indices))
        return sum_rows(wrenches, np.array(indices), motion.model.nb)

    def stored_energy(self, motion):
        indices = self.acts_on(motion.model)
        if not indices:
            return jnp.zeros((), motion.q.dtype)
        return self.body_energy(motion.model, motion.bodies(indices))

    def wrenches(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nb 6"]:
        """Returns the wrench `[n; f]` on every body, in the world frame at the world's origin, in the form of `f_ext`."""
        force, bodies, indices = self._bodies(model, q, v)
        acting = bodies.world_frames.force(force.body_wrenches(model, bodies))
        row = np.full(model.nb, -1)
        row[indices] = np.arange(len(indices))
        return gather_or_zero(acting, row)

    def body_stiffness(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "n6 n6"]:
        """Returns `K = ∂f/∂E`: the derivative of the wrenches, in the bodies' own frames, for steps `E exp(δ)`.

        The matrix has six rows and columns per body, in the order of `acts_on`. Sueda's (1.33) is this matrix; (1.37), (1.51),
        (1.62) and (1.67) are printed with the opposite sign.
        """
        force, bodies, _ = self._bodies(model, q, v)

        def stepped(steps):
            moved = bodies.moved(steps.reshape(-1, 6))
            return force.body_wrenches(model, moved).reshape(-1)

        return jax.jacfwd(stepped)(jnp.zeros_like(bodies.twists.reshape(-1)))

    def body_damping(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "n6 n6"]:
        """Returns `D = -∂f/∂φ`: the negative derivative of the wrenches with the bodies' twists, in their own frames."""
        force, bodies, _ = self._bodies(model, q, v)

        def turned(twists):
            return force.body_wrenches(model, replace(bodies, twists=twists.reshape(-1, 6))).reshape(-1)

        return -jax.jacfwd(turned)(bodies.twists.reshape(-1))

    def _bodies(self, model: Model, q, v=None):
        force, motion = self.in_motion(model, q, v)
        indices = force.acts_on(model)
        return force, motion.bodies(indices), indices
