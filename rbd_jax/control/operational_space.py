"""Operational-space control: the forces by which residuals vanish as a damped spring would have it (Khatib 1987).

    τ = Jᵀ Λ (ë* - J̇ v) + h + what is left free

With `Λ = (J M⁻¹ Jᵀ)⁻¹` the inertia that the task feels. Here of any number of tasks, each in what those before it leave free
(Sentis & Khatib 2005), and of robots on which something acts that is not driven, or that stand on something: the metric by which
forces are chosen is `Φ = S M_c⁻¹ Sᵀ`, M_c the inertia under loops and contacts, S what is driven. If everything is driven and
nothing is held, that is M⁻¹, and the inverse the dynamically consistent one.
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
    """The generalized force with which tasks are done, the first before the second, and so on.

    The acceleration of a residual e of the configuration becomes `ë = -stiffness e - damping ė` (see `Task`), coupled to nothing
    else; of the next task as much as can be without disturbing that. What all tasks leave free comes to rest. Everything that
    the model says to act is compensated for: gravity, velocity products, springs, what its actuators do when they are told
    nothing. Weights do not count.

    **Arguments**

    - `tasks`: `Task`s, residuals, or weights times residuals, or a function of time that gives them: targets that move are
      then followed with their velocity and acceleration.
    - `contacts`: places (sites, bodies, `rbd.sensors.OnBody`) whose points do not move, such as feet: the robot pushes itself off
      from them, whichever way; for friction and limits of forces, see `whole_body_control`. Whatever law of contact the model
      has is not looked at.
    - `actuation`: which joints are driven: `rbd.Actuation(joints=[...])`, by default all but those of free bodies.
    - `rest`: the rate, in 1/s, at which what no task asks for comes to rest.
    - `damping`: near a singular configuration, of the directions in which a task feels an inertia that is larger by so much,
      forces fade out instead of growing. As a share of the mean of `Λ⁻¹`.
    - `time`: when that is.

    Compiled for itself, under `jit` and `vmap`, and differentiable. As a policy:

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
    """`operational_space` of arguments that have been checked."""
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
    # How the robot answers to generalized forces under what holds it, and how it accelerates by itself.
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
        # Of the task by itself: what those before it leave of it may be nothing but rounding.
        size = mean_size(matmul(reach, matmul(stiff, transpose(reach))))
        reach = matmul(reach, left)
        forces = matmul(stiff, transpose(reach))
        inner = damped_inverse(matmul(reach, forces), jnp.maximum(damping, exactly) * size)
        tau = tau + matvec(left, matvec(forces, matvec(inner, missing)))
        left = left - matmul(left, matmul(forces, matmul(inner, reach)))
    # What is left free: in the metric of the kinetic energy, in which it has nothing to do with the tasks.
    slowed = -rest * state.v[here.driven] - free[here.driven] - matvec(mobility, tau)
    tau = tau + matvec(left, matvec(stiff, slowed))
    return jnp.zeros(nv, dtype).at[here.driven].set(tau)


def mean_size(matrix: Float[Array, "n n"]) -> Float[Array, ""]:
    """The mean of the eigenvalues of a symmetric matrix; one where it is zero."""
    mean = jnp.trace(matrix) / max(len(matrix), 1)
    return jnp.where(mean > 0, mean, 1)


def damped_inverse(matrix: Float[Array, "n n"], damping: Float[Array, ""]) -> Float[Array, "n n"]:
    """`A (A² + d²)⁻¹` of a symmetric matrix that has no negative eigenvalue: its inverse, but zero where it has none."""
    n = len(matrix)
    least = damping * jnp.eye(n, dtype=matrix.dtype)
    # The real part of the inverse of `A + i d`, without a square that would cost half the digits.
    whole = jnp.block([[matrix, -least], [least, matrix]])
    right = jnp.concatenate([jnp.eye(n, dtype=matrix.dtype), jnp.zeros((n, n), matrix.dtype)])
    return jnp.linalg.solve(whole, right)[:n]
