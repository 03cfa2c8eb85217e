"""States that satisfy the constraints: checking, projecting, and finding them from an initial guess."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.arguments import a_model, configuration, joint_names, positive, takes, velocity
from .._core.array import gather, identity_like, is_known, matmul, matvec, transpose, vecmat
from .._core.deprecation import deprecated
from .._core.derivatives import custom_jvp
from .._core.jit import compiled
from .._core.text import can_be_shown, numbers
from .._core.versions import NOTHING_TRACED, get_opaque_trace_state
from ..dynamics import Motion
from ..dynamics.forward import solve_inertia
from ..dynamics.inverse import inertia_product
from ..model import Model, difference, integrate
from ..optimize.implicit import remembered
from ._factors import pseudo_inverse
from .evaluate import constraint_rows, holonomic, matrix_of, rate_of, residual_of, with_constraints
from .solving import factorize, solve_system


#: Number of Newton steps of `project`, and maximum number for `assemble`.
PROJECTION_STEPS = 10
ASSEMBLY_STEPS = 100


@takes(compile=False, planar=True, q=configuration, v=velocity, tolerance=positive)
def check_consistent(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], tolerance: float | None = None
) -> None:
    """Raises an error if a state violates the model's constraints by more than `tolerance`.

    The message names the constraint, the amount, and the remedy. A state that is traced under `jit` cannot be checked and
    passes.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tolerance: In m or rad, and the same per second. The default is 1e-6 in double precision and 1e-3 in single.

    Raises:
      ValueError: The state violates a constraint.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> rbd.check_consistent(model, q=jnp.array([0.5, -1.0]), v=jnp.array([1.0, -2.0]))  # it is
    """
    if not model.constraints or not is_known((model, q, v)):
        return
    allowed = float(jnp.finfo(q.dtype).eps) ** 0.4 if tolerance is None else tolerance
    faults = []
    # A state that a function under `jit` closes over is known as well.
    plain = get_opaque_trace_state() == NOTHING_TRACED
    with nullcontext() if plain else jax.ensure_compile_time_eval():
        broken = dict(zip(("position", "velocity"), _broken(model, q, v)))
    for constraint, rows in zip(model.constraints, constraint_rows(model), strict=True):
        for what, by in broken.items():
            worst = float(np.max(np.abs(np.asarray(by)[rows]), initial=0))
            if not worst <= allowed:
                faults.append(f"{constraint.label} in {what} by {worst:.3g}")
    if faults:
        raise ValueError(
            f"the state of model {model.name!r} breaks its constraints: {'; '.join(faults[:6])}"
            f"{'; ...' if len(faults) > 6 else ''}. Make it consistent with rbd.project(model, state), or find a "
            "configuration from a rough guess with rbd.assemble(model, q)"
        )


@jax.jit
def _broken(model, q, v):
    motion = with_constraints(Motion(model, q, v))
    return residual_of(motion), rate_of(motion)


def project(model: Model, state: Any, v: Float[Array, "nv"] | None = None) -> Any:
    """Returns the state moved onto the constraints, in the metric of the mass matrix.

    It computes `q ⊕ M⁻¹ Gᵀ μ` with M and G of the given q, and the μ that closes the constraints, by Newton's method. The
    state must be near the constraints; otherwise call `assemble` first. Then it computes `v + M⁻¹ Gᵀ ν` with M and G of the
    new q: the velocity after the impulse that makes the constraints hold. Derivatives are those of these equations.
    Constraints on velocities alone take part only in the second half.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.project(model, rbd.State(jnp.array([0.5, -1.1]), jnp.array([1.0, 0.0]))))
    State(q=[0.5287 -1.057], v=[0.4951 -0.9903])

    Args:
      model: The model, with constraints.
      state: A `rbd.State`. The deprecated form `project(model, q, v)` returns the pair `(q, v)`.
    Returns:
      The state with the new `q` and `v`; internal states of forces are unchanged.
    """
    a_model("project", model)
    old = v is not None
    if old:
        deprecated("project(model, q, v)", "project(model, rbd.State(q, v))", removed_in="0.3")
        q = state
    elif hasattr(state, "q") and hasattr(state, "v"):
        q, v = state.q, state.v
    else:
        raise TypeError(f"project: state must be a State, got a {type(state).__name__}. Pass rbd.State(q, v)")
    q, v = configuration("project", model, "q", q), velocity("project", model, "v", v)
    q, v = _project(model, q, v)
    return (q, v) if old else replace(state, q=q, v=v)


@compiled
def _project(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]):
    return projected(model, q, v, PROJECTION_STEPS)


def projected(model: Model, q, v, steps: int):
    """Returns the state projected onto the constraints by `steps` steps of Newton's method."""
    return _projected(steps, model, q, v)[:2] if model.constraints else (q, v)


