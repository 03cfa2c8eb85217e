"""Operational-space control: the forces that make residuals vanish like a damped spring (Khatib 1987).

    τ = Jᵀ Λ (ë* - J̇ v) + h + terms in the null space of the task

`Λ = (J M⁻¹ Jᵀ)⁻¹` is the inertia in the task space. Any number of tasks is possible, each in the null space of the previous
tasks (Sentis & Khatib 2005). The robot may be underactuated or in contact: the metric of the forces is `Φ = S M_c⁻¹ Sᵀ`,
with M_c the inertia under loops and contacts, and S the selection of driven joints. For a fully driven robot without
contacts the metric is M⁻¹, and the inverse is the dynamically consistent one.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import a_model, number
from .._core.array import matmul, matvec, transpose, with_precision
from .._core.jit import compiled
from ..simulate import Simulated
from ..simulate.begin import in_one_precision
from ..simulate.controls import Actuation
from ..simulate.state import State
from ._controlled import controlled
from .places import Place
from .residuals import Position
from .task import Tasks, moving, tasks_at, wanted_acceleration


def operational_space(
    model: Simulated,
    state: State,
    tasks: Tasks,
    *,
    contacts: Sequence[Place] = (),
    actuation: Actuation | None = None,
    rest: float | Float[Array, ""] = 5.0,
    damping: float | Float[Array, ""] = 1e-4,
    time: float | Float[Array, ""] = 0.0,
) -> Float[Array, "nv"]:
    """Returns the generalized force that performs tasks in strict order of priority.

    The acceleration of a residual e of the configuration becomes `ë = -stiffness e - damping ė` (see `Task`), decoupled from
    other motions. Each task is performed as far as possible without disturbing the previous tasks. Motions in the null space
    of all tasks come to rest. The function compensates for all forces of the model: gravity, velocity products, springs, and
    actuators at zero control. Weights are ignored. It compiles on the first call, works under `jit` and `vmap`, and is
    differentiable.

    Args:
      model: The model.
      state: The current state.
      tasks: `Task`s, residuals, or weights times residuals; or a function of time that returns them, so that the robot
        follows moving targets with their velocity and acceleration.
      contacts: Places (sites, bodies, `rbd.sensors.OnBody`) whose points do not move, such as feet. Their forces have no
        limits and any direction; `whole_body_control` has friction and limits of forces. The contact model of the model is
        ignored.
      actuation: The driven joints: `rbd.Actuation(joints=[...])`, by default all except those of free bodies.
      rest: Rate, in 1/s, at which motions outside of all tasks come to rest.
      damping: Relative to the mean of `Λ⁻¹`. Near a singular configuration, in directions of very large task inertia, forces
        vanish instead of growing.
      time: The current time.

    Returns:
      The generalized force, (nv,); zero for joints that are not driven.

    As a policy:

    >>> model = rbd.load("arm7")
    >>> hand = rbd.control.Task(rbd.control.Position("tool", (0.5, 0.2, 0.4)), rate=10.0)
    >>> policy = lambda t, state: rbd.control.operational_space(model, state, [hand, rbd.control.Posture()], time=t)
    >>> start = rbd.State(rbd.neutral(model), jnp.zeros(7))
    >>> path = rbd.rollout(model, start, policy, dt=0.005, steps=300)
    >>> print(rbd.forward_kinematics(model, path.final.q).position[model.body_index("tool")])
    [0.5 0.2 0.4]
    """
    owner = "operational_space"
    a_model(owner, model)
    model, state = in_one_precision(owner, model, state)
    dtype = state.q.dtype
    time, rest, damping = (
        number(owner, name, value, dtype=dtype, least=least)
        for name, value, least in (("time", time, None), ("rest", rest, 0), ("damping", damping, 0))
    )
    if isinstance(contacts, str):
        contacts = (contacts,)
    contacts = tuple(contacts)
    if not callable(tasks):
        tasks = tasks_at(owner, tasks, time)
    contacts, tasks = with_precision((contacts, tasks), dtype)
    return _forced(model, state, tasks, contacts, actuation, rest, damping, time)


@compiled
def _forced(
    model, state: State, tasks: Tasks, contacts, actuation, rest, damping, time
) -> Float[Array, "nv"]:
    """Computes the force from checked arguments."""
    owner, dtype, nv = "operational_space", state.q.dtype, state.v.size
    here = controlled(owner, model, time, state, actuation)
    system, state = here.system, here.state
    at = lambda time: with_precision(tasks_at(owner, tasks, time), dtype)
    points = tuple(Position(place) for place in contacts)
    given = at(time)
    asked = lambda time: [*(one.residual for one in at(time)), *points]
    found = moving(system, time, state, None, asked)
    held = found[len(given) :]
    rows = jnp.concatenate([here.loops, *(one.jacobian for one in held)])
    steady = jnp.concatenate([here.loop_bias, *(one.bias for one in held)])
    # The response of the constrained robot to generalized forces, and its acceleration without control.
    solve = jnp.linalg.inv(here.inertia)
    exactly = jnp.asarray(float(jnp.finfo(dtype).eps) ** 0.6, dtype)
    free = -matvec(solve, here.bias)
    answer = solve
    if len(rows):
        response = matmul(solve, transpose(rows))
        apparent = matmul(rows, response)
        inner = damped_inverse(apparent, exactly * mean_size(apparent))
        free = free - matvec(response, matvec(inner, matvec(rows, free) + steady))
        answer = solve - matmul(response, matmul(inner, transpose(response)))
    pushes = answer[:, here.driven]
    mobility = pushes[here.driven]
    stiff = damped_inverse(mobility, exactly * mean_size(mobility))
    tau, left = jnp.zeros(len(here.driven), dtype), jnp.eye(len(here.driven), dtype=dtype)
    levels = [(one.jacobian, wanted_acceleration(task, one)) for task, one in zip(given, found, strict=False)]
    for jacobian, wanted in levels:
        reach = matmul(jacobian, pushes)
        missing = wanted - matvec(jacobian, free) - matvec(reach, tau)
        # The size of the unprojected task: after projection only rounding errors may remain.
        size = mean_size(matmul(reach, matmul(stiff, transpose(reach))))
        reach = matmul(reach, left)
        forces = matmul(stiff, transpose(reach))
        inner = damped_inverse(matmul(reach, forces), jnp.maximum(damping, exactly) * size)
        tau = tau + matvec(left, matvec(forces, matvec(inner, missing)))
        left = left - matmul(left, matmul(forces, matmul(inner, reach)))
    # The remaining motions, in the metric of the kinetic energy, in which they are orthogonal to the tasks.
    slowed = -rest * state.v[here.driven] - free[here.driven] - matvec(mobility, tau)
    tau = tau + matvec(left, matvec(stiff, slowed))
    return jnp.zeros(nv, dtype).at[here.driven].set(tau)


def mean_size(matrix: Float[Array, "n n"]) -> Float[Array, ""]:
    """Returns the mean of the eigenvalues of a symmetric matrix, or one for a zero matrix."""
    mean = jnp.trace(matrix) / max(len(matrix), 1)
    return jnp.where(mean > 0, mean, 1)


def damped_inverse(matrix: Float[Array, "n n"], damping: Float[Array, ""]) -> Float[Array, "n n"]:
    """Returns `A (A² + d²)⁻¹` for a positive semidefinite A: its damped inverse, which is zero along the null space."""
    n = len(matrix)
    least = damping * jnp.eye(n, dtype=matrix.dtype)
    # The real part of the inverse of `A + i d`. Squaring A would lose half the digits.
    whole = jnp.block([[matrix, -least], [least, matrix]])
    right = jnp.concatenate([jnp.eye(n, dtype=matrix.dtype), jnp.zeros((n, n), matrix.dtype)])
    return jnp.linalg.solve(whole, right)[:n]
