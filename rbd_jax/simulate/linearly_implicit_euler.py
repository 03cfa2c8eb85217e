"""The linearly implicit Euler scheme."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._array import blocks, matmul, matvec, transpose
from .._newton import solve_redundant
from .scheme import SUCCESS, Scheme
from .state import State


class LinearlyImplicitEuler(Scheme):
    """`(M + h D - h² K) v⁺ = M v + h (f + D v)`, `q⁺ = q ⊕ h v⁺`: first order, one linear system (Sueda eqs. 1.30, 2.79).

    `K = ∂f/∂q` and `D = -∂f/∂v` are of the joints' own forces and the given ones, so stiff springs and dampers are stable
    at any step. Gravity and velocity products enter at the start of the step. Loops are stabilized on the level of
    velocities, `ġ = -γ g` (eq. 1.81), with the gain γ = `baumgarte`; by default 1/h, which closes them to first order at the
    end of the step.

    `prescribed` names joints that are led and not driven: hybrid dynamics on the level of velocities (eq. 2.107). Their
    entries of the controls are not forces but the velocities that they shall have at the end of the step.
    """

    closes_loops = True

    baumgarte: float | None = eqx.field(static=True, default=None)
    prescribed: tuple[str, ...] = eqx.field(static=True, default=())

    def step(self, system, time, state, memory, dt):
        q, v, own = state.q, state.v, state.internal
        nothing = jnp.zeros_like(v)

        def acting(step, v, own):
            now = State(system.move(q, step), v, own)
            return system.force(time, now), system.own_rate(time, now)

        (stiffness, by_v), (rate_by_q, rate_by_v) = jax.jacfwd(acting, (0, 1))(nothing, v, own)
        inertia, rate = system.mass_matrix(time, q), system.own_rate(time, state)
        left = inertia - dt * by_v - dt**2 * stiffness
        right = matvec(inertia, v) - dt * (matvec(by_v, v) + system.residual(time, state, nothing))
        along = dt * rate_by_q + rate_by_v
        if own.size:
            # The forces' own states follow as `z⁺ = z + follow (ż + along v⁺ - ∂ż/∂v v)`, implicit in z too.
            by_own, rate_by_own = jax.jacfwd(acting, 2)(nothing, v, own)
            unit = jnp.eye(own.size, dtype=own.dtype)
            follow = dt * jnp.linalg.inv(unit - dt * rate_by_own)
            felt = dt * matmul(by_own, follow)
            left = left - matmul(felt, along)
            right = right + matvec(felt, rate - matvec(rate_by_v, v))
        if system.constraint_rows or self.prescribed:
            led = system.dof(self.prescribed)
            rows = jnp.concatenate([system.constraint_jacobian(time, q), jnp.eye(v.size, dtype=v.dtype)[led]])
            gain = 1 / dt if self.baumgarte is None else jnp.asarray(self.baumgarte, v.dtype)
            drift = gain * system.constraint_residual(time, q) + system.constraint_velocity(time, q, nothing)
            # What the controls of led joints add to the force, their multipliers take away.
            wanted = jnp.concatenate([-drift, system.tau[led]])
            left = blocks(left, transpose(rows), rows, jnp.zeros((len(rows), len(rows)), v.dtype))
            right = jnp.concatenate([right, wanted])
        # Loops are redundant as a rule: their multipliers are not determined, and the velocity is.
        solve = solve_redundant if system.constraint_rows else jnp.linalg.solve
        end = solve(left, right)[: v.size]
        if own.size:
            own = own + matvec(follow, rate + matvec(along, end) - matvec(rate_by_v, v))
        return State(system.move(q, dt * end), end, own), memory, SUCCESS
