"""Whole-body control: current accelerations, generalized forces and contact forces, by a quadratic program.

    minimize    ½ Σ w |J a - ë*|²  +  ½ damping (|a + rest v|² + |f|² / m²)
    subject to  M a + h = Sᵀ τ + Cᵀ f + Gᵀ λ          the equation of motion
                C a = -Ċ v - rate C v,  G a = -Ġ v    contacts hold, loops stay closed
                f within its friction cone,  |τ| ≤ effort_limit,  limits of q and v

This is inverse dynamics as optimization (Saab et al. 2013; Del Prete et al. 2016, TSID). The equation of motion determines
the forces τ from a, f and λ, so the unknowns of the program are a, f and λ. Priorities are a sequence of programs, each with
the results of the previous programs as equalities (Kanoun et al. 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import a_model, instance, number, whole_number
from .._core.array import gather, matmul, matvec, transpose, vecmat, with_precision
from .._core.jit import compiled
from .._core.positive import solve_positive
from ..model import Model
from ..model.lumping import moving_inertias
from ..optimize.outcome import Code
from ..optimize.quadratic_program import quadratic_program
from ..simulate import Simulated
from ..simulate.begin import in_one_precision
from ..simulate.controls import Actuation
from ..simulate.state import State
from ..simulate.systems import tree_of
from ._configurations import flat_entries, limits_of, own_constraints, speeds_of
from ._controlled import Controlled, controlled
from .constraint import Bounds, Constraint
from .driven import driven_joints
from .places import Place
from .point_contact import PointContact
from .residual import Cost, Residual
from .task import CONTROL, Moving, Task, kept_rows, moving, spread, tasks_at, wanted_acceleration


#: Weighted tasks, or lists of tasks in strict order of priority; or a function of time that returns either.
Levels: TypeAlias = (
    Sequence[Task | Cost | Residual | Sequence[Task | Cost | Residual]]
    | Callable[[Float[Array, ""]], Sequence[Any]]
)


class WholeBodyCommand(eqx.Module):
    """A command, and its predicted effects.

    - `tau`: generalized forces, zero for joints that are not driven: the output of a policy of `rbd.rollout`. Within their
      limits.
    - `code`: a `Code`: `CONVERGED`, or `INFEASIBLE` if no command satisfies all limits, cones and constraints. tau is not
      valid then.
    - `acceleration`: the resulting acceleration.
    - `forces`: contact forces on the robot, in the world's axes.
    - `missing`: the difference of each task's acceleration from the required acceleration, concatenated.

    >>> model = rbd.load("arm7")
    >>> hand = rbd.control.Task(rbd.control.Position("tool", (0.5, 0.2, 0.4)), rate=10.0)
    >>> command = rbd.control.whole_body_control(model, rbd.State(rbd.neutral(model), jnp.zeros(7)), [hand])
    >>> print(command.converged, command.tau.shape, command.forces.shape)
    True (7,) (0, 3)
    """

    tau: Float[Array, "*batch nv"]
    code: Int[Array, "*batch"]
    acceleration: Float[Array, "*batch nv"]
    forces: Float[Array, "*batch contacts 3"]
    missing: Float[Array, "*batch k"]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True if the solver found the command."""
        return self.code == Code.CONVERGED


