"""Many samples simulated at once, and how their energy went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._arguments import a_model, instance, whole_number
from .._compile import compiled, prepared
from ..constraints import Stabilization, assemble, project_velocity
from ..contact.law import contact_law
from ..contact.separated import separated
from ..dynamics import mechanical_energy
from ..model import Model, integrate, neutral
from ..simulate import (
    Acting,
    Result,
    Scheme,
    Simulated,
    State,
    Trajectory,
    TreeSystem,
    rollout,
    system_of,
)
from ..simulate.begin import default_step
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
) -> Trajectory:
    """Simulate a batch of states without controls, keeping some of the rows only: in memory that of those rows.

    **Arguments**

    - `states`: with a leading axis of samples.
    - `dt`: by default the timestep that the model's file says.
    - `steps`: in all.
    - `frames`: how many states of each sample are kept beside the first, at most. They are equally far apart, but for the last,
      which is that after all steps.
    - `scheme`, `forces`, `stabilization`: as for `rollout`.
    - `substeps`: every step is made in so many shorter ones; what is counted and kept stays the same.
    - `on_progress`: called with the number of steps done: with 0 when all is compiled, and after each stretch.

    **Returns** a trajectory of all samples, the leading axis of everything in it.

    The devices of this process share the samples out among them. Within `rbd.parallel.use_devices()` the devices of all
    processes do; each process gives the same states, and gets the whole. Without, each may simulate its own rows,
    `rbd.parallel.share(states)`, and say nothing to the others.

    It compiles what `rollout` compiles, for the number of steps between two rows, and again where the number of samples is
    another one.

    >>> model = rbd.load("double_pendulum")
    >>> states = rbd.State(q=jnp.array([[0.5, -1.0], [0.1, 0.2]]), v=jnp.zeros((2, 2)))
    >>> rbd.simulate_batch(model, states, dt=0.01, steps=100, frames=10).q.shape  # sample, row, coordinate
    (2, 11, 2)
    """
    a_model("simulate_batch", model, planar=True)
    instance("simulate_batch", "states", states, State, "a State with a leading axis of samples")
    if any(map(is_global, jax.tree.leaves(states))):
        raise ValueError(
            "simulate_batch: states are global arrays; give it this process's rows, rbd.parallel.share(states), or, within "
            "rbd.parallel.use_devices(), the whole batch in every process, rbd.parallel.gather(states)"
        )
    dt = default_step("simulate_batch", model) if dt is None else dt
    steps = whole_number("simulate_batch", "steps", steps)
    frames = whole_number("simulate_batch", "frames", frames)
    substeps = whole_number("simulate_batch", "substeps", substeps)
    stretch = -(-steps // frames)
    # The last stretch may be shorter: the simulated time is what was asked for.
    stretches = [stretch] * (steps // stretch) + [steps % stretch] * (steps % stretch > 0)
    dtype = jnp.result_type(states.q)

    if states.own is None:  # what forces remember is carried from stretch to stretch
        own = system_of(model, jnp.zeros(model.nv, dtype), tuple(forces)).own.astype(dtype)
        states = State(states.q, states.v, jnp.broadcast_to(own, (len(states.q), *own.shape)))
    step = jnp.asarray(dt, dtype)
    options = {
        "substeps": substeps,
        "scheme": scheme,
        "forces": tuple(forces),
        "stabilization": stabilization,
    }
    advance = {
        count: prepared(_advance, model, jnp.int32(0), states, step, count=count, **options)
        for count in set(stretches)
    }
    report = on_progress if on_progress is not None else lambda done: None
    report(0)
    rows, times, done = [jax.tree.map(np.asarray, states)], [0], 0
    batch = len(states.q)
    code, failed = np.zeros(batch, np.int32), np.full(batch, -1, np.int32)
    opening = None
    for count in stretches:
        arguments = model, jnp.int32(done), states, step
        found = advance[count](*arguments, count=count, **options)
        states, ended, last, most = jax.block_until_ready(found)
        opening = most if opening is None or most is None else jnp.fmax(opening, most)
        ended = np.asarray(ended)
        if done:  # shapes that are pressed into each other by then were not so at the start
            ended = np.where(ended == Result.OVERLAPPING, Result.SUCCESS, ended)
        first = (code == 0) & (ended != 0)
        code, failed = np.where(first, ended, code), np.where(first, np.asarray(last) + done, failed)
        done += count
        rows.append(jax.tree.map(np.asarray, states))
        times.append(done)
        report(done)
    kept = jax.tree.map(lambda *x: jnp.asarray(np.stack(x, axis=1)), *rows)
    t = jnp.broadcast_to(jnp.asarray(np.array(times) * dt, dtype), (batch, len(times)))
    tau = jnp.zeros((batch, len(times) - 1, model.nv), dtype)
    codes = jnp.asarray(code), jnp.asarray(failed)
    return Trajectory(t, kept.q, kept.v, tau, *codes, own=kept.own, opening=opening)


def _advance(model: Simulated, first, states: State, dt, *, count: int, substeps: int, **options):
    """All samples after `count` steps from the `first` one on."""
    inner = count * substeps

    def one(model, state, first, dt):
        time = first.astype(dt.dtype) * dt
        path = rollout(model, state, dt=dt / substeps, steps=inner, save_every=inner, t0=time, **options)
        # -1 stays what it is.
        return path.final, path.code, path.failed_step // substeps, path.opening

    return whole(batch_map(one, in_axes=(None, 0, None, None))(model, whole(states), first, dt))


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

    own = np.zeros((*path.q.shape[:2], 0)) if path.own is None else path.own
    rows = ((path.t[0, i], path.q[:, i], path.v[:, i], own[:, i]) for i in frames)
    rows = (tuple(jnp.asarray(x, model.dtype) for x in row) for row in rows)
    return np.stack([np.asarray(_energies(model, *row), float) for row in rows])


@compiled
def _energies(model: Model, time, q, v, own) -> Float[jax.Array, "batch 2"]:
    """Of all samples at one time."""

    def energy(model, time, q, v, own):
        system = TreeSystem(model=model, tau=jnp.zeros_like(v))
        motion = system.motion(time, q, v)
        stored = [force.stored_energy(motion) for force in system.holding(State(q, v, own))]
        return mechanical_energy(motion.model, q, v).at[1].add(sum(stored, jnp.zeros((), q.dtype)))

    return whole(batch_map(energy, in_axes=(None, None, 0, 0, 0))(model, time, q, v, own))
