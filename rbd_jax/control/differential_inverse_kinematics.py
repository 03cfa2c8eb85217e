"""Differential inverse kinematics: the velocity that tasks require, within limits, by a quadratic program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import a_model, configuration, instance, names, number
from .._core.array import matmul, transpose, vecmat, with_precision
from .._core.jit import compiled
from ..optimize.outcome import Code
from ..optimize.quadratic_program import quadratic_program
from ..simulate import Simulated
from ..simulate.state import State
from ._configurations import Aims, limits_of, own_constraints, speeds_of
from .constraint import Bounds, Constraint
from .task import Tasks, kept_rows, moving, spread, tasks_at, wanted_velocity


class VelocityCommand(eqx.Module):
    """A velocity, and the result code of the solver.

    - `v`: velocity to hold for `dt`: `rbd.integrate(model, q, dt * v)`.
    - `code`: a `Code`; `INFEASIBLE` if no velocity satisfies the limits and constraints.
    - `missing`: the difference of each task's rate of change from the required rate, concatenated.

    >>> model = rbd.load("arm7")
    >>> hand = rbd.control.Task(rbd.control.Position("tool", (0.5, 0.2, 0.4)), rate=5.0)
    >>> command = rbd.control.differential_inverse_kinematics(model, rbd.neutral(model), [hand], 0.02)
    >>> print(command.converged, command.v.shape, command.missing.shape)
    True (7,) (3,)
    """

    v: Float[Array, "*batch nv"]
    code: Int[Array, "*batch"]
    missing: Float[Array, "*batch k"]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True if the solver found the velocity."""
        return self.code == Code.CONVERGED


def differential_inverse_kinematics(
    model: Simulated,
    q: Float[Array, "nq"],
    tasks: Tasks,
    dt: float | Float[Array, ""],
    *,
    constraints: Sequence[Constraint] = (),
    bounds: Bounds | None = None,
    hold: Sequence[str] = (),
    damping: Any = 1e-6,
    constraint_rate: Any = None,
    time: float | Float[Array, ""] = 0.0,
) -> VelocityCommand:
    """Returns the velocity v with which residuals decay at their rates, as closely as limits allow.

        minimize    ½ Σ w |J v + ∂e/∂t + rate e|²  +  ½ damping |v|²
        subject to  lower ≤ q ⊕ dt v ≤ upper,  |v| ≤ velocity_limit,  constraints, closed loops

    The function compiles on the first call, and works under `jit` and `vmap`. Derivatives are those of `quadratic_program`.

    Args:
      model: The model.
      q: Configuration, within its limits.
      tasks: `Task`s, residuals, or weights times residuals; or a function of time that returns them, so that the robot
        follows moving targets with their velocity. A residual of velocities, `Velocity(v)`, is required to vanish directly.
      dt: Time for which the velocity is held. Nothing passes a limit within this time. Rates beyond `1 / dt` overshoot.
      constraints: Constraints on residuals. An inequality is approached at most at the rate `ṙ ≥ -rate (r - lower)`; an
        equality converges at that rate.
      bounds: `Bounds` of q and v; by default the limits of the model.
      hold: Joints that do not move.
      damping: Weight of the velocity. It selects among equally good velocities, and reduces velocities near singularities.
      constraint_rate: Rate in 1/s; by default `1 / dt`, which corrects violations within one step.
      time: The current time.

    Returns:
      A `VelocityCommand`.

    >>> model = rbd.load("arm7")
    >>> q = rbd.neutral(model)
    >>> hand = rbd.control.Task(rbd.control.Position("tool", (0.5, 0.2, 0.4)), rate=5.0)
    >>> for _ in range(100):
    ...     q = rbd.integrate(model, q, 0.02 * rbd.control.differential_inverse_kinematics(model, q, [hand], 0.02).v)
    >>> print(rbd.forward_kinematics(model, q).position[model.body_index("tool")])
    [0.5 0.2 0.4]
    """
    owner = "differential_inverse_kinematics"
    a_model(owner, model)
    q = configuration(owner, model, "q", q)
    dtype = np.promote_types(q.dtype, model.dtype)
    dt, time = number(owner, "dt", dt, dtype=dtype, above=0), number(owner, "time", time, dtype=dtype)
    damping = number(owner, "damping", damping, dtype=dtype, least=0)
    rate = 1 / dt if constraint_rate is None else constraint_rate
    rate = number(owner, "constraint_rate", rate, dtype=dtype, least=0)
    constraints = (constraints,) if isinstance(constraints, Constraint) else tuple(constraints)
    for one in constraints:
        instance(owner, "constraints", one, Constraint, "control.Constraints")
    lower, upper = limits_of(owner, model, bounds, dtype)
    speeds = speeds_of(owner, model, bounds, dtype)
    hold = () if not len(hold) else names(owner, "hold", hold)
    aims = Aims(model, (), (*constraints, *own_constraints(model)), (), lower, upper, time, hold)
    aims = with_precision(aims, dtype)
    if not callable(tasks):
        tasks = tasks_at(owner, tasks, time)
    return _commanded(aims, q.astype(dtype), tasks, dt, speeds, damping, rate)


