"""What implicit schemes share: the unknowns of a step, velocities first and the loops' multipliers after them."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._newton import solve, solve_redundant
from ._system import State, System


def solve_motion(
    system: System,
    equations: Callable[[Float[Array, "n"], Float[Array, "rows"]], tuple[Array, Array]],
    guess: Float[Array, "n"],
    rows: int | None = None,
    near: Callable[[Float[Array, "n"], Float[Array, "rows"]], tuple[Array, Array]] | None = None,
) -> tuple[Float[Array, "n"], Float[Array, "rows"], Int[Array, ""]]:
    """The velocities at which a step's equations of motion and its constraints hold, the multipliers, and a code.

    **Arguments**

    - `equations`: of the velocities and the multipliers, the two residuals.
    - `guess`: of the velocities; multipliers start at zero.
    - `rows`: the number of multipliers; by default one for each row of the constraints.
    - `near`: equations with nearly the same slopes, cheaper to evaluate.
    """
    size, rows = guess.size, system.constraint_rows if rows is None else rows

    def joined(parts):
        return lambda unknowns: jnp.concatenate(parts(unknowns[:size], unknowns[size:]))

    start = jnp.concatenate([guess, jnp.zeros(rows, guess.dtype)])
    # Loops are redundant as a rule: their multipliers are not determined, and the rest is.
    linear = solve_redundant if rows else jnp.linalg.solve
    sloped = None if near is None else joined(near)
    unknowns, code, _ = solve(joined(equations), start, linear_solve=linear, near=sloped)
    return unknowns[:size], unknowns[size:], code


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

    rate, _, code = solve_motion(system, equations, state.v)
    step, q, v = placed(rate)
    return State(q, v), step, code
