"""The `Task` class: a model to control, initial states, observations, rewards, and terminations.

All functions are pure: a `TaskState` holds an episode and is passed from step to step. Functions take one sample; batch them
with `jax.vmap` or `rbd.batch_map`.
"""

from __future__ import annotations

import abc
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._core.arguments import (
    a_model,
    as_array,
    configuration,
    instance,
    number,
    random_key,
    velocity,
    whole_number,
)
from .._core.array import by_numpy, clamped, is_known, pick
from .._core.derivatives import custom_jvp
from .._core.jit import compiled
from .._core.module import Module
from .._core.under_vmap import one_operation
from ..forces.actuators.drive import actuators_of
from ..simulate import Simulated
from ..simulate.begin import begun
from ..simulate.control import Controls
from ..simulate.controls import control_of, refuse_delays
from ..simulate.result import Result
from ..simulate.scheme import Scheme
from ..simulate.state import State
from ..simulate.steps import held
from ..simulate.systems import system_of, tree_of
from .randomization import Randomization, randomizations, randomized
from .situation import EpisodeKeys, Situation, TaskState


T = TypeVar("T", bound="Task")


class Task(Module):
    """A model to control by rewards: an environment for reinforcement learning and gradient-based learning.

    A custom task defines the initial state (`begin`), the observation (`observe`) and the reward (`reward`). If the defaults
    do not fit, it also defines the termination (`terminated`), the effect of an action (`controls`, `action_size`), and the
    memory (`remember`). These methods receive a `Situation`: `now.model`, `now.q`, `now.v`, `now.time`, `now.memory`, and
    `now.motion`.

    Actions are arrays of `action_size` numbers in [-1, 1]; larger values are clipped. A step holds an action for `dt`.

    - `model`: The simulated model, with its actuators, contact and constraints. Its parameters are leaves, so a
      batch of tasks with different models is a task with batched leaves.
    - `dt`: The time between two actions, in s.
    - `substeps`: The number of simulation steps in that time.
    - `scheme`: As for `rbd.rollout`.
    - `episode_length`: The number of steps after which an episode is truncated; None for never.
    - `randomization`: The domain randomization of every episode: one or several functions
      `(key, model) -> model`, `rbd.tasks.scaled`, `shifted`, `drawn`, or the other randomizations of `rbd.tasks`.

    All fields except the model are passed by name. Fields of a custom class come after the model.

    >>> class Balance(rbd.Task):
    ...     def begin(self, model, key):
    ...         return rbd.State(jax.random.uniform(key, (2,), minval=-0.1, maxval=0.1), jnp.zeros(2))
    ...     def observe(self, now):
    ...         return jnp.concatenate([now.q, now.v])
    ...     def reward(self, before, action, now):
    ...         return jnp.cos(now.q[1]) - 0.1 * jnp.sum(action**2)
    ...     def terminated(self, now):
    ...         return jnp.abs(now.q[1]) > 0.5
    >>> task = Balance(rbd.load("cartpole"), dt=0.02, episode_length=200)
    >>> state = task.reset(jax.random.key(0))
    >>> state = task.step(state, jnp.array([0.5]))
    >>> print(f"{state.reward:.3f}", state.terminated)
    0.972 False
    """

    model: Simulated
    dt: Float[Array, ""] = eqx.field(kw_only=True, converter=lambda dt: number("Task", "dt", dt, above=0))
    substeps: int = eqx.field(kw_only=True, static=True, default=1)
    scheme: Scheme | None = eqx.field(kw_only=True, default=None)
    episode_length: int | None = eqx.field(kw_only=True, static=True, default=None)
    randomization: tuple[Randomization, ...] = eqx.field(kw_only=True, default=(), converter=randomizations)

    def __check_init__(self):
        a_model("Task", self.model, planar=True)
        whole_number("Task", "substeps", self.substeps)
        if self.episode_length is not None:
            whole_number("Task", "episode_length", self.episode_length, "it is a number of steps, or None")
        if self.scheme is not None:
            instance("Task", "scheme", self.scheme, Scheme, "an instance of rbd.Scheme, as rbd.RungeKutta4()")
        jax.eval_shape(lambda: randomized(self.randomization, jax.random.key(0), self.model))
        if type(self).controls is Task.controls:
            _ranges(self.model, type(self).__name__)

    # Methods that a task defines.

    @abc.abstractmethod
    def begin(self, model: Simulated, key: PRNGKeyArray) -> State | tuple[State, Any]:
        """Returns the initial state of the simulation, or a pair of it and the memory, any PyTree of arrays.

        Args:
          model: The model with the parameters of the episode.
          key: The random key of the initial state.
        """

    @abc.abstractmethod
    def observe(self, now: Situation) -> Any:
        """Returns the observation for the next action: an array (observation_size,), or a dict of arrays."""

    @abc.abstractmethod
    def reward(self, before: Situation, action: Float[Array, "na"], now: Situation) -> Any:
        """Returns the reward of a step: a number, or a dict of terms, which are summed and returned in `metrics`."""

    def terminated(self, now: Situation) -> Bool[Array, ""] | np.bool | bool:
        """Returns whether the episode terminates here; by default never."""
        return False

    def controls(self, now: Situation, action: Float[Array, "na"]) -> Controls | Float[Array, "nv"]:
        """Returns the controls of the model for an action: `rbd.Controls(u)` for its actuators, or a generalized force (nv,).

        By default -1 maps to the lower end of each actuator's `control_range`, and 1 to its upper end.
        """
        low, high = _ranges(now.model, type(self).__name__)
        low, high = low.astype(action.dtype), high.astype(action.dtype)
        return Controls(0.5 * (low + high) + 0.5 * (high - low) * action)

    def remember(self, before: Situation, action: Float[Array, "na"], now: Situation) -> Any:
        """Returns the memory after a step; by default the memory does not change."""
        return before.memory

    @property
    def action_size(self) -> int:
        """The number of entries of an action; by default one for each actuator."""
        return tree_of(self.model).nu

    # Methods that callers use.

    @property
    def observation_size(self) -> Any:
        """The number of entries of an observation; for a dict of arrays, a dict of their shapes."""
        seen = jax.eval_shape(lambda: self.reset(jax.random.key(0))).observation
        if isinstance(seen, jax.ShapeDtypeStruct):
            return seen.shape[-1]
        return jax.tree.map(lambda one: one.shape, seen)

    def reset(self, key: PRNGKeyArray) -> TaskState:
        """Returns the start of an episode. All random numbers in it and in later episodes depend only on the key.

        For a batch, pass a key per sample: `jax.vmap(task.reset)(jax.random.split(key, 1024))`.
        """
        return _reset(self, random_key(f"{type(self).__name__}.reset", key, "jax.vmap(task.reset)(keys)"))

    def step(self, state: TaskState, action: Float[Array, "na"]) -> TaskState:
        """Returns the episode one step later, also if it has ended.

        If the simulation of a step fails (see `rbd.Result`), the step leaves the state unchanged and terminates the episode,
        with derivatives of zero.
        """
        return _step(self, state, _checked_action(self, action))

    def step_and_reset(self, state: TaskState, action: Float[Array, "na"]) -> TaskState:
        """Returns the episode one step later, or the start of the next episode if it has ended.

        The results of the step are preserved: `reward`, `terminated`, `truncated`, `metrics`, `code`, and `final_observation`,
        whose value applies if the episode was truncated.
        """
        return _step_and_reset(self, state, _checked_action(self, action))

    def situation(self, state: TaskState) -> Situation:
        """Returns the `Situation` of a state, with the model of the episode."""
        model = eqx.combine(state.changes, self.model)
        time = state.steps.astype(state.state.q.dtype) * self._dt(model)
        return Situation(model, state.state, time, state.memory, EpisodeKeys(state.key).at(state.steps))

    def _dt(self, model: Simulated) -> Float[Array, ""]:
        return self.dt.astype(model.dtype)


