"""Forces on bodies: written down in maximal coordinates, seen in generalized ones.

A family says what wrench each body takes, in the body's own frame, from the frames and twists of the bodies it acts on
(Sueda's notes, §1.9). All else follows: generalized forces, wrenches in the world, and stiffness and damping matrices in
body twists, as an implicit scheme in maximal coordinates wants them (eq. 1.30).
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
    """A force that acts on bodies. A family implements `acts_on`, `body_wrenches` and `body_energy`.

    >>> print(isinstance(rbd.forces.ViscousDamping("bob", 0.5), rbd.forces.BodyForce))
    True
    """

    @abc.abstractmethod
    def acts_on(self, model: Model) -> list[int]:
        """The bodies it acts on, each once: the order of the rows below."""

    @abc.abstractmethod
    def body_wrenches(self, model: Model, bodies: Bodies) -> Float[Array, "n 6"]:
        """The wrench `[n; f]` on each of these bodies, in its own frame."""

    @abc.abstractmethod
    def body_energy(self, model: Model, bodies: Bodies) -> Float[Array, ""]:
        """The energy kept, from the frames of these bodies."""

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
        """The wrench `[n; f]` on every body, in the world frame at the world's origin: as `f_ext` takes them."""
        force, bodies, indices = self._bodies(model, q, v)
        acting = bodies.world_frames.force(force.body_wrenches(model, bodies))
        row = np.full(model.nb, -1)
        row[indices] = np.arange(len(indices))
        return gather_or_zero(acting, row)

    def body_stiffness(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "n6 n6"]:
        """`K = ∂f/∂E`: the change of the wrenches on the bodies it acts on, in their own frames, for steps `E exp(δ)`.

        A block of six rows and columns for each body, in the order of `acts_on`. Sueda's (1.33) is this matrix; his
        (1.37), (1.51), (1.62) and (1.67) are printed with the other sign.
        """
        force, bodies, _ = self._bodies(model, q, v)

        def stepped(steps):
            moved = bodies.moved(steps.reshape(-1, 6))
            return force.body_wrenches(model, moved).reshape(-1)

        return jax.jacfwd(stepped)(jnp.zeros_like(bodies.twists.reshape(-1)))

    def body_damping(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> Float[Array, "n6 n6"]:
        """`D = -∂f/∂φ`: what a change of the twists of the bodies takes from the wrenches on them, in their own frames."""
        force, bodies, _ = self._bodies(model, q, v)

        def turned(twists):
            return force.body_wrenches(model, replace(bodies, twists=twists.reshape(-1, 6))).reshape(-1)

        return -jax.jacfwd(turned)(bodies.twists.reshape(-1))

    def _bodies(self, model: Model, q, v=None):
        force, motion = self.in_motion(model, q, v)
        indices = force.acts_on(model)
        return force, motion.bodies(indices), indices