def whole_body_control(
    model: Simulated,
    state: State,
    tasks: Levels,
    *,
    contacts: Sequence[Place | PointContact] = (),
    constraints: Sequence[Constraint] = (),
    bounds: Bounds | None = None,
    actuation: Actuation | None = None,
    edges: SupportsIndex = 4,
    contact_rate: float | Float[Array, ""] = 10.0,
    constraint_rate: float | Float[Array, ""] = 20.0,
    rest: float | Float[Array, ""] = 5.0,
    damping: float | Float[Array, ""] = 1e-6,
    time: float | Float[Array, ""] = 0.0,
) -> WholeBodyCommand:
    """Returns generalized forces that track tasks as closely as limits of torques, friction, joints and constraints allow.

    The acceleration of a residual e of the configuration becomes `ë = -stiffness e - damping ė` (see `Task`), in the sense
    of weighted least squares. The function accounts for all forces of the model: gravity, velocity products, springs, and
    actuators at zero control. It ignores the contact model and uses `contacts` instead. It compiles on the first call, and
    works under `jit` and `vmap`. Derivatives are those of `quadratic_program`.

    Args:
      model: The model.
      state: The current state.
      tasks: `Task`s, residuals, or weights times residuals; or a list of such lists in strict order of priority; or a
        function of time that returns either, so that the robot follows moving targets with their velocity and acceleration.
        A residual of the control, `Effort()`, acts on the forces of driven joints.
      contacts: `PointContact`s, or places in contact with a floor.
      constraints: Constraints on residuals. They approach a bound at most as `r̈ ≥ -rate² (r - lower) - 2 rate ṙ` (a control
        barrier function); an equality converges in this way.
      bounds: `Bounds` of q, of v, and, as `control`, of the forces of driven joints; by default the limits of the model.
      actuation: The driven joints: `rbd.Actuation(joints=[...])`, by default all except those of free bodies.
      edges: Number of edges of the pyramids that approximate friction cones from inside.
      contact_rate: Rate, in 1/s, at which a sliding contact is brought to rest.
      constraint_rate: Rate, in 1/s, of constraints and of the limits of q and v. At most about the inverse of the
        controller's period.
      rest: Rate, in 1/s, at which motions outside of all tasks come to rest.
      damping: Weight of coming to rest, and of contact forces, which distributes the forces evenly.
      time: The current time.

    Returns:
      A `WholeBodyCommand`.

    As a policy:

    >>> model = rbd.load("arm7")
    >>> hand = rbd.control.Task(rbd.control.Position("tool", (0.5, 0.2, 0.4)), rate=10.0)
    >>> policy = lambda t, state: rbd.control.whole_body_control(model, state, [hand], time=t).tau
    >>> start = rbd.State(rbd.neutral(model), jnp.zeros(7))
    >>> path = rbd.rollout(model, start, policy, dt=0.005, steps=300)
    >>> print(rbd.forward_kinematics(model, path.final.q).position[model.body_index("tool")])
    [0.5 0.2 0.4]
    """
    owner = "whole_body_control"
    a_model(owner, model)
    model, state = in_one_precision(owner, model, state)
    dtype = state.q.dtype
    numbers = {
        name: number(owner, name, value, dtype=dtype, least=0)
        for name, value in (
            ("contact_rate", contact_rate),
            ("constraint_rate", constraint_rate),
            ("rest", rest),
            ("damping", damping),
        )
    }
    edges = whole_number(owner, "edges", edges)
    if edges < 3:
        raise ValueError(f"{owner}: edges is {edges}; it must be at least 3")
    time = number(owner, "time", time, dtype=dtype)
    contacts = (contacts,) if isinstance(contacts, str | PointContact) else contacts
    contacts = tuple(one if isinstance(one, PointContact) else PointContact(one) for one in contacts)
    constraints = (constraints,) if isinstance(constraints, Constraint) else tuple(constraints)
    for one in constraints:
        instance(owner, "constraints", one, Constraint, "control.Constraints")
    if not isinstance(model, Model):
        constraints = (*constraints, *own_constraints(model))
    limits = Limits(
        *limits_of(owner, model, bounds, dtype),
        *speeds_of(owner, model, bounds, dtype),
        *_efforts(owner, model, bounds, actuation, dtype),
    )
    if not callable(tasks):
        tasks = levels_at(owner, tasks, time)
    contacts, constraints, tasks = with_precision((contacts, constraints, tasks), dtype)
    settings = Settings(**numbers, edges=edges)
    return _decided(model, state, tasks, contacts, constraints, limits, actuation, settings, time)


class Limits(NamedTuple):
    """Limits of configurations, velocities and the forces of driven joints."""

    lower: Float[Array, "nq"]
    upper: Float[Array, "nq"]
    slowest: Float[Array, "nv"]
    fastest: Float[Array, "nv"]
    weakest: Float[Array, "nu"]
    strongest: Float[Array, "nu"]


class Settings(eqx.Module):
    """Tuning parameters of the controller."""

    contact_rate: Float[Array, ""]
    constraint_rate: Float[Array, ""]
    rest: Float[Array, ""]
    damping: Float[Array, ""]
    edges: int = eqx.field(static=True)