@compiled
@one_operation
def _reset(task: Task, key: PRNGKeyArray) -> TaskState:
    return _begun(task, key)


@compiled
@one_operation
def _step(task: Task, state: TaskState, action: Float[Array, "na"]) -> TaskState:
    return _stepped(task, state, action)


@compiled
@one_operation
def _step_and_reset(task: Task, state: TaskState, action: Float[Array, "na"]) -> TaskState:
    new = _stepped(task, state, action)
    # Samples that are mapped sequentially reset only when needed; a vectorized batch computes the reset in any case.
    begin = lambda new: after(new, _begun(task, EpisodeKeys(new.key).following))
    return lax.cond(new.done, begin, lambda new: new, new)


def after(ended: TaskState, following: TaskState) -> TaskState:
    """Returns the start of an episode with the results of the step that ended the previous one."""
    told = lambda one: (
        one.reward,
        one.terminated,
        one.truncated,
        one.metrics,
        one.code,
        one.final_observation,
    )
    return eqx.tree_at(told, following, told(ended))


def _begun(task: Task, key: PRNGKeyArray) -> TaskState:
    """Returns the start of an episode."""
    task = _of_one_precision(task)
    keys = EpisodeKeys(key)
    changes = randomized(task.randomization, keys.model, task.model)
    model = eqx.combine(changes, task.model)
    given = task.begin(model, keys.start)
    state, memory = given if isinstance(given, tuple) else (given, ())
    instance(
        f"{type(task).__name__}.begin",
        "the result",
        state,
        State,
        "a rbd.State, or a pair of it and a memory",
    )
    state = _full(model, state)
    memory = _in_precision(memory, model.dtype)
    steps = jnp.int32(0)
    now = Situation(model, state, jnp.zeros((), model.dtype), memory, keys.at(steps))
    seen = _in_precision(task.observe(now), model.dtype)
    no = jnp.asarray(False)
    told = jax.eval_shape(lambda: _rewarded(task, now, jnp.zeros(task.action_size, model.dtype), now))
    reward, metrics = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), told)
    return TaskState(state, seen, reward, no, no, seen, steps, metrics, memory, jnp.int32(0), changes, key)


