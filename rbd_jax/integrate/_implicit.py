"""What implicit schemes share: the unknowns of a step, velocities first and the loops' multipliers after them."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._newton import solve
from ._system import State, System


def solve_motion(
    system: System,
    equations: Callable[[Float[Array, "n"], Float[Array, "rows"]], tuple[Array, Array]],
    guess: Float[Array, "n"],
) -> tuple[Float[Array, "n"], Int[Array, ""]]:
    """The velocities at which a step's equations of motion and its constraints hold, and a code.

    **Arguments**

    - `equations`: of the velocities and the multipliers, the two residuals.
    - `guess`: of the velocities; multipliers start at zero.
    """
    size = guess.size

    def residual(unknowns):
        return jnp.concatenate(equations(unknowns[:size], unknowns[size:]))

    unknowns, code, _ = solve(
        residual, jnp.concatenate([guess, jnp.zeros(system.constraint_rows, guess.dtype)])
    )
    return unknowns[:size], code


def implicit_stage(
    system: System,
    time: Float[Array, ""],
    state: State,
    displacement: Float[Array, "nv"],
    velocity: Float[Array, "nv"],
    span: Float[Array, ""],
) -> tuple[State, Float[Array, "nv"], Int[Array, ""]]:
    """The stage `ξ = displacement + span ξ̇`, `v = velocity + span v̇` at a time, in the chart `q ⊕ ξ` at the state's q.

    Euler's, the backward-differentiation and the diagonally implicit Runge–Kutta formulas are made of such stages.
    **Returns** the state, its ξ, and a code.
    """

    def placed(rate):
        step = displacement + span * rate
        return step, system.move(state.q, step), system.chart_velocity(state.q, step, rate)

    def equations(rate, multipliers):
        _, q, v = placed(rate)
        missing = system.residual(time, q, v, (v - velocity) / span)
        return (
            missing - system.constraint_force(time, q, multipliers),
            system.constraint_residual(time, q) / span,
        )

    rate, code = solve_motion(system, equations, state.v)
    step, q, v = placed(rate)
    return State(q, v), step, code