def levels_at(owner: str, tasks: Any, time: Float[Array, ""]) -> tuple[tuple[Task, ...], ...]:
    """Returns the tasks at a time, by level."""
    given: Any = tasks(time) if callable(tasks) and not isinstance(tasks, Residual) else tasks
    if isinstance(given, tuple | list) and given and all(isinstance(one, tuple | list) for one in given):
        return tuple(tasks_at(owner, level, time) for level in given)
    return (tasks_at(owner, given, time),)


def _efforts(owner: str, model: Simulated, bounds: Bounds | None, actuation: Actuation | None, dtype):
    """Returns the limits of the forces of driven joints."""
    dof = driven_joints(owner, model, actuation)
    pair = None if bounds is None else bounds.control
    if bounds is None and isinstance(model, Model):
        pair = -model.effort_limit[dof], model.effort_limit[dof]
    pair = (jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)) if pair is None else pair
    for side in pair:
        if side.shape not in ((), (len(dof),)):
            raise ValueError(
                f"{owner}: a bound of the control has shape {side.shape}; it must be one number, or ({len(dof)},): one for each "
                "driven degree of freedom"
            )
    return tuple(jnp.broadcast_to(side, (len(dof),)).astype(dtype) for side in pair)


@compiled
def _decided(
    model, state: State, tasks, contacts, constraints, limits: Limits, actuation, settings: Settings, time
) -> WholeBodyCommand:
    """Computes the command from checked arguments."""
    owner, dtype = "whole_body_control", state.q.dtype
    here = controlled(owner, model, time, state, actuation)
    state, nv = here.state, state.v.size
    at = lambda time: with_precision(levels_at(owner, tasks, time), dtype)
    levels = at(time)
    flat = [task for level in levels for task in level]

    def asked(time):
        of_tasks = [task.residual for level in at(time) for task in level]
        return [*of_tasks, *(one.residual for one in constraints), *(one.point for one in contacts)]

    found = moving(here.system, time, state, jnp.zeros(len(here.driven), dtype), asked)
    of_tasks, found = found[: len(flat)], found[len(flat) :]
    kept, points = found[: len(constraints)], found[len(constraints) :]
    touching = _touching(contacts, points, nv, dtype)
    unknowns = _Unknowns(here, touching)
    program = _limited(unknowns, state, constraints, kept, contacts, limits, settings)
    x, code, first = jnp.zeros(unknowns.count, dtype), jnp.int32(Code.CONVERGED), 0
    missing = [jnp.zeros(0, dtype)]
    for level in levels:
        rows = [
            unknowns.of(one, wanted_acceleration(task, one)) for task, one in zip(level, of_tasks[first:])
        ]
        weights = [spread(task.weight, one.value, "weight") for task, one in zip(level, of_tasks[first:])]
        first += len(level)
        matrix = jnp.concatenate([jnp.zeros((0, unknowns.count), dtype), *(row for row, _ in rows)])
        wanted = jnp.concatenate([jnp.zeros(0, dtype), *(side for _, side in rows)])
        weight = jnp.concatenate([jnp.zeros(0, dtype), *weights])
        pull, idle = _idle(here, unknowns, settings)
        solved = quadratic_program(
            jnp.diag(pull) + matmul(transpose(matrix), weight[:, None] * matrix),
            pull * idle - vecmat(weight * wanted, matrix),
            **program,
        )
        x = solved.x
        code = jnp.where(code == Code.CONVERGED, solved.code, code)
        reached = matvec(matrix, x)
        missing.append(reached - wanted)
        program["A"] = jnp.concatenate([program["A"], matrix])
        program["b"] = jnp.concatenate([program["b"], reached])
    efforts = jnp.clip(unknowns.efforts(x), limits.weakest, limits.strongest)
    forces = [
        matvec(one.axes, part) * one.active for one, part in zip(contacts, unknowns.forces(x), strict=True)
    ]
    return WholeBodyCommand(
        jnp.zeros(nv, dtype).at[here.driven].set(efforts),
        code.astype(jnp.int32),
        x[:nv],
        jnp.stack(forces) if forces else jnp.zeros((0, 3), dtype),
        jnp.concatenate(missing),
    )


