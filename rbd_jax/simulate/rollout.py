"""Simulation: a state carried over many steps, with controls, and its trajectory."""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Callable, Sequence
from typing import Literal, SupportsIndex, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._arguments import a_model, as_array, choice, configuration, instance, number, velocity, whole_number
from .._array import is_known, with_precision
from .._failures import Failure, first_failure
from ..constraints import Projection, Stabilization, check_consistent
from ..forces import Force
from ..model import Model, at_time
from ..model.configuration import check_quaternions
from ._event import Crossing, EventFunction, choose
from ._failures import broken, explained, opening, seen_in, without_failed
from ._progress import progress_bar
from .result import Result
from .scheme import Memory, Scheme
from .semi_implicit_euler import SemiImplicitEuler
from .state import State
from .system import System
from .systems import Simulated, system_of
from .trajectory import Trajectory
from .tree_system import Acting


#: Generalized forces for every step, or a function of time and state that is asked at the start of every step, or none.
Controls: TypeAlias = (
    Float[Array, "steps nv"] | Callable[[Float[Array, ""], State], Float[Array, "nv"]] | None
)


def rollout(
    model: Simulated,
    state: State,
    controls: Controls = None,
    *,
    dt: float | Float[Array, ""],
    scheme: Scheme | None = None,
    steps: SupportsIndex | None = None,
    forces: Sequence[Acting] = (),
    save_every: SupportsIndex = 1,
    checkpoint: SupportsIndex | None = None,
    t0: float | Float[Array, ""] = 0.0,
    event: EventFunction | None = None,
    stabilization: Stabilization | Literal["auto"] | None = "auto",
    constraint_tolerance: float = 1e-3,
    progress: bool = False,
) -> Trajectory:
    """Simulate `steps` steps of length `dt` from `state`.

    A model with constraints moves under them; its initial state must satisfy them (see `rbd.project`). A
    `rbd.constraints.ReducedModel` moves in its independent variables.

    What acts: the controls, held constant over each step; the joints' own `passive_force`; gravity; the forces that the model
    carries (`rbd.add_forces`); and `forces`.

    A step that fails (a diverged motion, an implicit step without solution) makes its state and all later ones NaN;
    `Trajectory.code` and `failed_step` say what happened and where. Derivatives of a failed sample are not finite either, by
    all that its states depended on before; by what first acted in the step that failed they are zero. A loss masked by
    `code == 0` has the gradient of the other samples. Constraints that open are told in the same way, but the states stay, for
    the drift to be seen.

    **Arguments**

    - `controls`: an array (steps, nv), a policy `(t, state) -> tau`, or None for none.
    - `scheme`: `SemiImplicitEuler()` by default.
    - `steps`: the number of steps; not needed where `controls` is an array.
    - `forces`: force elements (`rbd.forces`) or functions `(model, q, v) -> tau`, asked wherever the scheme asks what acts.
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
    """
    a_model("rollout", model)
    instance("rollout", "state", state, State, "a State, of q and v")
    scheme = SemiImplicitEuler() if scheme is None else scheme
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"rollout: scheme is {scheme!r}; it must be an instance of rbd.Scheme, as rbd.RungeKutta4(), or, of a solver of "
            "diffrax, rbd.Adaptive(solver)"
        )
    steps = _count_steps(model, controls, steps)
    divisor = f"it must divide the number of steps, {steps}"
    save_every = whole_number("rollout", "save_every", save_every, divisor)
    if steps % save_every:
        raise ValueError(f"rollout: save_every is {save_every}; {divisor}")
    saves = steps // save_every
    q = configuration("rollout", model, "q", state.q)
    v = velocity("rollout", model, "v", state.v)
    # In the finest precision of the three, so that nothing is lost.
    dtype = functools.reduce(np.promote_types, (q.dtype, v.dtype, model.dtype))
    model = model if model.dtype == dtype else with_precision(model, dtype)
    q, v = q.astype(dtype), v.astype(dtype)
    if is_known(dt) and jnp.shape(dt) == () and dt == 0:
        raise ValueError("rollout: dt is zero; a step needs a length")
    dt, t0 = (number("rollout", name, value, dtype=dtype) for name, value in (("dt", dt), ("t0", t0)))
    if not constraint_tolerance >= 0:
        raise ValueError(
            f"rollout: constraint_tolerance is {constraint_tolerance!r}; it is a number, zero or more"
        )
    forces = _sequence(forces)
    if event is not None and not callable(event):
        raise ValueError(f"rollout: event is {event!r}; it takes a function (t, state) -> number")
    if isinstance(model, Model):
        check_quaternions("rollout", model, q)
        check_consistent(at_time(model, t0), q, v)
    system = system_of(model, jnp.zeros(model.nv, dtype), forces, _holding(model, scheme, stabilization))
    state = State(q, v, _own_state(system, state.own).astype(dtype))
    control, inputs = _control(model, controls, dtype)
    run = _Run(
        system,
        scheme,
        control,
        t0,
        dt,
        event,
        save_every,
        constraint_tolerance if system.constraint_rows else None,
        # Otherwise the rows tell whether and when the motion diverged, and nothing has to be asked on the way.
        watched=scheme.fallible or save_every > 1 or event is not None,
        bar=progress_bar(steps) if progress else None,
    )

    numbers = jnp.arange(steps, dtype=jnp.int32).reshape(saves, save_every)
    blocks = (numbers, jax.tree.map(lambda x: x.reshape(saves, save_every, *x.shape[1:]), inputs))
    carry = run.start(state, jax.tree.map(lambda x: x[0], inputs))
    carry, (states, tau) = _scan(run.save, carry, blocks, _segment(checkpoint, saves))
    return run.finish(state, carry, states, tau, steps)


