"""An energy-momentum scheme for models in joint coordinates.

With the momentum `p = M v` and `H = ½ pᵀ M(q)⁻¹ p + V(q)` the motion is `q̇ = ∂H/∂p`, `ṗ = ad*_v p - ∂H/∂q + τ`. A step follows
the straight path `q_s = q ⊕ s ξ`, `p_s = p + s (p⁺ - p)`, 0 ≤ s ≤ 1, and uses averages over it, the average vector field
(Gebhardt & Romero 2020 eqs. 86 to 90 treat one body in directors):

    ξ = h ∫ M(q_s)⁻¹ p_s ds,    p⁺ = Ad*_{ξ/2} (Ad*_{ξ/2} p - h ∫ (∂H/∂q - τ)(q_s, p_s) ds).

Since `Ad_ξ ξ = ξ`, the change of H along the path, `ξ · ∫ ∂H/∂q ds + (p⁺ - p) · ξ/h`, is exactly the work `ξ · ∫ τ ds` of the
forces. If H does not depend on the pose of a base, Ad* only transports the momentum of the base, which conserves the total
momentum in space.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ._implicit import solve_motion
from .scheme import Scheme
from .state import State


#: Points of the Gauss–Legendre rule for the averages. It is exact to round-off for rotations of up to 0.1 rad per step; the
#: relative energy error is about 1e-11 at 0.5 rad.
POINTS = 6

#: Points for the Jacobian of Newton's method, which may be approximate; this reduces the time of a step to 60 %.
SLOPE_POINTS = 2


class EnergyMomentum(Scheme):
    """Second order, symmetric; conserves energy to round-off.

    It also conserves the total momentum of a system on a `Free` joint in free flight. For a body on a fixed joint, such as a
    top on its pivot, the momentum about an axis of symmetry (the vertical) is conserved to second order only; `Rattle` and
    `VariationalMidpoint` conserve it to round-off.

    Constraints are closed in positions at the end of the step. Constraints on velocities alone hold for their mean over the
    path, so the energy is exact for them too; at either end the error of the constrained velocity is of order h².

    Springs, user forces, damping and controls enter by their mean over the path, so the scheme also conserves the energy of
    conservative forces. Prescribed joints do work, so such a model does not conserve energy, and the scheme raises an error.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.EnergyMomentum())
    >>> energy = jax.vmap(lambda q, v: rbd.mechanical_energy(model, q, v))(path.q, path.v)
    >>> print(path.q[-1], jnp.ptp(energy) < 1e-9)
    [-0.499] True
    """

    fallible = True
    closes_loops = True

    def init(self, system, time, state, dt):
        if system.rheonomic:
            raise ValueError(
                f"EnergyMomentum: model {system.name!r} has prescribed joints, so its energy is not "
                "conserved; use ImplicitMidpoint or VariationalMidpoint"
            )
        return ()

    def step(self, here, memory, dt):
        system, time, state = here.system, here.time, here.state
        size, middle, held = state.v.size, time + dt / 2, system.holonomic.all()
        before = here.momentum()

        def at_point(place, mean, after, own, multipliers):
            """Returns velocity, force, rate of internal states, and constraint velocity at one point of the path."""
            reached = State(
                system.move(state.q, place * dt * mean), mean, state.internal + place * (own - state.internal)
            )
            there = system.evaluate(middle, reached).prepared()
            v = there.solve_mass_matrix(before + place * (after - before))
            force = there.with_velocity(v).lagrangian_gradients()[0] + there.force()
            slip = () if held else there.constraint_velocity()
            return v, force + there.constraint_force(multipliers), there.own_rate(), slip

        def equations(velocities, own, multipliers, points=POINTS):
            places, weights = (jnp.asarray(x, state.v.dtype) for x in np.polynomial.legendre.leggauss(points))
            places, weights = (places + 1) / 2, weights[:, None] / 2
            mean, last = velocities[:size], velocities[size:]
            half, end = dt / 2 * mean, system.move(state.q, dt * mean)
            ended = system.evaluate(time + dt, State(end, last, own))
            after = ended.momentum()
            on_path = jax.vmap(at_point, in_axes=(0, None, None, None, None))
            averaged = on_path(places, mean, after, own, multipliers)
            velocity, force, rate, slip = jax.tree.map(lambda x: jnp.sum(weights * x, axis=0), averaged)
            # The equation of p⁺ is multiplied by `dexp_{ξ/2}ᵀ`, which removes the inverse: `Ad_{ξ/2} dexp_{-ξ/2}` equals
            # `2 dexp_{-ξ} - dexp_{-ξ/2}`, by the chain rule for two half steps.
            center = system.move(state.q, half)
            points = jnp.stack([center, end, center]), jnp.stack([half, -2 * half, -half])
            momenta = jnp.stack([after, 2 * before, dt * force - before])
            last, first, pushed = jax.vmap(system.chart_velocity_transposed)(*points, momenta)
            missing = (last - first - pushed) / dt
            closed = ended.constraint_gap(dt, lambda: slip)
            return jnp.concatenate([mean - velocity, missing]), own - state.internal - dt * rate, closed

        guess = jnp.concatenate([state.v, state.v])
        near = functools.partial(equations, points=SLOPE_POINTS)
        (velocities, own, _), code = solve_motion(
            equations, (guess, state.internal), system.constraint_rows, near
        )
        return State(system.move(state.q, dt * velocities[:size]), velocities[size:], own), memory, code
