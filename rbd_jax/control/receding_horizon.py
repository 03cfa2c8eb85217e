"""Receding-horizon control (model predictive control): repeated solution of a problem from the current state.

Between plans the controller follows the last plan: its controls, and the feedback around it if the solver provides one. Each
plan starts from the previous plan, shifted in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import as_array, choice, function_tree, instance, number
from .._core.array import is_known, matvec
from .._core.jit import compiled
from ..optimize.outcome import Code
from ..simulate.control import Controls
from ..simulate.state import State
from ._stages import Point, Stages, joined
from .ddp import DDP
from .problem import Problem
from .residual import Along
from .solution import Solution
from .solve import checked_guess
from .solver import Guess, Solver, Start, started


#: Times are equal if they differ by less than this share of a step, which covers the rounding of sums of steps.
SAME = 1e-2
#: The parts of the previous plan that a new plan starts from.
NOTHING, CONTROLS, ALL = 0, 1, 2


class Plan(eqx.Module):
    """A motion to follow.

    - `time`, `dt`: start time, and length of the steps.
    - `control`, `states`: of its steps, and of its knots.
    - `gains`: the feedback around it, if its solver provides one.
    - `multipliers`: in the form of its solver.

    >>> start = rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> problem = rbd.control.Problem(rbd.load("pendulum"), start, steps=20, dt=0.05, running=[1e-3 * rbd.control.Effort()])
    >>> plan = rbd.control.RecedingHorizon(problem, rbd.control.DDP(max_iterations=2)).start(start).plan
    >>> print(isinstance(plan, rbd.control.Plan), plan.control.shape, plan.states.q.shape)
    True (20, 1) (21, 1)
    """

    time: Float[Array, ""]
    dt: Float[Array, ""]
    control: Float[Array, "steps nu"]
    states: State
    gains: Float[Array, "steps nu nx"] | None
    multipliers: Any


class HorizonMemory(eqx.Module):
    """The internal state of a `RecedingHorizon`: arrays of fixed shapes.

    - `plan`: the current plan. `coming`: with a delay, the plan that replaces it at its start time.
    - `due`: time at which the next plan is due.
    - `plans`: number of plans made. `failures`: number of rejected plans, for which the previous plan continued.
    - `code`, `cost`, `violation`: of the last plan made, accepted or not.
    - `trust`: what the next plan starts from: 2 `plan` with the data of its solver, 1 its controls only, 0 nothing.

    >>> start = rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> problem = rbd.control.Problem(rbd.load("pendulum"), start, steps=20, dt=0.05, running=[1e-3 * rbd.control.Effort()])
    >>> controller = rbd.control.RecedingHorizon(problem, rbd.control.DDP(max_iterations=2))
    >>> memory = controller.start(start)
    >>> print(isinstance(memory, rbd.control.HorizonMemory), memory.plans)
    True 0
    """

    plan: Plan
    coming: Plan | None
    due: Float[Array, ""]
    plans: Int[Array, ""]
    failures: Int[Array, ""]
    code: Int[Array, ""]
    cost: Float[Array, ""]
    violation: Float[Array, ""]
    trust: Int[Array, ""]


class RecedingHorizon(eqx.Module):
    """A controller that repeatedly solves a problem from the current state, and applies the result (MPC).

    It is a policy with a memory, for one compiled simulation:

        rbd.rollout(plant, state, controller, memory=controller.start(state), dt=1e-3, steps=5000)

    For a robot, call it step by step: `control, memory = controller.step(memory, t, state)`. This compiles on the first call
    only, so call it once before the robot moves.

    The model of the problem may differ from the plant, and its steps from those of the simulation. The controller makes a
    plan every `period`, with the solver's number of iterations (`DDP(max_iterations=2)`). Between plans it holds each
    control for a step of the plan. It adds the feedback `K (x ⊖ x_plan)` with the solver's gains, if present, and clips to
    the bounds of the controls. Each plan starts from the previous plan, shifted in time. Beyond its end the last control is
    held, or `tail` determines the control.

    Targets move with time: `Along` has rows for times from `problem.t0`, in steps of `problem.dt`, for any number of rows.
    For a plan that begins between two rows, residuals are interpolated between both. Functions receive the actual time.
    Constraints at the end hold at the end of each plan.

    A plan is accepted if it is finite and its code is in `accept`. Otherwise the previous plan continues, and `failures` in
    the memory increases. The next plan then starts from zero controls, or those of `tail`. Controls are never NaN, even if a
    measured state is.

    A controller is a PyTree. Another controller with other values (targets, weights, masses) of the same shapes needs no
    compilation, and continues with the same memory.

    Args:
      problem: The problem, from any state, such as the first. Its `steps` are the horizon.
      solver: By default `DDP(max_iterations=5)`.
      period: Time between plans, by default `problem.dt`.
      delay: Time to make a plan, at most `period`. A plan then starts later by this time, from the predicted state under the
        current plan, which continues until then.
      feedback: Whether to use the solver's gains.
      warm_start: "controls" starts a plan from controls: those of the last plan and its feedback from the current state.
        "states" also passes the states of the last plan, for solvers that allow gaps between states.
      tail: Policy `(t, state) -> control`, in the decision variables of the problem, beyond the end of the last plan.
      accept: The codes with which a plan is accepted: by default all except `NOT_FINITE`, `INFEASIBLE` and `UNBOUNDED`,
        because a few iterations rarely converge.

    >>> model = rbd.load("pendulum")
    >>> start = rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     start,
    ...     steps=20,
    ...     dt=0.05,
    ...     running=[1e-3 * rbd.control.Effort(), 10.0 * rbd.control.Posture(jnp.array([1.0])), rbd.control.Velocity()],
    ... )
    >>> controller = rbd.control.RecedingHorizon(problem, rbd.control.DDP(max_iterations=2))
    >>> path = rbd.rollout(model, start, controller, memory=controller.start(start), dt=0.01, steps=200)
    >>> print(path.q[-1], path.memory.plans, path.memory.failures)
    [0.995] 40 0
    """

    problem: Problem
    solver: Solver
    period: Float[Array, ""]
    delay: Float[Array, ""] | None
    tail: Callable[..., Any] | None
    feedback: bool = eqx.field(static=True)
    warm_start: Literal["controls", "states"] = eqx.field(static=True)
    accept: tuple[Code, ...] = eqx.field(static=True)
    ahead: int = eqx.field(static=True, init=False)

    def __init__(
        self,
        problem: Problem,
        solver: Solver | None = None,
        *,
        period: Any = None,
        delay: Any = None,
        feedback: bool = True,
        warm_start: Literal["controls", "states"] = "controls",
        tail: Callable[..., Any] | None = None,
        accept: Sequence[Code] = (Code.CONVERGED, Code.NOT_CONVERGED, Code.STALLED),
    ):
        owner = "control.RecedingHorizon"
        instance(owner, "problem", problem, Problem, "a control.Problem")
        solver = DDP(max_iterations=5) if solver is None else solver
        instance(owner, "solver", solver, Solver, "a solver, such as control.DDP(max_iterations=5)")
        solver.refuse(problem)
        dtype = problem.dt.dtype
        self.problem, self.solver = problem, solver
        self.period = problem.dt if period is None else number(owner, "period", period, dtype=dtype, above=0)
        self.delay, self.ahead = None, 0
        if delay is not None:
            if not is_known((delay, problem.dt)):
                raise ValueError(
                    f"{owner}: delay is traced, but its number of steps must be known when the function compiles. Pass a number."
                )
            self.delay = number(owner, "delay", delay, dtype=dtype, above=0)
            self.ahead = max(1, math.ceil(float(delay) / float(problem.dt) - SAME))
            if is_known(self.period) and float(self.delay) > float(self.period) * (1 + SAME):
                raise ValueError(
                    f"{owner}: delay is {float(delay):g} s and the period {float(self.period):g} s: a plan is ready only after "
                    "the next is due. Use a longer period."
                )
        if not isinstance(feedback, bool):
            raise ValueError(f"{owner}: feedback is {feedback!r}; it must be True or False")
        self.feedback = feedback
        self.warm_start = choice(owner, "warm_start", warm_start, ("controls", "states"))  # pyright: ignore[reportAttributeAccessIssue]
        if tail is not None and not callable(tail):
            raise TypeError(f"{owner}: tail is {tail!r}; it must be a policy (t, state) -> control")
        self.tail = None if tail is None else function_tree(tail)
        self.accept = tuple(Code(code) for code in accept)

    # The public interface.

    def start(self, state: State, t: Any = None, guess: Guess | Solution | None = None) -> HorizonMemory:
        """Returns the initial memory. The first step makes a plan.

        Args:
          state: The initial state.
          t: The initial time, by default `problem.t0`.
          guess: Start of the first plan, such as the result of `solve`; by default zero controls, or those of `tail`.
        """
        owner = "control.RecedingHorizon.start"
        gains = guess.gains if isinstance(guess, Solution) else None
        guess = checked_guess(owner, self.problem, guess)
        t = self.problem.t0 if t is None else number(owner, "t", t, dtype=self._dtype)
        return _begun(self, self._state(owner, state), t, guess, gains)

    def step(
        self, memory: HorizonMemory, t: Any, state: State
    ) -> tuple[Controls | Float[Array, "nv"], HorizonMemory]:
        """Returns the control at a time in a state, and the memory for the next step.

        The control is an input of `rbd.step`: `rbd.Controls(u)` of the actuators, or `tau`. Outside of `jit` the function
        compiles on the first call only.

        Args:
          memory: The result of `start` or of the last step.
          t: The current time.
          state: The current state.
        """
        owner = "control.RecedingHorizon.step"
        instance(owner, "memory", memory, HorizonMemory, "what `start` or the last step returned")
        t = _measured(owner, "t", t, (), self._dtype)
        return _stepped(self, memory, t, self._state(owner, state))

    def __call__(self, t, state: State, memory: HorizonMemory):
        """Returns the control and the memory, as a policy of `rbd.rollout`."""
        return self.step(memory, t, state)

    # Implementation.

    @property
    def _dtype(self):
        return self.problem.dt.dtype

    def _state(self, owner: str, state: State) -> State:
        """Returns a state in the form of the problem. Missing internal states of forces have their initial values."""
        instance(owner, "state", state, State, "a State")
        first, model = self.problem.state, self.problem.model
        own = first.internal if state.own is None else state.own
        if jnp.shape(own) != first.internal.shape:
            raise ValueError(
                f"{owner}: state.own has shape {jnp.shape(own)}, but the forces of the planning model have {first.internal.size} "
                "internal states. Pass State(state.q, state.v) without them."
            )
        q, v = (
            _measured(owner, f"state.{name}", getattr(state, name), (getattr(model, size),), self._dtype)
            for name, size in (("q", "nq"), ("v", "nv"))
        )
        return State(q, v, _measured(owner, "state.own", own, first.internal.shape, self._dtype))

    # Plans.

    def blank(self, stages: Stages, state: State, t, guess: Guess, gains) -> HorizonMemory:
        """Returns the memory before the first plan."""
        problem, dtype = self.problem, self._dtype
        steps, first = problem.steps, stages.first._replace(state=state)
        start = started(stages, Guess(guess.control, guess.states, guess.dt))
        points = start.points
        if points is None:
            points = jax.tree.map(lambda x: jnp.broadcast_to(x, (steps + 1, *x.shape)), first)
        like = jax.eval_shape(
            lambda start: self.solver.finish(stages, self.solver.begin(stages, start)), start
        )
        found, fit = {}, {}
        for name, given in (("gains", gains), ("multipliers", guess.multipliers)):
            wanted = getattr(like, name)
            fit[name] = _alike(given, wanted)
            found[name] = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), wanted)
            if fit[name]:
                found[name] = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), given, found[name])
        plan = Plan(t, start.first.dt, start.control, points.state, **found)
        none, nothing = jnp.int32(0), jnp.zeros((), dtype)
        given = guess.control is not None or guess.states is not None
        return HorizonMemory(
            plan=plan,
            coming=None if self.delay is None else replace(plan, time=jnp.full((), jnp.inf, dtype)),
            due=t,
            plans=none,
            failures=none,
            code=jnp.int32(Code.NOT_CONVERGED),
            cost=nothing,
            violation=nothing,
            trust=jnp.int32((ALL if fit["multipliers"] else CONTROLS) if given else NOTHING),
        )

    def advanced(self, memory: HorizonMemory, t, state: State) -> tuple[Float[Array, "nu"], HorizonMemory]:
        """Returns the control at a time, after making a plan if one is due."""
        if memory.coming is not None:
            ready = t >= memory.coming.time - SAME * self.problem.dt
            plan = _choose(ready, memory.coming, memory.plan)
            time = jnp.where(ready, jnp.inf, memory.coming.time)
            memory = replace(memory, plan=plan, coming=replace(memory.coming, time=time))
        due = t >= memory.due - SAME * self.period
        memory = lax.cond(due, lambda *now: self._planned(*now), lambda memory, *_: memory, memory, t, state)
        return self._followed(Stages(self.problem), memory.plan, t, state), memory

    def _planned(self, memory: HorizonMemory, t, state: State) -> HorizonMemory:
        """Returns the memory with a new plan, if it is accepted."""
        time, begin = (t, state) if self.delay is None else self._later(memory.plan, t, state)
        stages = Stages(self._problem_from(time, begin))
        start = self._moved_on(stages, memory, time)
        search, multipliers = self.solver.begin(stages, start), memory.plan.multipliers
        if jax.tree.leaves(multipliers):
            multipliers = self._rows_later(multipliers, stages, (time - memory.plan.time) / memory.plan.dt)
            warm = self.solver.begin(stages, replace(start, multipliers=multipliers))
            search = _choose(memory.trust >= ALL, warm, search)
        found = self.solver.searched(stages, search)
        plan = Plan(time, found.dt, found.control, found.states, found.gains, found.multipliers)
        known = jnp.any(found.code == jnp.asarray([int(code) for code in self.accept], found.code.dtype))
        fine = known & _finite((plan.control, plan.states, plan.gains, plan.dt))
        # Missed plans are not made up for.
        due = jnp.where(t >= memory.due + self.period, t, memory.due) + self.period
        # A state that is not finite does not count against the last plan, but lowers the trust.
        less = memory.trust - _finite((state.q, state.v)).astype(jnp.int32)
        memory = replace(
            memory,
            due=due,
            plans=memory.plans + 1,
            failures=memory.failures + (~fine).astype(jnp.int32),
            code=found.code,
            cost=found.cost,
            violation=found.violation,
            trust=jnp.where(fine, ALL, jnp.maximum(less, NOTHING)),
        )
        if memory.coming is None:
            return replace(memory, plan=_choose(fine, plan, memory.plan))
        return replace(memory, coming=_choose(fine, plan, memory.coming))

    def _problem_from(self, time, state: State) -> Problem:
        """Returns the problem at a time, with its targets."""
        problem = self.problem
        rows = (time - problem.t0) / problem.dt
        is_along = lambda part: isinstance(part, Along)
        moved = lambda part: replace(part, first=rows if part.first is None else part.first + rows)
        costs = jax.tree.map(
            lambda part: moved(part) if is_along(part) else part,
            (problem.running, problem.terminal, problem.constraints),
            is_leaf=is_along,
        )
        running, terminal, constraints = costs
        return replace(
            problem, state=state, t0=time, running=running, terminal=terminal, constraints=constraints
        )

    def _later(self, plan: Plan, t, state: State) -> tuple[Array, State]:
        """Returns the time at which the new plan will start, and the predicted state at that time."""
        assert self.delay is not None
        stages = Stages(replace(self.problem, state=state, t0=t))
        dt = self.delay / self.ahead

        def advance(point, index):
            control = self._followed(stages, plan, stages.time(index, point), point.state)
            return stages.advance(index, point, control), None

        last, _ = lax.scan(advance, Point(state, dt), jnp.arange(self.ahead, dtype=jnp.int32))
        return t + self.delay, last.state

    def _moved_on(self, stages: Stages, memory: HorizonMemory, time) -> Start:
        """Returns the last plan from a later time, limited to its trusted parts, without its multipliers."""
        plan, steps = memory.plan, stages.steps
        first = stages.first._replace(dt=plan.dt)
        lower, upper = stages.control_bounds()
        nothing = jnp.clip(jnp.zeros(stages.nu, stages.dtype), lower, upper)
        trusted, usual = memory.trust >= CONTROLS, memory.trust >= ALL
        last = jnp.where(trusted, plan.control[-1], nothing)
        handed = self.warm_start == "states"
        fed = self.feedback and plan.gains is not None and not handed

        def advance(point, index):
            place = (time - plan.time) / plan.dt + index.astype(stages.dtype)
            inside = trusted & (place < steps - SAME)
            row, share = _row(place, steps)
            # The mean of the held controls over the step.
            control = plan.control[row]
            control = control + share * (plan.control[jnp.minimum(row + 1, steps - 1)] - control)
            if fed:
                corrected = control + self._correction(stages, plan, place, point)
                control = jnp.where(usual & _finite(corrected), corrected, control)
            beyond = last if self.tail is None else self._tail(stages.time(index, point), point.state)
            control = jnp.clip(jnp.where(inside, control, beyond), lower, upper)
            control = jnp.where(jnp.isfinite(control), control, nothing)
            after = stages.advance(index, point, control)
            if handed:
                there = self._between(stages, plan, place + 1)
                after = _choose(trusted & (place + 1 < steps + SAME), there, after)
            return _choose(_finite(after), after, point), (after, control)

        def held(index):
            return advance(first, index)[1][1]

        indices = jnp.arange(steps, dtype=jnp.int32)
        if not (fed or handed or self.tail is not None):  # controls do not depend on the motion
            return Start(first, jax.vmap(held)(indices), None)
        _, (rest, control) = lax.scan(advance, first, indices)
        return Start(first, control, joined(first, rest) if handed else None)

    def _tail(self, time, state: State) -> Float[Array, "nu"]:
        """Returns the control beyond the end of a plan."""
        assert self.tail is not None
        given = jnp.asarray(self.tail(time, state))
        if given.shape != (self.problem.nu,):
            raise ValueError(
                f"control.RecedingHorizon: tail returned an array of shape {given.shape}; it must return the controls of the "
                f"problem, of shape ({self.problem.nu},): {', '.join(self.problem.control_names)}"
            )
        return given.astype(self._dtype)

    def _rows_later(self, multipliers: Any, stages: Stages, place) -> Any:
        """Returns multipliers of steps and knots, shifted in time; those of the last knot stay in place."""
        steps = stages.steps
        shift = jnp.clip(jnp.round(place), 0, steps).astype(jnp.int32)
        later = jnp.minimum(jnp.arange(steps, dtype=jnp.int32) + shift, steps - 1)

        def moved(rows):
            if not rows.ndim or rows.shape[0] not in (steps, steps + 1):
                return rows
            return jnp.concatenate([rows[later], rows[steps:]])

        return jax.tree.map(moved, multipliers)

    # Following a plan.

    def _followed(self, stages: Stages, plan: Plan, t, state: State) -> Float[Array, "nu"]:
        """Returns the control of a plan at a time, with its feedback, within the bounds."""
        place = (t - plan.time) / plan.dt
        row, _ = _row(place, stages.steps)
        planned = plan.control[row]
        lower, upper = stages.control_bounds()
        if not self.feedback or plan.gains is None:
            return jnp.clip(planned, lower, upper)
        control = planned + self._correction(stages, plan, place, Point(state, plan.dt))
        return jnp.clip(jnp.where(_finite(control), control, planned), lower, upper)

    def _correction(self, stages: Stages, plan: Plan, place, point: Point) -> Float[Array, "nu"]:
        """Returns the term that the feedback adds to the control of a plan; zero before the plan begins and after it ends."""
        assert plan.gains is not None
        row, _ = _row(place, stages.steps)
        error = stages.difference(self._between(stages, plan, place), point._replace(dt=plan.dt))
        during = (place > -SAME) & (place < stages.steps + SAME)
        return jnp.where(during, matvec(plan.gains[row], error), 0)

    def _between(self, stages: Stages, plan: Plan, place) -> Point:
        """Returns the point of a plan at a place between its knots."""
        row, share = _row(place, stages.steps)
        before, after = (
            Point(jax.tree.map(lambda x, i=i: x[i], plan.states), plan.dt) for i in (row, row + 1)
        )
        return stages.move(before, share * stages.difference(before, after))


@compiled
def _begun(controller: RecedingHorizon, state: State, t, guess: Guess, gains) -> HorizonMemory:
    return controller.blank(Stages(controller.problem), state, t, guess, gains)


@compiled
def _stepped(controller: RecedingHorizon, memory: HorizonMemory, t, state: State):
    decided, memory = controller.advanced(memory, t, state)
    told = controller.problem.told(decided)
    return Controls(told.u) if controller.problem.told_actuators else told.tau, memory


def _row(place: Float[Array, ""], steps: int) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """Returns the step of a place, counted in steps from the start of a plan, and the share of the step before it."""
    row = jnp.clip(jnp.floor(place + SAME), 0, steps - 1)
    return row.astype(jnp.int32), jnp.clip(place - row, 0, 1)


def _choose(which, new, old):
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), new, old)


def _finite(tree) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack(leaves))


def _alike(given, wanted) -> bool:
    """Returns whether both have the same structure and shapes, so that one can replace the other."""
    if jax.tree.structure(given) != jax.tree.structure(wanted):
        return False
    pairs = zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True)
    return all(jnp.shape(a) == b.shape for a, b in pairs)


def _measured(owner: str, name: str, value, shape: tuple[int, ...], dtype) -> Array:
    """Returns an array of a given shape, without checking its values, because a controller must not stop when a sensor fails."""
    array = as_array(owner, name, value, f"an array of shape {shape}" if shape else "one number")
    if array.shape != shape:
        raise ValueError(f"{owner}: {name} has shape {array.shape}; it must have shape {shape}")
    return array.astype(dtype)