class Carry(eqx.Module):
    """What a rollout hands from step to step.

    - `state`, and the scheme's `memory`.
    - `failure`: the first step that could not be made.
    - `opened`: the first step that left constraints open. The motion goes on: a drift is something to look at.
    - `opening`: the most that they were open so far.
    - `crossing`: the event's.
    """

    state: State
    memory: Memory
    failure: Failure
    opened: Failure
    opening: Float[Array, ""]
    crossing: Crossing | None


class _Run:
    """A rollout with all arguments known: what happens in a step, what is kept of it, and what becomes of that."""

    def __init__(
        self,
        system: System,
        scheme: Scheme,
        control: Callable,
        t0: Float[Array, ""],
        dt: Float[Array, ""],
        event: EventFunction | None,
        save_every: int,
        allowed: float | None,
        watched: bool,
        bar: Callable | None,
    ):
        self.system, self.scheme, self.control = system, scheme, control
        self.t0, self.dt, self.event, self.save_every = t0, dt, event, save_every
        self.allowed, self.watched, self.bar = allowed, watched, bar
        # Differentiation remembers the state at each step, not what was computed on the way.
        self.step = jax.checkpoint(self.advance)

    def start(self, state: State, given) -> Carry:
        """Before the first step."""
        system = self.system.with_control(self.control(self.t0, state, given))
        crossing = None if self.event is None else Crossing.none(system.tau, state)
        return Carry(
            state,
            self.scheme.init(system, self.t0, state, self.dt),
            Failure.none(),
            Failure.none(),
            jnp.zeros_like(self.dt),
            crossing,
        )

    def advance(self, carry: Carry, number, given) -> tuple[Carry, Float[Array, "nv"]]:
        """One step, and the control that it had."""
        state = carry.state
        if carry.crossing is not None:
            number = jnp.where(carry.crossing.happened(), carry.crossing.step, number)
        time = self.t0 + number.astype(self.dt.dtype) * self.dt
        system = self.system.with_control(self.control(time, state, given))
        failure, (opened, most) = carry.failure, self.watch_constraints(system, time, carry, number)
        new, memory, code = self.scheme.step(system, time, state, carry.memory, self.dt)
        new = system.settled(time + self.dt, new)
        if self.watched:
            failure = self.watch_step(failure, carry, code, new, number)
            # The loop goes on from the last good state: what it computes there counts for nothing, but is finite.
            new, memory = choose(failure.happened, (state, carry.memory), (new, memory))
        crossing = carry.crossing
        if self.event is not None and crossing is not None:
            new, crossing, known = crossing.watch(self.event, time, system.tau, state, new, self.dt, number)
            failure = failure.noted(jnp.where(known, Result.SUCCESS, Result.NOT_FINITE), number)
        if system.charted:
            new, memory = self.reparametrized(system, time + self.dt, new, memory)
        return Carry(new, memory, failure, opened, most, crossing), system.tau

    def watch_constraints(
        self, system: System, time, carry: Carry, number
    ) -> tuple[Failure, Float[Array, ""]]:
        """Whether the step before has left constraints open: looked at here, where the kinematics is needed anyway."""
        if self.allowed is None:
            return carry.opened, carry.opening
        now = opening(system, time, carry.state)
        code = jnp.where(now > self.allowed, Result.CONSTRAINTS_OPEN, Result.SUCCESS)
        return carry.opened.noted(code, jnp.maximum(number - 1, 0)), jnp.fmax(carry.opening, now)

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
            carry, tau = self.step(carry, numbers[0], jax.tree.map(lambda x: x[0], given))
        else:
            carry, taus = lax.scan(lambda carry, step: self.step(carry, *step), carry, (numbers, given))
            tau = taus[0]
        if self.bar is not None:
            self.bar(numbers[-1] + 1)
        return carry, (carry.state, tau)

    def finish(self, state: State, carry: Carry, states: State, tau, steps: int) -> Trajectory:
        """The trajectory, from its first state and those that were saved."""
        end = self.t0 + self.dt * steps
        opened, most = self.watch_constraints(self.system, end, carry, jnp.int32(steps))
        whole = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
        failure, before = carry.failure, carry.state  # the last good one
        if not self.watched:
            failure = seen_in(whole)
            before = jax.tree.map(lambda x: x[jnp.maximum(failure.step, 0)], whole)
        failed_at = self.t0 + self.dt * failure.step.astype(self.dt.dtype)
        failure = explained(failure, self.system, (failed_at, self.t0), before, state, self.dt)
        rows = without_failed(states, failure, self.save_every)
        rows = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, rows)
        failure = opened.or_earlier(failure)
        t = self.t0 + self.dt * (jnp.arange(len(rows.q)) * self.save_every).astype(self.dt.dtype)
        most = None if self.allowed is None else most
        path = Trajectory(t, rows.q, rows.v, tau, failure.code, failure.step, own=rows.own, opening=most)
        if self.event is None or carry.crossing is None:
            return path
        system = self.system.with_control(carry.crossing.tau)
        return carry.crossing.cut(self.scheme, system, self.event, path, self.t0, self.dt, self.save_every)


