"""Constraint stabilization for simulations: constraints hold for accelerations and drift under integration (book §8.3)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import number
from ..dynamics import Motion
from ..model import Model
from .consistency import projected
from .evaluate import rate_of, residual_of


class Stabilization(eqx.Module):
    """A stabilization method. The defaults of its methods change nothing.

    >>> print(isinstance(rbd.constraints.Baumgarte(5.0, 5.0), rbd.constraints.Stabilization))
    True
    """

    def second_rate(self, motion: Motion) -> Float[Array, "m"] | None:
        """Returns the second rate that the residual receives instead of zero; None for zero."""
        return None

    def settled(
        self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
    ) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """Returns the state to continue with after a step that ended in this state."""
        return q, v


class Baumgarte(Stabilization):
    """Makes the residual g follow `g̈ + 2 α ġ + β² g = 0` (book eq. 8.22; Sueda eq. 1.82).

    For constraints on velocities alone, the vanishing expression w follows `ẇ + 2 α w = 0`.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> model, start = rbd.add_constraints(rbd.load("double_pendulum"), coupling), rbd.State(jnp.array([0.5, 0.5]), jnp.zeros(2))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=50, stabilization=rbd.constraints.Baumgarte(10.0, 10.0))
    >>> print(rbd.constraint_residual(model, path.q[-1]))
    [0.]
    """

    alpha: Float[Array, ""]
    beta: Float[Array, ""]

    def __init__(self, alpha, beta):
        self.alpha = number("Baumgarte", "alpha", alpha)
        self.beta = number("Baumgarte", "beta", beta)

    @staticmethod
    def within(time) -> Baumgarte:
        """Returns critically damped stabilization with time constant `time`: `α = β = 1 / time`. 0.1 s suits a large robot."""
        return Baumgarte(1 / jnp.asarray(time), 1 / jnp.asarray(time))

    def second_rate(self, motion):
        alpha, beta = (x.astype(motion.q.dtype) for x in (self.alpha, self.beta))
        return -2 * alpha * rate_of(motion) - beta**2 * residual_of(motion)


class Projection(Stabilization):
    """Projects the state onto the constraints after every step, in positions and in velocities, as `project` does.

    Unlike `project` it assumes that the state is near: it takes two steps of Newton's method, which remove a drift of 1e-4.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> model, start = rbd.add_constraints(rbd.load("double_pendulum"), coupling), rbd.State(jnp.array([0.5, 0.5]), jnp.zeros(2))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=50, stabilization=rbd.constraints.Projection())
    >>> print(rbd.constraint_residual(model, path.q[-1]))
    [0.]
    """

    def settled(self, model, q, v):
        return projected(model, q, v, steps=2)