@partial(custom_jvp, nondiff_argnums=(0,))
def _projected(steps: int, model: Model, q, v):
    """Returns the projected state and μ. One loop, so that the kinematics are traced once for all steps."""
    placing = np.flatnonzero(holonomic(model))

    def visit(step, carry):
        here, velocity, mu, directions = carry
        motion = with_constraints(Motion(model, here).computed("inertias"), "matrix")
        residual, jacobian = gather(residual_of(motion), placing), gather(matrix_of(motion).matrix, placing)

        def first():
            return solve_inertia(motion, transpose(jacobian))

        def closer():
            # The slope, without the change of directions along the manifold.
            better = mu - matvec(pseudo_inverse(matmul(jacobian, directions)), residual)
            return integrate(model, q, matvec(directions, better)), velocity, better

        def last():
            return here, nearest_velocity(motion, v), mu

        directions = lax.cond(step == 0, first, lambda: directions)
        here, velocity, mu = lax.cond(step < steps, closer, last)
        return here, velocity, mu, directions

    rows = len(placing)
    start = q, v, jnp.zeros(rows, q.dtype), jnp.zeros((model.nv, rows), q.dtype)
    return lax.fori_loop(0, steps + 1, visit, start)[:3]


@_projected.defjvp
def _projected_rule(steps: int, primals, tangents):
    end, velocity, mu = _projected(steps, *primals)
    mu, placing = lax.stop_gradient(mu), np.flatnonzero(holonomic(primals[0]))

    def again(model, q, v):
        motion = Motion(model, q)
        directions = solve_inertia(motion, transpose(gather(matrix_of(motion).matrix, placing)))

        def off(mu):
            return gather(residual_of(Motion(model, integrate(model, q, matvec(directions, mu)))), placing)

        found = mu
        for _ in range(2):  # differentiated steps: their starting point does not affect the derivative
            found = found - matvec(pseudo_inverse(jax.jacfwd(off)(found)), off(found))
        end = integrate(model, q, matvec(directions, found))
        return end, nearest_velocity(Motion(model, end), v)

    changes = jax.jvp(again, primals, tangents)[1]
    return (end, velocity, mu), (*changes, jnp.zeros_like(mu))


@takes(q=configuration, v=velocity, hold=joint_names)
def project_velocity(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], hold: Sequence[str] = ()
) -> Float[Array, "nv"]:
    """Returns the velocity nearest to `v`, in the metric of the mass matrix, that satisfies the constraints.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.project_velocity(model, jnp.array([0.5, -1.0]), jnp.array([1.0, 0.0])))
    [ 0.52  -1.041]
    >>> print(rbd.project_velocity(model, jnp.array([0.5, -1.0]), jnp.array([1.0, 0.0]), hold=["shoulder"]))
    [ 1. -2.]

    Args:
      model: The model, with constraints.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      hold: Joints whose velocity does not change, such as a crank with a prescribed speed. If the constraints contradict
        these velocities, the other joints satisfy them as well as they can.
    """
    return nearest_velocity(Motion(model, q), v, held_entries(model, hold))


def held_entries(model: Model, hold: Sequence[str]) -> np.ndarray:
    """Returns the entries of `v` that belong to joints, in increasing order."""
    entries = [np.arange(model.nv)[model.v_slice(joint)] for joint in hold or ()]
    return np.unique(np.concatenate([np.zeros(0, int), *entries]))


def nearest_velocity(
    motion: Motion, v: Float[Array, "nv"], held: np.ndarray | None = None
) -> Float[Array, "nv"]:
    """Returns `project_velocity` of a model in motion, for any velocity of the motion; `held` are fixed entries of v."""
    if not motion.model.constraints:
        return v
    motion = with_constraints(motion, "matrix")
    if held is not None and len(held):
        jacobian, units = matrix_of(motion).matrix, gather(jnp.eye(len(v), dtype=v.dtype), held)
        moves, pushed = (solve_inertia(motion, transpose(rows)) for rows in (jacobian, units))
        # Forces along the held joints keep the velocity of these joints.
        moves = moves - matmul(pushed, jnp.linalg.solve(gather(pushed, held), gather(moves, held)))
        return v - matvec(
            moves, matvec(pseudo_inverse(matmul(jacobian, moves)), rate_of(motion.with_velocity(v)))
        )
    still = motion.with_velocity(jnp.zeros_like(v))
    return solve_system((inertia_product(still, v), -rate_of(still), None), factorize(still), still).a