def _holding(model: Simulated, scheme: Scheme, given) -> Stabilization | None:
    """What holds the constraints, if nothing is said of it."""
    if isinstance(given, Stabilization) or given is None:
        return given
    choice("rollout", "stabilization", given, ("auto",))
    loose = isinstance(model, Model) and len(model.constraints) > 0 and not scheme.closes_loops
    return Projection() if loose else None


def _own_state(system: System, given) -> Float[Array, "own"]:
    """Where the states that forces have themselves start: as given, or as the forces say."""
    return system.own if given is None else number("rollout", "own", given, system.own.shape)


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


def _sequence(forces) -> tuple[Acting, ...]:
    """What acts, each of it a force element or a function."""
    if not isinstance(forces, Sequence):
        raise ValueError(f"rollout: forces is {reprlib.repr(forces)}; it takes a sequence of them: [force]")
    for index, force in enumerate(forces):
        if not callable(force) and not isinstance(force, Force):
            raise ValueError(
                f"rollout: forces[{index}] is {reprlib.repr(force)}; it takes an instance of rbd.forces.Force or a function "
                "(model, q, v) -> tau"
            )
    return tuple(forces)


def _count_steps(model: Simulated, controls: Controls, steps: SupportsIndex | None) -> int:
    steps = None if steps is None else whole_number("rollout", "steps", steps)
    if controls is None or callable(controls):
        if steps is None:
            raise ValueError("rollout: steps is missing; it is needed where controls is not an array")
        return steps
    shape = jnp.shape(controls)
    if len(shape) != 2 or shape[1] != model.nv or shape[0] == 0 or (steps is not None and shape[0] != steps):
        expected = f"({'steps' if steps is None else steps}, nv) with nv = {model.nv}"
        raise ValueError(
            f"rollout: controls has shape {shape}; for model {model.name!r} it must be {expected}"
        )
    return shape[0]


def _control(model: Simulated, controls: Controls, dtype):
    """How to get the control of a step, and what of it comes with the step."""
    if controls is None:
        return lambda time, state, given: jnp.zeros(model.nv, dtype), ()
    if callable(controls):

        def ask(time, state, given):
            tau = velocity("rollout", model, "the result of controls", controls(time, state))
            return tau.astype(dtype)

        return ask, ()
    return lambda time, state, given: given, as_array("rollout", "controls", controls, "real numbers").astype(
        dtype
    )
