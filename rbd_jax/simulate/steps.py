"""A single simulation step, and its derivatives on the tangent space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, SupportsIndex

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from .._core.arguments import whole_number
from .._core.array import blocks, matmul, products, transpose
from .._core.failures import first_failure, lost
from .._core.jit import compiled
from .._core.under_vmap import one_operation
from ..constraints import Stabilization
from ..dynamics import Motion
from ..dynamics.derivatives import newton_euler_derivatives
from ..dynamics.forward import forward_with_inverse
from ..forces.bearing import bearings_of
from ..model import Model, difference, integrate
from ..model.configuration import chart_velocity
from ._event import choose
from ._failures import broken, split
from ._resistance import found_under
from .begin import Begin, begun
from .control import Control, Controls
from .controls import control_of, refuse_delays
from .result import Result
from .scheme import Scheme
from .semi_implicit_euler import SemiImplicitEuler
from .state import State
from .systems import Simulated
from .tree_system import Acting, TreeSystem


def step(
    model: Simulated,
    state: State,
    tau: Controls | Float[Array, "nv"] | None = None,
    dt: float | Float[Array, ""] | None = None,
    scheme: Scheme | None = None,
    *,
    forces: Sequence[Acting] = (),
    time: float | Float[Array, ""] = 0.0,
    stabilization: Stabilization | Literal["auto"] | None = "auto",
    substeps: SupportsIndex = 1,
) -> State:
    """Returns the state after one step of length `dt` under the control `tau`; equal to a `rollout` of one step.

    A scheme with memory starts with its initial memory. A failed step returns NaN. Arguments not listed are those of `rollout`.

    Args:
      model: The model.
      state: The state at the start of the step.
      tau: A generalized force, or `rbd.Controls(u)` of the model's actuators.
      dt: Length of the step.
      scheme: The integration scheme.
      forces: Forces in addition to those that the model carries.
      time: The time of `state`, `t0` of `rollout`.
      stabilization: Stabilization of constraints.
      substeps: The number of equal parts into which the step is divided, all under the same control.

    >>> model = rbd.load("double_pendulum")
    >>> state = rbd.State(q=jnp.array([0.5, 1.0]), v=jnp.zeros(2))
    >>> after = rbd.step(model, state, tau=jnp.zeros(2), dt=0.01)
    >>> print(after.v)
    [-0.024 -0.061]
    """
    begin = begun("step", model, state, dt, time, scheme, forces, stabilization)
    substeps = whole_number("step", "substeps", substeps)
    refuse_delays("step", model, tau)
    return _compiled_step(begin, control_of("step", model, tau, begin.dt.dtype), substeps=substeps)


def step_derivatives(
    model: Simulated,
    state: State,
    tau: Controls | Float[Array, "nv"] | None = None,
    dt: float | Float[Array, ""] | None = None,
    scheme: Scheme | None = None,
    *,
    forces: Sequence[Acting] = (),
    time: float | Float[Array, ""] = 0.0,
    stabilization: Stabilization | Literal["auto"] | None = "auto",
) -> tuple[Float[Array, "nx nx"], Float[Array, "nx nu"]]:
    """Returns the linearization `A, B` of one step: `δx⁺ = A δx + B δtau` with `δx = (δq, δv)` on the tangent space.

    `δq` is the change in `integrate(model, q, δq)`, of length nv, also at the end of the step. Internal states of forces
    follow, so nx = 2 nv + own. For `rbd.Controls(u)`, B is the derivative by u instead of tau; if both are given, by u and
    then by tau.

    All forces are included. For `SemiImplicitEuler` on a tree, the matrices are assembled from analytic ones (see
    `forward_dynamics_derivatives`); for other schemes, the step is differentiated. The arguments are those of `step`.

    >>> model = rbd.load("double_pendulum")
    >>> state = rbd.State(q=jnp.array([0.5, 1.0]), v=jnp.zeros(2))
    >>> A, B = rbd.step_derivatives(model, state, tau=jnp.zeros(2), dt=0.01)
    >>> print(B[2:])  # of the velocities
    [[ 0.006 -0.009]
     [-0.009  0.024]]
    """
    begin = begun("step_derivatives", model, state, dt, time, scheme, forces, stabilization)
    refuse_delays("step_derivatives", model, tau)
    given = tau if isinstance(tau, Controls) else Controls(None, jnp.zeros(model.nv))
    by = given.u is not None, given.tau is not None
    return _compiled_derivatives(begin, control_of("step_derivatives", model, tau, begin.dt.dtype), by=by)


@compiled
@one_operation
def _compiled_step(begin: Begin, control: Control, *, substeps: int):
    return stepped(begin, begin.state, control, substeps)


@compiled
@one_operation
def _compiled_derivatives(begin: Begin, control: Control, *, by: tuple[bool, bool]):
    return linearized(begin, control, by)


def linearized(
    begin: Begin, control: Control, by: tuple[bool, bool]
) -> tuple[Float[Array, "nx nx"], Float[Array, "nx nu"]]:
    """Returns `A, B` of a step as `step_derivatives` does, `by` u, by tau, or by both."""
    system, scheme = begin.system, begin.scheme
    plain = isinstance(scheme, SemiImplicitEuler) and scheme.passive == "implicit"
    if plain and isinstance(system, TreeSystem) and _is_plain(system, begin.state):
        return _analytic(begin, replace(system, tau=control.tau, u=control.u), by)
    return _differentiated(begin, control, by)


def held(begin: Begin, state: State, control: Control, substeps: int = 1) -> tuple[State, Int[Array, ""]]:
    """Makes a step under constant control.

    Args:
      begin: The prepared rollout.
      state: The state at the start.
      control: The control.
      substeps: The number of equal parts of the step.

    Returns:
      The state at the end of the step, and the code of the first failed part.
    """
    system, scheme, dt = begin.system.prepared().with_control(control), begin.scheme, begin.dt / substeps

    def advance(carry, number):
        state, memory, code = carry
        time = begin.time + number.astype(dt.dtype) * dt
        new, memory, own = scheme.step(system.evaluate(time, state), memory, dt)
        new = system.settled(time + dt, new)
        code = first_failure(code, jnp.asarray(split(own)[0]), broken(new))
        if system.charted:
            chosen = system.reparametrized(new)
            if jax.tree.leaves(memory):  # the memory is in other coordinates
                anew = scheme.init(system, time + dt, chosen, dt)
                memory = choose(jnp.any(chosen.q != new.q), anew, memory)
            new = chosen
        return (new, memory, code.astype(jnp.int32)), None

    code = jnp.int32(0) if begin.fault is None else begin.fault
    carry = state, scheme.init(system, begin.time, state, dt), code
    if substeps == 1:
        new, _, code = advance(carry, jnp.int32(0))[0]
    else:
        new, _, code = lax.scan(advance, carry, jnp.arange(substeps, dtype=jnp.int32))[0]
    return new, code


def stepped(begin: Begin, state: State, control: Control, substeps: int = 1) -> State:
    """Returns the state after a step from `state` instead of the initial state of `begin`; NaN if the step failed."""
    new, code = held(begin, state, control, substeps)
    row = lost(jax.tree.map(lambda x: x[None], new), (code != Result.SUCCESS)[None])
    return jax.tree.map(lambda x: x[0], row)


def _differentiated(begin: Begin, control: Control, by: tuple[bool, bool]):
    """Linearizes a step by forward-mode differentiation."""
    system, start = begin.system, begin.state
    nv, end = control.tau.size, jax.lax.stop_gradient(stepped(begin, start, control))

    def moved(change, given):
        own = start.own if start.own is None else start.own + change[2 * nv :]
        state = State(system.move(start.q, change[:nv]), start.v + change[nv : 2 * nv], own)
        new = stepped(begin, state, _told(control, given, by))
        return jnp.concatenate([system.difference(end.q, new.q), new.v, new.internal])

    nothing = jnp.zeros(2 * nv + start.internal.size, begin.dt.dtype)
    return jax.jacfwd(moved, argnums=(0, 1))(nothing, _chosen(control, by))


def _chosen(control: Control, by: tuple[bool, bool]):
    """Returns the controls to differentiate by, as one vector."""
    return jnp.concatenate([x for x, one in zip((control.u, control.tau), by) if one])


def _told(control: Control, given, by: tuple[bool, bool]) -> Control:
    """Returns the control with the entries in `given` replaced."""
    first = control.u.size if by[0] else 0
    return Control(given[:first] if by[0] else control.u, given[first:] if by[1] else control.tau)


def _is_plain(system: TreeSystem, state: State) -> bool:
    """Returns whether a step consists only of the equations of motion of a tree."""
    if system.constraint_rows or state.internal.size or system.charted or system.searches:
        return False
    return not bearings_of(system.model)


def _analytic(begin: Begin, system: TreeSystem, by: tuple[bool, bool]):
    """Linearizes the step `(M + E) a = τ + f - C v - g`, `v⁺ = v + h a`, `q⁺ = q ⊕ h v⁺`; for E see `_resistance`."""
    q, v, h = begin.state.q, begin.state.v, begin.dt
    here = system.evaluate(begin.time, begin.state).prepared()
    motion, resistance = here.motion, here.resistance(h)
    (a, solve), sliding = found_under(_accelerated, motion, resistance.under(system.tau))
    _, added = resistance.acting(sliding)
    stiffer = motion.with_armature(motion.model.armature + added)

    by_q, by_v, _ = newton_euler_derivatives(stiffer, a)
    force_by_q, force_by_v = _resisting_derivatives(begin, system, sliding, a)
    unit, nothing = jnp.eye(v.size, dtype=v.dtype), jnp.zeros((v.size, v.size), v.dtype)
    inverse, moving = h * solve(unit), _moving(system.model, q, h * (v + h * a))
    if moving is None:
        alone, upper = blocks(unit, h * unit, nothing, unit), h * inverse
    else:
        carried, along = moving
        alone, upper = blocks(carried, h * along, nothing, unit), h * matmul(along, inverse)
    by_tau = jnp.concatenate([upper, inverse])
    # One product for both halves: with two products, the compiler would repeat computations.
    forces = jnp.concatenate([force_by_q - by_q, force_by_v - by_v], axis=1)
    by_state = alone + products(by_tau, transpose(forces))
    if not by[0]:
        return by_state, by_tau
    by_u = matmul(by_tau, _by_controls(begin, system, sliding, a))
    return by_state, jnp.concatenate([by_u, by_tau], axis=1) if by[1] else by_u


def _by_controls(begin: Begin, system: TreeSystem, sliding, a):
    """Returns the derivative of the forces at the start of the step, minus the resistance to `a`, by u."""
    start = begin.state

    def given(u):
        told = replace(system, u=u)
        force, added = told.evaluate(begin.time, start).resistance(begin.dt).acting(sliding)
        return force - added * a

    return jax.jacfwd(given)(system.control.u)


def _resisting_derivatives(begin: Begin, system: TreeSystem, sliding, a):
    """Returns the derivatives of the forces at the start of the step, minus the resistance to `a`, by q and v."""
    start = begin.state

    def given(change, v):
        state = State(system.move(start.q, change), v, start.own)
        force, added = system.evaluate(begin.time, state).resistance(begin.dt).acting(sliding)
        return force - added * a

    if system.elements or system.forces or not _flat(system.model):
        return jax.jacfwd(given, argnums=(0, 1))(jnp.zeros_like(start.v), start.v)
    # Only springs and dampers along single joints act; a damper holds sticking joints.
    held = jax.jvp(lambda v: given(jnp.zeros_like(v), v), (start.v,), (jnp.ones_like(start.v),))[1]
    return jnp.diag(-system.model.stiffness), jnp.diag(held)


def _flat(model: Model) -> bool:
    """Returns whether the configuration space is a vector space."""
    return all(joint.flat for joint in model.joints)


def _accelerated(motion: Motion, force, added):
    a, solve = forward_with_inverse(force, motion.with_armature(motion.model.armature + added), None)
    return (a, solve), a


def _moving(model: Model, q, step):
    """Returns the derivatives of `q ⊕ step` by q and by the step, on the tangent spaces; None if both are unit matrices."""
    if _flat(model):
        return None
    end = integrate(model, q, step)

    def carried(change):
        return difference(model, end, integrate(model, integrate(model, q, change), step))

    unit = jnp.eye(step.size, dtype=step.dtype)
    along = jax.vmap(lambda rate: chart_velocity(model, q, step, rate), out_axes=1)(unit)
    return jax.jacfwd(carried)(jnp.zeros_like(step)), along