class _Touching(NamedTuple):
    """Contact points: their Jacobian in the axes of the contact, their velocity, and their acceleration bias."""

    jacobian: Float[Array, "c nv"]
    velocity: Float[Array, "c"]
    bias: Float[Array, "c"]


def _touching(contacts: Sequence[PointContact], points: Sequence[Moving], nv: int, dtype) -> _Touching:
    none = jnp.zeros(0, dtype)
    parts = [(one.active * transpose(one.axes), at) for one, at in zip(contacts, points, strict=True)]
    return _Touching(
        jnp.concatenate([none.reshape(0, nv), *(matmul(axes, at.jacobian) for axes, at in parts)]),
        jnp.concatenate([none, *(matvec(axes, at.rate) for axes, at in parts)]),
        jnp.concatenate([none, *(matvec(axes, at.bias) for axes, at in parts)]),
    )


class _Unknowns:
    """The unknowns: accelerations, contact forces in the axes of the contacts, and forces that close loops."""

    def __init__(self, here: Controlled, touching: _Touching):
        self.here, self.touching = here, touching
        nv, c, loops = len(here.bias), len(touching.velocity), len(here.loops)
        self.nv, self.contacts, self.count = nv, c // 3, nv + c + loops
        pushing = -transpose(jnp.concatenate([touching.jacobian, here.loops]))
        #: The generalized forces of all degrees of freedom are `motion x + bias`.
        self.motion = jnp.concatenate([here.inertia, pushing], axis=1)
        self.driving = self.motion[here.driven]

    def efforts(self, x: Float[Array, "n"]) -> Float[Array, "nu"]:
        """Returns the forces of driven joints."""
        return matvec(self.driving, x) + self.here.bias[self.here.driven]

    def forces(self, x: Float[Array, "n"]) -> Float[Array, "contacts 3"]:
        """Returns the contact forces."""
        return x[self.nv : self.nv + 3 * self.contacts].reshape(-1, 3)

    def wide(self, jacobian: Float[Array, "k nv"]) -> Float[Array, "k n"]:
        """Returns rows on accelerations as rows on all unknowns."""
        return jnp.pad(jacobian, ((0, 0), (0, self.count - self.nv)))

    def of(self, one: Moving, *sides: Float[Array, "k"]) -> tuple[Array, ...]:
        """Returns a residual that is linear in accelerations or driving forces as rows on the unknowns, with right-hand sides."""
        if one.order != CONTROL:
            return self.wide(one.jacobian), *sides
        own = matvec(one.jacobian, self.here.bias[self.here.driven])
        return matmul(one.jacobian, self.driving), *(side - own for side in sides)


def _idle(here: Controlled, unknowns: _Unknowns, settings: Settings):
    """Returns the weight of the squared deviation of each unknown from its default, and the negative default."""
    nv, dtype = unknowns.nv, here.bias.dtype
    mass = jnp.sum(moving_inertias(tree_of(here.system.simulated)).mass).astype(dtype)
    mass = jnp.where(mass > 0, mass, 1)
    weight = settings.damping * jnp.where(np.arange(unknowns.count) < nv, 1, 1 / mass**2)
    rest = jnp.concatenate([settings.rest * here.state.v, jnp.zeros(unknowns.count - nv, dtype)])
    return weight.astype(dtype), rest


