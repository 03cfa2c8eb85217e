"""Many samples simulated at once, and how their energy went."""

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
    """Simulate a batch of states without controls, keeping some of the rows only: in memory that of those rows.

    **Arguments**

    - `states`: with a leading axis of samples.
    - `dt`: by default the timestep that the model's file says. It may be negative as for `rollout`.
    - `steps`: in all.
    - `frames`: how many states of each sample are kept beside the first, at most. They are equally far apart, but for the last,
      which is that after all steps.
    - `scheme`, `forces`, `stabilization`: as for `rollout`.
    - `substeps`: every step is made in so many shorter ones; what is counted and kept stays the same.
    - `on_progress`: called with the number of steps done: with 0 when all is compiled, and after each stretch.
    - `checkpoint`: a file to save to, and to go on from to the same result (see `rbd.Checkpoint`).

    **Returns** a trajectory of all samples, the leading axis of everything in it. Of more than fits into memory,
    `rbd.parallel.simulate_to_disk` makes files.

    The devices of this process share the samples out among them. Within `rbd.parallel.use_devices()` the devices of all
    processes do; each process gives the same states, and gets the whole. Without, each may simulate its own rows,
    `rbd.parallel.share(states)`, and say nothing to the others.

    It compiles what `rollout` compiles, for the number of steps between two rows, and again where the number of samples is
    another one. Samples go side by side, as `batch_map` has them, if joints have no dry friction and nothing touches.

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
    """Where the rows of a batch are kept while it is simulated."""

    def put(self, number: int, state: State) -> None:
        """A row of all samples, in NumPy's arrays."""

    def saved(self) -> Mapping[str, Any]:
        """What a checkpoint needs of those put until now."""
        ...

    def restored(self, saved: Mapping[str, Any]) -> None:
        """Begin with what was saved."""


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
    """What became of the samples.

    - `lost_after`: the step that could not be made, -1 without one: states after its start are no numbers.
    - `code`, `failed_step`, `opening`: as those of a `Trajectory`.
    """

    lost_after: Int[np.ndarray, "batch"]
    code: Int[np.ndarray, "batch"]
    failed_step: Int[np.ndarray, "batch"]
    opening: Float[np.ndarray, "batch"] | None

    def missing(self, row_steps: Int[np.ndarray, "rows"]) -> Bool[np.ndarray, "batch rows"]:
        """Which rows are no numbers, of those after so many steps each."""
        return (self.lost_after[:, None] >= 0) & (row_steps > self.lost_after[:, None])


class Simulation:
    """A batch that is to be simulated: the arguments of `simulate_batch`, checked.

    - `row_steps`: after how many steps each row is; `times`: when.
    - `key`: what decides on the numbers.
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
                f"{owner}: model or states are traced, as within jit, grad or vmap, where nothing is kept while it is simulated; "
                "rbd.batch_map of rbd.rollout can be traced"
            )
        dt = default_step(owner, model) if dt is None else dt
        steps = whole_number(owner, "steps", steps)
        frames = whole_number(owner, "frames", frames)
        self.substeps = whole_number(owner, "substeps", substeps)
        stretch = -(-steps // frames)
        # The last stretch may be shorter: the simulated time is what was asked for.
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
        """Simulate, or go on from what was saved. All rows are put, the first one too."""
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
        # -1 stays what it is.
        step = lambda step: np.asarray(step) // self.substeps
        most = None if opening is None else np.asarray(opening)
        return End(step(failure.step), np.asarray(ended.code), step(ended.step), most)


def _started(model: Simulated, states: State, dt, *, made: Stretches, substeps: int):
    """Before the first step of all samples."""
    start = lambda made, model, state, dt: made.start(model, state, dt / substeps)
    return whole(batch_map(start, in_axes=(None, None, 0, None))(made, model, whole(states), dt))


def _advanced(model: Simulated, carry, first, dt, *, count: int, made: Stretches, substeps: int):
    """All samples after `count` steps from the `first` one on."""

    def advance(made, model, carry, first, dt):
        return made.advance(model, carry, first * substeps, dt / substeps, count * substeps)

    axes = None, None, 0, None, None
    return whole(batch_map(advance, in_axes=axes)(made, model, whole(carry), first, dt))


def _judged(model: Simulated, states: State, dt, carry, steps, *, made: Stretches, substeps: int):
    """What became of all samples."""

    def judge(made, model, state, carry, steps, dt):
        return made.judge(model, state, carry, steps * substeps, dt / substeps)

    axes = None, None, 0, 0, None, None
    return whole(batch_map(judge, in_axes=axes)(made, model, whole(states), whole(carry), steps, dt))


def random_states(model: Model, batch: int, key: PRNGKeyArray, spread: float, speed: float) -> State:
    """States near the neutral one, with a leading axis of samples.

    Configurations are moved by normal deviates of the size `spread` in every degree of freedom, and back into the joint limits;
    velocities are normal deviates of the size `speed`. Where shapes touch, they are then moved apart. Those of a model with
    constraints are then assembled and projected: what cannot be closed from where it was drawn starts open.

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
    """Kinetic and potential energy of every sample in some of the frames of a batch's trajectory.

    The latter with what springs at the joints and the forces that the model carries have stored.

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
    """Of all samples at one time."""

    def energy(model, time, q, v, own):
        system = TreeSystem(model=model, tau=jnp.zeros_like(v))
        here = system.evaluate(time, State(q, v, own))
        stored = [force.stored_energy(here.motion) for force in here.elements]
        return energies_of(here.motion).at[1].add(sum(stored, jnp.zeros((), q.dtype)))

    return whole(batch_map(energy, in_axes=(None, None, 0, 0, 0))(model, time, q, v, own))