@compiled
def _commanded(aims: Aims, q, tasks: Tasks, dt, speeds, damping, rate) -> VelocityCommand:
    """Computes the command from checked arguments."""
    owner, dtype = "differential_inverse_kinematics", q.dtype
    system, nv = aims.system, aims.model.nv
    state = State(q, jnp.zeros(nv, dtype))
    at = lambda time: with_precision(tasks_at(owner, tasks, time), dtype)
    given, kept = at(aims.time), aims.constraints

    def asked(time):
        return [*(one.residual for one in at(time)), *(one.residual for one in kept)]

    found = moving(system, aims.time, state, None, asked)
    curvature, slope = damping * jnp.eye(nv, dtype=dtype), jnp.zeros(nv, dtype)
    for task, one in zip(given, found[: len(given)], strict=True):
        weight, wanted = spread(task.weight, one.value, "weight"), wanted_velocity(task, one)
        curvature = curvature + matmul(transpose(one.jacobian), weight[:, None] * one.jacobian)
        slope = slope - vecmat(weight * wanted, one.jacobian)
    rows: list[Any] = [kept_rows(one, at, rate, 1) for one, at in zip(kept, found[len(given) :], strict=True)]
    equal = [row[:2] for one, row in zip(kept, rows, strict=True) if one.equality]
    unequal = [row for one, row in zip(kept, rows, strict=True) if not one.equality]
    none, nothing = jnp.zeros((0, nv), dtype), jnp.zeros(0, dtype)
    A, b = (jnp.concatenate([empty, *parts]) for empty, parts in zip((none, nothing), _columns(equal, 2)))
    J, low, high = (
        jnp.concatenate([empty, *parts])
        for empty, parts in zip((none, nothing, nothing), _columns(unequal, 3))
    )
    least, most = aims.room(q)
    # If limits of q and v contradict each other, such as beyond a limit of q, limits of q take precedence.
    lower = jnp.minimum(jnp.maximum(least / dt, speeds[0]), most / dt)
    upper = jnp.maximum(jnp.minimum(most / dt, speeds[1]), lower)
    solved = quadratic_program(
        curvature,
        slope,
        A=A,
        b=b,
        G=jnp.concatenate([J, -J]),
        h=jnp.concatenate([high, -low]),
        lower=lower,
        upper=upper,
    )
    missing = [
        jnp.sum(one.jacobian * solved.x[None, :], axis=1) - wanted_velocity(task, one)
        for task, one in zip(given, found[: len(given)], strict=True)
    ]
    return VelocityCommand(solved.x, solved.code, jnp.concatenate([nothing, *missing]))


def _columns(rows, count: int):
    """Transposes a list of tuples; an empty list yields empty columns."""
    return [[row[i] for row in rows] for i in range(count)]