def _limited(
    unknowns: _Unknowns, state: State, constraints, kept, contacts, limits: Limits, settings: Settings
) -> dict[str, Any]:
    """Returns the constraints of the program."""
    here, touching, rate = unknowns.here, unknowns.touching, settings.constraint_rate
    dtype, nv = here.bias.dtype, unknowns.nv
    undriven = np.setdiff1d(np.arange(nv), here.driven)
    A, b = [unknowns.motion[undriven]], [-here.bias[undriven]]
    G, h = (
        [unknowns.driving, -unknowns.driving],
        [
            limits.strongest - here.bias[here.driven],
            here.bias[here.driven] - limits.weakest,
        ],
    )
    rows = jnp.concatenate([touching.jacobian, here.loops])
    if len(rows):
        sides = jnp.concatenate([-touching.bias - settings.contact_rate * touching.velocity, -here.loop_bias])
        A, b = [*A, unknowns.wide(rows)], [*b, _attainable(rows, sides)]
    for one, at in zip(constraints, kept, strict=True):
        matrix, low, high = unknowns.of(*_kept(one, at, rate))
        if one.equality:
            A, b = [*A, matrix], [*b, low]
        else:
            G, h = [*G, matrix, -matrix], [*h, high, -low]
    cone, ends = _cone(contacts, settings.edges, dtype)
    before = jnp.zeros((len(cone), nv), dtype)
    after = jnp.zeros((len(cone), len(here.loops)), dtype)
    G, h = [*G, jnp.concatenate([before, cone, after], axis=1)], [*h, jnp.zeros(len(cone), dtype)]
    slow, fast = _room(here.system.simulated, state, limits, rate)
    free = jnp.full(len(here.loops), jnp.inf, dtype)
    return {
        "A": jnp.concatenate(A),
        "b": jnp.concatenate(b),
        "G": jnp.concatenate(G),
        "h": jnp.concatenate(h),
        "lower": jnp.concatenate([slow, ends[0], -free]),
        "upper": jnp.concatenate([fast, ends[1], free]),
    }


def _kept(one: Constraint, at: Moving, rate):
    """Returns a constraint with its bounds, as arguments of `_Unknowns.of`."""
    _, low, high = kept_rows(one, at, rate, 2)
    return at, low, high


def _attainable(rows: Float[Array, "m nv"], sides: Float[Array, "m"]) -> Float[Array, "m"]:
    """Returns the right-hand sides nearest to the given ones that accelerations can satisfy.

    Some rows are linearly dependent, such as those of two points of one foot, and measured velocities may contradict each
    other.
    """
    dtype = rows.dtype
    square = matmul(rows, transpose(rows))
    size = jnp.trace(square) / len(rows)
    give = float(jnp.finfo(dtype).eps) ** 0.5 * jnp.where(size > 0, size, 1)
    damped = square + give * jnp.eye(len(rows), dtype=dtype)

    def nearer(met, _):
        return met + matvec(square, solve_positive(damped, sides - met)), None

    return lax.scan(nearer, jnp.zeros_like(sides), length=3)[0]


def _cone(contacts: Sequence[PointContact], edges: int, dtype):
    """Returns rows of contact forces that must not be positive, for the pyramids of all contacts, and bounds of the forces."""
    angles = 2 * np.pi * np.arange(edges) / edges
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    cone, ends = jnp.zeros((edges * len(contacts), 3 * len(contacts)), dtype), ([], [])
    for i, one in enumerate(contacts):
        press = jnp.broadcast_to(-np.cos(np.pi / edges) * one.friction, (edges, 1))
        block = jnp.concatenate([jnp.asarray(along, dtype), press.astype(dtype)], axis=1)
        cone = lax.dynamic_update_slice(cone, block, (edges * i, 3 * i))
        open = jnp.full(2, jnp.inf, dtype)
        # An inactive contact has no bounds, because its force has no effect.
        stands = one.active != 0
        ends[0].append(jnp.append(-open, jnp.where(stands, one.least, 0).astype(dtype)))
        ends[1].append(jnp.append(open, jnp.where(stands, one.most, jnp.inf).astype(dtype)))
    none = jnp.zeros(0, dtype)
    return cone, [jnp.concatenate([none, *parts]) for parts in ends]


def _room(
    model: Simulated, state: State, limits: Limits, rate
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Returns the bounds of accelerations with which joints and velocities approach their limits at the rate."""
    places, v = flat_entries(model), state.v
    entries = np.maximum(places, 0)

    def approached(limit, missing):
        left = jnp.where(places >= 0, gather(limit - state.q, entries), missing)
        ends = jnp.isfinite(left)
        return jnp.where(ends, rate**2 * jnp.where(ends, left, 0) - 2 * rate * v, missing)

    slow, fast = approached(limits.lower, -jnp.inf), approached(limits.upper, jnp.inf)
    # If limits of q and v contradict each other, limits of q take precedence.
    lower = jnp.minimum(jnp.maximum(slow, rate * (limits.slowest - v)), fast)
    return lower, jnp.maximum(jnp.minimum(fast, rate * (limits.fastest - v)), lower)
