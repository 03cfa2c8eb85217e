"""Simulation over many steps, with controls."""

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


#: Constraint violation above which a rollout reports a warning: angles in rad, lengths as a share of the reach.
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
    """Simulates `steps` steps of length `dt` from `state` and returns the trajectory.

    A model with constraints satisfies them during the motion; its initial state must satisfy them (see `rbd.project`). A
    `rbd.ReducedModel` moves in its independent variables.

    These forces act: the controls, held constant over each step; the joints' `passive_force`; gravity; the forces, tendons
    and actuators that the model carries; and `forces`. Without a command, an actuator receives zero, which for a position
    servo is the target zero. An actuator with a `delay` receives in each step the mean of the commands from `delay` seconds
    earlier, and zero before the first row. A policy cannot control such actuators; `rollout` raises an error.

    If a step fails (a diverged motion, an implicit step without solution), its state and all later states are NaN;
    `Trajectory.code` and `failed_step` report the cause and the step. Derivatives of a failed sample are not finite with
    respect to all inputs that affected its states before; they are zero for inputs that first act in the failed step. A loss
    masked by `code == 0` has the gradient of the other samples. If all steps succeed, open constraints and contact warnings
    are reported in the same way, but the states are preserved, so the drift remains visible.

    Outside `jit`, the function compiles itself: once per model structure, shapes of the arguments, scheme, numbers of steps
    and rows, and functions among the arguments. Calls with other values reuse the compiled program. Two functions count as
    equal if the same line of code creates them around equal values. A method of an object counts as new in each call, since
    attributes may change.

    Args:
      model: The model, or a reduced model.
      state: The initial state.
      controls: `rbd.Controls(u)` of the model's actuators, u of shape (steps, nu); an array (steps, nv) of generalized forces;
        a policy `(t, state) -> rbd.Controls(u)` or `-> tau`; or None for no controls.
      dt: Length of a step in s; by default the timestep of the model's file (`model.settings`). It must be positive. If it is
        traced and not positive, the code is `Result.STEP_NOT_POSITIVE`.
      scheme: The integration scheme; by default the integrator of the model's MJCF file (`MujocoEuler`,
        `RungeKutta4`), else `SemiImplicitEuler()`, or `EventDriven()` if velocities jump.
      steps: The number of steps; optional if `controls` is a table.
      forces: Force elements (`rbd.forces`) or functions `(model, state, t) -> tau`, evaluated whenever the scheme needs forces.
      save_every: Saves every n-th state.
      checkpoint: The states that reverse-mode differentiation stores. By default it stores every state, but no values within
        a step. True stores about the square root of the number of saved states; an integer n stores every n-th saved state.
        The backward pass then repeats the steps between them.
      t0: The time of the initial state.
      event: A function `(t, state) -> number`. The motion stops at its first change of sign, and later rows repeat the state
        of the event (see `Trajectory`). It is evaluated after every step `dt`, so it should not change its sign twice within
        a step. A value of zero at the start is not an event.
      actuation: The joints that generalized forces act on: `rbd.Actuation(joints=[...], limits=True)`; all joints by default.
      memory: The initial memory of a policy with memory, any PyTree of arrays. The policy is then
        `(t, state, memory) -> (tau, memory)`, and `Trajectory.memory` is its final memory.
      stabilization: Stabilization of constraints. By default, the end of each step is projected onto the constraints
        (`rbd.constraints.Projection`), except for schemes that close loops themselves (`Scheme.closes_loops`, the implicit ones).
        A `rbd.constraints.Baumgarte` is cheaper. With None, constraints drift with the error of the scheme.
      constraint_tolerance: The constraint violation, at the start or after a step, above which the code reports a warning: angles
        in rad, lengths as a share of the mechanism's reach (see `rbd.constraints.reach`). `Trajectory.opening` is the largest
        violation.
      progress: If True, shows a progress bar.
      throw: If True, raises a RuntimeError if `code` is not 0 for any sample of a batch, also in compiled code.

    Returns:
      A `Trajectory` with the initial state and every `save_every`-th state.

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
        raise ValueError(f"rollout: constraint_tolerance must be zero or more, got {constraint_tolerance!r}")
    if event is not None and not callable(event):
        raise ValueError(f"rollout: event must be a function (t, state) -> number, got {event!r}")
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
    """Computes `rollout` with checked arguments."""
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
    """The values that a rollout passes from step to step.

    - `state`, and the scheme's `memory`.
    - `policy`: the memory of the policy.
    - `failure`: the first failed step.
    - `doubted`: the first step with a warning: open constraints, or a contact warning. The motion continues.
    - `opening`: the largest constraint violation so far.
    - `crossing`: the crossing of the event function.
    """

    state: State
    memory: Memory
    policy: Any
    failure: Failure
    doubted: Failure
    opening: Float[Array, ""]
    crossing: Crossing | None


class Run:
    """A rollout with all arguments: its steps, the saved values, and the trajectory.

    - `save_every`: the number of steps between two rows.
    - `watched`: whether the code of each step is checked, needed if the rows do not show all failures.
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
        # If True, each state is checked for open constraints and contact warnings.
        self.watches = allowed is not None or self.system.searches
        # Otherwise the rows show if and when the motion diverged, and the steps need no check.
        self.watched = watched or self.scheme.fallible or save_every > 1 or event is not None
        # Reverse mode stores the state at each step, not the intermediate values.
        self.step = self.advance if self.scheme.recomputes else recomputed(self.advance)

    def start(self, given) -> Carry:
        """Returns the carry before the first step."""
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
        """Makes one step, and returns the new carry and the control of the step."""
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
            # The loop continues from the last valid state: its results are discarded, but finite.
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
        """Checks for open constraints after the previous step and for contact warnings in this one.

        The check happens here because the step computes the kinematics anyway.
        """
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
        """Returns the failure after a check of this step."""
        code = first_failure(code, broken(new))
        if carry.crossing is not None:  # failures after the event do not count
            code = jnp.where(carry.crossing.happened(), Result.SUCCESS, code)
        return failure.noted(code, number)

    def reparametrized(self, system: System, time, state: State, memory: Memory) -> tuple[State, Memory]:
        """Returns state and memory in coordinates far from singular ones; a scheme with memory restarts after a change."""
        chosen = system.reparametrized(state)
        if jax.tree.leaves(memory):
            moved = jnp.any(chosen.q != state.q)
            memory = choose(moved, self.scheme.init(system, time, chosen, self.dt), memory)
        return chosen, memory

    def save(self, carry: Carry, block):
        """Makes the steps between two rows; returns the state after them, and the control of the first."""
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
        """Returns the trajectory from the initial and the saved states."""
        state = self.begin.state
        rows = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
        failure, before = carry.failure, carry.state  # the last valid state
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
        """Evaluates the failures and warnings of a rollout after all steps.

        A warning leaves the states unchanged. If states are discarded, the code reports the failure, not an earlier warning:
        constraints that open before are usually a symptom of a diverging motion.

        Args:
          carry: The carry after the last step.
          failure: The first failed step.
          before: The state before the failed step.
          steps: The number of steps.
          start: The initial state.

        Returns:
          The failure with its cause; the failure or else the first warning; and the largest constraint violation, None without
          constraints.
        """
        end = self.t0 + self.dt * steps.astype(self.dt.dtype)
        doubted, most = carry.doubted, carry.opening
        if self.watches:
            doubted, most = self.watch_state(self.system.evaluate(end, carry.state), carry, steps)
        failed_at = self.t0 + self.dt * failure.step.astype(self.dt.dtype)
        failure = explained(failure, self.system, (failed_at, self.t0), before, start, self.dt)
        return failure, failure.or_else(doubted), None if self.allowed is None else most


def _scan(body, carry, inputs, segment: int | None):
    """Computes `lax.scan`, and stores only every `segment`-th carry for differentiation."""
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
        "rollout", "checkpoint", checkpoint, "it must be None, True or a positive number of saved states"
    )
