"""The linearly implicit Euler scheme."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp

from .._core.array import blocks, matmul, matvec, transpose, vecmat
from ..optimize.newton import solve_redundant
from ._resistance import Resistance, resisted
from .scheme import SUCCESS, Scheme
from .state import State
from .step_data import StepData


class LinearlyImplicitEuler(Scheme):
    """The scheme `(M + h D - h² K) v⁺ = M v + h (f + D v)`, `q⁺ = q ⊕ h v⁺`: first order (Sueda eqs. 1.30, 2.79).

    A step solves one linear system. `K = ∂f/∂q` and `D = -∂f/∂v` include the passive forces of joints and the given forces.
    Stiff springs and dampers are therefore stable at any step, and so are the internal states of forces. Dry friction is not
    linearized. It follows its own model, under which a joint sticks: Coulomb's law, or bristles
    (`rbd.forces.BristleFriction`). Gravity and velocity products take their values at the start of the step.

    Loops are stabilized at velocity level, `ġ = -γ g` (eq. 1.81), with the gain γ = `baumgarte`; by default 1/h, which
    closes them to first order at the end of the step.

    `prescribed` names kinematically driven joints: hybrid dynamics at velocity level (eq. 2.107). Their entries of the controls
    are the velocities at the end of the step, not forces.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.LinearlyImplicitEuler())
    >>> print(path.q[-1])
    [-0.5]
    """

    closes_loops = True
    stiff = True

    baumgarte: float | None = eqx.field(static=True, default=None)
    prescribed: tuple[str, ...] = eqx.field(static=True, default=())

    def step(self, here, memory, dt):
        system, q, v, own = here.system, here.q, here.v, here.state.internal
        nothing = jnp.zeros_like(v)

        def acting(step, v, own):
            moved = system.evaluate(here.time, State(system.move(q, step), v, own))
            return moved.force(friction=False), moved.own_rate()

        (stiffness, by_v), (rate_by_q, rate_by_v) = jax.jacfwd(acting, (0, 1))(nothing, v, own)
        inertia, rate = here.mass_matrix(), here.own_rate()
        left = inertia - dt * by_v - dt**2 * stiffness
        missing = here.residual(nothing, friction=False)
        right = matvec(inertia, v) - dt * (matvec(by_v, v) + missing)
        along = dt * rate_by_q + rate_by_v
        if own.size:
            # Internal states of forces are `z⁺ = z + follow (ż + along v⁺ - ∂ż/∂v v)`, implicit in z too.
            by_own, rate_by_own = jax.jacfwd(acting, 2)(nothing, v, own)
            unit = jnp.eye(own.size, dtype=own.dtype)
            follow = dt * jnp.linalg.inv(unit - dt * rate_by_own)
            felt = dt * matmul(by_own, follow)
            left = left - matmul(felt, along)
            right = right + matvec(felt, rate - matvec(rate_by_v, v))
        closing, wanted = self._closing(here, dt)
        friction, joints = here.friction(dt)
        speeds = matvec(joints, v)
        none = jnp.zeros_like(speeds)
        resistance = Resistance(speeds, none, none, none, friction, dt)
        end = resisted(
            _closed if system.constraint_rows else _led,
            (left, right, closing, wanted, joints, v, dt),
            resistance,
        )
        if own.size:
            own = own + matvec(follow, rate + matvec(along, end) - matvec(rate_by_v, v))
            if (held := system.frictional_own).any():
                own = jnp.where(held, here.own_after(end, dt), own)
        return State(system.move(q, dt * end), end, own), memory, SUCCESS

    def _closing(self, here: StepData, dt):
        """Returns the linear equations for the velocity at the end of the step: of prescribed joints, and of loops."""
        system, nothing = here.system, jnp.zeros_like(here.v)
        led = system.dof(self.prescribed)
        rows = jnp.eye(nothing.size, dtype=nothing.dtype)[led]
        if not system.constraint_rows:
            return rows, system.tau[led]
        gain = 1 / dt if self.baumgarte is None else jnp.asarray(self.baumgarte, nothing.dtype)
        drift = gain * here.constraint_residual() + here.with_velocity(nothing).constraint_velocity()
        # The multipliers of prescribed joints cancel the contribution of their controls to the force.
        rows = jnp.concatenate([here.constraint_jacobian(), rows])
        return rows, jnp.concatenate([-drift, system.tau[led]])


def _end(known, force, armature, solve):
    """Returns the velocity at the end with added force and inertia along the joints, and the accelerations of the joints."""
    left, right, closing, wanted, joints, v, dt = known
    more = matmul(transpose(joints), armature[:, None] * joints)
    left, right = left + more, right + matvec(more, v) + dt * vecmat(force, joints)
    if len(closing):
        corner = jnp.zeros((len(closing), len(closing)), v.dtype)
        left, right = blocks(left, transpose(closing), closing, corner), jnp.concatenate([right, wanted])
    end = solve(left, right)[: v.size]
    return end, matvec(joints, (end - v) / dt)


#: Loop constraints are usually redundant: their multipliers are not unique, but the velocity is.
_closed = functools.partial(_end, solve=solve_redundant)
_led = functools.partial(_end, solve=jnp.linalg.solve)
