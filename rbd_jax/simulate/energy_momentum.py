"""An energy-momentum scheme for models in joint coordinates.

With the momentum `p = M v` and `H = ½ pᵀ M(q)⁻¹ p + V(q)` the motion is `q̇ = ∂H/∂p`, `ṗ = ad*_v p - ∂H/∂q + τ`. A step follows
the straight path `q_s = q ⊕ s ξ`, `p_s = p + s (p⁺ - p)`, 0 ≤ s ≤ 1, and uses averages over it, the average vector field
(Gebhardt & Romero 2020 eqs. 86 to 90 are the case of one body in directors):

    ξ = h ∫ M(q_s)⁻¹ p_s ds,    p⁺ = Ad*_{ξ/2} (Ad*_{ξ/2} p - h ∫ (∂H/∂q - τ)(q_s, p_s) ds).

Since `Ad_ξ ξ = ξ`, the change of H along the path, `ξ · ∫ ∂H/∂q ds + (p⁺ - p) · ξ/h`, is the work `ξ · ∫ τ ds` of the
forces, and nothing else. And where H does not depend on the pose of a base, the base's momentum is only carried along by
Ad*, which keeps the total momentum in space.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ._implicit import solve_motion
from .scheme import Scheme
from .state import State


#: Points of the Gauss–Legendre rule for the averages: exact to round-off for turns of up to a tenth of a radian in a step, and
#: off by some 1e-11 of the energy at half a radian.
POINTS = 6

#: Points for the slopes of Newton's method, which only have to be near: a step takes 0.6 of the time.
SLOPE_POINTS = 2


class EnergyMomentum(Scheme):
    """Second order, symmetric. Energy is kept to round-off, and the total momentum of a system on a `Free` joint in free flight.

    Of a body on a fixed joint, as a top on its pivot, the momentum about an axis of symmetry (the vertical) is kept to second
    order only; `Rattle` and `VariationalMidpoint` keep it to round-off.

    Constraints are closed in positions at the end of the step; those that hold velocities alone are held by their mean over the
    path, and for that the energy is exact, too. At either end such a velocity is off by the order of h².

    Springs, the user's forces, damping and controls enter by their mean over the path, so the energy of conservative ones is kept
    too. Joints that move by themselves do work of their own: such a model has no energy to keep, and is refused.

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
                f"EnergyMomentum: model {system.name!r} has joints that move by themselves, so its energy is not "
                "conserved; take ImplicitMidpoint or VariationalMidpoint"
            )
        return ()

    def step(self, here, memory, dt):
        system, time, state = here.system, here.time, here.state
        size, middle, held = state.v.size, time + dt / 2, system.holonomic.all()
        before = here.momentum()

        def at_point(place, mean, after, own, multipliers):
            """At one point of the path: the velocity of the momentum, the force, and the rate of the forces' own states."""
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
            # The equation of p⁺ times `dexp_{ξ/2}ᵀ`, which leaves no inverse: `Ad_{ξ/2} dexp_{-ξ/2}` is
            # `2 dexp_{-ξ} - dexp_{-ξ/2}`, by the chain rule of two half steps.
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
