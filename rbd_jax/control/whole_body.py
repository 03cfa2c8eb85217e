"""Whole-body control: accelerations, generalized forces and contact forces of the present moment, by a quadratic program.

    minimize    ½ Σ w |J a - ë*|²  +  ½ damping (|a + rest v|² + |f|² / m²)
    subject to  M a + h = Sᵀ τ + Cᵀ f + Gᵀ λ          what the robot can do
                C a = -Ċ v - rate C v,  G a = -Ġ v    what stands goes on to stand, loops stay closed
                f within its friction cone,  |τ| ≤ effort_limit,  limits of q and v

Inverse dynamics as optimization (Saab et al. 2013; Del Prete et al. 2016, TSID). The forces τ are what the equation of motion
says of a, f and λ, so that the unknowns of the program are these. Priorities are programs one after the other, each with what
those before it have reached as equalities (Kanoun et al. 2011).
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


#: Tasks as weighted, or lists of these, each strictly before the next; or a function of time that gives either.
Levels: TypeAlias = (
    Sequence[Task | Cost | Residual | Sequence[Task | Cost | Residual]]
    | Callable[[Float[Array, ""]], Sequence[Any]]
)


class WholeBodyCommand(eqx.Module):
    """What to do now, and what comes of it.

    - `tau`: generalized forces, zero where nothing drives: what a policy of `rbd.rollout` returns. Within their limits.
    - `code`: a `Code`: `CONVERGED`, or `INFEASIBLE` if nothing keeps to all limits, cones and constraints; tau is no command
      then.
    - `acceleration`: that follows. `forces`: of the contacts, on the robot, in the world's axes.
    - `missing`: by how much each task's numbers accelerate otherwise than they should, one after the other.

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
        """Whether it was found."""
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
    """The generalized forces with which tasks are done as well as torques, friction, joints and constraints let them be.

    The acceleration of a residual e of the configuration becomes `ë = -stiffness e - damping ė` (see `Task`), in the sense of
    weighted least squares. Everything that the model says to act is counted in: gravity, velocity products, springs, what its
    actuators do when they are told nothing; a law of contact is not, `contacts` are.

    **Arguments**

    - `tasks`: `Task`s, residuals, or weights times residuals; or a list of such lists, of which each comes strictly before the
      next; or a function of time that gives either: targets that move are then followed with their velocity and acceleration. A
      residual of the control, `Effort()`, is one of the forces of driven joints.
    - `contacts`: `PointContact`s, or places for ones of a floor.
    - `constraints`: what residuals must keep to. They approach a bound as `r̈ ≥ -rate² (r - lower) - 2 rate ṙ` lets them (a
      control barrier function), an equality is made to hold so.
    - `bounds`: `Bounds` of q, of v, and, as `control`, of the forces of driven joints; by default the limits of the model.
    - `actuation`: which joints are driven: `rbd.Actuation(joints=[...])`, by default all but those of free bodies.
    - `edges`: of the pyramids that stand for friction cones, within these.
    - `contact_rate`: in 1/s, at which a contact that slides is stopped.
    - `constraint_rate`: in 1/s, of constraints and the limits of q and v. At most about the inverse of the controller's period.
    - `rest`, `damping`: what no task asks for comes to rest at this rate, and forces are shared out evenly; with this weight.
    - `time`: when that is.

    **Returns** a `WholeBodyCommand`.

    Compiled for itself; under `jit` and `vmap`, and differentiable, as `quadratic_program` is. As a policy:

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
        raise ValueError(f"{owner}: edges is {edges}; a pyramid has three or more")
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
    """Between which numbers configurations, velocities and the forces of driven joints are."""

    lower: Float[Array, "nq"]
    upper: Float[Array, "nq"]
    slowest: Float[Array, "nv"]
    fastest: Float[Array, "nv"]
    weakest: Float[Array, "nu"]
    strongest: Float[Array, "nu"]


class Settings(eqx.Module):
    """Numbers that a controller is tuned by."""

    contact_rate: Float[Array, ""]
    constraint_rate: Float[Array, ""]
    rest: Float[Array, ""]
    damping: Float[Array, ""]
    edges: int = eqx.field(static=True)


def levels_at(owner: str, tasks: Any, time: Float[Array, ""]) -> tuple[tuple[Task, ...], ...]:
    """The tasks at a time, level by level."""
    given: Any = tasks(time) if callable(tasks) and not isinstance(tasks, Residual) else tasks
    if isinstance(given, tuple | list) and given and all(isinstance(one, tuple | list) for one in given):
        return tuple(tasks_at(owner, level, time) for level in given)
    return (tasks_at(owner, given, time),)


def _efforts(owner: str, model: Simulated, bounds: Bounds | None, actuation: Actuation | None, dtype):
    """The limits of the forces of driven joints."""
    dof = driven_joints(owner, model, actuation)
    pair = None if bounds is None else bounds.control
    if bounds is None and isinstance(model, Model):
        pair = -model.effort_limit[dof], model.effort_limit[dof]
    pair = (jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)) if pair is None else pair
    for side in pair:
        if side.shape not in ((), (len(dof),)):
            raise ValueError(
                f"{owner}: a bound of the control has shape {side.shape}; it is one number, or ({len(dof)},): one for each "
                "degree of freedom that is driven"
            )
    return tuple(jnp.broadcast_to(side, (len(dof),)).astype(dtype) for side in pair)


@compiled
def _decided(
    model, state: State, tasks, contacts, constraints, limits: Limits, actuation, settings: Settings, time
) -> WholeBodyCommand:
    """`whole_body_control` of arguments that have been checked."""
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
    """Points that touch: their Jacobian in the axes of what they touch, and what they should accelerate by themselves."""

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
    """What is decided on: accelerations, forces of contacts in the axes of these, and those that close loops."""

    def __init__(self, here: Controlled, touching: _Touching):
        self.here, self.touching = here, touching
        nv, c, loops = len(here.bias), len(touching.velocity), len(here.loops)
        self.nv, self.contacts, self.count = nv, c // 3, nv + c + loops
        pushing = -transpose(jnp.concatenate([touching.jacobian, here.loops]))
        #: The forces that drive, as `forces x + bias` of all degrees of freedom.
        self.motion = jnp.concatenate([here.inertia, pushing], axis=1)
        self.driving = self.motion[here.driven]

    def efforts(self, x: Float[Array, "n"]) -> Float[Array, "nu"]:
        """The forces of driven joints."""
        return matvec(self.driving, x) + self.here.bias[self.here.driven]

    def forces(self, x: Float[Array, "n"]) -> Float[Array, "contacts 3"]:
        """The forces of contacts."""
        return x[self.nv : self.nv + 3 * self.contacts].reshape(-1, 3)

    def wide(self, jacobian: Float[Array, "k nv"]) -> Float[Array, "k n"]:
        """Rows on accelerations as such on all that is unknown."""
        return jnp.pad(jacobian, ((0, 0), (0, self.count - self.nv)))

    def of(self, one: Moving, *sides: Float[Array, "k"]) -> tuple[Array, ...]:
        """What is linear in accelerations, or in the forces of driven joints, as rows with their right-hand sides."""
        if one.order != CONTROL:
            return self.wide(one.jacobian), *sides
        own = matvec(one.jacobian, self.here.bias[self.here.driven])
        return matmul(one.jacobian, self.driving), *(side - own for side in sides)


def _idle(here: Controlled, unknowns: _Unknowns, settings: Settings):
    """What each unknown does where no task asks for anything, the negative of it, and the weight of the square of what is off."""
    nv, dtype = unknowns.nv, here.bias.dtype
    mass = jnp.sum(moving_inertias(tree_of(here.system.simulated)).mass).astype(dtype)
    mass = jnp.where(mass > 0, mass, 1)
    weight = settings.damping * jnp.where(np.arange(unknowns.count) < nv, 1, 1 / mass**2)
    rest = jnp.concatenate([settings.rest * here.state.v, jnp.zeros(unknowns.count - nv, dtype)])
    return weight.astype(dtype), rest


def _limited(
    unknowns: _Unknowns, state: State, constraints, kept, contacts, limits: Limits, settings: Settings
) -> dict[str, Any]:
    """The constraints of the program."""
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
    """A constraint as what moves and between which numbers, as `_Unknowns.of` takes it."""
    _, low, high = kept_rows(one, at, rate, 2)
    return at, low, high


def _attainable(rows: Float[Array, "m nv"], sides: Float[Array, "m"]) -> Float[Array, "m"]:
    """The sides nearest to those given that accelerations can meet: some rows depend on others, as those of two points of one
    foot, and what is measured of their velocities contradicts."""
    dtype = rows.dtype
    square = matmul(rows, transpose(rows))
    size = jnp.trace(square) / len(rows)
    give = float(jnp.finfo(dtype).eps) ** 0.5 * jnp.where(size > 0, size, 1)
    damped = square + give * jnp.eye(len(rows), dtype=dtype)

    def nearer(met, _):
        return met + matvec(square, solve_positive(damped, sides - met)), None

    return lax.scan(nearer, jnp.zeros_like(sides), length=3)[0]


def _cone(contacts: Sequence[PointContact], edges: int, dtype):
    """Rows of forces that are at most zero, of the pyramids of all contacts; and between which numbers each of these is."""
    angles = 2 * np.pi * np.arange(edges) / edges
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    cone, ends = jnp.zeros((edges * len(contacts), 3 * len(contacts)), dtype), ([], [])
    for i, one in enumerate(contacts):
        press = jnp.broadcast_to(-np.cos(np.pi / edges) * one.friction, (edges, 1))
        block = jnp.concatenate([jnp.asarray(along, dtype), press.astype(dtype)], axis=1)
        cone = lax.dynamic_update_slice(cone, block, (edges * i, 3 * i))
        open = jnp.full(2, jnp.inf, dtype)
        # What does not stand anywhere is pushed by nothing that counts.
        stands = one.active != 0
        ends[0].append(jnp.append(-open, jnp.where(stands, one.least, 0).astype(dtype)))
        ends[1].append(jnp.append(open, jnp.where(stands, one.most, jnp.inf).astype(dtype)))
    none = jnp.zeros(0, dtype)
    return cone, [jnp.concatenate([none, *parts]) for parts in ends]


def _room(
    model: Simulated, state: State, limits: Limits, rate
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Between which numbers accelerations are, so that joints and speeds approach their limits at the rate."""
    places, v = flat_entries(model), state.v
    entries = np.maximum(places, 0)

    def approached(limit, missing):
        left = jnp.where(places >= 0, gather(limit - state.q, entries), missing)
        ends = jnp.isfinite(left)
        return jnp.where(ends, rate**2 * jnp.where(ends, left, 0) - 2 * rate * v, missing)

    slow, fast = approached(limits.lower, -jnp.inf), approached(limits.upper, jnp.inf)
    # Where there is no way to keep to both, speeds give way.
    lower = jnp.minimum(jnp.maximum(slow, rate * (limits.slowest - v)), fast)
    return lower, jnp.maximum(jnp.minimum(fast, rate * (limits.fastest - v)), lower)
