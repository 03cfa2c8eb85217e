"""Dry joint friction with sticking, modeled as bending bristles (Canudas de Wit, Olsson, Åström & Lischinsky 1995: LuGre)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import clamped, dot
from .force import Force
from .joint_friction import JointFriction


class BristleFriction(Force):
    """Friction at joints with one degree of freedom, with the mean deflection z of bristles as an internal state.

        tau = -(σ₀ z + σ₁ ż + σ₂ v),    ż = v - σ₀ |v| z / g(v),    g(v) = F_c + (F_s - F_c) exp(-(v/v_s)²)

    At rest it is a spring of stiffness σ₀ that yields at the static force F_s. In steady sliding it is `g(v) sign(v) + σ₂ v`.

    - `joints`: the names of the joints. Each of the following is one value per joint, or one for all.
    - `coulomb` F_c, `static` F_s (by default equal to `coulomb`) and `stribeck_velocity` v_s.
    - `stiffness` σ₀ and `damping` σ₁ of the bristles, `viscous` σ₂.
    - `deflection`: the initial value of z.

    The energy is that of the bristles, `σ₀ z²/2`.

    The default scheme and `LinearlyImplicitEuler` evaluate the bristles at the end of the step, z⁺ =
    `z exp(-h σ₀ |v| / g) + h v⁺` within `±g / σ₀`, and solve for v⁺ with this state. They are stable for any step, and
    without σ₁ the friction never adds energy. If the bristles are too stiff for the step, the result is Coulomb's law.
    Explicit schemes need steps that are short compared with `g / (σ₀ |v|)` and `√(M / σ₀)`.

    >>> friction = rbd.forces.BristleFriction("swing", coulomb=2.0, stiffness=1000.0)
    >>> model = rbd.add_forces(rbd.load("pendulum"), friction)
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.1]), jnp.zeros(1)), dt=0.01, steps=100)
    >>> print(path.q[-1], path.own[-1])  # it sticks, and the bristles are bent
    [0.097] [-0.001]
    """

    joints: tuple[str, ...] = eqx.field(static=True)
    coulomb: Float[Array, "k"]
    static: Float[Array, "k"]
    stribeck_velocity: Float[Array, "k"]
    bristle_stiffness: Float[Array, "k"]
    bristle_damping: Float[Array, "k"]
    viscous: Float[Array, "k"]
    deflection: Float[Array, "k"]

    def __init__(
        self,
        joints: str | Sequence[str],
        coulomb,
        static=None,
        stribeck_velocity: Any = 0.01,
        stiffness: Any = 1e4,
        damping: Any = 0.0,
        viscous: Any = 0.0,
        deflection: Any = 0.0,
    ):
        self.joints = names("BristleFriction", "joints", joints)
        self.coulomb = self._for_each("coulomb", coulomb, above=0)
        self.static = self._for_each("static", self.coulomb if static is None else static, above=0)
        self.stribeck_velocity = self._for_each("stribeck_velocity", stribeck_velocity, above=0)
        self.bristle_stiffness = self._for_each("stiffness", stiffness, above=0)
        self.bristle_damping = self._for_each("damping", damping, least=0)
        self.viscous = self._for_each("viscous", viscous, least=0)
        self.deflection = self._for_each("deflection", deflection)

    def _for_each(self, name, value, **bounds):
        count = len(self.joints)
        shape = () if np.shape(value) == () else (count,)
        return jnp.broadcast_to(number("BristleFriction", name, value, shape, **bounds), (count,))

    @property
    def own(self):
        return self.deflection

    def holding(self, own):
        return self.changed(deflection=own)

    @property
    def frictional_own(self):
        return np.ones(len(self.joints), bool)

    def own_rate(self, motion):
        v = motion.speeds(self.joints)
        return v - self.bristle_stiffness * _speed(v) / self._level(v) * self.deflection

    def own_after(self, motion, v, step):
        kept, limit = self._over(motion, step)
        return clamped(kept + step * motion.with_velocity(v).speeds(self.joints), -limit, limit)

    def generalized_force(self, motion):
        bent = self.bristle_stiffness * self.deflection + self.bristle_damping * self.own_rate(motion)
        return motion.along(self.joints, -bent) + self.smooth_force(motion)

    def smooth_force(self, motion):
        return motion.along(self.joints, -self.viscous * motion.speeds(self.joints))

    def joint_resistance(self, motion):
        return motion.resistance_along(self.joints, self.viscous), jnp.zeros_like(motion.v)

    def joint_friction(self, motion, step):
        # σ₀ z⁺ + σ₁ (z⁺ - z)/h, with z⁺ from `own_after`.
        kept, limit = self._over(motion, step)
        damping = self.bristle_damping / step
        stiffness = self.bristle_stiffness + damping
        return JointFriction.along(
            motion, self.joints,
            stiffness * kept, stiffness * step, stiffness * limit, -damping * self.deflection,
        )  # fmt: skip

    def _level(self, v: Float[Array, "k"]) -> Float[Array, "k"]:
        """Returns g, the friction of steady sliding."""
        falling = jnp.exp(-((v / self.stribeck_velocity) ** 2))
        return self.coulomb + (self.static - self.coulomb) * falling

    def _over(self, motion, step) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
        """Returns the deflection that remains after slip in a step, and the maximum deflection at the end of the step.

        The bristles slip at the velocity at the start of the step. A deflection above that of steady sliding, as after g has
        decreased, decays to it at the same rate.
        """
        v = motion.speeds(self.joints)
        steady = self._level(v) / self.bristle_stiffness
        left = jnp.exp(-step * _speed(v) / steady)
        return self.deflection * left, steady + jnp.maximum(jnp.abs(self.deflection) - steady, 0) * left

    def stored_energy(self, motion):
        return 0.5 * dot(self.bristle_stiffness * self.deflection, self.deflection)

    def locked(self, joints):
        kept = np.array([joint not in joints for joint in self.joints])
        if not kept.any():
            return None
        fields = ("coulomb", "static", "stribeck_velocity", "bristle_stiffness", "bristle_damping", "viscous")
        left = {name: getattr(self, name)[kept] for name in (*fields, "deflection")}
        return self.changed(joints=tuple(np.array(self.joints)[kept].tolist()), **left)


def _speed(v: Float[Array, "k"]) -> Float[Array, "k"]:
    """Returns |v|; the derivative at rest is zero, the mean of both sides, since no direction is preferred."""
    return jnp.sign(v) * v