def _stepped(task: Task, state: TaskState, action: Float[Array, "na"]) -> TaskState:
    """Returns the episode one step later."""
    task = _of_one_precision(task)
    before, keys = task.situation(state), EpisodeKeys(state.key)
    model = before.model
    action = clamped(action.astype(model.dtype), -1, 1)
    moved, code = _simulated(task, before, action)
    steps = state.steps + 1
    time = steps.astype(model.dtype) * task._dt(model)
    after = Situation(model, moved, time, state.memory, keys.at(steps))
    memory = _like(task, state.memory, task.remember(before, action, after))
    now = after.with_memory(memory)
    reward, metrics = _rewarded(task, before, action, now)
    over = jnp.asarray(task.terminated(now), bool).reshape(()) | (code != Result.SUCCESS)
    late = jnp.asarray(False) if task.episode_length is None else steps >= task.episode_length
    seen = _in_precision(task.observe(now), model.dtype)
    return TaskState(
        moved, seen, reward, over, late & ~over, seen, steps, metrics, memory, code, state.changes, state.key
    )


def _simulated(task: Task, before: Situation, action: Float[Array, "na"]) -> tuple[State, Int[Array, ""]]:
    """Returns the state at the end of a step, and the code. If the step fails, the initial state with zero derivatives."""
    owner, model = type(task).__name__, before.model
    told = task.controls(before, action)
    refuse_delays(owner, model, told)
    begin = begun(owner, model, before.state, task._dt(model), before.time, task.scheme, (), "auto")
    given = begin, control_of(owner, model, told, model.dtype)
    # Traced integers are included: a function with a derivative rule must not close over them.
    numbers, rest = eqx.partition(given, lambda x: eqx.is_inexact_array(x) or not is_known(x))

    def run(numbers):
        begin, control = eqx.combine(numbers, rest)
        new, code = held(begin, begin.state, control, task.substeps)
        return _choose(code != Result.SUCCESS, begin.state, new), code

    # A failed step may produce NaN, and zero times NaN is NaN, so it is excluded on both sides.
    guarded = custom_jvp(run)

    def rule(primals, tangents):
        # Differentiate only by leaves that change: model parameters rarely do, and would multiply the length of the program.
        leaves, structure = jax.tree.flatten(primals[0])
        pushes = structure.flatten_up_to(tangents[0])
        moving = [not isinstance(push, SymbolicZero) for push in pushes]
        still = [leaf for leaf, moves in zip(leaves, moving) if not moves]

        def by_moving(given):
            given, rest = iter(given), iter(still)
            return run(structure.unflatten([next(given) if moves else next(rest) for moves in moving]))

        (moved, code), pushed = jax.linearize(
            by_moving, [leaf for leaf, moves in zip(leaves, moving) if moves]
        )
        lost = code != Result.SUCCESS
        given = [push for push, moves in zip(pushes, moving) if moves]
        changed, uncounted = pushed(_without(lost, given))
        return (moved, code), (_without(lost, changed), uncounted)

    guarded.defjvp(rule, symbolic_zeros=True)
    return guarded(numbers)