class Assembly(eqx.Module):
    """The configuration, its largest residual, and whether the residual is within the tolerance.

    >>> rod = rbd.constraints.Distance("world", (0.5, 0.0, 0.0), "lower", (0.0, 0.0, -1.0), length=1.5)
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), rod)
    >>> found = rbd.assemble(model, jnp.array([0.1, 0.5]))
    >>> print(found.closed, found.residual < 1e-9)
    True True
    """

    q: Float[Array, "*batch nq"]
    residual: Float[Array, "*batch"]
    closed: Bool[Array, "*batch"]

    def __repr__(self) -> str:
        if not can_be_shown(self):
            return super().__repr__()
        closed = np.asarray(self.closed)
        which = (
            f"{closed.sum()} of {closed.size} closed" if closed.ndim else "closed" if closed else "not closed"
        )
        worst = np.max(self.residual, initial=0)
        return f"Assembly: {which}, open by {worst:.2g} at most, q={numbers(self.q)}"


@takes(q=configuration, hold=joint_names, tolerance=positive)
def assemble(
    model: Model, q: Float[Array, "nq"], hold: Sequence[str] = (), tolerance: float | None = None
) -> Assembly:
    """Returns a configuration that satisfies the constraints, from an initial guess that may be rough.

    It uses damped Gauss–Newton steps (Levenberg and Marquardt) with equal weight on all degrees of freedom. If the mechanism
    cannot be closed from the guess, it returns the nearest configuration reached, with `closed` false.

    Derivatives by the model's parameters and by the held joints are those of the equations (zero in the directions
    that the equations leave undetermined). Derivatives by the rest of the guess are zero.

    Args:
      model: The model, with constraints.
      q: The initial guess, shape (nq,).
      hold: Joints that do not move, for example cranks whose angles determine the rest.
      tolerance: The largest allowed residual; by default 1e-12 in double precision and 1e-5 in single.

    Returns:
      An `Assembly`.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> found = rbd.assemble(model, jnp.array([0.5, 0.0]), hold=["shoulder"])
    >>> print(found.q, found.closed)
    [ 0.5 -1. ] True
    """
    allowed = float(jnp.finfo(q.dtype).eps) ** 0.75 if tolerance is None else tolerance
    free = np.ones(model.nv)
    free[held_entries(model, hold)] = 0
    free = jnp.asarray(free, q.dtype)

    placing = np.flatnonzero(holonomic(model))

    def equations(q):
        motion = with_constraints(Motion(model, q))
        slope = gather(matrix_of(motion).matrix, placing) * free[None, :]
        return gather(residual_of(motion), placing), slope

    def off_by(q):
        return gather(residual_of(Motion(model, q)), placing)

    def unfinished(state):
        _, _, worst, steps = state
        return (worst > allowed) & (steps < ASSEMBLY_STEPS)

    def improve(state):
        q, damping, _, steps = state
        off, slope = equations(q)
        normal = matmul(transpose(slope), slope)
        step = -jnp.linalg.solve(normal + damping * identity_like(normal), vecmat(off, slope))
        moved = integrate(model, q, step)
        new = off_by(moved)
        better = jnp.sum(new**2) < jnp.sum(off**2)
        q = jnp.where(better, moved, q)
        damping = jnp.where(better, damping / 10, jnp.minimum(10 * damping, 1e6))
        return q, damping, jnp.max(jnp.abs(jnp.where(better, new, off)), initial=0), steps + 1

    worst = jnp.max(jnp.abs(off_by(q)), initial=0)
    start = q, jnp.asarray(1e-2, q.dtype), worst, jnp.zeros((), int)
    search = lax.while_loop(unfinished, improve, lax.stop_gradient(start))
    found, _, worst, _ = remembered(lax.stop_gradient(search))
    closed = worst <= allowed
    # Held joints keep the configuration of the guess, and depend on it.
    result = integrate(model, found, (1 - free) * difference(model, found, q))
    for _ in range(2):  # differentiated steps: their starting point does not affect the derivative
        off, slope = equations(result)
        better = integrate(model, result, -matvec(pseudo_inverse(slope), off))
        result = jnp.where(closed, better, result)
    return Assembly(result, jnp.max(jnp.abs(off_by(result)), initial=0), closed)
