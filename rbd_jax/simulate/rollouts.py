"""Simulation: a state carried over many steps, with controls, and its trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import whole_number
from .._core.failures import Failure, first_failure
from .._core.jit import compiled
from .._core.under_vmap import one_operation
from ..constraints import Stabilization
from ..optimize.implicit import recomputed
from ._event import Crossing, EventFunction, choose
from ._failures import broken, explained, opening, raising, seen_in, split, without_failed
from ._progress import progress_bar
from .begin import Begin, begun
from .control import Control
from .controls import Actuation, Driver, Driving, driver
from .result import Result
from .scheme import Memory, Scheme
from .state import State
from .step_data import StepData
from .system import System
from .systems import Simulated
from .trajectory import Trajectory
from .tree_system import Acting


#: By how much constraints may be open before that is told: angles in rad, lengths as a share of the reach.
TOLERANCE = 1e-3


def rollout(
    model: Simulated,
    state: State,
    controls: Driving = None,
    *,
    dt: float | Float[Array, ""] | None = None,
    scheme: Scheme | None = None,
    steps: SupportsIndex | None = None,
    forces: Sequence[Acting] = (),
    save_every: SupportsIndex = 1,
    checkpoint: SupportsIndex | None = None,
    t0: float | Float[Array, ""] = 0.0,
    event: EventFunction | None = None,
    actuation: Actuation | None = None,
    memory: Any = None,
    stabilization: Stabilization | Literal["auto"] | None = "auto",
    constraint_tolerance: float = TOLERANCE,
    progress: bool = False,
    throw: bool = False,
) -> Trajectory:
    """Simulate `steps` steps of length `dt` from `state`.

    A model with constraints moves under them; its initial state must satisfy them (see `rbd.project`). A
    `rbd.ReducedModel` moves in its independent variables.

    What acts: the controls, held constant over each step; the joints' own `passive_force`; gravity; the forces, tendons and
    actuators that the model carries; and `forces`. Actuators that are told nothing are told zero: a servo then holds. Those that
    have a `delay` get in each step the mean of what they were told so much earlier, and zero before the first row; controls of a
    policy are refused for them.

    A step that fails (a diverged motion, an implicit step without solution) makes its state and all later ones NaN;
    `Trajectory.code` and `failed_step` say what happened and where. Derivatives of a failed sample are not finite either, by
    all that its states depended on before; by what first acted in the step that failed they are zero. A loss masked by
    `code == 0` has the gradient of the other samples. Where every step could be made, constraints that open and doubtful
    contacts are reported in the same way, but the states stay, for the drift to be seen.

    **Arguments**

    - `controls`: `rbd.Controls(u)` of the model's actuators, u of shape (steps, nu); an array (steps, nv) of generalized forces;
      a policy `(t, state) -> rbd.Controls(u)` or `-> tau`; or None for none.
    - `actuation`: which joints generalized forces are for, if not for all: `rbd.Actuation(joints=[...], limits=True)`.
    - `dt`: by default the timestep that the model's file says (`model.settings`). It must be positive; where it is traced and
      is not, the code is `Result.STEP_NOT_POSITIVE`.
    - `memory`: where the memory of a policy that has one starts, any PyTree of arrays: the policy is then
      `(t, state, memory) -> (tau, memory)`, and `Trajectory.memory` is what it remembers at the end.
    - `scheme`: by default `RungeKutta4()` if the model's file says so, and else `SemiImplicitEuler()`.
    - `steps`: the number of steps; not needed where `controls` is an array.
    - `forces`: force elements (`rbd.forces`) or functions `(model, state, t) -> tau`, asked wherever the scheme asks what acts.
    - `save_every`: keep every so manieth state.
    - `checkpoint`: what reverse-mode differentiation remembers. By default every state, and nothing of what happens within
      a step; with True about √steps states, and with an integer every so manieth saved one, at the price of running
      the steps between once more.
    - `t0`: the time of the initial state.
    - `event`: a function `(t, state) -> number`; the motion stops where it first changes its sign, and the rows from there on
      repeat the state in which it did (see `Trajectory`). It is looked at after every step `dt`, so it should not change its
      sign twice within one; zero at the start is no event.
    - `stabilization`: how constraints are held, which schemes that ask for accelerations do not do by themselves: by default
      the end of each step is moved onto them (`rbd.constraints.Projection`), but not of schemes that close loops anyway
      (`Scheme.closes_loops`: the implicit ones). A `rbd.constraints.Baumgarte` costs less, and with None they drift as the
      scheme errs.
    - `constraint_tolerance`: by how much constraints may be open, at the start or after a step, before that is told:
      angles in rad, lengths as a share of the mechanism's reach (see `rbd.constraints.reach`). `Trajectory.opening` is by how
      much they were.
    - `progress`: show a progress bar.
    - `throw`: raise a RuntimeError that says what happened where `code` would not be 0, of any sample of a batch, and in compiled
      code too.

    Outside `jit` it compiles itself: once for the model's structure, the shapes of what it is given, the scheme, the numbers of
    steps and rows, and the functions among its arguments. With other numbers it runs at once. A function that is made again
    by the same line around the same values is the same one; a method of an object, whose attributes may change, is another
    each time.

    >>> model = rbd.load("double_pendulum")
    >>> state = rbd.State(q=jnp.array([0.5, 1.0]), v=jnp.zeros(2))
    >>> path = rbd.rollout(model, state, dt=0.01, steps=100)
    >>> print(path.q.shape, path.final.q)
    (101, 2) [-0.631  0.16 ]
    """
    begin = begun("rollout", model, state, dt, t0, scheme, forces, stabilization)
    drive = driver("rollout", model, controls, steps, actuation, memory, begin.dt)
    divisor = f"it must divide the number of steps, {drive.steps}"
    save_every = whole_number("rollout", "save_every", save_every, divisor)
    if drive.steps % save_every:
        raise ValueError(f"rollout: save_every is {save_every}; {divisor}")
    if not constraint_tolerance >= 0:
        raise ValueError(
            f"rollout: constraint_tolerance is {constraint_tolerance!r}; it is a number, zero or more"
        )
    if event is not None and not callable(event):
        raise ValueError(f"rollout: event is {event!r}; it takes a function (t, state) -> number")
    options = {
        "steps": drive.steps,
        "save_every": save_every,
        "segment": _segment(checkpoint, drive.steps // save_every),
        "progress": bool(progress),
    }
    path = _simulated(begin, controls, actuation, memory, event, constraint_tolerance, **options)
    return raising("rollout", path) if throw else path


@compiled
@one_operation
def _simulated(
    begin: Begin,
    controls: Driving,
    actuation: Actuation | None,
    memory: Any,
    event: EventFunction | None,
    constraint_tolerance: float | Float[Array, ""],
    *,
    steps: int,
    save_every: int,
    segment: int | None,
    progress: bool,
) -> Trajectory:
    """`rollout` of arguments that have been checked."""
    model = begin.system.simulated
    drive = driver("rollout", model, controls, steps, actuation, memory, begin.dt)
    run = Run(
        begin,
        drive,
        event,
        save_every,
        constraint_tolerance if begin.system.constraint_rows else None,
        bar=progress_bar(steps) if progress else None,
    )
    saves = steps // save_every
    numbers = jnp.arange(steps, dtype=jnp.int32).reshape(saves, save_every)
    blocks = (numbers, jax.tree.map(lambda x: x.reshape(saves, save_every, *x.shape[1:]), drive.inputs))
    carry = run.start(jax.tree.map(lambda x: x[0], drive.inputs))
    carry, (states, told) = _scan(run.save, carry, blocks, segment)
    return run.finish(carry, states, told)


class Carry(eqx.Module):
    """What a rollout hands from step to step.

    - `state`, and the scheme's `memory`.
    - `policy`: what the policy remembers.
    - `failure`: the first step that could not be made.
    - `doubted`: the first step that left constraints open, or whose contacts are doubtful. The motion goes on: that is something
      to look at.
    - `opening`: the most that they were open so far.
    - `crossing`: the event's.
    """

    state: State
    memory: Memory
    policy: Any
    failure: Failure
    doubted: Failure
    opening: Float[Array, ""]
    crossing: Crossing | None


class Run:
    """A rollout with all arguments known: what happens in a step, what is kept of it, and what becomes of that.

    - `save_every`: the steps between two rows.
    - `watched`: whether each step is asked how it went; it is where rows do not tell.
    """

    def __init__(
        self,
        begin: Begin,
        drive: Driver,
        event: EventFunction | None,
        save_every: int,
        allowed: float | Float[Array, ""] | None,
        bar: Callable | None = None,
        watched: bool = False,
    ):
        self.begin, self.drive, self.event, self.save_every = begin, drive, event, save_every
        self.system, self.scheme, self.t0, self.dt = (
            begin.system.prepared(),
            begin.scheme,
            begin.time,
            begin.dt,
        )
        self.allowed, self.bar = allowed, bar
        # Whether each state is checked for open constraints and doubtful contacts.
        self.watches = allowed is not None or self.system.searches
        # Otherwise the rows tell whether and when the motion diverged, and nothing has to be asked on the way.
        self.watched = watched or self.scheme.fallible or save_every > 1 or event is not None
        # Reverse mode stores the state at each step, not what was computed on the way.
        self.step = self.advance if self.scheme.recomputes else recomputed(self.advance)

    def start(self, given) -> Carry:
        """Before the first step."""
        state, policy = self.begin.state, self.drive.memory
        system = self.system.with_control(self.drive.ask(self.t0, state, given, policy)[0])
        return Carry(
            state,
            self.scheme.init(system, self.t0, state, self.dt),
            policy,
            Failure.none()
            if self.begin.fault is None
            else Failure.none().noted(self.begin.fault, jnp.int32(0)),
            Failure.none(),
            jnp.zeros_like(self.dt),
            None if self.event is None else Crossing.none(system.control, state),
        )

    def advance(self, carry: Carry, number, given) -> tuple[Carry, Control]:
        """One step, and the control that it had."""
        state = carry.state
        if carry.crossing is not None:
            number = jnp.where(carry.crossing.happened(), carry.crossing.step, number)
        time = self.t0 + number.astype(self.dt.dtype) * self.dt
        control, policy = self.drive.ask(time, state, given, carry.policy)
        system = self.system.with_control(control)
        here = system.evaluate(time, state)
        if self.watches:
            here = here.prepared()  # shared by the checks and the step
        failure, (doubted, most) = carry.failure, self.watch_state(here, carry, number)
        new, memory, code = self.scheme.step(here, carry.memory, self.dt)
        code, doubt = split(code)
        doubted = doubted if doubt is None else doubted.noted(doubt, number)
        new = system.settled(time + self.dt, new)
        if self.watched:
            failure = self.watch_step(failure, carry, code, new, number)
            # The loop goes on from the last good state: what it computes there counts for nothing, but is finite.
            new, memory = choose(failure.happened, (state, carry.memory), (new, memory))
        crossing = carry.crossing
        if self.event is not None and crossing is not None:
            new, crossing, known = crossing.watch(
                self.event, time, system.control, state, new, self.dt, number
            )
            failure = failure.noted(jnp.where(known, Result.SUCCESS, Result.NOT_FINITE), number)
        if system.charted:
            new, memory = self.reparametrized(system, time + self.dt, new, memory)
        return Carry(new, memory, policy, failure, doubted, most, crossing), control

    def watch_state(self, here: StepData, carry: Carry, number) -> tuple[Failure, Float[Array, ""]]:
        """Whether the step before has left constraints open, or contacts are doubtful in this one: looked at here, where the
        kinematics is needed anyway."""
        doubted, most = carry.doubted, carry.opening
        if self.allowed is not None:
            now = opening(here)
            code = jnp.where(now > self.allowed, Result.CONSTRAINTS_OPEN, Result.SUCCESS)
            doubted, most = doubted.noted(code, jnp.maximum(number - 1, 0)), jnp.fmax(most, now)
        code = here.contact_doubts(number == 0)
        if code is not None:
            doubted = doubted.noted(code, number)
        return doubted, most

    def watch_step(self, failure: Failure, carry: Carry, code, new: State, number) -> Failure:
        """Whether this step has failed."""
        code = first_failure(code, broken(new))
        if carry.crossing is not None:  # nothing that happens after it counts
            code = jnp.where(carry.crossing.happened(), Result.SUCCESS, code)
        return failure.noted(code, number)

    def reparametrized(self, system: System, time, state: State, memory: Memory) -> tuple[State, Memory]:
        """Both in coordinates that are far from singular. A scheme that remembers steps in other coordinates starts anew."""
        chosen = system.reparametrized(state)
        if jax.tree.leaves(memory):
            moved = jnp.any(chosen.q != state.q)
            memory = choose(moved, self.scheme.init(system, time, chosen, self.dt), memory)
        return chosen, memory

    def save(self, carry: Carry, block):
        """As many steps as lie between two rows; the state after them, and the control of the first."""
        numbers, given = block
        if self.save_every == 1:
            carry, control = self.step(carry, numbers[0], jax.tree.map(lambda x: x[0], given))
        else:

            def one(carry, step):
                (carry, first), (number, given) = carry, step
                carry, control = self.step(carry, number, given)
                return (carry, choose(number == numbers[0], control, first)), None

            asked = jax.eval_shape(
                self.drive.ask, self.t0, carry.state, jax.tree.map(lambda x: x[0], given), carry.policy
            )[0]
            nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), asked)
            (carry, control), _ = lax.scan(one, (carry, nothing), block)
        if self.bar is not None:
            self.bar(numbers[-1] + 1)
        return carry, (carry.state, control)

    def finish(self, carry: Carry, states: State, controls: Control) -> Trajectory:
        """The trajectory, from its first state and those that were saved."""
        state = self.begin.state
        rows = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
        failure, before = carry.failure, carry.state  # the last good one
        if not self.watched:
            failure = carry.failure.or_else(seen_in(rows))
            before = jax.tree.map(lambda x: x[jnp.maximum(failure.step, 0)], rows)
        failure, ended, most = self.judged(carry, failure, before, np.int32(self.drive.steps), state)
        rows = without_failed(rows, failure, self.save_every)
        t = self.t0 + self.dt * (jnp.arange(len(rows.q)) * self.save_every).astype(self.dt.dtype)
        u = controls.u if self.system.nu else None
        extra = {"own": rows.own, "opening": most, "memory": carry.policy, "u": u}
        path = Trajectory(t, rows.q, rows.v, controls.tau, ended.code, ended.step, **extra)
        if self.event is None or carry.crossing is None:
            return path
        system = self.system.with_control(carry.crossing.control)
        return carry.crossing.cut(self.scheme, system, self.event, path, self.t0, self.dt, self.save_every)

    def judged(
        self, carry: Carry, failure: Failure, before: State, steps, start: State
    ) -> tuple[Failure, Failure, Float[Array, ""] | None]:
        """After all steps: the step that could not be made, and its cause; that, or the first doubt where every step could be
        made; and how far constraints were open, None without any.

        A doubt leaves the states as they are. Where states are lost, the code says why: constraints that opened before are a
        symptom of a motion that diverges as a rule.

        - `failure`, `before`: the step that could not be made, and the state before it.
        - `start`: the initial state.
        """
        end = self.t0 + self.dt * steps.astype(self.dt.dtype)
        doubted, most = carry.doubted, carry.opening
        if self.watches:
            doubted, most = self.watch_state(self.system.evaluate(end, carry.state), carry, steps)
        failed_at = self.t0 + self.dt * failure.step.astype(self.dt.dtype)
        failure = explained(failure, self.system, (failed_at, self.t0), before, start, self.dt)
        return failure, failure.or_else(doubted), None if self.allowed is None else most


def _scan(body, carry, inputs, segment: int | None):
    """`lax.scan`, remembering only every `segment`-th carry for differentiation."""
    length = jax.tree.leaves(inputs)[0].shape[0]
    if segment is None or segment >= length:
        return lax.scan(body, carry, inputs)
    whole = length // segment * segment

    @jax.checkpoint
    def run(carry, rows):
        return lax.scan(body, carry, rows)

    segments = jax.tree.map(lambda x: x[:whole].reshape(whole // segment, segment, *x.shape[1:]), inputs)
    carry, outputs = lax.scan(run, carry, segments)
    outputs = jax.tree.map(lambda y: y.reshape(whole, *y.shape[2:]), outputs)
    if whole < length:
        carry, tail = run(carry, jax.tree.map(lambda x: x[whole:], inputs))
        outputs = jax.tree.map(lambda y, z: jnp.concatenate([y, z]), outputs, tail)
    return carry, outputs


def _segment(checkpoint: SupportsIndex | None, saves: int) -> int | None:
    if checkpoint is None or checkpoint is False:
        return None
    if checkpoint is True:
        return max(1, math.isqrt(saves))
    return whole_number(
        "rollout", "checkpoint", checkpoint, "it is None, True or a positive number of saved states"
    )
