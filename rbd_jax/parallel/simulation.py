"""Simulation of many samples, and their energies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from .._core.arguments import a_model, instance, number, whole_number
from .._core.array import by_numpy, from_numpy, is_known, pick, zeros
from .._core.jit import compiled, prepared
from ..checkpoints import Checkpoint, Run, plain_leaves, running, with_leaves
from ..constraints import Stabilization
from ..constraints.consistency import assemble, project_velocity
from ..contact.law import contact_law
from ..contact.separated import separated
from ..dynamics.energy import energies_of
from ..model import Model, integrate, neutral
from ..simulate import Acting, Simulated, Stretches, TreeSystem, system_of
from ..simulate.begin import checked_step, default_step, may_rub
from ..simulate.scheme import Scheme
from ..simulate.state import State
from ..simulate.trajectory import Trajectory
from .batch import batch_map, is_global, whole


def simulate_batch(
    model: Simulated,
    states: State,
    *,
    dt: float | None = None,
    steps: int,
    scheme: Scheme | None = None,
    frames: int = 100,
    forces: Sequence[Acting] = (),
    stabilization: Stabilization | Literal["auto"] | None = "auto",
    substeps: int = 1,
    on_progress: Callable[[int], Any] | None = None,
    checkpoint: Checkpoint | str | os.PathLike | None = None,
) -> Trajectory:
    """Simulates a batch of states without controls, and stores only some of the states to save memory.

    The devices of this process share the samples. Within `rbd.parallel.use_devices()` the devices of all processes share them;
    each process passes the same states, and gets the complete result. Otherwise each process may simulate its own rows,
    `rbd.parallel.share(states)`, independently of the others.

    The function compiles a rollout for the number of steps between two rows, and again for another number of samples. Samples
    run side by side, as in `batch_map`, if joints have no dry friction and there is no contact.

    Args:
      model: The model.
      states: The initial states, with a leading axis of samples.
      dt: The step size; by default the timestep of the model's file. It may be negative as for `rollout`.
      steps: The total number of steps.
      scheme: As for `rollout`.
      frames: The maximum number of states per sample that are stored after the initial one. They are equally spaced, except
        for the last, which is the state after all steps.
      forces: As for `rollout`.
      stabilization: As for `rollout`.
      substeps: The number of shorter steps that each step is divided into; step counts and stored states do not change.
      on_progress: A function called with the number of steps done: with 0 when everything is compiled, and after each segment.
      checkpoint: A file to save to and to resume from with the same result (see `rbd.Checkpoint`).

    Returns:
      A `Trajectory` of all samples, with a leading axis of samples. For more than fits into memory, use
      `rbd.parallel.simulate_to_disk`.

    >>> model = rbd.load("double_pendulum")
    >>> states = rbd.State(q=jnp.array([[0.5, -1.0], [0.1, 0.2]]), v=jnp.zeros((2, 2)))
    >>> rbd.simulate_batch(model, states, dt=0.01, steps=100, frames=10).q.shape  # sample, row, coordinate
    (2, 11, 2)
    """
    made = Simulation(
        "simulate_batch", model, states, dt, steps, frames, substeps, scheme, forces, stabilization
    )
    kept = _InMemory()
    with running(made.owner, checkpoint, lambda: made.key) as run:
        end = made.run(kept, run, on_progress)
    rows = jax.tree.map(lambda *x: np.stack(x, axis=1), *kept.rows)
    missing = end.missing(made.row_steps)
    turned = lambda x: np.where(missing[..., None], np.asarray(np.nan, x.dtype), x) if missing.any() else x
    rows = jax.tree.map(lambda x: from_numpy(turned(x)), rows)
    t = from_numpy(np.broadcast_to(made.times, missing.shape))
    tau = zeros((len(missing), missing.shape[1] - 1, model.nv), rows.q.dtype)
    codes = from_numpy(end.code), from_numpy(end.failed_step)
    opening = None if end.opening is None else from_numpy(end.opening)
    return Trajectory(t, rows.q, rows.v, tau, *codes, own=rows.own, opening=opening)


@runtime_checkable
class Rows(Protocol):
    """The storage of the rows of a batch during its simulation."""

    def put(self, number: int, state: State) -> None:
        """Stores a row of all samples, as NumPy arrays."""

    def saved(self) -> Mapping[str, Any]:
        """Returns the data that a checkpoint needs for the rows stored so far."""
        ...

    def restored(self, saved: Mapping[str, Any]) -> None:
        """Restores the rows from saved data."""


class _InMemory:
    def __init__(self):
        self.rows: list[State] = []

    def put(self, number: int, state: State) -> None:
        self.rows.append(state)

    def saved(self) -> Mapping[str, Any]:
        rows = jax.tree.map(lambda *x: np.stack(x), *self.rows)
        return {name: getattr(rows, name) for name in State.__annotations__}

    def restored(self, saved: Mapping[str, Any]) -> None:
        rows = State(**saved)
        self.rows = [jax.tree.map(lambda x, i=i: x[i], rows) for i in range(len(rows.q))]


class End(NamedTuple):
    """The outcome of the samples.

    - `lost_after`: The step that failed, or -1; states after its start are NaN.
    - `code`, `failed_step`, `opening`: As in a `Trajectory`.
    """

    lost_after: Int[np.ndarray, "batch"]
    code: Int[np.ndarray, "batch"]
    failed_step: Int[np.ndarray, "batch"]
    opening: Float[np.ndarray, "batch"] | None

    def missing(self, row_steps: Int[np.ndarray, "rows"]) -> Bool[np.ndarray, "batch rows"]:
        """Returns which rows are NaN; `row_steps` is the number of steps before each row."""
        return (self.lost_after[:, None] >= 0) & (row_steps > self.lost_after[:, None])


class Simulation:
    """A batch simulation: the checked arguments of `simulate_batch`.

    - `row_steps`: The number of steps before each row; `times`: the time of each row.
    - `key`: Everything that determines the results.
    """

    def __init__(self, owner: str, model, states, dt, steps, frames, substeps, scheme, forces, stabilization):
        a_model(owner, model, planar=True)
        instance(owner, "states", states, State, "a State with a leading axis of samples")
        if any(map(is_global, jax.tree.leaves(states))):
            raise ValueError(
                f"{owner}: states are global arrays; give it this process's rows, rbd.parallel.share(states), or, within "
                "rbd.parallel.use_devices(), the whole batch in every process, rbd.parallel.gather(states)"
            )
        if not is_known((model, states)):
            raise ValueError(
                f"{owner}: model or states are traced, as within jit, grad or vmap, where no rows can be stored during a "
                "simulation; rbd.batch_map of rbd.rollout can be traced"
            )
        dt = default_step(owner, model) if dt is None else dt
        steps = whole_number(owner, "steps", steps)
        frames = whole_number(owner, "frames", frames)
        self.substeps = whole_number(owner, "substeps", substeps)
        stretch = -(-steps // frames)
        # The last segment may be shorter, so that the simulated time is as requested.
        self.row_steps = np.minimum(stretch * np.arange(-(-steps // stretch) + 1), steps)
        self.owner, self.model = owner, model
        self.made = Stretches(owner, scheme, tuple(forces), stabilization, may_rub(model))
        dtype = jnp.result_type(states.q)
        self.dt = jnp.asarray(number(owner, "dt", dt), dtype)
        system = system_of(model, zeros((model.nv,), dtype), tuple(forces))
        checked_step(owner, self.dt)
        self.times = np.asarray(self.row_steps * float(dt), dtype)
        if states.own is None:
            own = system.own
            each = lambda xp, own: xp.broadcast_to(own.astype(dtype), (len(states.q), *own.shape))
            states = State(states.q, states.v, by_numpy(each, own))
        self.states = states
        self.key = {
            "model": model,
            "states": states,
            "dt": self.dt,
            "steps": steps,
            "frames": frames,
            "substeps": self.substeps,
            "scheme": scheme,
            "forces": tuple(forces),
            "stabilization": stabilization,
        }

    def run(self, rows: Rows, run: Run, on_progress: Callable[[int], Any] | None) -> End:
        """Simulates, or resumes from saved data. All rows are stored, including the first."""
        report = on_progress if on_progress is not None else lambda done: None
        numbers = self.row_steps.tolist()
        arguments = self.model, self.states, self.dt
        options = {"made": self.made, "substeps": self.substeps}
        carry = prepared(_started, *arguments, **options)(*arguments, **options)
        counts = np.diff(numbers).tolist()
        advance = {
            count: prepared(_advanced, self.model, carry, jnp.int32(0), self.dt, count=count, **options)
            for count in set(counts)
        }
        judge = prepared(_judged, *arguments, carry, jnp.int32(0), **options)
        if run.found is None:
            begin = 0
            rows.put(0, jax.tree.map(np.asarray, self.states))
        else:
            begin = run.found["row"]
            carry = with_leaves(carry, run.found["carry"])
            rows.restored(run.found["rows"])
        report(0)
        if begin:
            report(numbers[begin])
        for row, count in enumerate(counts[begin:], begin + 1):
            given = self.model, carry, jnp.int32(numbers[row - 1]), self.dt
            carry = jax.block_until_ready(advance[count](*given, count=count, **options))
            rows.put(row, jax.tree.map(np.asarray, carry.state))
            values = lambda row=row, carry=carry: {
                "row": row,
                "carry": plain_leaves(carry),
                "rows": rows.saved(),
            }
            run.save(values()) if row == len(counts) else run.offer(values)
            report(numbers[row])
        failure, ended, opening = judge(*arguments, carry, jnp.int32(numbers[-1]), **options)
        # The floor division preserves -1.
        step = lambda step: np.asarray(step) // self.substeps
        most = None if opening is None else np.asarray(opening)
        return End(step(failure.step), np.asarray(ended.code), step(ended.step), most)


def _started(model: Simulated, states: State, dt, *, made: Stretches, substeps: int):
    """Returns the data of all samples before the first step."""
    start = lambda made, model, state, dt: made.start(model, state, dt / substeps)
    return whole(batch_map(start, in_axes=(None, None, 0, None))(made, model, whole(states), dt))


def _advanced(model: Simulated, carry, first, dt, *, count: int, made: Stretches, substeps: int):
    """Returns the data of all samples after `count` steps from step `first` on."""

    def advance(made, model, carry, first, dt):
        return made.advance(model, carry, first * substeps, dt / substeps, count * substeps)

    axes = None, None, 0, None, None
    return whole(batch_map(advance, in_axes=axes)(made, model, whole(carry), first, dt))


def _judged(model: Simulated, states: State, dt, carry, steps, *, made: Stretches, substeps: int):
    """Returns the outcome of all samples."""

    def judge(made, model, state, carry, steps, dt):
        return made.judge(model, state, carry, steps * substeps, dt / substeps)

    axes = None, None, 0, 0, None, None
    return whole(batch_map(judge, in_axes=axes)(made, model, whole(states), whole(carry), steps, dt))


def random_states(model: Model, batch: int, key: PRNGKeyArray, spread: float, speed: float) -> State:
    """Returns random states near the neutral state, with a leading axis of samples.

    Configurations have normal offsets of size `spread` in every degree of freedom, clipped to the joint limits; velocities are
    normal with size `speed`. Shapes in contact are then moved apart. States of a model with constraints are assembled and
    projected; a mechanism that cannot be closed from its random configuration stays open.

    Args:
      model: The model.
      batch: The number of samples.
      key: The random key.
      spread: The standard deviation of the configuration offsets.
      speed: The standard deviation of the velocities.

    >>> model = rbd.load("double_pendulum")
    >>> states = rbd.parallel.random_states(model, 3, jax.random.key(0), spread=0.1, speed=0.0)
    >>> print(states.q.shape, states.v[0])
    (3, 2) [0. 0.]
    """

    keys = jax.random.split(key, batch)
    return _drawn(model, keys, jnp.asarray(spread, model.dtype), jnp.asarray(speed, model.dtype))


@compiled
def _drawn(model: Model, keys, spread, speed) -> State:
    def draw(key):
        offset, v = jax.random.normal(key, (2, model.nv), model.dtype)
        q = jnp.clip(integrate(model, neutral(model), spread * offset), model.lower, model.upper)
        if contact_law(model) is not None:
            q = separated(model, q)
        if not model.constraints:
            return State(q, speed * v)
        q = assemble(model, q).q
        return State(q, project_velocity(model, q, speed * v))

    return jax.vmap(draw)(keys)


def energies_along(
    model: Model, path: Trajectory, frames: Sequence[int]
) -> Float[np.ndarray, "frames batch 2"]:
    """Returns kinetic and potential energy of every sample in some frames of a batch's trajectory.

    The potential energy includes the energy stored in joint springs and in the model's force elements.

    >>> model = rbd.load("pendulum")
    >>> path = rbd.simulate_batch(model, rbd.State(jnp.array([[0.0], [0.5]]), jnp.zeros((2, 1))), dt=0.01, steps=10, frames=2)
    >>> print(rbd.parallel.energies_along(model, path, [0])[0])  # kinetic and potential
    [[ 0.    -9.81 ]
     [ 0.    -8.609]]
    """

    own = zeros((*path.q.shape[:2], 0)) if path.own is None else path.own
    at = lambda x, i: pick(x, (slice(None), i))
    rows = ((pick(path.t, (0, i)), at(path.q, i), at(path.v, i), at(own, i)) for i in frames)
    rows = (tuple(jnp.asarray(x, model.dtype) for x in row) for row in rows)
    return np.stack([np.asarray(_energies(model, *row), float) for row in rows])


@compiled
def _energies(model: Model, time, q, v, own) -> Float[jax.Array, "batch 2"]:
    """Returns the energies of all samples at one time."""

    def energy(model, time, q, v, own):
        system = TreeSystem(model=model, tau=jnp.zeros_like(v))
        here = system.evaluate(time, State(q, v, own))
        stored = [force.stored_energy(here.motion) for force in here.elements]
        return energies_of(here.motion).at[1].add(sum(stored, jnp.zeros((), q.dtype)))

    return whole(batch_map(energy, in_axes=(None, None, 0, 0, 0))(model, time, q, v, own))