def _choose(where: Bool[Array, ""], one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(where, a, b), one, other)


def _without(where: Bool[Array, ""], tangents: Any) -> Any:
    return jax.tree.map(lambda x: jnp.where(where, jnp.zeros_like(x), x), tangents)


def _full(model: Simulated, state: State) -> State:
    """Returns the state in the precision of the model, with the internal states of its force elements."""
    own = system_of(model, jnp.zeros(model.nv, model.dtype)).own if state.own is None else state.own
    q, v = configuration("Task", model, "q", state.q), velocity("Task", model, "v", state.v)
    return jax.tree.map(lambda x: jnp.asarray(x).astype(model.dtype), State(q, v, own))


def _of_one_precision(task: T) -> T:
    """Returns the task with its numbers in the precision of the model: a field of 0.1 may have become float64."""
    dtype = task.model.dtype
    is_number = lambda x: isinstance(x, float) or eqx.is_inexact_array(x)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype) if is_number(x) else x, task)


def _in_precision(tree: Any, dtype) -> Any:
    """Returns arrays, with floats in one precision."""
    arrays = jax.tree.map(jnp.asarray, tree)
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, arrays)


def _rewarded(task: Task, before: Situation, action, now: Situation) -> tuple[Array, dict[str, Array]]:
    """Returns the reward of a step, and its terms."""
    given = task.reward(before, action, now)
    owner, dtype = f"{type(task).__name__}.reward", now.q.dtype
    if not isinstance(given, dict):
        return _one_number(owner, "the result", given, dtype), {}
    terms = {name: _one_number(owner, f"the term {name!r}", term, dtype) for name, term in given.items()}
    return sum(terms.values(), jnp.zeros((), dtype)), terms


def _one_number(owner: str, name: str, value: Any, dtype) -> Float[Array, ""]:
    return number(owner, name, value, dtype=dtype)


def _like(task: Task, before: Any, after: Any) -> Any:
    """Returns the next memory after checking that its structure and shapes equal those of the previous one."""
    owner = f"{type(task).__name__}.remember"
    if jax.tree.structure(after) != jax.tree.structure(before):
        raise ValueError(
            f"{owner} returned {jax.tree.structure(after)}; the memory that `begin` returned is {jax.tree.structure(before)}"
        )

    def leaf(old, new):
        if jnp.shape(new) != old.shape:
            raise ValueError(
                f"{owner} returned an array of shape {jnp.shape(new)}; `begin` returned one of {old.shape}"
            )
        return jnp.asarray(new).astype(old.dtype)

    return jax.tree.map(leaf, before, after)


def _ranges(model: Simulated, owner: str) -> tuple[Float[Array, "nu"], Float[Array, "nu"]]:
    """Returns the ends of the control ranges of all actuators."""
    found = actuators_of(tree_of(model))
    if not found:
        raise ValueError(
            f"{owner}: model {model.name!r} has no actuators; attach some, as rbd.actuators.Motor(name, joint, "
            "control_range=(-1, 1)), or define `controls` and `action_size`"
        )
    for one in found:
        if one.control_range is None:
            raise ValueError(
                f"{owner}: actuator {one.name!r} of model {model.name!r} has no control_range that actions could be spread over; "
                "give it one, or define `controls`"
            )
    pairs = by_numpy(lambda xp, *ranges: xp.stack(ranges), *(one.control_range for one in found))
    return pick(pairs, (slice(None), 0)), pick(pairs, (slice(None), 1))


def _checked_action(task: Task, action: Any) -> Float[Array, "na"]:
    owner, size = f"{type(task).__name__}.step", task.action_size
    action = as_array(owner, "action", action, f"an array of {size} numbers in [-1, 1]")
    if action.shape != (size,):
        hint = (
            "; it takes one sample, so batch: jax.vmap(task.step)(states, actions)"
            if action.ndim == 2
            else ""
        )
        raise ValueError(f"{owner}: action has shape {action.shape}; it is ({size},) for this task{hint}")
    return action
