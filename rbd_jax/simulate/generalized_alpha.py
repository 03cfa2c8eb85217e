"""The generalized-α scheme on the manifold (Brüls, Cardona & Arnold 2012)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from ._implicit import solve_motion
from .scheme import Scheme
from .state import State


class GeneralizedAlpha(Scheme):
    """Newmark's formulas with an auxiliary acceleration a: second order, with adjustable damping of high frequencies.

        q⁺ = q ⊕ h (v + (1/2 - β) h a + β h a⁺),    v⁺ = v + h ((1 - γ) a + γ a⁺),
        (1 - α_m) a⁺ + α_m a = (1 - α_f) v̇⁺ + α_f v̇,

    where v̇ satisfies the equations of motion; internal states of forces are treated like v. `rho_infinity`, from 0
    to 1, is the amplitude factor per step of an infinite frequency; it determines
    `α_m = (2ρ - 1)/(ρ + 1)`, `α_f = ρ/(ρ + 1)`, `γ = 1/2 + α_f - α_m` and `β = (γ + 1/2)²/4`.

    Constraints are closed in positions (index 3). With `stabilized` they are also closed in velocities (index 2, after Gear,
    Gupta & Leimkuhler 1985 and Arnold & Brüls 2007): the term `h M⁻¹ Gᵀ η` with additional multipliers η is added to the
    displacement of q.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.GeneralizedAlpha(rho_infinity=0.8))
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    rho_infinity: float = eqx.field(static=True, default=0.9)
    stabilized: bool = eqx.field(static=True, default=False)

    fallible = True
    closes_loops = True
    stiff = True

    def __check_init__(self):
        if not 0 <= self.rho_infinity <= 1:
            raise ValueError(
                f"GeneralizedAlpha: rho_infinity must be from 0 (most damping) to 1 (none), got {self.rho_infinity}"
            )

    def init(self, system, time, state, dt):
        rates = system.evaluate(time, state).accelerated()[:2]
        return rates, rates

    def step(self, here, memory, dt):
        system, time, state = here.system, here.time, here.state
        true, own = memory
        rho = self.rho_infinity
        alpha_m, alpha_f = (2 * rho - 1) / (rho + 1), rho / (rho + 1)
        gamma = 0.5 + alpha_f - alpha_m
        beta = (gamma + 0.5) ** 2 / 4

        def rates(x, end, true, own):
            """Returns both rates at the end of the step, for the values x at the start and `end` at the end."""
            next_own = ((end - x) / dt - (1 - gamma) * own) / gamma
            return ((1 - alpha_m) * next_own + alpha_m * own - alpha_f * true) / (1 - alpha_f), next_own

        def advanced(v, z, shift):
            """Returns the configuration and the rates at the end, for velocity v and internal states z there."""
            next_true, next_own = rates(state.v, v, true[0], own[0])
            rate_true, rate_own = rates(state.internal, z, true[1], own[1])
            step = dt * state.v + dt**2 * ((0.5 - beta) * own[0] + beta * next_own)
            if shift.size:
                step = step + dt * here.solve_mass_matrix(here.constraint_force(shift))
            return system.move(state.q, step), (next_true, rate_true), (next_own, rate_own)

        end, rows = time + dt, system.constraint_rows

        def equations(v, z, multipliers):
            forces, shift = multipliers[:rows], multipliers[rows:]
            q, (acceleration, rate), _ = advanced(v, z, shift)
            there = system.evaluate(end, State(q, v, z)).prepared()
            missing = there.residual(acceleration) - there.constraint_force(forces)
            open_by = there.constraint_gap(dt, there.constraint_velocity)
            if self.stabilized:  # the forces already satisfy constraints on velocities alone
                slip = there.constraint_velocity()
                open_by = jnp.concatenate([open_by, jnp.where(system.holonomic, slip, shift)])
            return missing, dt * (rate - there.own_rate()), open_by

        unknowns = rows * (1 + self.stabilized)
        (v, z, multipliers), code = solve_motion(equations, (state.v, state.internal), unknowns)
        q, *memory = advanced(v, z, multipliers[rows:])
        return State(q, v, z), tuple(memory), code
